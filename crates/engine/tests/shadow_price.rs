//! What shadow-price packing values: fillings of a card, CPU that idle cards need, nodes that others can use only.

mod common;

use common::{CARD, Run, asking, bound, fraction, gpu_node, gpu_pod, sized, whole, with_cards, with_compute};
use gpu_scheduler_engine::model::{CardSpec, Mib, MilliGpu, ModelPattern, Node, Percent, Pod, Quantity};
use gpu_scheduler_engine::{NodeVerdict, Policy};

/// As many pods as teach the engine a mix; they come and go before anything is asked.
fn taught(run: &mut Run, pods: impl IntoIterator<Item = Pod>) {
    for (n, mut pod) in pods.into_iter().enumerate() {
        let uid = format!("teacher-{n}");
        pod.uid = uid.as_str().into();
        pod.name = uid.as_str().into();
        run.pods([pod]);
        run.settle();
        run.delete(&uid);
    }
    run.settle();
}

fn cpu(pod: Pod, milli: i64) -> Pod {
    asking(pod, "cpu", Quantity::millis(milli))
}

/// A node with four cards of another model.
fn of_model(name: &str, model: &str) -> Node {
    let card = |i| CardSpec::new(format!("GPU-{name}-{i}"), i, model, Some(Mib(CARD)));
    with_cards(sized(name, 64_000, 256 << 10), (0..4).map(card).collect())
}

#[test]
fn a_share_goes_where_it_completes_a_filling() {
    let mut run = Run::policy(Policy::ShadowPrice);
    run.nodes([gpu_node("n1", 3)]);
    // The mix asks for 650 and 350 alike: together they fill a card, so 350 beside 650 is worth all that it takes.
    taught(&mut run, (0..40).map(|n| gpu_pod("x", fraction(if n % 2 == 0 { 650 } else { 350 }))));
    let values = run.engine.state().prices().learned().values(Mib(CARD)).expect("there are such cards").clone();
    let pair = values.price(MilliGpu(650)) + values.price(MilliGpu(350));
    assert!((pair - 1_000_000).abs() < 10, "a filled card is worth a card, not {pair}");
    assert_eq!(values.worth(MilliGpu(340)), 0, "nobody asks for so little");
    run.place(gpu_pod("a", fraction(650)));
    // 300 leaves 700 of a fresh card (worth a 650) or 50 of the used one (worth nothing, but 350 is lost there).
    run.place(gpu_pod("b", fraction(350)));
    assert_eq!(run.devices_of("a"), run.devices_of("b"));
}

#[test]
fn memory_and_compute_are_priced_apart_where_both_are_asked() {
    let mut run = Run::policy(Policy::ShadowPrice);
    run.nodes([gpu_node("n1", 2)]);
    let plane = |run: &Run| run.engine.state().prices().learned().plane(Mib(CARD)).cloned();
    taught(&mut run, (0..20).map(|_| gpu_pod("x", with_compute(8000, 20))));
    assert_eq!(plane(&run), None, "memory alone decides");
    taught(&mut run, (0..20).map(|_| gpu_pod("y", with_compute(2000, 80))));
    let prices = plane(&run).expect("half of the demand is heavy in compute");
    let pair = prices.price(MilliGpu(800), Percent(20)) + prices.price(MilliGpu(200), Percent(80));
    assert!((pair - 1_000_000).abs() < 10, "a filled card is worth a card, not {pair}");
    assert_eq!(prices.worth(MilliGpu(700), Percent(70)), 0, "as much of both is room for neither");
    // Either finds the other; one of its own kind does not fit beside it.
    for (name, demand) in [("a", (8000, 20)), ("b", (2000, 80)), ("c", (2000, 80)), ("d", (8000, 20))] {
        run.place(gpu_pod(name, with_compute(demand.0, demand.1)));
    }
    assert_eq!(run.devices_of("a"), run.devices_of("b"));
    assert_eq!(run.devices_of("c"), run.devices_of("d"));
}

#[test]
fn where_a_share_goes_a_quiet_node_drains() {
    let mut run = Run::policy(Policy::ShadowPrice);
    // A card has a free half on either node; on the second one nothing else runs.
    run.nodes([gpu_node("n1", 2), gpu_node("n2", 2)]);
    let mix =
        [with_compute(6000, 20), with_compute(2000, 70), whole(2), with_compute(6000, 20), with_compute(2000, 70)];
    taught(&mut run, (0..50).map(|n| gpu_pod("x", mix[n % 5].clone())));
    let at = |name: &str, node: &str, demand| bound(gpu_pod(name, demand), node, None);
    run.pods([
        at("whole", "n2", whole(1)),
        at("b", "n2", with_compute(2000, 70)),
        at("a", "n1", with_compute(2000, 70)),
    ]);
    assert_eq!(run.place(gpu_pod("c", with_compute(6000, 20))).as_deref(), Some("n2"));
}

#[test]
fn gpus_go_where_cpu_is_left_for_the_rest() {
    let mut run = Run::policy(Policy::ShadowPrice);
    // Two nodes of four cards; the mix needs 10 cores a card. On `lean` two cards and 20 cores are left.
    run.nodes([sized_gpu("lean", 40_000), sized_gpu("rich", 120_000)]);
    taught(&mut run, (0..60).map(|_| cpu(gpu_pod("x", whole(1)), 10_000)));
    // 30 cores for one card: on `lean` three cards would starve beside 10 cores, on `rich` none would.
    assert_eq!(run.place(cpu(gpu_pod("heavy", whole(1)), 30_000)).as_deref(), Some("rich"));
}

fn sized_gpu(name: &str, cpu: i64) -> Node {
    let card = |i| CardSpec::new(format!("GPU-{name}-{i}"), i, common::MODEL, Some(Mib(CARD)));
    with_cards(sized(name, cpu, 256 << 10), (0..4).map(card).collect())
}

#[test]
fn nodes_that_others_can_use_only_are_dear() {
    let mut run = Run::policy(Policy::ShadowPrice);
    // `scarce` comes first and would win a tie; half of the demand can run nowhere else.
    run.nodes([of_model("scarce", "T4"), of_model("a", "A100"), of_model("b", "A100"), of_model("c", "A100")]);
    let picky = |n: u32| {
        let mut pod = gpu_pod("x", whole(1));
        pod.models = if n.is_multiple_of(2) { ModelPattern::parse("T4") } else { ModelPattern::default() };
        pod
    };
    taught(&mut run, (0..60).map(picky));
    let group = |name: &str| run.engine.state().node_named(name).and_then(|n| n.group()).expect("a live node");
    let claim = |name: &str| run.engine.state().prices().claim(group(name));
    assert!(claim("scarce") > 1_000_000, "more is claimed of it than its fair part: {}", claim("scarce"));
    assert_eq!(claim("a"), 0, "nobody is bound to the others");
    assert_ne!(run.place(gpu_pod("any", whole(1))).as_deref(), Some("scarce"));
    let mut bound_to_it = gpu_pod("t4", whole(1));
    bound_to_it.models = ModelPattern::parse("T4");
    assert_eq!(run.place(bound_to_it).as_deref(), Some("scarce"));
}

#[test]
fn pods_without_gpu_stay_off_cpu_that_cards_need() {
    let mut run = Run::policy(Policy::ShadowPrice);
    run.nodes([sized_gpu("tight", 40_000), sized_gpu("wide", 120_000)]);
    taught(&mut run, (0..60).map(|_| cpu(gpu_pod("x", whole(1)), 10_000)));
    // Eight cores are to spare beside the four cards of `tight`: there is the fuller node. Twenty-four are not.
    assert_eq!(run.place(common::cpu_pod("small", 8_000)).as_deref(), Some("tight"));
    run.delete("small");
    assert_eq!(run.place(common::cpu_pod("large", 24_000)).as_deref(), Some("wide"));
}

#[test]
fn the_price_terms_are_there_to_read() {
    let mut run = Run::policy(Policy::ShadowPrice);
    run.nodes([gpu_node("n1", 2)]);
    run.pods([gpu_pod("a", fraction(300))]);
    let explanation = run.explain("a");
    let NodeVerdict::Candidate { terms, .. } = &explanation.nodes[0].verdict else { panic!("it fits") };
    let names: Vec<&str> = terms.iter().map(|t| t.plugin).collect();
    assert_eq!(names, ["TaintToleration", "NodeAffinity", "Stranding", "ShapeValue", "Scarcity", "Blocks"]);
    assert!(terms.iter().any(|t| t.score != 0));
}

#[test]
fn unknown_memory_and_odd_shapes_have_a_price_too() {
    let mut run = Run::policy(Policy::ShadowPrice);
    let cards = (0..2).map(|i| CardSpec::new(format!("GPU-n1-{i}"), i, "X", None)).collect();
    run.nodes([with_cards(sized("n1", 64_000, 256 << 10), cards), gpu_node("n2", 1)]);
    assert_eq!(run.place(gpu_pod("a", whole(2))).as_deref(), Some("n1"));
    assert_eq!(run.place(gpu_pod("b", with_compute(1, 100))).as_deref(), Some("n2"));
    // All compute is promised, but a share that asks for none gets what is left of it.
    assert_eq!(run.place(gpu_pod("c", fraction(1))).as_deref(), Some("n2"));
    assert_eq!(run.place(gpu_pod("d", with_compute(1, 1))), None);
}

#[test]
fn where_pods_come_and_go_the_first_of_much_the_same_nodes_wins() {
    let mut run = Run::policy(Policy::ShadowPrice);
    run.nodes([gpu_node("n1", 8), gpu_node("n2", 8)]);
    // A little fuller is better, as long as pods only come.
    run.pods([bound(gpu_pod("old", whole(1)), "n2", None)]);
    assert_eq!(run.place(gpu_pod("a", whole(1))).as_deref(), Some("n2"));
    taught(&mut run, (0..300).map(|_| gpu_pod("x", whole(1))));
    assert!(run.engine.state().prices().learned().turnover() > 500_000, "most have gone again");
    assert_eq!(run.place(gpu_pod("b", whole(1))).as_deref(), Some("n1"));
}
