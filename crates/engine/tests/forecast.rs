//! Cards are chosen for the moment at which a pod comes to kubelet, not for that of the decision.

mod common;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use common::kubelet::{Kubelet, node_with};
use common::{Run, bound, gpu_pod, group_name, whole};
use gpu_scheduler_engine::framework::{PluginName, PreBind, Profile};
use gpu_scheduler_engine::model::{
    Allocation, ContainerKind, Health, NodeId, Pod, PodId, Ticket, Timestamp, TopologyManager, TopologyManagerPolicy,
    TopologyManagerScope,
};
use gpu_scheduler_engine::state::State;
use gpu_scheduler_engine::{Action, NodeVerdict, Outcome, Place, PodPhase, Policy, PreBindStep};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use TopologyManagerPolicy::{BestEffort, Restricted, SingleNumaNode};

/// Prepares pods of such a name before their bind.
#[derive(Debug)]
struct Slow;

impl PreBind for Slow {
    fn name(&self) -> PluginName {
        "Slow"
    }
    fn pre_bind(&self, state: &State, pod: PodId, _: NodeId) -> Option<PreBindStep> {
        let slow = state.pod(pod).is_some_and(|p| p.name.name.starts_with("slow"));
        slow.then(|| PreBindStep::Other { plugin: "Slow".into(), work: "prepare".into() })
    }
}

fn profile() -> Profile {
    Policy::BestFit.profile().with_pre_bind(Slow)
}

/// One node and who is on it.
struct Site {
    run: Run,
    kubelet: Kubelet,
    pods: BTreeMap<String, Pod>,
    preparing: Vec<(String, Ticket)>,
    /// Bound, on their way to kubelet.
    coming: VecDeque<(String, Vec<usize>, Allocation)>,
    /// Of these kubelet has heard, and the engine has not yet.
    admitted: VecDeque<Pod>,
    running: BTreeMap<String, Vec<usize>>,
}

impl Site {
    fn new(numa: &[Option<u32>], topology: TopologyManager) -> Self {
        let (node, report) = node_with(numa, Some(topology));
        let mut run = Run::profile(profile());
        run.nodes([node]).report(report);
        let cards = numa.iter().map(|numa| (*numa, true)).collect();
        let kubelet = Kubelet { topology, cards, handed_out: BTreeSet::new() };
        Self {
            run,
            kubelet,
            pods: BTreeMap::new(),
            preparing: Vec::new(),
            coming: VecDeque::new(),
            admitted: VecDeque::new(),
            running: BTreeMap::new(),
        }
    }

    /// Two sockets of so many cards.
    fn sockets(first: usize, second: usize) -> Self {
        let topology = TopologyManager { policy: SingleNumaNode, scope: TopologyManagerScope::Container };
        let numa: Vec<_> = std::iter::repeat_n(Some(0), first).chain(std::iter::repeat_n(Some(1), second)).collect();
        Self::new(&numa, topology)
    }

    fn arrive(&mut self, name: &str, cards: u32) {
        self.arrive_all([gpu_pod(name, whole(cards))]);
    }

    fn arrive_all<const N: usize>(&mut self, pods: [Pod; N]) {
        for pod in pods {
            self.pods.insert(pod.uid.to_string(), pod.clone());
            self.run.pods([pod]);
        }
        self.carry_out();
    }

    /// Binds take effect at once, preparations last.
    fn carry_out(&mut self) {
        loop {
            let actions = self.run.rest();
            let mut done = Vec::new();
            for action in actions {
                match action {
                    Action::PreBind { ticket, uid, .. } => self.preparing.push((uid.to_string(), ticket)),
                    Action::Bind { ticket, uid, allocation, .. } => {
                        let devices = allocation.containers.iter().flat_map(|c| &c.devices);
                        let cards = devices.map(|d| d.index as usize).collect();
                        self.coming.push_back((uid.to_string(), cards, allocation));
                        done.push(ticket);
                    }
                    _ => {}
                }
            }
            if done.is_empty() {
                return;
            }
            for ticket in done {
                self.run.answer(ticket, Outcome::Done);
            }
        }
    }

    /// The next pod comes to kubelet; returns whether it gets the cards of its record there.
    fn is_given(&mut self) -> bool {
        let Some((name, cards, allocation)) = self.coming.pop_front() else { return true };
        let given = self.kubelet.gives(&[(ContainerKind::App, cards.clone())]);
        let pod = bound(self.pods[&name].clone(), "n1", Some(allocation));
        self.running.insert(name, cards);
        self.admitted.push_back(Pod { started_at: Some(Timestamp(1)), ..pod });
        given
    }

    /// The engine hears that kubelet has admitted a pod.
    fn is_heard_of(&mut self) {
        self.run.pods(self.admitted.pop_front());
        self.carry_out();
    }

    fn admit(&mut self) -> bool {
        let given = self.is_given();
        self.is_heard_of();
        given
    }

    fn prepared(&mut self, name: &str) {
        let Some(at) = self.preparing.iter().position(|(pod, _)| pod == name) else { return };
        let (_, ticket) = self.preparing.remove(at);
        self.run.answer(ticket, Outcome::Done);
        self.carry_out();
    }

    /// A pod is gone: one that runs, or one that is not bound.
    fn leave(&mut self, name: &str) {
        self.is_gone(name);
        self.carry_out();
    }

    fn is_gone(&mut self, name: &str) {
        self.pods.remove(name);
        self.admitted.retain(|pod| *pod.uid.0 != *name);
        self.preparing.retain(|(pod, _)| pod != name);
        for card in self.running.remove(name).unwrap_or_default() {
            self.kubelet.handed_out.remove(&card);
        }
        self.run.delete(name);
    }

    /// The node's agent reports cards as sick, and kubelet gives them to nobody.
    fn sicken(&mut self, cards: &[usize]) {
        let numa: Vec<_> = self.kubelet.cards.iter().map(|(numa, _)| *numa).collect();
        let (_, mut report) = node_with(&numa, Some(self.kubelet.topology));
        for at in cards {
            report.devices[*at].card.health = Health::Unhealthy("XID 79".into());
            self.kubelet.cards[*at].1 = false;
        }
        self.run.report(report);
        self.carry_out();
    }

    fn wait(&mut self, millis: u64) {
        self.run.wait(millis);
        self.carry_out();
    }

    /// Whom kubelet is to hear of next, and with which cards.
    fn next(&self) -> Option<(&str, &[usize])> {
        self.coming.front().map(|(name, cards, _)| (name.as_str(), cards.as_slice()))
    }
}

fn priority(pod: Pod, priority: i32) -> Pod {
    Pod { priority, ..pod }
}

#[test]
fn a_pod_that_waits_moves_to_where_room_came_up() {
    let mut site = Site::sockets(2, 2);
    site.arrive("old", 2);
    assert!(site.admit());
    site.arrive("a", 1);
    site.arrive("b", 1);
    assert_eq!((site.next(), site.run.devices_of("b")), (Some(("a", &[2][..])), vec!["GPU-n1-3".into()]));
    assert!(site.is_given());
    site.leave("old");
    site.is_heard_of();
    assert_eq!(site.next(), Some(("b", &[0][..])), "NUMA node 0 is the lower of two that have one");
    assert!(site.admit());
}

#[test]
fn who_is_bound_first_gets_what_kubelet_gives_first_whoever_was_placed_first() {
    let mut site = Site::sockets(2, 2);
    site.arrive("slow", 2);
    assert_eq!((site.next(), site.run.devices_of("slow")), (None, vec!["GPU-n1-0".into(), "GPU-n1-1".into()]));
    site.arrive("quick", 1);
    assert_eq!(site.next(), Some(("quick", &[0][..])), "kubelet does not know of the slow one");
    assert_eq!(site.run.devices_of("slow"), ["GPU-n1-2", "GPU-n1-3"]);
    assert!(site.admit());
    site.prepared("slow");
    assert_eq!(site.next(), Some(("slow", &[2, 3][..])));
    assert!(site.admit());
}

#[test]
fn who_has_no_cards_left_by_then_gives_its_place_up_and_says_so() {
    let mut site = Site::sockets(2, 2);
    site.arrive("slow", 2);
    site.sicken(&[0, 2]);
    site.prepared("slow");
    assert_eq!((site.next(), site.run.node_of("slow")), (None, None));
    let why = site.run.message("slow");
    assert!(why.starts_with("node n1 has no room any more by what its kubelet will choose: node(s) "), "{why}");
}

/// A pod that may have these cards alone.
fn pinned(name: &str, cards: &[usize]) -> Pod {
    let uuids = cards.iter().map(|at| format!("GPU-n1-{at}")).collect();
    Pod { uuids, ..gpu_pod(name, whole(u32::try_from(cards.len()).expect("a few"))) }
}

/// kubelet would take the lower NUMA node for the pod that is pinned to the higher one, as long as it does not know of the
/// slow one.
fn one_waits() -> Site {
    let mut site = Site::sockets(2, 2);
    site.arrive("slow", 2);
    site.arrive_all([pinned("high", &[2])]);
    assert_eq!(site.next(), None, "kubelet would choose NUMA node 0");
    site
}

#[test]
fn who_would_get_the_cards_of_a_pod_that_is_not_bound_yet_waits_for_it() {
    let mut site = one_waits();
    site.prepared("slow");
    assert_eq!(site.next(), Some(("slow", &[0, 1][..])));
    assert!(site.admit());
    assert_eq!(site.next(), Some(("high", &[2][..])));
    assert!(site.admit());

    // The pinned one may have no other; who matters more has it give up its place, who matters less waits.
    for (quick, waits) in [(0, true), (9, false)] {
        let mut site = Site::sockets(2, 2);
        site.arrive_all([priority(pinned("slow", &[0, 1]), 5), priority(gpu_pod("quick", whole(1)), quick)]);
        assert_eq!(site.next().is_none(), waits);
        if waits {
            site.prepared("slow");
            assert_eq!(site.next(), Some(("slow", &[0, 1][..])));
            assert!(site.admit());
            assert_eq!(site.next(), Some(("quick", &[2][..])));
        } else {
            assert_eq!((site.next(), site.run.node_of("slow")), (Some(("quick", &[0][..])), None));
        }
        assert!(site.admit());
    }
}

#[test]
fn who_waits_for_a_pod_that_never_comes_gives_up() {
    let mut site = one_waits();
    site.run.now = site.run.engine.next_wakeup().expect("a deadline");
    site.carry_out();
    let why = "pods that are not bound yet are to have cards that kubelet would give to this one";
    assert_eq!((site.run.message("high"), site.run.node_of("high")), (why.to_owned(), None));
}

/// Neither may have what kubelet would choose by now, so neither can go first.
#[test]
fn two_that_would_wait_for_each_other_give_up_at_once() {
    let mut site = Site::sockets(2, 2);
    site.arrive("old", 2);
    assert!(site.admit());
    site.arrive_all([pinned("slow", &[2]), pinned("slow-too", &[3])]);
    site.leave("old");
    site.prepared("slow");
    assert!(site.run.node_of("slow").is_some() && site.next().is_none());
    site.prepared("slow-too");
    assert_eq!((site.run.node_of("slow"), site.run.node_of("slow-too"), site.next()), (None, None, None));
}

#[test]
fn what_a_node_reports_may_end_a_wait() {
    let mut site = one_waits();
    site.sicken(&[0, 1]);
    assert_eq!(site.next(), Some(("high", &[2][..])));
    assert!(site.admit());
}

#[test]
fn no_member_of_a_gang_loses_its_place_to_another_that_is_bound_first() {
    let mut site = Site::sockets(2, 3);
    site.arrive_all([priority(gpu_pod("slow", whole(2)), 100)]);
    let name = group_name("g");
    site.run.group(&name, Some(2));
    site.arrive_all(
        [("m1", 1), ("m2", 2)].map(|(pod, cards)| Pod { group: Some(name.clone()), ..gpu_pod(pod, whole(cards)) }),
    );
    for _ in 0..2 {
        assert!(["m1", "m2", "slow"].iter().all(|pod| site.run.node_of(pod).is_some()));
        assert!(site.next().is_some() && site.admit());
    }
    site.prepared("slow");
    assert!(site.next().is_some() && site.admit());
    assert_eq!(site.running.len(), 3);
}

/// Who waits for its turn would move there, since kubelet would; then it has to wait longer.
#[test]
fn room_that_is_made_for_a_pod_stays_its_own() {
    let mut site = Site::sockets(2, 2);
    site.arrive_all([priority(gpu_pod("old", whole(2)), 0)]);
    assert!(site.admit());
    site.arrive_all([priority(gpu_pod("a", whole(1)), 10), priority(gpu_pod("b", whole(1)), 10)]);
    assert_eq!((site.next(), site.run.devices_of("b")), (Some(("a", &[2][..])), vec!["GPU-n1-3".into()]));
    site.arrive_all([priority(gpu_pod("boss", whole(2)), 100)]);
    assert!(site.is_given());
    // Both at once: the one it evicted is gone, and the one before b is admitted.
    site.is_gone("old");
    site.is_heard_of();
    assert_eq!(site.next(), Some(("boss", &[0, 1][..])));
    assert!(site.admit());
    site.wait(10_000);
    assert_eq!(site.next(), Some(("b", &[3][..])));
    assert!(site.admit());
}

/// What happens next.
#[derive(Debug, Clone)]
enum Happens {
    Arrives { cards: u32, slow: bool, priority: i32 },
    TimePasses(u64),
    IsPrepared(prop::sample::Index),
    IsGiven,
    IsHeardOf,
    Leaves(prop::sample::Index),
}

fn happens() -> impl Strategy<Value = Happens> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (1_u32..4, prop::bool::weighted(0.4), 0..2)
            .prop_map(|(cards, slow, priority)| Happens::Arrives { cards, slow, priority }),
        1 => (1_u64..70_000).prop_map(Happens::TimePasses),
        3 => index().prop_map(Happens::IsPrepared),
        3 => Just(Happens::IsGiven),
        3 => Just(Happens::IsHeardOf),
        2 => index().prop_map(Happens::Leaves),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        rng_seed: RngSeed::Fixed(30),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// As long as nobody leaves while a pod is on its way, each gets the cards of its record; and whoever fits comes to run.
    #[test]
    fn kubelet_gives_what_records_say_in_whatever_order_pods_come(
        numa in prop::collection::vec(prop::option::weighted(0.9, 0_u32..3), 2..8),
        policy in prop::sample::select(vec![BestEffort, Restricted, SingleNumaNode]),
        all in prop::collection::vec(happens(), 1..40),
    ) {
        let mut site = Site::new(&numa, TopologyManager { policy, scope: TopologyManagerScope::Container });
        for (n, happens) in all.into_iter().enumerate() {
            match happens {
                Happens::Arrives { cards, slow, priority: its } => {
                    let name = format!("{}{n}", if slow { "slow" } else { "quick" });
                    let pod = priority(gpu_pod(&name, whole(cards)), its);
                    site.arrive_all([Pod { preempts: false, ..pod }]);
                }
                Happens::TimePasses(millis) => site.wait(millis),
                Happens::IsPrepared(which) if !site.preparing.is_empty() => {
                    let name = which.get(&site.preparing).0.clone();
                    site.prepared(&name);
                }
                Happens::IsGiven => prop_assert!(site.is_given()),
                Happens::IsHeardOf => site.is_heard_of(),
                Happens::Leaves(which) if !site.pods.is_empty() => {
                    while !site.coming.is_empty() {
                        prop_assert!(site.is_given());
                    }
                    let names: Vec<String> = site.pods.keys().cloned().collect();
                    site.leave(which.get::<String>(&names));
                }
                Happens::IsPrepared(_) | Happens::Leaves(_) => {}
            }
        }
        // Whoever is still under way comes to its end.
        for _ in 0..100 {
            while let Some((name, _)) = site.preparing.first().cloned() {
                site.prepared(&name);
            }
            prop_assert!(site.admit());
            site.wait(10_000);
        }
        let waiting: Vec<&String> = site.pods.keys().filter(|name| !site.running.contains_key(*name)).collect();
        for name in waiting {
            let it = site.run.explain(name);
            prop_assert!(matches!(it.phase, PodPhase::Waiting(Place::Unschedulable(_))), "{name}: {:?}", it.phase);
            prop_assert!(it.nodes.iter().all(|n| matches!(n.verdict, NodeVerdict::Rejected(_))), "{name}");
        }
    }
}
