//! The state as text: cards with their holders, and why a pod is where it is.

use gpu_scheduler_engine::ledger::{Card, Closed, HoldKind, Holding};
use gpu_scheduler_engine::model::{Partitioning, Percent};
use gpu_scheduler_engine::state::NodeState;
use gpu_scheduler_engine::{NodeVerdict, Place, PodPhase};

use crate::record;
use crate::world::{World, seconds};

/// `node`, or all nodes and the pods that wait.
pub(crate) fn cluster(world: &World, node: Option<&str>) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    if let Some(name) = node {
        let node = world.engine.state().node_named(name).ok_or_else(|| format!("the engine knows no node {name}"))?;
        lines.extend(node_lines(world, node));
        return Ok(lines);
    }
    for node in world.engine.state().nodes() {
        lines.extend(node_lines(world, node));
    }
    for (name, object) in &world.pods {
        if let Some(explanation) = world.engine.explain(&object.pod.uid)
            && !matches!(explanation.phase, PodPhase::Placed { .. })
        {
            lines.push(format!("{name}: {}", phase(&explanation.phase)));
        }
    }
    Ok(lines)
}

fn node_lines(world: &World, node: &NodeState) -> Vec<String> {
    let gone = if node.facts().is_none() { ", not there" } else { "" };
    let mut lines = vec![format!("{}: {} pods{gone}", node.name(), node.pods().len())];
    for card in node.ledger().cards() {
        let holders: Vec<String> = card.holdings().iter().map(|h| holder(world, card, h)).collect();
        let holders = if holders.is_empty() { "nobody".to_owned() } else { holders.join(", ") };
        lines.push(format!("  {} {}: {holders}; {}", card.spec().index, card.uuid(), room(card)));
    }
    lines
}

fn holder(world: &World, card: &Card, holding: &Holding) -> String {
    let pod = world.engine.state().pod_of(&holding.uid).map_or_else(|| "?".to_owned(), |p| p.name.to_string());
    match holding.kind {
        HoldKind::Whole => format!("{pod} whole"),
        HoldKind::Share if holding.compute == Percent(0) => format!("{pod} {}MiB", holding.memory.0),
        HoldKind::Share => format!("{pod} {}MiB+{}%", holding.memory.0, holding.compute.0),
        HoldKind::Seat => format!("{pod} {} seat(s)", holding.seats),
        HoldKind::Slice => {
            let name = |at: &u16| card.partitions().get(usize::from(*at)).map_or("?", |p| p.uuid.as_str());
            format!("{pod} {}", holding.slices.iter().map(name).collect::<Vec<_>>().join(" "))
        }
    }
}

fn room(card: &Card) -> String {
    let room = card.room();
    match (&room.closed, &card.spec().partitioning) {
        (Some(Closed::Gone), _) => "closed: gone".to_owned(),
        (Some(Closed::Unhealthy), _) => "closed: unhealthy".to_owned(),
        (Some(Closed::Overcommitted(why)), _) => format!("closed: {why}"),
        (None, Partitioning::TimeSliced { .. }) => format!("{} of {} seats free", room.seats, card.seats()),
        (None, Partitioning::Mig(slices)) => {
            let free = slices.iter().enumerate().filter(|(at, _)| {
                let at = u16::try_from(*at).unwrap_or(u16::MAX);
                !card.holdings().iter().any(|h| h.slices.contains(&at))
            });
            let free: Vec<&str> = free.map(|(_, p)| p.uuid.as_str()).collect();
            format!("free {}", if free.is_empty() { "nothing".to_owned() } else { free.join(" ") })
        }
        (None, Partitioning::OnDemand) => match (room.whole, room.shareable) {
            (true, true) => format!("free whole, {}MiB {}%", room.memory.0, room.compute.0),
            (true, false) => "free whole".to_owned(),
            (false, true) => format!("free {}MiB {}%", room.memory.0, room.compute.0),
            (false, false) => "free nothing".to_owned(),
        },
    }
}

fn phase(phase: &PodPhase) -> String {
    match phase {
        PodPhase::Placed { node, allocation, bound, guessed } => format!(
            "{} {node} {}{}",
            if *bound { "bound to" } else { "being bound to" },
            record::print(allocation),
            if *guessed { ", guessed" } else { "" }
        ),
        PodPhase::Waiting(Place::Active) => "to be tried".to_owned(),
        PodPhase::Waiting(Place::Backoff(until)) => format!("backing off until {}", seconds(*until)),
        PodPhase::Waiting(Place::Unschedulable(_)) => "waiting for a change".to_owned(),
        PodPhase::Waiting(Place::Gated) => "gated".to_owned(),
        PodPhase::Waiting(Place::InFlight) => "being bound".to_owned(),
        PodPhase::Terminating => "terminating".to_owned(),
    }
}

/// What the engine would say of a pod now.
pub(crate) fn explanation(world: &World, name: &str) -> Result<Vec<String>, String> {
    let object = world.pods.get(name).ok_or_else(|| format!("there is no pod {name}"))?;
    let Some(explanation) = world.engine.explain(&object.pod.uid) else {
        return Ok(vec![format!("{name}: not known to the engine")]);
    };
    let mut lines = vec![format!("{name}: {}", phase(&explanation.phase))];
    for node in &explanation.nodes {
        let verdict = match &node.verdict {
            NodeVerdict::Candidate { .. } => "would do".to_owned(),
            NodeVerdict::Rejected(rejection) => {
                let symbols = world.engine.state().symbols();
                let reasons: Vec<_> = rejection.reasons.iter().map(|r| r.text(symbols).into_owned()).collect();
                let permanent = if rejection.permanent { ", permanent" } else { "" };
                format!("{}: {}{permanent}", rejection.plugin, reasons.join(", "))
            }
        };
        lines.push(format!("  {}: {verdict}", node.node));
    }
    if let Some(best) = explanation.best {
        lines.push(format!("  best: {best}"));
    }
    Ok(lines)
}
