//! The way from placed to bound, in every world: with plugins that refuse, hold, prepare and fail, nothing is
//! lost and nothing stays behind.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::check;
use common::gpu_node;
use common::op::{Op, ops};
use common::world::World;
use gpu_scheduler_engine::framework::{
    Permission, Permit, PluginName, PostBind, PreBind, Profile, Reason, Reserve, Verdict,
};
use gpu_scheduler_engine::model::{Mib, NodeId, PodId, Timestamp};
use gpu_scheduler_engine::state::State;
use gpu_scheduler_engine::{Config, Event, Policy, PreBindStep};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Refuses, holds and prepares as the state's generation has it: erratic, and the same every time. It counts
/// what is reserved, so that a test sees whether each reservation ends.
#[derive(Debug, Clone)]
struct Moody {
    seed: u64,
    reserved: Arc<AtomicI64>,
    bound: Arc<AtomicI64>,
}

impl Moody {
    fn new(seed: u64) -> Self {
        Self { seed, reserved: Arc::default(), bound: Arc::default() }
    }
    fn mood(&self, state: &State, one_in: u64) -> bool {
        (state.generation() ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33 & 0xffff < 0x1_0000 / one_in
    }
    fn profile(&self) -> Profile {
        Policy::Fgd
            .profile()
            .with_reserve(self.clone())
            .with_permit(self.clone())
            .with_pre_bind(self.clone())
            .with_pre_bind(self.clone())
            .with_post_bind(self.clone())
    }
}

impl Reserve for Moody {
    fn name(&self) -> PluginName {
        "Moody"
    }
    fn reserve(&self, state: &State, _: PodId, _: NodeId) -> Verdict {
        self.reserved.fetch_add(1, Ordering::Relaxed);
        if self.mood(state, 6) { Verdict::unschedulable(Reason::Plugin("not now".into())) } else { Verdict::Pass }
    }
    fn unreserve(&self, _: &State, _: PodId, _: NodeId) {
        self.reserved.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Permit for Moody {
    fn name(&self) -> PluginName {
        "Moody"
    }
    fn permit(&self, now: Timestamp, state: &State, _: PodId, _: NodeId) -> Permission {
        if self.mood(state, 8) {
            Permission::Reject(Reason::Plugin("no".into()))
        } else if self.mood(state, 3) {
            Permission::Wait(Timestamp(now.0 + 5000))
        } else {
            Permission::Allow
        }
    }
}

impl PreBind for Moody {
    fn name(&self) -> PluginName {
        "Moody"
    }
    fn pre_bind(&self, state: &State, _: PodId, _: NodeId) -> Option<PreBindStep> {
        self.mood(state, 2).then(|| PreBindStep::Other { plugin: "Moody".into(), work: "prepare".into() })
    }
}

impl PostBind for Moody {
    fn name(&self) -> PluginName {
        "Moody"
    }
    fn post_bind(&self, _: &State, _: PodId, _: NodeId) {
        self.bound.fetch_add(1, Ordering::Relaxed);
    }
}

fn world(profile: Profile, steps: u32) -> World {
    let mut world = World::new(Config { steps_per_poll: steps, ..Config::with_profile(profile) });
    world.holds = true;
    for name in ["n0", "n1", "n2"] {
        let node = gpu_node(name, 2);
        world.nodes.insert(name.into(), node.clone());
        world.engine.handle(world.now, Event::NodeApplied(Box::new(node)));
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        rng_seed: RngSeed::Fixed(5),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// After every event: the ledger, no pod lost, and as many reservations open as pods are on their way or
    /// were bound by us.
    #[test]
    fn erratic_plugins_lose_nothing(ops in ops(70), seed in any::<u64>(), steps in 1_u32..40) {
        let moody = Moody::new(seed);
        let mut world = world(moody.profile(), steps);
        for op in &ops {
            world.step(op);
            check::state(world.engine.state());
            check::pods(&world, matches!(op, Op::Rest));
            let assumed = world.engine.state().pods().filter(|p| {
                p.placed.as_ref().is_some_and(|placed| placed.stage == gpu_scheduler_engine::state::Stage::Assumed)
            });
            let open = i64::try_from(assumed.count()).expect("few pods");
            let kept = moody.reserved.load(Ordering::Relaxed) - moody.bound.load(Ordering::Relaxed);
            prop_assert_eq!(kept, open, "reservations after {:?}", op);
        }
    }

    /// When every pod is gone, nothing is left: no card held, no ticket, no wait.
    #[test]
    fn nothing_stays_behind(ops in ops(70), seed in any::<u64>()) {
        let mut world = world(Moody::new(seed).profile(), 2048);
        ops.iter().for_each(|op| world.step(op));
        world.pods.clear();
        let uids: Vec<_> = world.engine.state().pods().map(|p| p.uid.clone()).collect();
        for uid in uids {
            world.engine.handle(world.now, Event::PodDeleted { uid });
        }
        world.rest();
        let state = world.engine.state();
        prop_assert_eq!(state.pods().count(), 0);
        for node in state.nodes() {
            prop_assert!(node.pods().is_empty() && node.requested().is_zero() && node.ports().is_empty());
            let idle = node.ledger().cards().iter().all(|c| c.holdings().is_empty() && c.present());
            prop_assert!(idle, "{}", node.name());
            let memory = |c: &gpu_scheduler_engine::ledger::Card| {
                let room = c.room();
                !room.shareable || Some(Mib(room.memory.0 + c.foreign().0)) >= c.spec().memory
            };
            prop_assert!(node.ledger().cards().iter().all(memory), "{}", node.name());
        }
        let reports_alone = world.engine.state().nodes().any(|n| n.report().is_some());
        prop_assert!(reports_alone || world.engine.next_wakeup().is_none());
    }
}
