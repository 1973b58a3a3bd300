//! A look at the node that changes nothing: what an agent would report, label, offer, hand out and measure.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use thiserror::Error;

use crate::agent::AgentOptions;
use crate::allocate::{Ask, Outcome, Patience, Preference, View, decide, prefer};
use crate::collect::{Collector, Round, RoundError};
use crate::config::{Config, ConfigError};
use crate::container::{DeviceNodes, response};
use crate::handout::Stand;
use crate::inventory::{DeviceHealth, Seen};
use crate::labels::{LabelOptions, labels};
use crate::metrics::Metrics;
use crate::resources::{OfferError, offer};
use crate::sharing::mps;

/// Why there is nothing to show.
#[derive(Debug, Error)]
pub enum CheckError {
    /// The driver cannot be asked.
    #[error(transparent)]
    Driver(#[from] RoundError),
    /// There is no configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration does not fit the cards.
    #[error("this node's cards cannot be offered: {0}")]
    Offer(#[from] OfferError),
    /// There are no cards.
    #[error("the driver answers and has no cards")]
    NoCards,
    /// A container would get nothing of what is offered.
    #[error("a container that asks for one of {resource} would not get it: {why}")]
    Allocation {
        /// The resource.
        resource: String,
        /// Why.
        why: String,
    },
}

/// Looks once, and tells in some lines what was found. Nothing is written and kubelet is not asked. Of a folder of
/// configurations the one of a node without the label counts.
///
/// # Errors
/// [`CheckError`] where an agent could not do its work here.
pub fn check(options: &AgentOptions) -> Result<String, CheckError> {
    let config = options.handout.config.read(None)?;
    let mut text = String::new();
    for warning in &config.warnings {
        line(&mut text, format_args!("warning: {warning}"));
    }
    let config = Arc::new(config.config);
    let mut collector = Collector::new(options.observe.collect.clone());
    let round = Arc::new(collector.round(&[], &[])?);
    if round.inventory.cards.is_empty() {
        return Err(CheckError::NoCards);
    }
    tell_cards(&mut text, &round);
    tell_topology(&mut text, options, &round);
    line(&mut text, format_args!("\nlabels"));
    for (name, value) in labels(&round.inventory, &round.facts, &LabelOptions::from(&*config)) {
        line(&mut text, format_args!("  {name}={value}"));
    }
    tell_offer(&mut text, options, &config, &round)?;
    let metrics = Metrics::new(options.metrics.clone());
    metrics.round(&round);
    let page = metrics.render();
    let series = page.lines().filter(|line| line.starts_with("DCGM_"));
    let names: BTreeSet<&str> = series.clone().filter_map(|line| line.split('{').next()).collect();
    line(&mut text, format_args!("\nmetrics\n  {} series of {} of DCGM's names", series.count(), names.len()));
    Ok(text)
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    writeln!(text, "{what}").expect("writing into a string does not fail");
}

fn tell_cards(text: &mut String, round: &Round) {
    line(text, format_args!("driver {}, looked at in {:?}", round.inventory.driver_version, round.took));
    for card in &round.inventory.cards {
        let sample = round.samples.get(&card.uuid);
        let used = sample.and_then(|sample| sample.memory).map_or("?".to_owned(), |memory| memory.used.0.to_string());
        line(
            text,
            format_args!(
                "  {} {} {}: {used} of {} MiB used, {} links, {} MIG devices, {}",
                card.index.0,
                card.uuid,
                card.name,
                card.memory.0,
                card.links.len(),
                card.mig.devices().len(),
                card.numa_node.map_or_else(|| "no NUMA node".to_owned(), |node| format!("NUMA node {node}"))
            ),
        );
    }
    for (device, health) in &round.health {
        if let DeviceHealth::Unhealthy { reason } = health {
            line(text, format_args!("  {device} is unhealthy: {reason}"));
        }
    }
    for (call, count) in &round.failed_calls {
        line(text, format_args!("  {call} failed {count} times"));
    }
}

/// What kubelet makes of the cards' NUMA nodes, as far as the agent was told.
fn tell_topology(text: &mut String, options: &AgentOptions, round: &Round) {
    match options.observe.topology_manager {
        Some(known) => line(text, format_args!("kubelet's topology manager: {known}")),
        None => {
            line(text, format_args!("kubelet's topology manager: not told (--kubelet-config), taken for policy none"))
        }
    }
    let unplaced = round.inventory.cards.iter().filter(|card| card.numa_node.is_none()).count();
    if options.observe.topology_manager.is_some_and(|known| known.aligns()) && unplaced > 0 {
        line(text, format_args!("warning: {unplaced} cards have no NUMA node in sysfs, so kubelet cannot align them"));
    }
}

/// What is offered, and what a container gets that asks for one of it.
fn tell_offer(
    text: &mut String,
    options: &AgentOptions,
    config: &Arc<Config>,
    round: &Round,
) -> Result<(), CheckError> {
    let seen = Seen { inventory: (*round.inventory).clone(), health: round.health.clone() };
    let offer = offer(&seen.inventory, config, options.handout.seats)?;
    for warning in &offer.warnings {
        line(text, format_args!("warning: {warning}"));
    }
    let nodes = DeviceNodes::find(&options.handout.root, &options.handout.procfs, config, &seen.inventory);
    let resources = offer.resources.iter().map(|resource| resource.name.clone()).collect();
    let stand = Stand {
        seen: Arc::new(seen),
        config: Arc::clone(config),
        offer,
        nodes,
        shares_by_mps: options.handout.seats.by_mps,
        // As if they ran.
        daemons: resources,
    };
    let view = View {
        pods: &[],
        synced: true,
        entries: &[],
        offer: &stand.offer,
        seen: &stand.seen,
        policy: config.policy,
        one_only: false,
    };
    line(text, format_args!("\noffered, and what a container gets for one of it"));
    for resource in &stand.offer.resources {
        let healthy = resource.units.iter().filter(|unit| stand.is_healthy(resource, unit));
        let available: Vec<_> = healthy.map(|unit| unit.id.clone()).collect();
        line(text, format_args!("  {}: {} of {} healthy", resource.name, available.len(), resource.units.len()));
        if available.is_empty() {
            continue;
        }
        let fails = |why: String| CheckError::Allocation { resource: resource.name.to_string(), why };
        let ask = Ask { resource, available: &available, must: &[], size: 1 };
        let Preference::Ids(ids) = prefer(&view, &ask, Patience::Over) else {
            return Err(fails("there is no preference".to_owned()));
        };
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let give = match decide(&view, resource, &ids, Patience::Over) {
            Outcome::Give(give) => give,
            Outcome::Refuse { why, .. } => return Err(fails(why.to_string())),
            Outcome::Wait => return Err(fails("it would be waited for".to_owned())),
        };
        let answer = response(config, &stand.seen.inventory, &stand.nodes, &give, mps::access(&stand, &give).as_ref());
        let mut variables: Vec<_> = answer.envs.iter().collect();
        variables.sort();
        for (name, value) in variables {
            line(text, format_args!("    {name}={value}"));
        }
        for device in &answer.devices {
            line(text, format_args!("    {}", device.host_path));
        }
        for device in &answer.cdi_devices {
            line(text, format_args!("    {}", device.name));
        }
    }
    Ok(())
}
