//! Kubernetes' plugins, against the rules and texts of kube-scheduler 1.37.

mod common;

use common::{Run, asking, bound, cpu_pod, labelled, node, pod, sized, tainted};
use gpu_scheduler_engine::Policy;
use gpu_scheduler_engine::model::{
    Container, ContainerKind, Effect, HostPort, Node, NodeSelector, NodeSelectorTerm, Operator, Pod, PreferredTerm,
    Quantity, Requirement, Toleration, TolerationOperator,
};

const AFFINITY: &str = "node(s) didn't match Pod's node affinity/selector";
const TAINT: &str = "node(s) had untolerated taint(s)";
const PORTS: &str = "node(s) didn't have free ports for the requested pod ports";

/// One pod against nodes; what becomes of it.
fn run(nodes: impl IntoIterator<Item = Node>, pod: Pod) -> Run {
    let mut run = Run::policy(Policy::Spread);
    run.nodes(nodes).pods([pod]).settle();
    run
}

/// The pod's message up to the reasons' end: what follows is our own ("Nearest: …").
fn sentence(run: &Run, uid: &str) -> String {
    let message = run.message(uid);
    message.split(" Nearest:").next().unwrap_or_default().to_owned()
}

/// Checks that one node refuses the pod for this reason (`None`: takes it), permanently or not.
fn expect(node: Node, pod: Pod, reason: Option<&str>, permanent: bool, what: &str) {
    let (name, uid) = (node.name.clone(), pod.uid.to_string());
    let run = run([node], pod);
    match reason {
        None => assert_eq!(run.node_of(&uid), Some(name), "{what}: {}", run.message(&uid)),
        Some(reason) => {
            assert_eq!(sentence(&run, &uid), format!("0/1 nodes are available: 1 {reason}."), "{what}");
            assert_eq!(run.permanent(&uid, &name), Some(permanent), "{what}");
        }
    }
}

// ---- messages --------------------------------------------------------------------------------------

#[test]
fn the_message_counts_reasons_and_sorts_them_as_strings() {
    let mut nodes: Vec<Node> = (0..2).map(|i| tainted(node(&format!("t{i}")), "a", "", Effect::NoSchedule)).collect();
    nodes.push(sized("small", 100, 64));
    let run = run(nodes, cpu_pod("a", 500));
    let expected = "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).";
    assert_eq!(sentence(&run, "a"), expected);
}

#[test]
fn numbers_sort_as_text() {
    // "10 node(s)…" comes before "2 Insufficient…", because '1' < '2'.
    let mut nodes: Vec<Node> = (0..10).map(|i| tainted(node(&format!("t{i}")), "a", "", Effect::NoExecute)).collect();
    nodes.extend([sized("s1", 100, 64), sized("s2", 100, 64)]);
    let run = run(nodes, cpu_pod("a", 500));
    assert_eq!(sentence(&run, "a"), format!("0/12 nodes are available: 10 {TAINT}, 2 Insufficient cpu."));
}

#[test]
fn no_node_at_all() {
    let run = run([], pod("a"));
    assert_eq!(run.message("a"), "no nodes available to schedule pods");
}

#[test]
fn a_message_is_written_once() {
    let mut run = run([sized("n1", 100, 64)], cpu_pod("a", 500));
    let first = run.message("a");
    run.nodes([labelled(sized("n1", 100, 64), "touched", "yes")]);
    assert!(run.rest().is_empty(), "nothing new to say");
    assert_eq!(run.message("a"), first);
}

// ---- NodeName, NodeUnschedulable -------------------------------------------------------------------

#[test]
fn node_name() {
    let named = |node: &str| Pod { required_node: Some(node.into()), ..pod("a") };
    let nodes = || [node("n1"), node("n2")];
    assert_eq!(run(nodes(), named("n2")).node_of("a").as_deref(), Some("n2"));
    let run = run(nodes(), named("n3"));
    assert_eq!(run.message("a"), "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeName].");
    assert_eq!(run.permanent("a", "n1"), Some(true));
}

#[test]
fn node_unschedulable() {
    let cordoned = || Node { unschedulable: true, ..node("n1") };
    let key = "node.kubernetes.io/unschedulable";
    let tolerating = |key: &str, operator, effect| {
        let toleration = Toleration { key: key.into(), operator, value: String::new(), effect };
        Pod { tolerations: vec![toleration], ..pod("a") }
    };
    let reason = Some("node(s) were unschedulable");
    expect(node("n1"), pod("a"), None, false, "not cordoned");
    expect(cordoned(), pod("a"), reason, true, "cordoned");
    for (toleration, fits) in [
        (tolerating(key, TolerationOperator::Exists, Some(Effect::NoSchedule)), true),
        (tolerating(key, TolerationOperator::Equal, None), true),
        (tolerating("", TolerationOperator::Exists, None), true),
        (tolerating(key, TolerationOperator::Exists, Some(Effect::NoExecute)), false),
        (tolerating("other", TolerationOperator::Exists, None), false),
    ] {
        let what = format!("{:?}", toleration.tolerations);
        expect(cordoned(), toleration, if fits { None } else { reason }, true, &what);
    }
}

// ---- TaintToleration -------------------------------------------------------------------------------

fn toleration(key: &str, operator: TolerationOperator, value: &str, effect: Option<Effect>) -> Toleration {
    Toleration { key: key.into(), operator, value: value.into(), effect }
}

#[test]
fn taints_and_tolerations() {
    use Effect::{NoExecute, NoSchedule, PreferNoSchedule};
    use TolerationOperator::{Equal, Exists};
    let taint = |effect| tainted(node("n1"), "gpu", "a100", effect);
    for (effect, tolerations, fits) in [
        (NoSchedule, vec![], false),
        (NoExecute, vec![], false),
        (PreferNoSchedule, vec![], true),
        (NoSchedule, vec![toleration("gpu", Equal, "a100", Some(NoSchedule))], true),
        (NoSchedule, vec![toleration("gpu", Equal, "t4", None)], false),
        (NoSchedule, vec![toleration("gpu", Equal, "", None)], false),
        (NoSchedule, vec![toleration("gpu", Exists, "", None)], true),
        (NoSchedule, vec![toleration("", Exists, "", None)], true),
        (NoSchedule, vec![toleration("cpu", Exists, "", None)], false),
        (NoExecute, vec![toleration("gpu", Exists, "", Some(NoSchedule))], false),
        (NoExecute, vec![toleration("cpu", Exists, "", None), toleration("gpu", Equal, "a100", None)], true),
    ] {
        let what = format!("{effect:?} {tolerations:?}");
        let pod = Pod { tolerations, ..pod("a") };
        expect(taint(effect), pod, if fits { None } else { Some(TAINT) }, true, &what);
    }
    let two = tainted(taint(NoSchedule), "zone", "", NoExecute);
    let pod = Pod { tolerations: vec![toleration("gpu", Exists, "", None)], ..pod("a") };
    expect(two, pod, Some(TAINT), true, "every hard taint has to be tolerated");
}

#[test]
fn untolerated_preferences_are_counted() {
    use Effect::{NoSchedule, PreferNoSchedule};
    use TolerationOperator::Exists;
    let soft = |n: u32| (0..n).fold(node("n1"), |node, i| tainted(node, &format!("k{i}"), "", PreferNoSchedule));
    for (tolerations, expected) in [
        (vec![], 3),
        (vec![toleration("k0", Exists, "", Some(PreferNoSchedule))], 2),
        (vec![toleration("k0", Exists, "", None)], 2),
        (vec![toleration("k0", Exists, "", Some(NoSchedule))], 3), // of another effect: not considered
        (vec![toleration("", Exists, "", None)], 0),
    ] {
        let what = format!("{tolerations:?}");
        let mut run = Run::policy(Policy::Spread);
        run.nodes([soft(3)]).pods([Pod { tolerations, ..pod("a") }]);
        assert_eq!(run.score("a", "n1", "TaintToleration"), Some(expected), "{what}");
    }
    // The node with fewer of them wins, all else being equal.
    let other = Node { name: "n2".into(), ..soft(1) };
    assert_eq!(run([soft(2), other], pod("a")).node_of("a").as_deref(), Some("n2"));
}

// ---- NodeAffinity ----------------------------------------------------------------------------------

fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement { key: key.into(), operator, values: values.iter().map(|v| (*v).to_owned()).collect() }
}
fn term(expressions: Vec<Requirement>) -> NodeSelectorTerm {
    NodeSelectorTerm { expressions, fields: Vec::new() }
}
fn named(operator: Operator, values: &[&str]) -> NodeSelectorTerm {
    NodeSelectorTerm { expressions: Vec::new(), fields: vec![requirement("metadata.name", operator, values)] }
}
fn wanting(terms: Vec<NodeSelectorTerm>) -> Pod {
    Pod { required_affinity: Some(NodeSelector { terms }), ..pod("a") }
}

#[test]
fn affinity_operators() {
    use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    for (key, operator, values, fits) in [
        ("zone", In, vec!["a", "b"], true),
        ("zone", In, vec!["b"], false),
        ("none", In, vec!["a"], false),
        ("zone", NotIn, vec!["b"], true),
        ("zone", NotIn, vec!["a"], false),
        ("none", NotIn, vec!["a"], true), // a missing label is not in any list
        ("zone", Exists, vec![], true),
        ("none", Exists, vec![], false),
        ("none", DoesNotExist, vec![], true),
        ("zone", DoesNotExist, vec![], false),
        ("gen", Gt, vec!["6"], true),
        ("gen", Gt, vec!["7"], false),
        ("gen", Lt, vec!["8"], true),
        ("gen", Lt, vec!["7"], false),
        ("none", Gt, vec!["1"], false),
        ("none", Lt, vec!["1"], false),
        ("zone", Gt, vec!["1"], false),     // the label is no number
        ("gen", Gt, vec!["six"], false),    // the bound is no number
        ("gen", Gt, vec!["5", "6"], false), // one bound, not two
        ("zone", In, vec![], false),        // malformed
    ] {
        let node = labelled(labelled(node("n1"), "zone", "a"), "gen", "7");
        let what = format!("{key} {operator:?} {values:?}");
        let pod = wanting(vec![term(vec![requirement(key, operator, &values)])]);
        expect(node, pod, if fits { None } else { Some(AFFINITY) }, true, &what);
    }
}

#[test]
fn affinity_terms() {
    use Operator::{Gt, In};
    let node = || labelled(labelled(node("n1"), "zone", "a"), "gen", "7");
    let zone = |v: &str| requirement("zone", In, &[v]);
    for (terms, fits, what) in [
        (vec![], false, "an empty list matches nothing"),
        (vec![term(vec![])], false, "an empty term matches nothing"),
        (vec![term(vec![]), term(vec![zone("a")])], true, "and takes nothing from the others"),
        (vec![term(vec![zone("b")]), term(vec![zone("a")])], true, "terms are alternatives"),
        (vec![term(vec![zone("a"), requirement("gen", In, &["8"])])], false, "requirements are not"),
        (vec![term(vec![requirement("gen", Gt, &["x"])]), term(vec![zone("a")])], true, "a malformed term is skipped"),
        (vec![term(vec![zone("a"), requirement("gen", Gt, &["x"])])], false, "as a whole"),
    ] {
        expect(node(), wanting(terms), if fits { None } else { Some(AFFINITY) }, true, what);
    }
    let selecting = |value: &str| Pod { node_selector: [("zone".into(), value.into())].into(), ..pod("a") };
    expect(node(), selecting("a"), None, false, "nodeSelector");
    expect(node(), selecting("b"), Some(AFFINITY), true, "nodeSelector");
    let both = Pod { node_selector: [("zone".into(), "b".into())].into(), ..wanting(vec![term(vec![zone("a")])]) };
    expect(node(), both, Some(AFFINITY), true, "nodeSelector and affinity both have to match");
}

#[test]
fn affinity_by_name() {
    use Operator::{In, NotIn};
    let nodes = || [node("n1"), node("n2"), node("n3")];
    assert_eq!(run(nodes(), wanting(vec![named(In, &["n2"])])).node_of("a").as_deref(), Some("n2"));
    assert_eq!(run(nodes(), wanting(vec![named(NotIn, &["n1"])])).node_of("a").as_deref(), Some("n2"));
    // The union over terms; then the labels of the term.
    let mut picky = named(In, &["n3"]);
    picky.expressions.push(requirement("zone", In, &["a"]));
    let run_picky = run(nodes(), wanting(vec![picky.clone(), named(In, &["n3"])]));
    assert_eq!(run_picky.node_of("a").as_deref(), Some("n3"));
    let run_one = run(nodes(), wanting(vec![picky]));
    let expected = format!("0/3 nodes are available: 1 {AFFINITY}, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].");
    assert_eq!(run_one.message("a"), expected);
    // A term that demands two names at once contradicts itself.
    let mut torn = named(In, &["n1"]);
    torn.fields.push(requirement("metadata.name", In, &["n2"]));
    let run_torn = run(nodes(), wanting(vec![torn.clone()]));
    assert_eq!(run_torn.message("a"), "0/3 nodes are available: pod affinity terms conflict.");
    assert_eq!(run(nodes(), wanting(vec![torn, named(In, &["n3"])])).node_of("a").as_deref(), Some("n3"));
    // Two names in one field, or another field, are no valid terms.
    for bad in [named(In, &["n1", "n2"]), named(Operator::Exists, &[])] {
        let run_bad = run(nodes(), wanting(vec![bad]));
        assert_eq!(run_bad.message("a"), format!("0/3 nodes are available: 3 {AFFINITY}."));
    }
}

#[test]
fn preferred_affinity_sums_weights() {
    let prefer =
        |weight, value: &str| PreferredTerm { weight, term: term(vec![requirement("zone", Operator::In, &[value])]) };
    let zones = || ["a", "b", "c"].map(|z| labelled(node(&format!("n-{z}")), "zone", z));
    let preferred_affinity = vec![
        prefer(30, "b"),
        prefer(40, "b"),
        prefer(60, "c"),
        prefer(0, "a"),
        PreferredTerm { weight: 100, term: term(vec![]) }, // empty: skipped
    ];
    let mut run = Run::policy(Policy::Spread);
    run.nodes(zones()).pods([Pod { preferred_affinity, ..pod("a") }]);
    for (zone, expected) in [("n-a", 0), ("n-b", 70), ("n-c", 60)] {
        assert_eq!(run.score("a", zone, "NodeAffinity"), Some(expected), "{zone}");
    }
    run.settle();
    assert_eq!(run.node_of("a").as_deref(), Some("n-b"));
}

// ---- NodePorts -------------------------------------------------------------------------------------

fn port(ip: &str, protocol: &str, port: u16) -> HostPort {
    HostPort { ip: ip.into(), protocol: protocol.into(), port }
}
fn opening(name: &str, kind: ContainerKind, ports: Vec<HostPort>) -> Pod {
    let mut pod = pod(name);
    pod.containers.insert(0, Container { ports, ..Container::new("opens", kind, [].into()) });
    pod
}

#[test]
fn host_ports() {
    use ContainerKind::{App, Init, Sidecar};
    let all = || port("", "", 80);
    for (used, wanted, conflict) in [
        ((App, all()), (App, all()), true),
        ((App, all()), (App, port("", "", 81)), false),
        ((App, all()), (App, port("0.0.0.0", "TCP", 80)), true),
        ((App, all()), (App, port("", "UDP", 80)), false),
        ((App, port("10.0.0.1", "", 80)), (App, port("10.0.0.2", "", 80)), false),
        ((App, port("10.0.0.1", "", 80)), (App, port("10.0.0.1", "", 80)), true),
        ((App, port("10.0.0.1", "", 80)), (App, all()), true),
        ((App, all()), (App, port("10.0.0.1", "TCP", 80)), true),
        ((Sidecar, all()), (App, all()), true),
        ((App, all()), (Sidecar, all()), true),
        ((Init, all()), (App, all()), false), // gone before it matters
        ((App, all()), (Init, all()), false),
    ] {
        let what = format!("{used:?} then {wanted:?}");
        let mut run = Run::policy(Policy::Spread);
        run.nodes([node("n1")]).pods([bound(opening("old", used.0, vec![used.1]), "n1", None)]);
        run.pods([opening("new", wanted.0, vec![wanted.1])]).settle();
        assert_eq!(run.node_of("new").is_none(), conflict, "{what}");
        if conflict {
            assert_eq!(sentence(&run, "new"), format!("0/1 nodes are available: 1 {PORTS}."), "{what}");
            assert_eq!(run.permanent("new", "n1"), Some(false), "{what}: preemption may help");
            run.delete("old").settle();
            assert_eq!(run.node_of("new").as_deref(), Some("n1"), "{what}: woken when the port is free");
        }
    }
}

// ---- NodeResourcesFit ------------------------------------------------------------------------------

#[test]
fn every_shortage_is_a_reason() {
    let node = || {
        let mut node = sized("n1", 1000, 1024);
        for (name, amount) in [("ephemeral-storage", 1 << 30), ("example.com/fpga", 2), ("pods", 2)] {
            node.allocatable.insert(name.into(), Quantity::units(amount));
        }
        node
    };
    let old = || bound(asking(cpu_pod("old", 600), "example.com/fpga", Quantity::units(1)), "n1", None);
    for (requests, reasons, permanent) in [
        (vec![("cpu", Quantity::millis(400))], vec![], false),
        (vec![("cpu", Quantity::millis(401))], vec!["Insufficient cpu"], false),
        (vec![("cpu", Quantity::millis(1001))], vec!["Insufficient cpu"], true),
        (vec![("cpu", Quantity::millis(0))], vec![], false),
        (vec![("memory", Quantity::units((1 << 30) + 1))], vec!["Insufficient memory"], true),
        (vec![("ephemeral-storage", Quantity::units(2 << 30))], vec!["Insufficient ephemeral-storage"], true),
        (vec![("example.com/fpga", Quantity::units(2))], vec!["Insufficient example.com/fpga"], false),
        (vec![("example.com/fpga", Quantity::units(3))], vec!["Insufficient example.com/fpga"], true),
        (vec![("example.com/none", Quantity::units(1))], vec!["Insufficient example.com/none"], true),
        (vec![("example.com/none", Quantity::units(0))], vec![], false),
        (
            vec![("cpu", Quantity::millis(500)), ("memory", Quantity::units(2 << 30))],
            vec!["Insufficient cpu", "Insufficient memory"],
            true, // one amount beyond the whole node is enough
        ),
    ] {
        let what = format!("{requests:?}");
        let wanted = requests.into_iter().fold(pod("a"), |pod, (name, amount)| asking(pod, name, amount));
        let mut run = Run::policy(Policy::Spread);
        run.nodes([node()]).pods([old(), wanted]).settle();
        if reasons.is_empty() {
            assert_eq!(run.node_of("a").as_deref(), Some("n1"), "{what}: {}", run.message("a"));
        } else {
            let counted: Vec<String> = reasons.iter().map(|r| format!("1 {r}")).collect();
            assert_eq!(sentence(&run, "a"), format!("0/1 nodes are available: {}.", counted.join(", ")), "{what}");
            assert_eq!(run.permanent("a", "n1"), Some(permanent), "{what}");
        }
    }
}

#[test]
fn a_full_node_takes_no_pod_and_an_overcommitted_one_takes_what_asks_nothing() {
    let mut full = node("n1");
    full.allocatable.insert("pods".into(), Quantity::units(1));
    let mut run = Run::policy(Policy::Spread);
    run.nodes([full]).pods([bound(pod("old"), "n1", None), pod("a")]).settle();
    assert_eq!(sentence(&run, "a"), "0/1 nodes are available: 1 Too many pods.");
    assert_eq!(run.permanent("a", "n1"), Some(false));

    let mut run = Run::policy(Policy::Spread);
    run.nodes([sized("n1", 1000, 64)]).pods([bound(cpu_pod("old", 2000), "n1", None), pod("a"), cpu_pod("b", 1)]);
    run.settle();
    assert_eq!(run.node_of("a").as_deref(), Some("n1"), "nothing asked, nothing missing");
    assert_eq!(sentence(&run, "b"), "0/1 nodes are available: 1 Insufficient cpu.");
    run.pods([bound(Pod { terminating: true, ..cpu_pod("old", 2000) }, "n1", None)]).settle();
    assert_eq!(run.node_of("b"), None, "a pod that is being deleted still holds what it has");
    run.delete("old").settle();
    assert_eq!(run.node_of("b").as_deref(), Some("n1"));
}

// ---- scores ----------------------------------------------------------------------------------------

/// `NodeResourcesFit` scores the mean of the free parts, pods that state nothing counting 100m and 200 MiB.
#[test]
fn least_allocated() {
    let mib = |n: i64| Quantity::units(n << 20);
    for (what, old, wanted, expected) in [
        // cpu (4000 - 1000) * 100 / 4000 = 75, memory (8000 - 2000) * 100 / 8000 = 75
        ("both", None, asking(cpu_pod("a", 1000), "memory", mib(2000)), 75),
        // cpu (4000 - 100) * 100 / 4000 = 97, memory (8000 - 200) * 100 / 8000 = 97
        ("defaults", None, pod("a"), 97),
        // explicit zeros stay zeros
        ("zeros", None, asking(cpu_pod("a", 0), "memory", mib(0)), 100),
        // cpu 75, memory by default 97: 172 / 2 = 86
        ("one default", None, cpu_pod("a", 1000), 86),
        // cpu (4000 - 1100) * 100 / 4000 = 72, memory (8000 - 400) * 100 / 8000 = 95: 167 / 2 = 83
        ("beside one that states nothing", Some(pod("old")), cpu_pod("a", 1000), 83),
    ] {
        let mut run = Run::policy(Policy::Spread);
        run.nodes([sized("n1", 4000, 8000)]);
        run.pods(old.map(|old| bound(old, "n1", None)));
        run.pods([wanted]);
        assert_eq!(run.score("a", "n1", "NodeResourcesFit"), Some(expected), "{what}");
    }
}

#[test]
fn least_allocated_over_capacity_and_without_memory() {
    let mut run = Run::policy(Policy::Spread);
    // By the defaults 11 pods count 1100m of 1000m: over capacity is 0; memory (4000 - 2200) * 100 / 4000 = 45.
    run.nodes([sized("n1", 1000, 4000)]);
    run.pods((0..10).map(|i| bound(pod(&format!("old{i}")), "n1", None))).pods([pod("a")]);
    assert_eq!(run.score("a", "n1", "NodeResourcesFit"), Some(22));
    let mut run = Run::policy(Policy::Spread);
    let mut no_memory = sized("n1", 1000, 4000);
    no_memory.allocatable.remove("memory");
    run.nodes([no_memory]).pods([cpu_pod("a", 250)]);
    assert_eq!(run.score("a", "n1", "NodeResourcesFit"), Some(75), "what the node lacks is left out");
}

/// `50 + (50 + b(with) - b(without)) / 2` with b = 100 * (1 - |f1 - f2| / 2).
#[test]
fn balanced_allocation() {
    let mib = |n: i64| Quantity::units(n << 20);
    let asks = |name: &str, cpu, memory| asking(cpu_pod(name, cpu), "memory", mib(memory));
    for (what, old, wanted, expected) in [
        // b 100 before and after: 50 + 50 / 2
        ("stays even", None, asks("a", 1000, 1000), 75),
        // f = 0.5 and 0: b = 75, so 50 + (50 + 75 - 100) / 2 = 62
        ("cpu alone", None, cpu_pod("a", 2000), 62),
        // before f = 0.5 and 0: b = 75; after 0.5 and 0.5: b = 100: 50 + (50 + 25) / 2 = 87
        ("evens out", Some(cpu_pod("old", 2000)), asks("a", 0, 2000), 87),
        // f = 1 and 0: b = 50: 50 + (50 + 50 - 100) / 2 = 50
        ("worst", None, cpu_pod("a", 4000), 50),
        ("asks nothing: not scored", None, pod("a"), 0),
    ] {
        let mut run = Run::policy(Policy::Spread);
        run.nodes([sized("n1", 4000, 4000)]);
        run.pods(old.map(|old| bound(old, "n1", None)));
        run.pods([wanted]);
        assert_eq!(run.score("a", "n1", "NodeResourcesBalancedAllocation"), Some(expected), "{what}");
    }
}
