//! `PodTopologySpread`, against the rules and texts of kube-scheduler 1.37.

mod common;

use common::{Run, asking, bound, labelled, node, pod, tainted};
use gpu_scheduler_engine::model::{
    Effect, LabelSelector, Node, NodeInclusionPolicy, Pod, Quantity, TopologySpreadConstraint, WhenUnsatisfiable,
    Workload, WorkloadKind, WorkloadName,
};
use gpu_scheduler_engine::{Event, Policy};

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const SKEWED: &str = "node(s) didn't match pod topology spread constraints";
const UNLABELLED: &str = "node(s) didn't match pod topology spread constraints (missing required label)";

fn app() -> LabelSelector {
    LabelSelector::of_labels([(&"app".to_owned(), &"a".to_owned())])
}

fn spread(key: &str, max_skew: i32) -> TopologySpreadConstraint {
    TopologySpreadConstraint { max_skew, topology_key: key.into(), selector: Some(app()), ..Default::default() }
}

fn soft(key: &str, max_skew: i32) -> TopologySpreadConstraint {
    TopologySpreadConstraint { when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway, ..spread(key, max_skew) }
}

/// A node of a zone, under its own host name.
fn zoned(name: &str, zone: &str) -> Node {
    labelled(labelled(node(name), HOST, name), ZONE, zone)
}

fn labelled_pod(name: &str) -> Pod {
    let mut pod = pod(name);
    pod.labels.insert("app".into(), "a".into());
    pod
}

/// A cluster with so many pods of the app on each of these nodes.
fn cluster(nodes: impl IntoIterator<Item = (Node, usize)>) -> Run {
    let mut run = Run::policy(Policy::Spread);
    for (node, pods) in nodes {
        let name = node.name.clone();
        run.nodes([node]);
        run.pods((0..pods).map(|n| bound(labelled_pod(&format!("{name}-{n}")), &name, None)));
    }
    run
}

fn wanting(constraints: impl IntoIterator<Item = TopologySpreadConstraint>) -> Pod {
    Pod { spread: constraints.into_iter().collect(), ..labelled_pod("new") }
}

/// Which nodes take the pod, and what the others say: reason and whether it is permanent.
fn verdicts(run: &mut Run, mut pod: Pod) -> Vec<(String, Option<(String, bool)>)> {
    // It has to wait, so that each node can be asked.
    pod.gates = vec!["look".into()];
    run.pods([pod]).settle();
    let verdict = |n: gpu_scheduler_engine::NodeExplanation| {
        let rejected = match n.verdict {
            gpu_scheduler_engine::NodeVerdict::Candidate { .. } => None,
            gpu_scheduler_engine::NodeVerdict::Rejected(r) => {
                Some((r.reasons[0].text(run.engine.state().symbols()).into_owned(), r.permanent))
            }
        };
        (n.node.to_string(), rejected)
    };
    run.explain("new").nodes.into_iter().map(verdict).collect()
}

fn taking(run: &mut Run, pod: Pod) -> String {
    let takes = verdicts(run, pod).into_iter().filter(|(_, rejected)| rejected.is_none());
    takes.map(|(node, _)| node).collect::<Vec<_>>().join(" ")
}

#[test]
fn skew_is_counted_over_domains() {
    for (pods, constraint, expected, what) in [
        ([2, 1, 0], spread(ZONE, 1), "c", "a has 3, c none: only c"),
        ([1, 0, 1], spread(ZONE, 1), "a b c", "one in each zone"),
        ([2, 0, 1], spread(ZONE, 1), "c", "a has 2, c has 1"),
        ([2, 0, 1], spread(ZONE, 2), "a b c", "a skew of two"),
        ([2, 0, 1], spread(HOST, 1), "b", "by host b has none"),
    ] {
        let zones = [zoned("a", "1"), zoned("b", "1"), zoned("c", "2")];
        let mut run = cluster(zones.into_iter().zip(pods));
        assert_eq!(taking(&mut run, wanting([constraint])), expected, "{what}");
    }
}

#[test]
fn a_node_without_the_label_takes_nobody_for_good() {
    let mut run = cluster([(zoned("a", "1"), 1), (zoned("b", "2"), 0), (node("bare"), 0)]);
    let verdicts = verdicts(&mut run, wanting([spread(ZONE, 1)]));
    let rejected = |text: &str, permanent| Some((text.to_owned(), permanent));
    let expected = [("a", rejected(SKEWED, false)), ("b", None), ("bare", rejected(UNLABELLED, true))];
    assert_eq!(verdicts, expected.map(|(node, verdict)| (node.to_owned(), verdict)));
}

#[test]
fn a_domain_counts_only_through_nodes_with_all_keys() {
    // "a" has no rack: its zone is no domain, so the emptiest zone is that of "b", and b is full.
    let mut run = cluster([
        (zoned("a", "1"), 0),
        (labelled(zoned("b", "2"), "rack", "r"), 3),
        (labelled(zoned("c", "3"), "rack", "r"), 2),
    ]);
    assert_eq!(taking(&mut run, wanting([spread(ZONE, 1), spread("rack", 9)])), "c");
}

#[test]
fn too_few_domains_count_as_an_empty_one() {
    let with = |min_domains| TopologySpreadConstraint { min_domains, ..spread(ZONE, 1) };
    for (min_domains, expected) in [(1, "a b"), (2, "a b"), (3, "")] {
        let mut run = cluster([(zoned("a", "1"), 1), (zoned("b", "2"), 1)]);
        assert_eq!(taking(&mut run, wanting([with(min_domains)])), expected, "{min_domains}");
    }
}

#[test]
fn nodes_that_the_pod_could_not_go_to() {
    use NodeInclusionPolicy::{Honor, Ignore};
    for (affinity, taints, expected, what) in [
        (Honor, Ignore, "", "the tainted node's empty zone counts"),
        (Honor, Honor, "a", "left out, like the node that the selector excludes"),
        (Ignore, Honor, "", "the excluded node's empty zone counts"),
    ] {
        let mut run = cluster([
            (labelled(zoned("a", "1"), "pool", "x"), 1),
            (tainted(labelled(zoned("b", "2"), "pool", "x"), "k", "", Effect::NoSchedule), 0),
            (zoned("c", "3"), 0),
        ]);
        let constraint =
            TopologySpreadConstraint { node_affinity_policy: affinity, node_taints_policy: taints, ..spread(ZONE, 1) };
        let mut pod = wanting([constraint]);
        pod.node_selector.insert("pool".into(), "x".into());
        assert_eq!(taking(&mut run, pod), expected, "{what}");
    }
}

#[test]
fn who_is_counted() {
    // A pod on its way out, one of another namespace and one of another app are not.
    let leaving = Pod { terminating: true, ..labelled_pod("leaving") };
    let foreign = Pod { namespace: "other".into(), ..labelled_pod("foreign") };
    let mut run = cluster([(zoned("a", "1"), 0), (zoned("b", "2"), 0)]);
    run.pods([leaving, foreign, pod("other")].map(|p| bound(p, "a", None)));
    assert_eq!(taking(&mut run, wanting([spread(ZONE, 1)])), "a b");
    // With a pod that does not match its own selector the skew is not counted up.
    let mut run = cluster([(zoned("a", "1"), 1), (zoned("b", "2"), 0)]);
    let stranger = Pod { labels: [].into(), ..wanting([spread(ZONE, 1)]) };
    assert_eq!(taking(&mut run, stranger), "a b");
    // One that restricts nothing counts nobody but the pod itself.
    let mut run = cluster([(zoned("a", "1"), 5), (zoned("b", "2"), 0)]);
    let all = TopologySpreadConstraint { selector: Some(LabelSelector::default()), ..spread(ZONE, 1) };
    assert_eq!(taking(&mut run, wanting([all])), "a b");
    // A selector that is not there counts nobody.
    let mut run = cluster([(zoned("a", "1"), 5), (zoned("b", "2"), 0)]);
    let nobody = TopologySpreadConstraint { selector: None, ..spread(ZONE, 1) };
    assert_eq!(taking(&mut run, wanting([nobody])), "a b");
}

#[test]
fn labels_whose_values_must_agree() {
    let mut run = cluster([(zoned("a", "1"), 1), (zoned("b", "2"), 0)]);
    let mut pod = wanting([TopologySpreadConstraint { match_label_keys: vec!["rev".into()], ..spread(ZONE, 1) }]);
    pod.labels.insert("rev".into(), "2".into());
    assert_eq!(taking(&mut run, pod), "a b", "pods of another revision do not count");
}

#[test]
fn points_of_soft_constraints() {
    let scores = |run: &mut Run, pod: Pod, nodes: &[&str]| -> Vec<Option<i64>> {
        taking(run, pod);
        nodes.iter().map(|node| run.score("new", node, "PodTopologySpread")).collect()
    };
    // Two zones: 2 pods and 1 pod, weighed by ln(4): 3 and 1 after rounding; (3 + 1 - s) / 3.
    let mut run = cluster([(zoned("a", "1"), 2), (zoned("b", "2"), 1)]);
    assert_eq!(scores(&mut run, wanting([soft(ZONE, 1)]), &["a", "b"]), [Some(33), Some(100)]);
    // The skew is added to all: 2 * 1.386 + 4 = 7, 1.386 + 4 = 5.
    let mut run = cluster([(zoned("a", "1"), 2), (zoned("b", "2"), 1)]);
    assert_eq!(scores(&mut run, wanting([soft(ZONE, 5)]), &["a", "b"]), [Some(71), Some(100)]);
    // A node without the label gets nothing.
    let mut run = cluster([(zoned("a", "1"), 0), (node("bare"), 0)]);
    assert_eq!(scores(&mut run, wanting([soft(ZONE, 1)]), &["a", "bare"]), [Some(100), Some(0)]);
}

#[test]
fn the_system_spreads_pods_of_a_service() {
    let service = |selector: LabelSelector| {
        let name = WorkloadName { kind: WorkloadKind::Service, namespace: "default".into(), name: "web".into() };
        Event::WorkloadApplied(Box::new(Workload { name, selector: Some(selector) }))
    };
    let scored = |pod: Pod, with_service: bool| {
        let mut run = cluster([(zoned("a", "1"), 3), (zoned("b", "2"), 0)]);
        if with_service {
            run.engine.handle(run.now, service(app()));
        }
        taking(&mut run, pod);
        ["a", "b"].map(|node| run.score("new", node, "PodTopologySpread"))
    };
    // Hosts (skew 3) and zones (skew 5): 3 * ln 4 twice and 6, or 6 alone.
    assert_eq!(scored(labelled_pod("new"), true), [Some(42), Some(100)]);
    assert_eq!(scored(labelled_pod("new"), false), [None, None], "nothing selects it");
    // Pods that ask for a GPU are packed.
    let gpu = asking(common::gpu_pod("new", common::whole(1)), "cpu", Quantity::units(1));
    let mut run = Run::policy(Policy::Spread);
    let nodes = ["a", "b"].map(|n| labelled(common::gpu_node(n, 2), HOST, n));
    run.nodes(nodes);
    run.engine.handle(run.now, service(app()));
    let mut gpu = gpu;
    gpu.labels.insert("app".into(), "a".into());
    taking(&mut run, gpu);
    assert_eq!(run.score("new", "a", "PodTopologySpread"), None);
}

#[test]
fn a_parked_pod_hears_of_what_happens_elsewhere() {
    let mut run = cluster([(zoned("a", "1"), 1), (zoned("b", "2"), 0)]);
    // b has no room at all; that it is the emptiest keeps the pod from a.
    let full = labelled(labelled(common::sized("b", 0, 0), HOST, "b"), ZONE, "2");
    run.nodes([full]);
    let waiting = asking(wanting([spread(ZONE, 1)]), "cpu", Quantity::units(1));
    assert_eq!(run.place(waiting), None);
    assert!(
        run.message("new").contains("1 Insufficient cpu, 1 node(s) didn't match pod topology"),
        "{}",
        run.message("new")
    );
    // The pod on a leaves: a is as empty as b.
    run.delete("a-0").settle();
    assert_eq!(run.node_of("new").as_deref(), Some("a"));
    // And the deletion of the emptiest domain lets the next one in.
    let mut next = asking(wanting([spread(ZONE, 1)]), "cpu", Quantity::units(1));
    (next.uid, next.name) = ("next".into(), "next".into());
    assert_eq!(run.place(next), None);
    run.engine.handle(run.now, Event::NodeDeleted { name: "b".into() });
    run.settle();
    assert_eq!(run.node_of("next").as_deref(), Some("a"));
}
