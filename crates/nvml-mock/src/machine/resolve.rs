//! From a description to a node: defaults filled in, contradictions refused.

use super::card::uuid_of;
use super::{Card, Machine, MigMode, Written};
use crate::describe::{self, BusId, Gpu, Invalid, Node, Remote};
use crate::mig::{Instances, Table};
use crate::models;

impl Machine {
    /// The node of a description, with what was changed since. Changes of cards that are gone are left alone.
    ///
    /// # Errors
    ///
    /// If the description contradicts itself: a model that nobody knows, two cards with one UUID, instances that overlap.
    pub fn new(node: Node, written: &Written) -> Result<Self, Invalid> {
        let total = node.gpus.iter().map(|gpu| gpu.count).sum::<u32>();
        let mut cards: Vec<Card> = Vec::new();
        for gpu in &node.gpus {
            for _ in 0..gpu.count {
                let index = u32::try_from(cards.len()).expect("the counts were summed above");
                let card =
                    card(&node, gpu, index, total, written).map_err(|what| Invalid(format!("card {index}: {what}")))?;
                cards.push(card);
            }
        }
        check(&cards)?;
        Ok(Self { node, cards })
    }
}

fn card(node: &Node, gpu: &Gpu, index: u32, total: u32, written: &Written) -> Result<Card, String> {
    let model = models::find(&gpu.model).ok_or_else(|| {
        let known: Vec<_> = models::all().iter().map(|model| model.model.as_str()).collect();
        format!("nobody knows the model {:?}; those there are: {}", gpu.model, known.join(", "))
    })?;
    if gpu.count > 1 && (gpu.uuid.is_some() || gpu.serial.is_some() || gpu.minor.is_some() || gpu.pci.bus_id.is_some())
    {
        return Err(
            "a UUID, serial number, minor number or bus belongs to one card; write one entry for each".to_owned()
        );
    }
    let uuid = match &gpu.uuid {
        Some(uuid) if uuid.starts_with("GPU-") => uuid.clone(),
        Some(uuid) => return Err(format!("the UUID {uuid:?} must begin with \"GPU-\"")),
        None => format!("GPU-{}", uuid_of(&format!("{} {index}", node.name))),
    };
    let links: Vec<_> = gpu
        .nvlink
        .iter()
        .flat_map(|link| std::iter::repeat_n(describe::Link { count: 1, ..link.clone() }, link.count as usize))
        .collect();
    if links.len() > model.links as usize {
        return Err(format!("{} has {} NVLinks, and {} are described", model.model, model.links, links.len()));
    }
    let changed = written.cards.get(&uuid);
    let mig = changed.and_then(|changed| changed.mig.as_ref()).unwrap_or(&gpu.mig);
    let (mig, instances) = divide(model.mig, mig)?;
    // Spread in order: the first cards to the first node.
    let spread = index * node.numa_nodes / total.max(1);
    Ok(Card {
        index,
        model,
        name: gpu.name.clone().unwrap_or_else(|| model.name.clone()),
        brand: gpu.brand.unwrap_or(model.brand),
        architecture: gpu.architecture.unwrap_or(model.architecture),
        capability: gpu.compute_capability.unwrap_or(model.capability),
        serial: gpu.serial.clone().unwrap_or_else(|| format!("{}", 1_650_000_000_000_u64 + u64::from(index))),
        minor: gpu.minor.unwrap_or(index),
        numa_node: match gpu.numa_node {
            Some(node) => u32::try_from(node).ok(),
            None => Some(spread),
        },
        bus: gpu.pci.bus_id.map_or_else(|| default_bus(index), Ok)?,
        links,
        mig,
        instances,
        compute_mode: changed.and_then(|changed| changed.compute_mode).unwrap_or(gpu.compute_mode),
        uuid,
        gpu: gpu.clone(),
    })
}

fn default_bus(index: u32) -> Result<BusId, String> {
    let bus = u8::try_from(7 + 8 * index).map_err(|_| "there are no more buses; say pci.bus-id".to_owned())?;
    Ok(BusId { domain: 0, bus, device: 0 })
}

fn divide(table: Option<&'static Table>, mig: &describe::Mig) -> Result<(MigMode, Instances), String> {
    let mode = MigMode { enabled: mig.enabled, pending: mig.pending.unwrap_or(mig.enabled) };
    let mut instances = Instances::default();
    let Some(table) = table else {
        let wanted = mode.enabled || mode.pending || !mig.instances.is_empty();
        return if wanted { Err("its model has no MIG".to_owned()) } else { Ok((mode, instances)) };
    };
    if !mode.enabled && !mig.instances.is_empty() {
        return Err("it has instances, but mig.enabled is false".to_owned());
    }
    for described in &mig.instances {
        let name = &described.profile;
        let profile = table.by_name(name).ok_or_else(|| {
            let known: Vec<_> = table.profiles.iter().map(|profile| profile.name.as_str()).collect();
            format!("it has no profile {name:?}; those there are: {}", known.join(", "))
        })?;
        let id = instances.create(profile, described.start).map_err(|why| format!("an instance {name}: {why}"))?;
        let instance = instances.get_mut(id).expect("it was just made");
        let whole = [describe::ComputeInstance { id: None, slices: profile.slices, start: None }];
        for described in described.compute_instances.as_deref().unwrap_or(&whole) {
            let cut = profile.compute_profiles().find(|cut| cut.slices == described.slices);
            let cut = cut.ok_or_else(|| format!("{name} has no compute instance of {} slices", described.slices))?;
            match described.id {
                Some(id) => instance.create_as(id, cut, described.start),
                None => instance.create(cut, described.start).map(drop),
            }
            .map_err(|why| format!("a compute instance of {} slices in {name}: {why}", described.slices))?;
        }
    }
    Ok((mode, instances))
}

/// What only shows when all cards are there.
fn check(cards: &[Card]) -> Result<(), Invalid> {
    for (index, card) in cards.iter().enumerate() {
        let twin = |same: &dyn Fn(&Card) -> bool| cards[..index].iter().any(same);
        for (what, found) in [
            ("UUID", twin(&|other| other.uuid.eq_ignore_ascii_case(&card.uuid))),
            ("minor number", twin(&|other| other.minor == card.minor)),
            ("bus", twin(&|other| other.bus == card.bus)),
        ] {
            if found {
                return Err(Invalid(format!("card {index}: another card has the same {what}")));
            }
        }
        for link in &card.links {
            let there = match &link.remote {
                Remote::Switch => true,
                Remote::Gpu(uuid) => *uuid != card.uuid && cards.iter().any(|other| other.uuid == *uuid),
                Remote::Index(other) => *other != card.index && (*other as usize) < cards.len(),
            };
            if !there {
                return Err(Invalid(format!("card {index}: the remote of a link is no other card of the node")));
            }
        }
        let mut ids: Vec<_> = card.gpu.xids.iter().map(|xid| xid.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Invalid(format!("card {index}: two xids have one id")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(text: &str) -> Result<Machine, String> {
        Machine::new(Node::parse(text).unwrap(), &Written::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_model_fills_in_what_is_not_said() {
        let machine = machine("{numa-nodes: 2, gpus: {count: 8, model: a100-sxm4-80gb}}").unwrap();
        let card = &machine.cards[5];
        assert_eq!((card.index, card.minor, card.numa_node), (5, 5, Some(1)));
        assert_eq!((card.name.as_str(), card.memory_total().0), ("NVIDIA A100-SXM4-80GB", 81920));
        assert_eq!(card.bus.sysfs(), "0000:2f:00.0");
        assert_eq!(machine.card(&card.uuid.to_uppercase()).unwrap().index, 5);
    }

    #[test]
    fn nodes_of_different_names_have_different_cards() {
        let [one, other] = ["a", "b"].map(|name| machine(&format!("{{name: {name}, gpus: {{model: T4}}}}")).unwrap());
        assert_ne!(one.cards[0].uuid, other.cards[0].uuid);
    }

    #[test]
    fn contradictions_are_refused() {
        let cases = [
            ("gpus: {model: A101}", "card 0: nobody knows the model \"A101\"; those there are: A100-SXM4-40GB,"),
            ("gpus: {count: 2, model: T4, minor: 3}", "card 0: a UUID, serial number, minor number or bus belongs"),
            ("gpus: {model: T4, uuid: abc}", "card 0: the UUID \"abc\" must begin with \"GPU-\""),
            ("gpus: [{model: T4, minor: 1}, {model: T4}]", "card 1: another card has the same minor number"),
            ("gpus: [{model: T4, uuid: GPU-a}, {model: T4, uuid: GPU-A}]", "card 1: another card has the same UUID"),
            ("gpus: {model: T4, mig: {enabled: true}}", "card 0: its model has no MIG"),
            ("gpus: {model: A30, mig: {instances: [{profile: 1g.6gb}]}}", "card 0: it has instances, but"),
            ("gpus: {model: T4, nvlink: [{remote: switch}]}", "card 0: T4 has 0 NVLinks, and 1 are described"),
            ("gpus: {model: A30, nvlink: [{remote: 0}]}", "card 0: the remote of a link is no other card"),
            (
                "gpus: {model: A30, mig: {enabled: true, instances: [{profile: 1g.5gb}]}}",
                "card 0: it has no profile \"1g.5gb\"; those there are: 1g.6gb,",
            ),
            (
                "gpus: {model: A30, mig: {enabled: true, instances: [{profile: 2g.12gb, start: 1}]}}",
                "card 0: an instance 2g.12gb: its profile cannot begin there",
            ),
            (
                "gpus: {model: A30, mig: {enabled: true, instances: [{profile: 4g.24gb}, {profile: 1g.6gb}]}}",
                "card 0: an instance 1g.6gb: there is no room for it",
            ),
            ("gpus: {model: T4, xids: [{id: 1, xid: 79}, {id: 1, xid: 31}]}", "card 0: two xids have one id"),
        ];
        for (text, expected) in cases {
            let error = machine(text).unwrap_err();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
