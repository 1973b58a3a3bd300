//! An engine can be written down anywhere and gone on from: what was restored gives the same steps as what was not.

mod common;

use common::op::{Op, ops};
use common::world::World;
use gpu_scheduler_engine::framework::{Permission, Permit, PluginName, PreBind, Profile, ShareMode};
use gpu_scheduler_engine::model::{Mib, NodeId, PodId, Timestamp};
use gpu_scheduler_engine::state::State;
use gpu_scheduler_engine::{Config, Engine, Event, Policy, PreBindStep, RestoreError, Snapshot, Step};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

type Tape = [(Timestamp, Option<Event>)];

fn furnished(config: Config) -> World {
    let mut world = World::new(config);
    for name in ["n0", "n1", "n2"] {
        let node = common::world::node(name);
        world.nodes.insert(name.into(), node.clone());
        world.send(Event::NodeApplied(Box::new(node)));
    }
    world
}

fn feed(engine: &mut Engine, tape: &Tape) -> Vec<Step> {
    let mut steps = Vec::new();
    for (now, event) in tape {
        match event {
            Some(event) => engine.handle(*now, event.clone()),
            None => steps.push(engine.poll(*now)),
        }
    }
    steps
}

fn written(engine: &Engine) -> String {
    serde_json::to_string(&engine.snapshot()).expect("a snapshot is JSON")
}

fn read(text: &str) -> Snapshot {
    serde_json::from_str(text).expect("it was written here")
}

/// Runs a history, breaks it anywhere, and goes on with the engine and with what was written down of it.
fn goes_on_alike(config: impl Fn() -> Config, ops: &[Op], at: usize) -> Result<(), TestCaseError> {
    let mut world = furnished(config());
    world.holds = true;
    ops.iter().for_each(|op| world.step(op));
    let (before, after) = world.tape.split_at(at % (world.tape.len() + 1));
    let mut running = Engine::new(config());
    feed(&mut running, before);
    running.drop_caches();
    let text = written(&running);
    let mut restored = Engine::restore(config(), read(&text)).expect("the same configuration");
    prop_assert_eq!(&text, &written(&restored), "a snapshot of what was restored is the snapshot");
    prop_assert_eq!(running.next_wakeup(), restored.next_wakeup());
    prop_assert_eq!(feed(&mut running, after), feed(&mut restored, after));
    prop_assert_eq!(running.state().content_hash(), restored.state().content_hash());
    prop_assert_eq!(written(&running), written(&restored));
    Ok(())
}

/// Holds some placements back and has others prepared, by what the state says alone.
#[derive(Debug)]
struct Slow;

impl Permit for Slow {
    fn name(&self) -> PluginName {
        "Slow"
    }
    fn permit(&self, now: Timestamp, state: &State, _: PodId, _: NodeId) -> Permission {
        if state.generation().is_multiple_of(3) { Permission::Wait(Timestamp(now.0 + 5000)) } else { Permission::Allow }
    }
}

impl PreBind for Slow {
    fn name(&self) -> PluginName {
        "Slow"
    }
    fn pre_bind(&self, state: &State, _: PodId, _: NodeId) -> Option<PreBindStep> {
        let prepares = state.generation().is_multiple_of(2);
        prepares.then(|| PreBindStep::Other { plugin: "Slow".into(), work: "prepare".into() })
    }
}

fn slow() -> Profile {
    Policy::ShadowPrice.profile().with_permit(Slow).with_pre_bind(Slow)
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(20_270_301),
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn a_restored_engine_goes_on_as_the_running_one(
        ops in ops(80),
        policy in prop::sample::select(Policy::ALL.to_vec()),
        steps in prop_oneof![1_u32..8, Just(2048_u32)],
        reuse in prop::bool::weighted(0.9),
        at in any::<usize>(),
    ) {
        let config = || Config { steps_per_poll: steps, reuse_evaluations: reuse, ..Config::with_policy(policy) };
        goes_on_alike(config, &ops, at)?;
    }
}

proptest! {
    #![proptest_config(cases(700))]

    #[test]
    fn placements_on_their_way_are_restored_too(ops in ops(80), steps in 1_u32..40, at in any::<usize>()) {
        goes_on_alike(|| Config { steps_per_poll: steps, ..Config::with_profile(slow()) }, &ops, at)?;
    }

    /// What is forgotten are evaluations, which are worked out again to the same end.
    #[test]
    fn dropped_caches_change_no_decision(ops in ops(80), policy in prop::sample::select(Policy::ALL.to_vec())) {
        let run = |drops: bool| {
            let mut world = furnished(Config::with_policy(policy));
            for op in &ops {
                if drops {
                    world.engine.drop_caches();
                }
                world.step(op);
                world.rest();
            }
            world.log
        };
        prop_assert_eq!(run(true), run(false));
    }
}

#[test]
fn a_snapshot_keeps_to_its_configuration() {
    let snapshot = || Engine::new(Config::with_policy(Policy::Fgd)).snapshot();
    let mut other = Config::with_policy(Policy::Fgd);
    other.profiles[0].scheduler = "other".into();
    assert!(matches!(Engine::restore(other, snapshot()).unwrap_err(), RestoreError::Profiles { .. }));
    let tolerant = Config { foreign_tolerance: Mib(1), ..Config::with_policy(Policy::Fgd) };
    assert!(matches!(Engine::restore(tolerant, snapshot()).unwrap_err(), RestoreError::ForeignTolerance { .. }));
    let priced = Config::with_policy(Policy::ShadowPrice);
    assert_eq!(Engine::restore(priced, snapshot()).unwrap_err(), RestoreError::Prices);
    let whole_cards = Config::with_profile(Policy::Fgd.profile().with_share_mode(ShareMode::WholeCards));
    assert!(Engine::restore(whole_cards, snapshot()).is_ok(), "what only coming pods depend on may change");
}
