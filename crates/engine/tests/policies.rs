//! What each policy chooses on small clusters, with the numbers worked out by hand.
//!
//! Published policies score 0 to 100, the highest wins; as a cost a point is minus 10 milli-GPU, that is
//! minus 10,000 of the cost's thousandths.

mod common;

use common::{CARD, Run, asking, bound, cpu_pod, gpu_node, gpu_pod, record, report, share, sized, whole};
use gpu_scheduler_engine::model::{
    Allocation, GpuShape, GrantKind, MilliGpu, ModelPattern, Node, Percent, Pod, Quantity, ShareMemory,
};
use gpu_scheduler_engine::plugins::fragment;
use gpu_scheduler_engine::{Config, DeclaredPod, PodPhase, Policy};

/// A pod that runs on a card of `node` already: all of it, or this much memory.
fn running(name: &str, node: &str, at: u32, memory: u64) -> Pod {
    let uuid = format!("GPU-{node}-{at}");
    let (kind, demand) = if memory == CARD { (GrantKind::Whole, whole(1)) } else { (GrantKind::Share, share(memory)) };
    bound(gpu_pod(name, demand), node, Some(record(kind, &[(&uuid, at, memory)])))
}

/// Checks what the policy's plugin says of each node, in points, and where the pod goes.
fn expect(mut run: Run, wanted: Pod, plugin: &str, points: &[(&str, Option<i64>)], winner: &str) {
    let uid = wanted.uid.to_string();
    run.pods([wanted]);
    for (node, points) in points {
        assert_eq!(run.score(&uid, node, plugin), points.map(|p| -10_000 * p), "{plugin} on {node}");
    }
    run.settle();
    assert_eq!(run.node_of(&uid).as_deref(), Some(winner), "{plugin}");
}

// ---- fragmentation gradient descent ----------------------------------------------------------------

/// Three halves to one whole card, none of them short of CPU.
fn mix() -> Vec<DeclaredPod> {
    let pod = |gpu| DeclaredPod { cpu: 1000, gpu, models: ModelPattern::default() };
    let half = GpuShape::Share { memory: ShareMemory::Fraction(MilliGpu(500)), compute: Percent(0), count: 1 };
    vec![pod(half), pod(GpuShape::Cards(1)), pod(half), pod(half)]
}

fn fgd() -> Run {
    Run::new(Config { mix: Some(mix()), ..Config::with_policy(Policy::Fgd) })
}

fn fragment_of(run: &Run, node: &str) -> i128 {
    let state = run.engine.state();
    fragment(state.mix(), state.models(), state.node_named(node).expect("made here").headroom())
}

/// F is kept times the number of pods in the mix, here 4.
#[test]
fn the_fragment_of_a_node() {
    for (what, held, cpu, expected) in [
        ("empty: everything is usable", vec![], 64_000, 0),
        // 300 and 1000 idle. A half loses 300 (3 times), a whole card loses 300: 3 * 300 + 300.
        ("one card is too small for all", vec![7000], 64_000, 1200),
        // 500 and 1000 idle. Halves use both; a whole card loses 500.
        ("one card is too small for some", vec![5000], 64_000, 500),
        // 300 and 500 idle. A half loses 300; a whole card fits nowhere and loses all 800: 900 + 800.
        ("no whole card is left", vec![7000, 5000], 64_000, 1700),
        // 300 and 400 idle: nobody fits, so all 700 is lost to all 4.
        ("nothing fits", vec![7000, 6000], 64_000, 2800),
        // No CPU: all 2000 is lost to all 4.
        ("no CPU", vec![], 999, 8000),
        ("just enough CPU", vec![], 1000, 0),
    ] {
        let mut run = fgd();
        run.nodes([Node { name: "n1".into(), ..asked_cpu(gpu_node("n1", 2), cpu) }]);
        let held = (0_u32..).zip(held);
        run.pods(held.map(|(at, memory)| running(&format!("old{at}"), "n1", at, memory)));
        assert_eq!(fragment_of(&run, "n1"), expected, "{what}");
    }
}

fn asked_cpu(mut node: Node, milli: i64) -> Node {
    node.allocatable.insert("cpu".into(), Quantity::millis(milli));
    node
}

/// A half onto n1 (two free cards) or n2 (a half-free card and a free one):
/// - n1: F goes from 0 to 500/4, by the card that a whole pod loses: sigmoid(-0.125) = 0.4687, so 46;
/// - n2, first card: F goes from 500/4 to 0: sigmoid(0.125) = 0.5312, so 53;
/// - n2, second card: F goes from 500/4 to 1000/4: 46 again. The first card speaks for the node.
#[test]
fn fgd_fills_the_card_that_is_broken_already() {
    let mut run = fgd();
    run.nodes([gpu_node("n1", 2), gpu_node("n2", 2)]).pods([running("old", "n2", 0, 5000)]);
    expect(run, gpu_pod("a", share(5000)), "FGD", &[("n1", Some(46)), ("n2", Some(53))], "n2");
    let mut run = fgd();
    run.nodes([gpu_node("n2", 2)]).pods([running("old", "n2", 1, 5000)]);
    run.place(gpu_pod("a", share(5000)));
    assert_eq!(run.devices_of("a"), ["GPU-n2-1"], "the card is the policy's choice too, not the first one");
}

/// A card held whole has no fragment; a pod without GPU costs what its CPU makes useless.
#[test]
fn fgd_keeps_cpu_beside_free_cards() {
    let mut run = fgd();
    // n1 is left with 500m: its 2000 idle milli-GPU are lost to all: F 0 to 2000, sigmoid(-2) = 0.119, so 11.
    // n2 has no card: nothing to lose, sigmoid(0) = 50.
    run.nodes([asked_cpu(gpu_node("n1", 2), 1500), sized("n2", 4000, 8000)]);
    expect(run, cpu_pod("a", 1000), "FGD", &[("n1", Some(11)), ("n2", Some(50))], "n2");
}

/// The mix that is not declared is learnt: what a shape loses counts once somebody has asked for it.
#[test]
fn the_mix_is_learnt_from_arrivals() {
    let mut run = Run::policy(Policy::Fgd);
    run.nodes([gpu_node("n1", 2)]);
    assert_eq!((run.engine.state().mix().weight(), fragment_of(&run, "n1")), (0, 0));
    run.pods([asking(gpu_pod("a", whole(1)), "cpu", Quantity::units(1))]);
    assert_eq!(run.engine.state().mix().weight(), 1);
    run.pods([running("b", "n1", 0, 5000)]);
    assert_eq!(fragment_of(&run, "n1"), 500, "half a card is lost to whole cards");
    run.settle();
    let seen = run.engine.state().mix().version();
    run.pods([asking(gpu_pod("a", whole(1)), "cpu", Quantity::units(1))]);
    assert_eq!(run.engine.state().mix().version(), seen, "an update of a pod is no arrival");
}

// ---- the simpler published policies ----------------------------------------------------------------

/// The largest node has 64 CPUs and 4 cards; the pod asks for 16 CPUs and a card.
/// n1 (64 CPUs, 2 cards) is left with 48/64 and 1/4: 100 * (1 - 0.375 - 0.125) = 50.
/// n2 (64 CPUs, 4 cards) is left with 48/64 and 3/4: 100 * (1 - 0.375 - 0.375) = 25.
#[test]
fn best_fit_leaves_the_fullest_node() {
    let mut run = Run::policy(Policy::BestFit);
    run.nodes([gpu_node("n2", 4), gpu_node("n1", 2)]);
    let wanted = asking(gpu_pod("a", whole(1)), "cpu", Quantity::units(16));
    expect(run, wanted, "BestFit", &[("n1", Some(50)), ("n2", Some(25))], "n1");
}

/// When the largest node goes, all are measured anew, though they have not changed themselves.
#[test]
fn best_fit_measures_by_the_largest_node_there_is() {
    let mut run = Run::policy(Policy::BestFit);
    run.nodes([gpu_node("n1", 2), gpu_node("n2", 8)]);
    run.place(asking(gpu_pod("warm", whole(2)), "cpu", Quantity::units(16)));
    run.delete("warm");
    run.engine.handle(run.now, gpu_scheduler_engine::Event::NodeDeleted { name: "n2".into() });
    run.nodes([gpu_node("n3", 1)]);
    // The largest has 2 cards now. n1 is left with 48/64 and 1/2: 100 * (1 - 0.375 - 0.25) = 37;
    // n3 with 48/64 and 0: 100 * (1 - 0.375) = 62.
    let wanted = asking(gpu_pod("a", whole(1)), "cpu", Quantity::units(16));
    expect(run, wanted, "BestFit", &[("n1", Some(37)), ("n3", Some(62))], "n3");
}

/// Used cards, then free cards of used nodes, then free nodes.
/// - n1 is free, with 2 cards: max(33 - 2, 2) = 31.
/// - n2 has one card in use and the pod opens the other: max(50 - 1, 33) = 49.
/// - n3 has a card that idles by half: max(100 - (500 * 100 / 1000) / 10, 50) = 95.
#[test]
fn packing_has_three_cases() {
    let mut run = Run::policy(Policy::Packing);
    run.nodes(["n1", "n2", "n3"].map(|n| gpu_node(n, 2)));
    run.pods([running("full", "n2", 0, CARD), running("half", "n3", 0, 5000)]);
    let points = [("n1", Some(31)), ("n2", Some(49)), ("n3", Some(95))];
    expect(run, gpu_pod("a", share(2500)), "GpuPacking", &points, "n3");
}

/// The largest node has 2 cards. A share onto
/// - n1, where nothing runs: 25 + 25 * 0 / 2000 = 25;
/// - n2, where shares run (1500 left): 75 + 25 * 500 / 2000 = 81;
/// - n3, where a share and a whole card run (500 left): 50 + 25 * 1500 / 2000 = 68;
/// - n4, where a whole card runs (1000 left): 0 + 25 * 1000 / 2000 = 12.
#[test]
fn clustering_puts_like_with_like() {
    let furnished = || {
        let mut run = Run::policy(Policy::Clustering);
        run.nodes(["n1", "n2", "n3", "n4"].map(|n| gpu_node(n, 2)));
        run.pods([running("a2", "n2", 0, 5000), running("a3", "n3", 0, 5000), running("b3", "n3", 1, CARD)]);
        run.pods([running("a4", "n4", 0, CARD)]);
        run
    };
    let points = [("n1", Some(25)), ("n2", Some(81)), ("n3", Some(68)), ("n4", Some(12))];
    expect(furnished(), gpu_pod("a", share(2500)), "GpuClustering", &points, "n2");
    // One whole card: n4 has only such (75 + 12), n2 only others (0 + 6), n3 has none free.
    let points = [("n1", Some(25)), ("n2", Some(6)), ("n3", None), ("n4", Some(87))];
    expect(furnished(), gpu_pod("a", whole(1)), "GpuClustering", &points, "n4");
    // Two at once are another kind than one.
    let points = [("n1", Some(25)), ("n2", None), ("n3", None), ("n4", None)];
    expect(furnished(), gpu_pod("a", whole(2)), "GpuClustering", &points, "n1");
}

/// n1 (64 CPUs, 4 cards): (1/4 * 1 + 1/4 * 1) / 2 = 1/4, so 75. n2 (32 CPUs, 2 cards): 1/8, so 87.
#[test]
fn dot_product_saves_the_large_node() {
    let mut run = Run::policy(Policy::DotProduct);
    run.nodes([gpu_node("n1", 4), asked_cpu(gpu_node("n2", 2), 32_000)]);
    let wanted = asking(gpu_pod("a", whole(1)), "cpu", Quantity::units(16));
    expect(run, wanted, "DotProduct", &[("n1", Some(75)), ("n2", Some(87))], "n2");
}

#[test]
fn random_is_a_function_of_the_seed() {
    let places = |seed| {
        let mut run = Run::policy(Policy::Random { seed });
        run.nodes(["n1", "n2", "n3", "n4"].map(|n| gpu_node(n, 8)));
        (0..24).map(|i| run.place(gpu_pod(&format!("p{i}"), whole(1))).expect("room for 32")).collect::<Vec<_>>()
    };
    assert_eq!(places(7), places(7));
    assert_ne!(places(7), places(8));
    for node in ["n1", "n2", "n3", "n4"] {
        assert!(places(7).iter().any(|n| n == node), "{node} never drawn in 24");
    }
}

// ---- simple fragmentation --------------------------------------------------------------------------

/// A share of 2500 of 10,000, by the memory use after it:
/// - n1, free: 0.25, so 100 * (1 - 2 * 0.25) = 50;
/// - n2, 2500 used: 0.5, so 0;
/// - n3, 5000 used: 0.75, so 50;
/// - n4, 7500 used: 1, so 100.
#[test]
fn simple_fragmentation_likes_full_and_empty() {
    let mut run = Run::policy(Policy::SimpleFragmentation);
    run.nodes(["n1", "n2", "n3", "n4"].map(|n| gpu_node(n, 1)));
    run.pods([running("a2", "n2", 0, 2500), running("a3", "n3", 0, 5000), running("a4", "n4", 0, 7500)]);
    let points = [("n1", Some(50)), ("n2", Some(0)), ("n3", Some(50)), ("n4", Some(100))];
    expect(run, gpu_pod("a", share(2500)), "SimpleFragmentation", &points, "n4");
}

/// A card that becomes full is better than one that is opened: on the card, 100 against 50. The sum over
/// the node is the same either way, so it must not be what chooses the card.
#[test]
fn simple_fragmentation_fills_a_card() {
    let mut run = Run::policy(Policy::SimpleFragmentation);
    run.nodes([gpu_node("n1", 2)]).pods([running("old", "n1", 1, 7500)]);
    run.place(gpu_pod("a", share(2500)));
    assert_eq!(run.devices_of("a"), ["GPU-n1-1"]);
}

#[test]
fn measured_use_counts() {
    let mut run = Run::policy(Policy::SimpleFragmentation);
    let (n1, n2) = (gpu_node("n1", 1), gpu_node("n2", 1));
    run.nodes([n1, n2.clone()]).report(report(&n2, 1_000_000, 7500));
    // n1: 0.25, so 50. n2 uses 7500 already, granted or not: 1, so 100.
    let points = [("n1", Some(50)), ("n2", Some(100))];
    expect(run, gpu_pod("a", share(2500)), "SimpleFragmentation", &points, "n2");
}

#[test]
fn a_node_that_reports_no_memory_is_in_the_middle() {
    let mut run = Run::policy(Policy::SimpleFragmentation);
    let mut silent = gpu_node("n1", 1);
    silent.cards[0].memory = None;
    run.nodes([silent, gpu_node("n2", 1)]);
    // n2 is full after a whole card: 100.
    expect(run, gpu_pod("a", whole(1)), "SimpleFragmentation", &[("n1", Some(50)), ("n2", Some(100))], "n2");
}

// ---- spread ----------------------------------------------------------------------------------------

#[test]
fn spread_takes_whole_cards_for_shares_and_the_emptiest_node() {
    let mut run = Run::policy(Policy::Spread);
    run.nodes([gpu_node("n1", 1), gpu_node("n2", 1)]);
    let wanted = |name: &str| asking(gpu_pod(name, share(1000)), "cpu", Quantity::units(8));
    assert_eq!(run.place(wanted("a")).as_deref(), Some("n1"));
    assert_eq!(run.place(wanted("b")).as_deref(), Some("n2"), "n1 is fuller");
    assert_eq!(run.place(wanted("c")), None, "both cards are taken whole");
    let message = run.message("c");
    assert!(message.starts_with("0/2 nodes are available: 2 node(s) had too few free GPUs."), "{message}");
    let PodPhase::Placed { allocation, .. } = run.explain("a").phase else { panic!("it is placed") };
    let Allocation { containers } = allocation;
    assert_eq!((containers[0].kind, containers[0].devices[0].memory.0), (Some(GrantKind::Whole), CARD));
}

// ---- what all have in common -----------------------------------------------------------------------

/// A preference of a pod's own weighs against any policy in the same currency.
#[test]
fn every_policy_hears_preferences() {
    use gpu_scheduler_engine::model::{NodeSelectorTerm, Operator, PreferredTerm, Requirement};
    let zone = Requirement { key: "zone".into(), operator: Operator::In, values: vec!["b".into()] };
    let term = NodeSelectorTerm { expressions: vec![zone], fields: Vec::new() };
    for policy in Policy::ALL.into_iter().filter(|p| !matches!(p, Policy::Random { .. })) {
        let mut run = Run::policy(policy);
        run.nodes([gpu_node("n1", 2), common::labelled(gpu_node("n2", 2), "zone", "b")]);
        let preferred_affinity = vec![PreferredTerm { weight: 1, term: term.clone() }];
        let wanted = Pod { preferred_affinity, ..gpu_pod("a", share(1000)) };
        assert_eq!(run.place(wanted).as_deref(), Some("n2"), "{policy}");
    }
}
