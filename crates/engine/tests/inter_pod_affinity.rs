//! `InterPodAffinity`, against the rules and texts of kube-scheduler 1.37.

mod common;

use common::{Run, bound, labelled, node, pod};
use gpu_scheduler_engine::model::{LabelSelector, Node, Pod, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm};
use gpu_scheduler_engine::{Event, NodeVerdict, Policy};

const HOST: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";
const AFFINITY: &str = "node(s) didn't match pod affinity rules";
const ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
const EXISTING: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

fn selector(key: &str, value: &str) -> LabelSelector {
    LabelSelector::of_labels([(&key.to_owned(), &value.to_owned())])
}

fn term(app: &str, key: &str) -> PodAffinityTerm {
    PodAffinityTerm { selector: Some(selector("app", app)), topology_key: key.into(), ..Default::default() }
}

fn required(terms: impl IntoIterator<Item = PodAffinityTerm>) -> PodAffinity {
    PodAffinity { required: terms.into_iter().collect(), preferred: Vec::new() }
}

fn preferred(terms: impl IntoIterator<Item = (i32, PodAffinityTerm)>) -> PodAffinity {
    let weighted = |(weight, term)| WeightedPodAffinityTerm { weight, term };
    PodAffinity { required: Vec::new(), preferred: terms.into_iter().map(weighted).collect() }
}

fn zoned(name: &str, zone: &str) -> Node {
    labelled(labelled(node(name), HOST, name), ZONE, zone)
}

fn of_app(name: &str, app: &str) -> Pod {
    let mut pod = pod(name);
    pod.labels.insert("app".into(), app.into());
    pod
}

/// Nodes a and b in zone 1, c in zone 2, one without labels, and these pods on them.
fn cluster(pods: impl IntoIterator<Item = (Pod, &'static str)>) -> Run {
    let mut run = Run::policy(Policy::Spread);
    run.nodes([zoned("a", "1"), zoned("b", "1"), zoned("c", "2"), node("bare")]);
    run.pods(pods.into_iter().map(|(pod, node)| bound(pod, node, None)));
    run
}

/// What each node says to a pod: `ok`, or the reason, `!` before it if that is permanent.
fn verdicts(run: &mut Run, pod: Pod) -> [String; 4] {
    let uid = pod.uid.to_string();
    run.pods([Pod { gates: vec!["look".into()], ..pod }]).settle();
    let symbols = run.engine.state().symbols();
    let verdict = |verdict: NodeVerdict| match verdict {
        NodeVerdict::Candidate { .. } => "ok".to_owned(),
        NodeVerdict::Rejected(r) => {
            format!("{}{}", if r.permanent { "!" } else { "" }, r.reasons[0].text(symbols))
        }
    };
    let nodes: Vec<String> = run.explain(&uid).nodes.into_iter().map(|n| verdict(n.verdict)).collect();
    nodes.try_into().expect("four nodes")
}

#[test]
fn affinity() {
    let no = format!("!{AFFINITY}");
    let (ok, no) = ("ok", no.as_str());
    let new = |affinity| Pod { pod_affinity: affinity, ..of_app("new", "new") };
    let existing = || [(of_app("x", "x"), "a"), (of_app("y", "y"), "c")];
    for (affinity, expected, what) in [
        (required([term("x", ZONE)]), [ok, ok, no, no], "the whole zone of a"),
        (required([term("x", HOST)]), [ok, no, no, no], "a itself"),
        (required([term("x", ZONE), term("y", ZONE)]), [no, no, no, no], "no single pod matches both"),
        (required([term("nobody", ZONE)]), [no, no, no, no], "nobody, and it does not match itself"),
        (required([term("new", ZONE)]), [ok, ok, ok, no], "the first of its kind goes where the label is"),
        (required([term("new", ZONE), term("x", ZONE)]), [no, no, no, no], "first of its kind, but not of the other"),
        (required([PodAffinityTerm { selector: None, ..term("x", ZONE) }]), [no, no, no, no], "no selector"),
    ] {
        assert_eq!(verdicts(&mut cluster(existing()), new(affinity)), expected, "{what}");
    }
    // The second of its kind has to join the first.
    let mut run = cluster([(of_app("first", "new"), "c")]);
    assert_eq!(verdicts(&mut run, new(required([term("new", ZONE)]))), [no, no, ok, no]);
}

#[test]
fn anti_affinity() {
    let (ok, no) = ("ok", ANTI_AFFINITY);
    let new = |anti| Pod { pod_anti_affinity: anti, ..of_app("new", "new") };
    let existing = || [(of_app("x", "x"), "a"), (Pod { terminating: true, ..of_app("y", "y") }, "c")];
    for (anti, expected, what) in [
        (required([term("x", ZONE)]), [no, no, ok, ok], "the zone of a; where the label is missing it may go"),
        (required([term("x", HOST)]), [no, ok, ok, ok], "a itself"),
        (required([term("x", HOST), term("y", ZONE)]), [no, ok, no, ok], "each term by itself; who is leaving counts"),
        (required([term("new", ZONE)]), [ok, ok, ok, ok], "itself is no other"),
    ] {
        assert_eq!(verdicts(&mut cluster(existing()), new(anti)), expected, "{what}");
    }
}

#[test]
fn what_those_that_are_there_want() {
    let lonely = |app| Pod { pod_anti_affinity: required([term(app, ZONE)]), ..of_app("lonely", "lonely") };
    let mut run = cluster([(lonely("new"), "a")]);
    assert_eq!(verdicts(&mut run, of_app("new", "new")), [EXISTING, EXISTING, "ok", "ok"]);
    let mut run = cluster([(lonely("other"), "a")]);
    assert_eq!(verdicts(&mut run, of_app("new", "new")), ["ok"; 4]);
    // Its own namespace alone, unless it says otherwise.
    let elsewhere = Pod { namespace: "elsewhere".into(), ..of_app("new", "new") };
    let mut run = cluster([(lonely("new"), "a")]);
    assert_eq!(verdicts(&mut run, elsewhere), ["ok"; 4]);
}

#[test]
fn namespaces() {
    let x = || [(Pod { namespace: "team-a".into(), ..of_app("x", "x") }, "a")];
    let with = |namespaces: &[&str], selector: Option<LabelSelector>| {
        let namespaces = namespaces.iter().map(|n| (*n).to_owned()).collect();
        let term = PodAffinityTerm { namespaces, namespace_selector: selector, ..term("x", HOST) };
        Pod { pod_affinity: required([term]), ..of_app("new", "new") }
    };
    for (pod, fits, what) in [
        (with(&[], None), false, "its own, which is another one"),
        (with(&["team-a"], None), true, "named"),
        (with(&[], Some(LabelSelector::default())), true, "all"),
        (with(&[], Some(selector("team", "a"))), true, "by label"),
        (with(&[], Some(selector("team", "b"))), false, "by a label that it has not"),
        (with(&["team-b"], Some(selector("team", "a"))), true, "either"),
    ] {
        let mut run = cluster(x());
        let labels = [("team".to_owned(), "a".to_owned())].into();
        run.engine.handle(run.now, Event::NamespaceApplied { name: "team-a".into(), labels });
        assert_eq!(verdicts(&mut run, pod)[0] == "ok", fits, "{what}");
    }
}

#[test]
fn points() {
    let scores = |pods: Vec<(Pod, &'static str)>, pod: Pod| {
        let mut run = cluster(pods);
        verdicts(&mut run, pod);
        ["a", "b", "c", "bare"].map(|node| run.score("new", node, "InterPodAffinity"))
    };
    let new = || of_app("new", "new");
    // Wanted in the zone of a, less wanted beside y: 80, 80, -20, 0.
    let pod = Pod {
        pod_affinity: preferred([(80, term("x", ZONE))]),
        pod_anti_affinity: preferred([(20, term("y", HOST))]),
        ..new()
    };
    let existing = vec![(of_app("x", "x"), "a"), (of_app("y", "y"), "c")];
    assert_eq!(scores(existing, pod), [Some(100), Some(100), Some(0), Some(20)]);
    // What those that are there want of it counts as well; a required affinity counts one.
    let fond = Pod { pod_affinity: required([term("new", HOST)]), ..of_app("fond", "x") };
    let shy = Pod { pod_anti_affinity: preferred([(3, term("new", HOST))]), ..of_app("shy", "x") };
    assert_eq!(scores(vec![(fond, "a"), (shy, "b")], new()), [Some(100), Some(0), Some(75), Some(75)]);
    assert_eq!(scores(vec![(of_app("x", "x"), "a")], new()), [None; 4], "nobody wants anything");
}

#[test]
fn a_parked_pod_hears_of_what_happens_elsewhere() {
    // It waits for company, and has it as soon as that comes, wherever it is bound.
    let mut run = cluster([]);
    let shy = Pod { pod_affinity: required([term("x", ZONE)]), ..of_app("new", "new") };
    assert_eq!(run.place(shy), None);
    run.pods([bound(of_app("x", "x"), "c", None)]).settle();
    assert_eq!(run.node_of("new").as_deref(), Some("c"));
    // It waits for all zones to be left by those that want to be alone; a label is enough too.
    let lonely = |name: &str| Pod { pod_anti_affinity: required([term("late", ZONE)]), ..of_app(name, "lonely") };
    let mut run = cluster([(lonely("l1"), "a"), (lonely("l2"), "c")]);
    run.engine.handle(run.now, Event::NodeDeleted { name: "bare".into() });
    assert_eq!(run.place(of_app("late", "late")), None);
    run.delete("l1").settle();
    assert_eq!(run.node_of("late").as_deref(), Some("a"));
    let mut run = cluster([(lonely("l1"), "a"), (lonely("l2"), "c")]);
    run.engine.handle(run.now, Event::NodeDeleted { name: "bare".into() });
    assert_eq!(run.place(of_app("late", "late")), None);
    run.nodes([labelled(node("b"), HOST, "b")]).settle();
    assert_eq!(run.node_of("late").as_deref(), Some("b"), "b is in no zone any more");
}
