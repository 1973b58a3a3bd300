//! A scheduler that starts now, and learns the cluster from its objects, must see what the running one sees.

use gpu_scheduler_engine::ledger::{Card, Closed, HoldKind, Room};
use gpu_scheduler_engine::model::{Mib, Percent, PodUid, Timestamp};
use gpu_scheduler_engine::state::PodEntry;
use gpu_scheduler_engine::{Config, Engine, Event, Policy};

use crate::invariants::in_flight;
use crate::world::World;

/// What somebody holds of a card.
pub(crate) type Hold = (PodUid, HoldKind, Mib, Percent, u32, Vec<u16>);
/// What can be seen of a node: per card its name, what is left of it, and its holders.
pub(crate) type Sight = Vec<(String, &'static str, Room, Vec<Hold>)>;

/// What a fresh engine sees otherwise, if anything. Skipped while binds are under way: a restart forgets
/// these, and is right to.
pub(crate) fn difference(world: &World) -> Option<String> {
    if in_flight(world) {
        return None;
    }
    // Objects arrive in any order; the two that differ most must agree.
    let forward = rebuilt(world, world.policy, false);
    let backward = rebuilt(world, world.policy, true);
    for name in world.nodes.keys() {
        if guesses(&world.engine, name) || names_strangers(world, name) {
            continue;
        }
        let running = sight(&world.engine, name);
        for (fresh, order) in [(&forward, "nodes first"), (&backward, "pods first, in reverse")] {
            let fresh = sight(fresh, name);
            if running != fresh {
                return Some(format!(
                    "after a restart ({order}) node {name} would look otherwise:\n  running {running:?}\n  restarted {fresh:?}"
                ));
            }
        }
    }
    None
}

/// Whether devices of a pod on the node are a guess: nothing obliges two schedulers to guess alike.
pub(crate) fn guesses(engine: &Engine, node: &str) -> bool {
    let id = engine.state().node_named(node).map(|n| n.id());
    let placed = |p: &&PodEntry| p.placed.as_ref().is_some_and(|placed| placed.guessed && Some(placed.node) == id);
    engine.state().pods().find(placed).is_some()
}

/// Whether the node's report names a pod that is not there (any more). The running scheduler may know that it went
/// after the report was written; a fresh one cannot, and counts what it uses until the next report.
fn names_strangers(world: &World, node: &str) -> bool {
    let there = |uid: &PodUid| {
        let placed = world.engine.state().pod_of(uid).and_then(|p| p.placed.as_ref()).map(|p| p.node);
        placed.is_some() && placed == world.engine.state().node_named(node).map(|n| n.id())
    };
    let report = world.reports.get(node);
    report.is_some_and(|r| r.devices.iter().flat_map(|d| &d.holders).any(|h| !there(&h.pod)))
}

fn rebuilt(world: &World, policy: Policy, backward: bool) -> Engine {
    let mut events: Vec<Event> = world.nodes.values().map(|n| Event::NodeApplied(Box::new(n.clone()))).collect();
    events.extend(world.reports.values().map(|r| Event::DevicesReported(Box::new(r.clone()))));
    let running = world.pods.values().filter(|o| !o.finished);
    events.extend(running.map(|o| Event::PodApplied(Box::new(o.pod.clone()))));
    if backward {
        events.reverse();
    }
    let mut engine = Engine::new(Config::with_policy(policy));
    let now: Timestamp = world.now;
    for event in events {
        engine.handle(now, event);
    }
    engine
}

/// Why a card is closed. Which of several troubles is named may depend on the order of pods.
fn closed(card: &Card) -> &'static str {
    match card.room().closed {
        None => "open",
        Some(Closed::Gone) => "gone",
        Some(Closed::Unhealthy) => "unhealthy",
        Some(Closed::Overcommitted(_)) => "overcommitted",
    }
}

/// What an engine sees of a node.
pub(crate) fn sight(engine: &Engine, node: &str) -> Sight {
    let Some(node) = engine.state().node_named(node) else { return Vec::new() };
    let cards = node.ledger().cards().iter().map(|card| {
        let hold = |h: &gpu_scheduler_engine::ledger::Holding| {
            (h.uid.clone(), h.kind, h.memory, h.compute, h.seats, h.slices.to_vec())
        };
        let mut holds: Vec<Hold> = card.holdings().iter().map(hold).collect();
        holds.sort();
        // What a card that is gone was called may have been learnt from a report that is gone too.
        let name = if card.present() { card.uuid().to_string() } else { format!("gone {}", card.spec().index) };
        (name, closed(card), Room { closed: None, ..card.room().clone() }, holds)
    });
    let mut sight: Sight = cards.collect();
    // Cards that are gone stand in the order in which they went, which nothing depends on.
    sight.sort_by(|a, b| a.0.cmp(&b.0));
    sight
}
