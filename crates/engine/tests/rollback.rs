//! What is tried in a transaction leaves no trace: a PostFilter plugin places and removes pods at random,
//! in transactions within transactions, and the engine undoes it all.

mod common;

use common::op::{Op, ops};
use common::world::World;
use common::{check, cpu_pod};
use gpu_scheduler_engine::framework::{PluginName, PostFilter, Profile, Rescue};
use gpu_scheduler_engine::ledger::{CardChoice, place};
use gpu_scheduler_engine::model::{NodeId, PodId};
use gpu_scheduler_engine::preemption::Attempt;
use gpu_scheduler_engine::state::{Resolution, State, Transaction};
use gpu_scheduler_engine::{Config, Event, Policy};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Tries anything; `depth` transactions within one another.
#[derive(Debug)]
struct Shaker {
    seed: u64,
    depth: u32,
}

/// A small generator (xorshift): a plugin cannot ask proptest.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (sides.max(1) as u64)).unwrap_or(0)
    }
}

/// All that a rollback must bring back, generations included.
fn image(state: &State) -> impl PartialEq + std::fmt::Debug + use<> {
    let nodes: Vec<_> = state.nodes().map(|n| (n.id(), n.generation(), n.relaxed())).collect();
    let changed: Vec<_> = state.changed_since(0).collect();
    let relaxed: Vec<_> = state.relaxed_since(0).collect();
    (state.content_hash(), nodes, changed, relaxed)
}

fn shake(what_if: &mut Transaction<'_>, dice: &mut Dice, depth: u32) {
    for _ in 0..dice.roll(9) {
        let pods: Vec<PodId> = what_if.pods().map(|p| p.id).collect();
        let nodes: Vec<NodeId> = what_if.live_nodes().map(|n| n.id()).collect();
        if pods.is_empty() || nodes.is_empty() {
            return;
        }
        let (pod, node) = (pods[dice.roll(pods.len())], nodes[dice.roll(nodes.len())]);
        match dice.roll(4) {
            0 | 1 => try_to_place(what_if, pod, node),
            2 => drop(what_if.remove(pod)),
            _ if depth > 0 => {
                let keep = dice.roll(2) == 0;
                let before = image(what_if);
                what_if.transaction(|inner| {
                    shake(inner, dice, depth - 1);
                    if keep { Resolution::Commit(()) } else { Resolution::Rollback(()) }
                });
                assert!(keep || image(what_if) == before, "an inner rollback left a trace");
                check::state(what_if);
            }
            _ => {}
        }
    }
}

fn try_to_place(what_if: &mut Transaction<'_>, pod: PodId, node: NodeId) {
    let entry = what_if.pod(pod).expect("a pod of the list");
    let ledger = what_if.node(node).expect("a node of the list").ledger();
    if entry.placed.is_some() {
        return;
    }
    let request = &what_if.class(entry.class).spec.gpu;
    if let Ok(placement) = place(request, ledger, |_| true, CardChoice::SmallestRemainder, None) {
        what_if.place(pod, node, &placement);
    }
}

impl PostFilter for Shaker {
    fn name(&self) -> PluginName {
        "Shaker"
    }
    fn post_filter(&self, what_if: &mut Transaction<'_>, _profile: &Profile, _attempt: Attempt<'_>) -> Rescue {
        let mut dice = Dice(self.seed ^ what_if.content_hash() | 1);
        shake(what_if, &mut dice, self.depth);
        Rescue::Helpless("shaken".into())
    }
}

fn world(profile: Profile) -> World {
    let mut world = World::new(Config { retry_after: None, ..Config::with_profile(profile) });
    for name in ["n0", "n1", "n2"] {
        let node = common::world::node(name);
        world.nodes.insert(name.into(), node.clone());
        world.engine.handle(world.now, Event::NodeApplied(Box::new(node)));
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        rng_seed: RngSeed::Fixed(42),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Contents, generations and both indexes by generation are as before.
    #[test]
    fn a_rollback_is_exact(ops in ops(50), seed in any::<u64>()) {
        let mut world = world(Policy::Fgd.profile().with_post_filter(Shaker { seed, depth: 3 }));
        for (n, op) in ops.iter().enumerate() {
            world.step(op);
            world.rest();
            let impossible = cpu_pod(&format!("huge{n}"), 1_000_000_000);
            world.pods.insert(impossible.uid.to_string(), impossible.clone());
            world.engine.handle(world.now, Event::PodApplied(Box::new(impossible)));
            let before = image(world.engine.state());
            world.rest();
            prop_assert_eq!(before, image(world.engine.state()));
        }
    }

    /// Trying changes nothing that is decided: with and without, the actions are the same but for the text.
    #[test]
    fn trying_changes_no_decision(ops in ops(80), seed in any::<u64>()) {
        let run = |profile: Profile| {
            let mut world = world(profile);
            ops.iter().for_each(|op: &Op| world.step(op));
            world.quiesce();
            world.log.iter().map(|line| line.replace(" shaken", "")).collect::<Vec<_>>()
        };
        let shaken = Policy::BestFit.profile().with_post_filter(Shaker { seed, depth: 2 });
        prop_assert_eq!(run(shaken), run(Policy::BestFit.profile()));
    }
}
