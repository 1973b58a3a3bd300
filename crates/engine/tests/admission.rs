//! Pods whose device requests kubelet could mix up come to a node one after another, where an agent follows records.

mod common;

use common::{Run, bound, gpu_node, gpu_pod, group_name, report, share, whole};
use gpu_scheduler_engine::model::{Pod, Timestamp, TopologyManager, TopologyManagerPolicy};
use gpu_scheduler_engine::{Action, Outcome, PodPhase, Policy};

/// A node of four cards, whose agent hands out by records or not.
fn run(steered: bool) -> Run {
    let mut run = Run::policy(Policy::BestFit);
    let node = gpu_node("n", 4);
    run.nodes([node.clone()]);
    let mut report = report(&node, 1_000_000, 0);
    report.steered = steered;
    run.report(report);
    run
}

/// Who is bound until the engine rests.
fn binds(run: &mut Run) -> Vec<String> {
    run.settle().into_iter().map(|(pod, _)| pod).collect()
}

/// kubelet admits the pod that was bound.
fn admit(run: &mut Run, pod: Pod) {
    let PodPhase::Placed { allocation, .. } = run.explain(&pod.uid.0).phase else { panic!("{} is placed", pod.name) };
    run.pods([Pod { started_at: Some(Timestamp(1)), ..bound(pod, "n", Some(allocation)) }]);
}

#[test]
fn those_that_ask_alike_are_bound_one_after_another() {
    let mut run = run(true);
    run.pods([gpu_pod("a", whole(1)), gpu_pod("b", whole(1)), gpu_pod("two", whole(2))]);
    // Two cards are another question than one.
    assert_eq!(binds(&mut run), ["a", "two"]);
    admit(&mut run, gpu_pod("a", whole(1)));
    assert_eq!(binds(&mut run), ["b"]);
}

/// Which NUMA nodes kubelet chooses for one depends on what those before it got, whoever hands out the cards.
#[test]
fn where_kubelet_chooses_numa_nodes_all_that_ask_for_cards_are_bound_one_after_another() {
    type Numa = fn(u32) -> Option<u32>;
    let policy = TopologyManagerPolicy::BestEffort;
    let aligns = Some(TopologyManager { policy, ..TopologyManager::default() });
    let (halves, one): (Numa, Numa) = (|card| Some(card / 2), |_| Some(0));
    for (topology, numa, expected) in [
        (aligns, halves, &["a", "share"][..]),
        (aligns, one, &["a", "two", "share"]),
        (aligns, |_| None, &["a", "two", "share"]),
        (Some(TopologyManager::default()), halves, &["a", "two", "share"]),
        (None, halves, &["a", "two", "share"]),
    ] {
        let mut run = Run::policy(Policy::BestFit);
        let node = gpu_node("n", 4);
        run.nodes([node.clone()]);
        let mut report = report(&node, 1_000_000, 0);
        report.topology_manager = topology;
        for device in &mut report.devices {
            device.card.numa = numa(device.card.index);
        }
        run.report(report);
        run.pods([gpu_pod("a", whole(1)), gpu_pod("two", whole(2)), gpu_pod("share", share(1000))]);
        assert_eq!(binds(&mut run), expected);
        admit(&mut run, gpu_pod("a", whole(1)));
        assert_eq!(binds(&mut run).is_empty(), expected.contains(&"two"));
    }
}

#[test]
fn elsewhere_nobody_waits() {
    let mut run = run(false);
    run.pods([gpu_pod("a", whole(1)), gpu_pod("b", whole(1))]);
    assert_eq!(binds(&mut run), ["a", "b"]);
}

#[test]
fn a_pod_that_somebody_else_bound_counts_as_well() {
    let mut run = run(true);
    run.pods([bound(gpu_pod("foreign", whole(1)), "n", None)]);
    run.settle();
    run.pods([gpu_pod("a", whole(1))]);
    assert_eq!(binds(&mut run), [""; 0]);
    run.delete("foreign");
    assert_eq!(binds(&mut run), ["a"]);
}

#[test]
fn what_is_placed_and_waits_holds_its_cards() {
    let mut run = run(true);
    run.pods(["a", "b", "c", "d", "e"].map(|name| gpu_pod(name, whole(1))));
    assert_eq!(binds(&mut run), ["a"]);
    for name in ["a", "b", "c"] {
        admit(&mut run, gpu_pod(name, whole(1)));
        assert_eq!(binds(&mut run).len(), 1, "after {name}");
    }
    admit(&mut run, gpu_pod("d", whole(1)));
    assert_eq!(binds(&mut run), [""; 0], "the node is full");
}

#[test]
fn a_kubelet_that_does_not_answer_is_not_waited_for_for_ever() {
    let mut run = run(true);
    run.pods([gpu_pod("a", whole(1)), gpu_pod("b", whole(1))]);
    assert_eq!(binds(&mut run), ["a"]);
    let wakeup = run.engine.next_wakeup().expect("a deadline");
    run.now = wakeup;
    let actions = run.rest();
    let said = actions.iter().find_map(|a| match a {
        Action::SetCondition { pod, condition, .. } => Some((pod.name.to_string(), condition.message.to_string())),
        _ => None,
    });
    let why = "kubelet has not admitted pod default/a yet, which has to come before";
    assert_eq!(said, Some(("b".to_owned(), why.to_owned())));
    assert_eq!(run.node_of("b"), None, "it holds nothing while it backs off");
}

#[test]
fn a_gang_is_placed_at_once_and_bound_one_by_one() {
    let mut run = run(true);
    let name = group_name("g");
    run.group(&name, Some(3));
    let member = |pod: &str| Pod { group: Some(name.clone()), ..gpu_pod(pod, whole(1)) };
    run.pods(["a", "b", "c"].map(member));
    let mut all = Vec::new();
    for _ in 0..3 {
        let next = binds(&mut run);
        assert!(["a", "b", "c"].iter().all(|name| run.node_of(name).is_some()), "all hold their cards");
        assert_eq!(next.len(), 1);
        admit(&mut run, member(&next[0]));
        all.extend(next);
    }
    all.sort();
    assert_eq!(all, ["a", "b", "c"]);
}

#[test]
fn a_failed_bind_lets_the_next_one_go() {
    let mut run = run(true);
    run.pods([gpu_pod("a", whole(1)), gpu_pod("b", whole(1))]);
    let ticket = |actions: &[Action], name: &str| {
        actions.iter().find_map(|a| match a {
            Action::Bind { ticket, pod, .. } if &*pod.name == name => Some(*ticket),
            _ => None,
        })
    };
    let first = run.rest();
    assert_eq!(ticket(&first, "b"), None);
    let refused = Outcome::Failed("conflict".into());
    let a = ticket(&first, "a").expect("a bind");
    run.answer(a, refused);
    assert!(ticket(&run.rest(), "b").is_some());
}
