//! Cards as kubelet's topology manager would give them: what is placed against a kubelet that tries everything.

mod common;

use std::collections::BTreeSet;

use common::kubelet::{Kubelet, node_with};
use common::{CARD, Run, bound, gpu_pod, pod, record, share, whole};
use gpu_scheduler_engine::Policy;
use gpu_scheduler_engine::ledger::{Card, CardChoice, HoldKind, Shortage, place};
use gpu_scheduler_engine::model::{
    Container, ContainerKind, Demand, GpuRequest, GrantKind, Health, Partition, Partitioning, Pod, TopologyManager,
    TopologyManagerPolicy, TopologyManagerScope,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use ContainerKind::{App, Init, Sidecar};
use TopologyManagerPolicy::{BestEffort, None as NoPolicy, Restricted, SingleNumaNode};
use TopologyManagerScope as Scope;

/// A pod of containers that ask for so many whole cards.
fn several(name: &str, containers: &[(ContainerKind, u32)]) -> Pod {
    let mut pod = pod(name);
    let named = (0..).zip(containers).map(|(i, (kind, count))| {
        let mut container = Container::new(format!("c{i}"), *kind, [].into());
        container.gpu = vec![whole(*count)];
        container
    });
    pod.containers = named.collect();
    pod
}

/// All ways to give each container as many of the cards that are wholly free.
fn every_choice(request: &GpuRequest, cards: &[Card]) -> Vec<Vec<(ContainerKind, Vec<usize>)>> {
    let mut all = vec![Vec::new()];
    for container in &request.containers {
        let free = |set: &u32| (0..cards.len()).all(|at| set >> at & 1 == 0 || cards[at].room().whole);
        let sets: Vec<Vec<usize>> = (0_u32..1 << cards.len())
            .filter(|set| set.count_ones() == container.demands[0].count() && free(set))
            .map(|set| (0..cards.len()).filter(|at| set >> at & 1 == 1).collect())
            .collect();
        let one_more = |done: &Vec<_>| -> Vec<Vec<_>> {
            sets.iter().map(|set| [done.as_slice(), &[(container.kind, set.clone())]].concat()).collect()
        };
        all = all.iter().flat_map(one_more).collect();
    }
    all
}

/// How a card is before the pod comes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Was {
    Idle,
    Whole,
    Shared,
    Sick,
}

fn was() -> impl Strategy<Value = Was> {
    prop_oneof![4 => Just(Was::Idle), 2 => Just(Was::Whole), 2 => Just(Was::Shared), 1 => Just(Was::Sick)]
}

fn topology() -> impl Strategy<Value = TopologyManager> {
    let policy = prop::sample::select(vec![NoPolicy, BestEffort, Restricted, SingleNumaNode, SingleNumaNode]);
    let scope = prop::sample::select(vec![Scope::Container, Scope::Pod]);
    (policy, scope).prop_map(|(policy, scope)| TopologyManager { policy, scope })
}

fn containers() -> impl Strategy<Value = Vec<(ContainerKind, u32)>> {
    let one = (1_u32..5).prop_map(|count| vec![(App, count)]);
    let kind = prop::sample::select(vec![App, Init, Sidecar]);
    let some = prop::collection::vec((kind, 1_u32..3), 2..4).prop_map(|mut containers| {
        // As in a pod: init containers and sidecars in any order, then the app's.
        containers.sort_by_key(|(kind, _)| *kind == App);
        containers
    });
    prop_oneof![one, some]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        rng_seed: RngSeed::Fixed(29),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// What is placed, kubelet would give; and where it would give any cards that are free, some are placed.
    #[test]
    fn what_is_placed_is_what_kubelet_gives(
        cards in prop::collection::vec((prop::option::weighted(0.95, 0_u32..3), was()), 1..6),
        topology in topology(),
        containers in containers(),
    ) {
        let numa: Vec<_> = cards.iter().map(|(numa, _)| *numa).collect();
        let (node, mut report) = node_with(&numa, Some(topology));
        for (device, (_, was)) in report.devices.iter_mut().zip(&cards) {
            if *was == Was::Sick {
                device.card.health = Health::Unhealthy("XID 79".into());
            }
        }
        let mut run = Run::policy(Policy::Fgd);
        run.nodes([node]).report(report);
        let mut handed_out = BTreeSet::new();
        for (at, (_, was)) in (0_u32..).zip(&cards) {
            let (uuid, name) = (format!("GPU-n1-{at}"), format!("old{at}"));
            match was {
                Was::Whole => {
                    handed_out.insert(at as usize);
                    let on = record(GrantKind::Whole, &[(&uuid, at, CARD)]);
                    run.pods([bound(gpu_pod(&name, whole(1)), "n1", Some(on))]);
                }
                Was::Shared => {
                    let on = record(GrantKind::Share, &[(&uuid, at, 1000)]);
                    run.pods([bound(gpu_pod(&name, share(1000)), "n1", Some(on))]);
                }
                Was::Idle | Was::Sick => {}
            }
        }
        run.pods([several("a", &containers)]);
        let kubelet = Kubelet {
            topology,
            cards: cards.iter().map(|(numa, was)| (*numa, *was != Was::Sick)).collect(),
            handed_out,
        };
        let state = run.engine.state();
        let request = state.class(state.pod_of(&"a".into()).expect("it was added").class).spec.gpu.clone();
        let ledger = state.node_named("n1").expect("it was added").ledger();
        let found = place(&request, ledger, |_| true, CardChoice::SmallestRemainder, Some(topology));
        match &found {
            Ok(placement) => {
                let chosen: Vec<(ContainerKind, Vec<usize>)> = request
                    .containers
                    .iter()
                    .zip(&placement.containers)
                    .map(|(c, p)| (c.kind, p.grants.iter().map(|g| usize::from(g.card)).collect()))
                    .collect();
                prop_assert!(placement.containers.iter().flat_map(|c| &c.grants).all(|g| g.kind == HoldKind::Whole));
                // Without a policy, whose the init containers' devices become is kubelet's choice and stands elsewhere.
                prop_assert!(topology.policy == NoPolicy || kubelet.clone().gives(&chosen), "{chosen:?}");
            }
            Err(shortage) => {
                let given = every_choice(&request, ledger.cards()).into_iter().find(|c| kubelet.clone().gives(c));
                prop_assert!(given.is_none(), "{shortage:?}, and yet {given:?}");
            }
        }
    }
}

/// What a node with two sockets of four cards says of a pod; the second numbers are cards in use on each socket.
fn two_sockets(policy: TopologyManagerPolicy, used: [u32; 2], asked: u32) -> Result<Vec<u32>, (Shortage, bool)> {
    let numa: Vec<_> = (0..8).map(|at| Some(at / 4)).collect();
    let topology = TopologyManager { policy, scope: Scope::Container };
    let (node, report) = node_with(&numa, Some(topology));
    let mut run = Run::policy(Policy::Fgd);
    run.nodes([node]).report(report);
    for (socket, used) in (0_u32..).zip(used) {
        for at in (socket * 4..).take(used as usize) {
            let on = record(GrantKind::Whole, &[(&format!("GPU-n1-{at}"), at, CARD)]);
            run.pods([bound(gpu_pod(&format!("old{at}"), whole(1)), "n1", Some(on))]);
        }
    }
    run.pods([gpu_pod("a", whole(asked))]);
    let state = run.engine.state();
    let request = state.class(state.pod_of(&"a".into()).expect("it was added").class).spec.gpu.clone();
    let ledger = state.node_named("n1").expect("it was added").ledger();
    let found = place(&request, ledger, |_| true, CardChoice::SmallestRemainder, Some(topology));
    found
        .map(|placement| placement.containers[0].grants.iter().map(|g| u32::from(g.card)).collect())
        .map_err(|shortage| (shortage.clone(), shortage.is_permanent()))
}

#[test]
fn two_sockets_with_a_card_in_use_on_each() {
    for policy in [Restricted, SingleNumaNode] {
        let (shortage, permanent) = two_sockets(policy, [1, 1], 4).unwrap_err();
        let Shortage::Numa { asked: 4, chosen: None, nodes, .. } = &shortage else { panic!("{shortage:?}") };
        assert_eq!(nodes.iter().map(|n| (n.node, n.free, n.total)).collect::<Vec<_>>(), [(0, 3, 4), (1, 3, 4)]);
        assert!(!permanent, "a release helps");
        assert_eq!(two_sockets(policy, [1, 1], 3), Ok(vec![1, 2, 3]));
        assert_eq!(two_sockets(policy, [1, 0], 4), Ok(vec![4, 5, 6, 7]));
    }
    assert_eq!(two_sockets(BestEffort, [1, 1], 4), Ok(vec![1, 2, 3, 5]));
    assert_eq!(two_sockets(Restricted, [0, 1], 6), Ok(vec![0, 1, 2, 3, 5, 6]));
    let (shortage, permanent) = two_sockets(SingleNumaNode, [0, 0], 6).unwrap_err();
    assert!(permanent, "no socket has six: {shortage:?}");
}

/// kubelet takes NUMA node 0, where a card is free in its eyes and shared by the ledger. Once that is taken, it takes the next.
#[test]
fn a_share_is_nothing_that_kubelet_sees() {
    let topology = TopologyManager { policy: SingleNumaNode, scope: Scope::Container };
    let (node, report) = node_with(&[Some(0), Some(1)], Some(topology));
    let mut run = Run::policy(Policy::Fgd);
    run.nodes([node]).report(report);
    assert_eq!(run.place(gpu_pod("share", share(1000))).as_deref(), Some("n1"));
    assert_eq!(run.place(gpu_pod("a", whole(1))), None);
    assert!(
        run.message("a").contains("takes NUMA node 0 first, 1 asked: NUMA node 0 has 0 of 1 free"),
        "{}",
        run.message("a")
    );
    run.delete("share").settle();
    assert_eq!(run.devices_of("a"), ["GPU-n1-0"]);
}

/// What takes room may let a pod in that waits: kubelet goes on to the next NUMA node.
#[test]
fn a_pod_that_waits_is_looked_at_again_when_another_takes_room() {
    let topology = TopologyManager { policy: SingleNumaNode, scope: Scope::Container };
    let (node, report) = node_with(&[Some(0), Some(0), Some(1), Some(1)], Some(topology));
    let mut run = Run::policy(Policy::Fgd);
    run.nodes([node]).report(report);
    run.place(gpu_pod("share", share(1000)));
    assert_eq!(run.place(gpu_pod("pair", whole(2))), None);
    assert_eq!(run.place(gpu_pod("one", whole(1))).as_deref(), Some("n1"));
    assert_eq!(run.devices_of("one"), ["GPU-n1-1"]);
    assert_eq!(run.devices_of("pair"), ["GPU-n1-2", "GPU-n1-3"], "{}", run.message("pair"));
}

/// kubelet does not run with a policy there, and the sets of NUMA nodes would be too many to go through.
#[test]
fn on_more_numa_nodes_than_kubelet_aligns_nothing_is_foretold() {
    let topology = TopologyManager { policy: SingleNumaNode, scope: Scope::Container };
    let numa: Vec<_> = (0..40).map(Some).collect();
    let (node, mut report) = node_with(&numa, Some(topology));
    let slice = Partition { profile: "1g.10gb".to_owned(), uuid: "MIG-0".to_owned(), start: None };
    report.devices[0].card.partitioning = Partitioning::Mig(vec![slice]);
    let mut run = Run::policy(Policy::Fgd);
    run.nodes([node]).report(report);
    // The slice's resource is on one NUMA node alone.
    let mut both = gpu_pod("a", Demand::Slices { profile: "1g.10gb".to_owned(), count: 1 });
    both.containers[0].gpu.push(whole(1));
    assert_eq!(run.place(both).as_deref(), Some("n1"), "{}", run.message("a"));
}

/// kubelet counts replicas, and would take two of one card; the ledger wants two cards.
#[test]
fn replicas_that_one_numa_node_cannot_spread_are_placed_all_the_same() {
    let topology = TopologyManager { policy: SingleNumaNode, scope: Scope::Container };
    let (node, mut report) = node_with(&[Some(0), Some(1)], Some(topology));
    for device in &mut report.devices {
        device.card.partitioning = Partitioning::TimeSliced { seats: 4 };
    }
    let mut run = Run::policy(Policy::Fgd);
    run.nodes([node]).report(report);
    assert_eq!(run.place(gpu_pod("a", whole(2))).as_deref(), Some("n1"), "{}", run.message("a"));
}
