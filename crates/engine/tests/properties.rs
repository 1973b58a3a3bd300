//! What holds in every world: the ledger's invariants, exact wake-ups, determinism, bounded work.
//!
//! A world (`common::world`) draws events and plays API server; after each of them everything is worked out
//! again from what the engine shows. Seeds are fixed, so that a failure on one machine is one on all.

mod common;

use common::check;
use common::op::{Op, ops};
use common::world::World;
use gpu_scheduler_engine::model::{Millis, PodUid};
use gpu_scheduler_engine::{Action, Config, Place, PodPhase, Policy, PreBindStep, Step};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(20_261_129),
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    }
}

/// Parked pods are not tried again by the clock: wake-ups have to be exact, nothing may hide that they are not.
fn config(policy: Policy, steps: u32) -> Config {
    Config { steps_per_poll: steps, retry_after: None, ..Config::with_policy(policy) }
}

/// A world with three nodes of two cards, so that runs do not begin with nothing.
fn furnished(config: Config) -> World {
    let mut world = World::new(config);
    for name in ["n0", "n1", "n2"] {
        let node = common::world::node(name);
        world.nodes.insert(name.into(), node.clone());
        world.engine.handle(world.now, gpu_scheduler_engine::Event::NodeApplied(Box::new(node)));
    }
    world
}

fn policies() -> impl Strategy<Value = Policy> {
    prop::sample::select(Policy::ALL.to_vec())
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Nothing panics (so no grant of ours was refused by the ledger's asserts), the sums are right, and no
    /// pod is lost, after every single event.
    #[test]
    fn invariants_hold_after_every_event(ops in ops(60), policy in policies()) {
        let mut world = furnished(config(policy, 2048));
        for op in &ops {
            world.step(op);
            check::state(world.engine.state());
            check::pods(&world, matches!(op, Op::Rest));
        }
    }

    /// The same with hardly any budget a poll, so that events arrive in the middle of everything.
    #[test]
    fn invariants_hold_with_events_between_steps(ops in ops(60), policy in policies(), steps in 1_u32..4) {
        let mut world = furnished(config(policy, steps));
        for op in &ops {
            world.step(op);
            check::state(world.engine.state());
            check::pods(&world, matches!(op, Op::Rest));
        }
    }

    /// When everything is answered and every wait is over, whoever waits has no node: wake-ups are exact, and
    /// `next_wakeup` leads there in finite time.
    #[test]
    fn at_the_end_nobody_waits_who_could_run(ops in ops(60), policy in policies(), steps in 1_u32..4) {
        let mut world = furnished(config(policy, steps));
        for op in &ops {
            world.step(op);
        }
        world.quiesce();
        check::state(world.engine.state());
        check::pods(&world, true);
        for pod in world.pods.values().filter(|p| p.scheduler == common::OURS && p.assignment.is_none()) {
            let phase = world.engine.explain(&pod.uid).map(|e| e.phase);
            let waits = matches!(
                phase,
                Some(PodPhase::Terminating | PodPhase::Waiting(Place::Gated | Place::Unschedulable(_)))
            );
            prop_assert!(waits, "{} ended as {phase:?}", pod.name);
        }
    }

    /// The same events give the same actions, byte for byte.
    #[test]
    fn the_same_events_give_the_same_actions(ops in ops(60), policy in policies(), steps in 1_u32..50) {
        let run = || {
            let mut world = furnished(config(policy, steps));
            ops.iter().for_each(|op| world.step(op));
            world.quiesce();
            (world.log, world.engine.state().content_hash())
        };
        prop_assert_eq!(run(), run());
    }

    /// The budget of a poll changes when something is decided, never what: one step at a time or all at once,
    /// as long as events come at rest.
    #[test]
    fn the_budget_changes_no_decision(ops in ops(60), policy in policies()) {
        let run = |steps| {
            let mut world = furnished(config(policy, steps));
            for op in &ops {
                world.step(op);
                world.rest();
            }
            (world.log, world.engine.decisions())
        };
        prop_assert_eq!(run(1), run(10_000));
    }

    /// A poll is bounded, and their number is: work left is work that gets less.
    #[test]
    fn busy_comes_to_an_end(ops in ops(60), steps in 1_u32..6) {
        let mut world = furnished(config(Policy::Fgd, steps));
        for op in &ops {
            world.step(op);
            let before = world.busy;
            world.rest();
            let (pods, nodes) = (world.pods.len() as u32 + 2, world.engine.state().node_slots() as u32 + 1);
            // Each pod may be tried and parked once for each node that changed; far above what is needed.
            prop_assert!(world.busy - before <= 20 * pods * nodes, "{} polls", world.busy - before);
        }
    }

    /// At rest, the next wake-up is ahead; when it comes, it is dealt with.
    #[test]
    fn wakeups_are_ahead_and_end(ops in ops(60), retry in prop::option::of(1_u64..100)) {
        let retry_after = retry.map(Millis::from_secs);
        let mut world = furnished(Config { retry_after, ..config(Policy::Fgd, 2048) });
        for op in &ops {
            world.step(op);
            world.rest();
            if let Some(next) = world.engine.next_wakeup() {
                prop_assert!(next > world.now, "a wake-up at {next} is past at {}", world.now);
                world.now = next;
                world.rest();
                prop_assert!(world.engine.next_wakeup().is_none_or(|t| t > next), "{next} is still due");
            }
        }
    }
}

/// What a full look says the head of the queue gets, against what it then gets.
fn incremental_is_full(ops: &[Op], policy: Policy) -> Result<(), TestCaseError> {
    let mut world = furnished(config(policy, 2048));
    for op in ops {
        world.rest();
        let known: Vec<String> = world.pods.keys().cloned().collect();
        world.step(op);
        let Op::Submit { .. } = op else { continue };
        let Some(uid) = world.pods.keys().find(|uid| !known.contains(uid)).cloned() else { continue };
        let uid = PodUid::from(uid.as_str());
        let Some(explained) = world.engine.explain(&uid) else { continue };
        let PodPhase::Waiting(Place::Active) = explained.phase else { continue };
        // A selector that was never seen has pods of other classes tried again, before it.
        if world.engine.pending().active > 1 {
            continue;
        }
        let before = world.engine.decisions();
        let (mut got, mut another_first) = (None, false);
        loop {
            let step = world.engine.poll(world.now);
            // So has whom it helped by coming: what it finds then is another question.
            another_first |= got.is_none() && world.engine.decisions() > before + 1;
            // Its bind may have to wait for that of another pod.
            if let (None, Some(PodPhase::Placed { node, .. })) = (&got, world.engine.explain(&uid).map(|e| e.phase)) {
                got = Some(node);
            }
            match step {
                Step::Act(Action::Bind { uid: bound, node, ticket, allocation, .. }) => {
                    if bound == uid {
                        got = Some(node.clone());
                    }
                    let bind = Some((node.to_string(), allocation));
                    world.open.push(common::world::Open { ticket, uid: bound, bind, volumes: None });
                }
                Step::Act(Action::PreBind { uid: bound, node, ticket, step, .. }) => {
                    if bound == uid {
                        got = Some(node.clone());
                    }
                    let PreBindStep::BindVolumes(plan) = step else { continue };
                    let volumes = Some((node.to_string(), plan));
                    world.open.push(common::world::Open { ticket, uid: bound, bind: None, volumes });
                }
                // Others make room for it: what comes after is another decision.
                Step::Act(Action::Nominate { uid: nominated, .. }) if nominated == uid => break,
                Step::Act(_) | Step::Busy => {}
                Step::Rest => break,
            }
        }
        if another_first {
            continue;
        }
        prop_assert_eq!(got, explained.best, "{} under {}", explained.pod, policy);
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    /// A decision from the kept evaluations is the decision from scratch, for every policy.
    #[test]
    fn kept_evaluations_decide_as_fresh_ones(ops in ops(80)) {
        for policy in Policy::ALL {
            incremental_is_full(&ops, policy)?;
        }
    }
}
