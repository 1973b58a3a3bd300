//! After a crash the ledger is what bound pods, nodes and reports say: an engine that has seen the whole
//! history and one that sees only where it ended agree on who holds what.

mod common;

use std::collections::BTreeMap;

use common::op::ops;
use common::world::World;
use common::{check, gpu_node};
use gpu_scheduler_engine::ledger::{Card, Closed};
use gpu_scheduler_engine::state::State;
use gpu_scheduler_engine::{Config, Engine, Event, Policy};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Who holds a card, by UID, and what is left of it; without slots, which depend on history.
fn describe(card: &Card) -> String {
    let mut holders: Vec<String> = card
        .holdings()
        .iter()
        .map(|h| format!("{} {:?} {} {} {} {:?}", h.uid, h.kind, h.memory, h.compute, h.seats, h.slices))
        .collect();
    holders.sort();
    let closed = match &card.room().closed {
        Some(Closed::Overcommitted(_)) => "overcommitted",
        Some(Closed::Gone) => "gone",
        Some(Closed::Unhealthy) => "unhealthy",
        None => "open",
    };
    let room = card.room();
    let left = format!("{} {} {} {} {}", room.whole, room.memory, room.compute, room.seats, room.idle.0);
    format!("{} {closed} {holders:?} {left} foreign {}", card.uuid(), card.foreign())
}

fn image(world: &World, state: &State) -> BTreeMap<String, Vec<String>> {
    let node = |n: &gpu_scheduler_engine::state::NodeState| {
        // Of a node that is gone nobody says which cards it has, and nobody is sent there.
        let cards = n.ledger().cards().iter().filter(|c| c.present() && n.facts().is_some());
        let mut lines: Vec<String> = cards.map(describe).collect();
        lines.push(format!("cpu {} pods {}", n.requested().cpu, n.pods().len()));
        lines
    };
    // A guess may differ: it fits what was known when it was made. So it is where there is no record, and where there
    // is one that cannot be true.
    let is_guess = |uid| state.pod_of(uid).and_then(|p| p.placed.as_ref()).is_some_and(|p| p.guessed);
    let guesses = |name: &str| {
        let here = world.pods.values().filter_map(|p| p.assignment.as_ref().map(|a| (p, a)));
        here.filter(|(_, a)| a.node == name).any(|(p, a)| a.allocation.is_none() || is_guess(&p.uid))
    };
    let with_something = state.nodes().filter(|n| (n.facts().is_some() || !n.pods().is_empty()) && !guesses(n.name()));
    with_something.map(|n| (n.name().to_string(), node(n))).collect()
}

/// The world as a new process sees it: its facts in some order.
fn restarted(world: &World, seed: u64) -> Engine {
    let nodes = world.nodes.values().map(|n| Event::NodeApplied(Box::new(n.clone())));
    let reports = world.reports.values().map(|r| Event::DevicesReported(Box::new(r.clone())));
    let bound = world.pods.values().filter(|p| p.assignment.is_some());
    let pods = bound.map(|p| Event::PodApplied(Box::new(p.clone())));
    let mut facts: Vec<Event> = nodes.chain(reports).chain(pods).collect();
    let mut dice = seed | 1;
    for at in (1..facts.len()).rev() {
        dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        facts.swap(at, usize::try_from(dice >> 33).unwrap_or(0) % (at + 1));
    }
    let mut engine = Engine::new(Config::with_policy(Policy::Fgd));
    for fact in facts {
        engine.handle(world.now, fact);
    }
    engine
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        rng_seed: RngSeed::Fixed(11),
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_restart_finds_what_was_there(ops in ops(60), seed in any::<u64>()) {
        let mut world = World::new(Config { retry_after: None, ..Config::with_policy(Policy::Fgd) });
        for name in ["n0", "n1", "n2"] {
            let node = gpu_node(name, 2);
            world.nodes.insert(name.into(), node.clone());
            world.engine.handle(world.now, Event::NodeApplied(Box::new(node)));
        }
        ops.iter().for_each(|op| world.step(op));
        // Every decision of ours is a fact or taken back before the process ends; nobody waits for a bind.
        world.quiesce();
        let again = restarted(&world, seed);
        check::state(again.state());
        prop_assert_eq!(image(&world, again.state()), image(&world, world.engine.state()));
    }
}
