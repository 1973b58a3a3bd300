//! What must hold after every block, worked out from the state without the engine's own checks.

use gpu_scheduler_engine::ledger::{Card, Closed, HoldKind};
use gpu_scheduler_engine::model::{Mib, Partitioning, Resources};
use gpu_scheduler_engine::state::{NodeState, Stage};
use gpu_scheduler_engine::{Engine, Place, PodPhase};

use crate::builders::SCHEDULER;
use crate::world::{PodObject, World};

/// The first invariant that does not hold, if any.
pub(crate) fn broken(world: &World) -> Option<String> {
    of_engine(&world.engine)
        .or_else(|| world.pods.iter().find_map(|(name, object)| whereabouts(world, name, object)))
        .or_else(|| world.engine.state().pods().find_map(|pod| ghost(world, &pod.uid.0)))
}

/// The first invariant of an engine's books that does not hold, whatever the cluster is.
pub(crate) fn of_engine(engine: &Engine) -> Option<String> {
    let nodes = || engine.state().nodes();
    nodes()
        .flat_map(|node| node.ledger().cards().iter().map(move |card| (node, card)))
        .find_map(|(node, card)| capacity(node, card).or_else(|| holders(engine, node, card)))
        .or_else(|| nodes().find_map(|node| charges(engine, node)))
}

/// A card that is not reported as overcommitted holds no more than it has.
fn capacity(node: &NodeState, card: &Card) -> Option<String> {
    if let Some(Closed::Overcommitted(_)) = card.room().closed {
        return None;
    }
    let holdings = card.holdings();
    let at = |what: String| Some(format!("card {} of {} {what}", card.spec().index, node.name()));
    let mut memory = Mib(0);
    let (mut compute, mut seats, mut wholes) = (0_u32, 0_u32, 0);
    let mut slices = Vec::new();
    for holding in holdings {
        match holding.kind {
            HoldKind::Whole => wholes += 1,
            HoldKind::Share => {
                memory = memory.saturating_add(holding.memory);
                compute += holding.compute.0;
            }
            HoldKind::Seat => seats += holding.seats,
            HoldKind::Slice => slices.extend(holding.slices.iter().copied()),
        }
    }
    let (mut distinct, kinds) = (slices.clone(), holdings.iter().map(|h| h.kind));
    distinct.sort_unstable();
    distinct.dedup();
    let one_kind = kinds.clone().all(|k| Some(k) == kinds.clone().next());
    match &card.spec().partitioning {
        _ if wholes > 1 || !one_kind => at(format!("is held in {} ways that exclude each other", holdings.len())),
        _ if card.spec().memory.is_some_and(|total| memory > total) => at(format!("has {memory} granted")),
        _ if compute > 100 => at(format!("has {compute} % compute granted")),
        _ if distinct.len() < slices.len() => at("has a slice in two hands".to_owned()),
        Partitioning::TimeSliced { seats: all } if seats > *all => at(format!("has {seats} of {all} seats granted")),
        Partitioning::OnDemand if seats > 0 || !slices.is_empty() => at("is held as what it is not".to_owned()),
        _ => None,
    }
}

/// Whoever holds a card is a pod on its node, once a card.
fn holders(engine: &Engine, node: &NodeState, card: &Card) -> Option<String> {
    let state = engine.state();
    card.holdings().iter().enumerate().find_map(|(at, holding)| {
        let pod = state.pod_of(&holding.uid);
        let here = pod.and_then(|p| p.placed.as_ref()).is_some_and(|placed| placed.node == node.id());
        let twice = card.holdings()[..at].iter().any(|h| h.uid == holding.uid);
        (!here || twice).then(|| {
            format!(
                "{} holds card {} of {} {}",
                holding.uid,
                card.spec().index,
                node.name(),
                if twice { "twice" } else { "but is not there" }
            )
        })
    })
}

/// What a node counts as requested is the sum over the pods that are placed on it.
fn charges(engine: &Engine, node: &NodeState) -> Option<String> {
    let mut sum = Resources::default();
    let mut count = 0;
    let on_node =
        |pod: &&gpu_scheduler_engine::state::PodEntry| pod.placed.as_ref().is_some_and(|p| p.node == node.id());
    for pod in engine.state().pods().filter(on_node) {
        sum.add(&pod.charge.requests);
        count += 1;
    }
    let wrong = sum != *node.requested() || count != node.pods().len();
    wrong.then(|| {
        format!(
            "{} counts {:?} of {} pods, its {count} pods ask for {sum:?}",
            node.name(),
            node.requested(),
            node.pods().len()
        )
    })
}

/// Every pod is bound where the cluster says, waits in a place, is terminating, or is gone.
fn whereabouts(world: &World, name: &str, object: &PodObject) -> Option<String> {
    let pod = &object.pod;
    let explanation = world.engine.explain(&pod.uid);
    let ours = pod.scheduler == SCHEDULER;
    let Some(explanation) = explanation else {
        let may_be_unknown = object.finished || (pod.assignment.is_none() && !ours);
        return (!may_be_unknown).then(|| format!("pod {name} is lost"));
    };
    if object.finished {
        return Some(format!("pod {name} is finished, but the engine still knows it"));
    }
    match (&explanation.phase, &pod.assignment) {
        (PodPhase::Placed { node, bound, .. }, Some(assignment)) if **node != *assignment.node || !bound => {
            Some(format!("pod {name} is on {}, the engine has it on {node} (bound: {bound})", assignment.node))
        }
        (PodPhase::Placed { bound: true, .. }, None) => Some(format!("pod {name} is bound only in the engine's eyes")),
        (PodPhase::Placed { .. }, _) => None,
        (other, Some(assignment)) => {
            Some(format!("pod {name} is on {}, the engine has it as {other:?}", assignment.node))
        }
        (PodPhase::Waiting(Place::Active), None) => Some(format!("the engine rests, but {name} is to be tried")),
        // Its own full look, without caches or wake-ups: a pod that fits somewhere may not sleep, but one of a gang may,
        // where all of them together do not fit.
        (PodPhase::Waiting(Place::Unschedulable(_)), None) if explanation.best.is_some() && pod.group.is_none() => {
            Some(format!("pod {name} sleeps although {} would do", explanation.best.as_deref().unwrap_or_default()))
        }
        (PodPhase::Waiting(_), None) => None,
        (PodPhase::Terminating, None) => (!pod.terminating).then(|| format!("pod {name} is in no place")),
    }
}

/// The engine knows no pod that is gone.
fn ghost(world: &World, uid: &str) -> Option<String> {
    let alive = world.pods.values().any(|o| !o.finished && *o.pod.uid.0 == *uid);
    (!alive).then(|| format!("the engine still knows {uid}, which is gone"))
}

/// Whether a pod is on its way to being bound, which only this engine knows of.
pub(crate) fn in_flight(world: &World) -> bool {
    world.has_open_binds()
        || world.engine.state().pods().any(|p| p.placed.as_ref().is_some_and(|placed| placed.stage == Stage::Assumed))
}
