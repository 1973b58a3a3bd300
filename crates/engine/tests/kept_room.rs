//! Room that is made and kept: what can come in between, and who must hear of it.

mod common;

use common::{Run, asking, bound, group_name, pod, sized};
use gpu_scheduler_engine::model::{Node, Pod, Quantity, Timestamp};
use gpu_scheduler_engine::{Action, Config, Event, Policy, Step};

fn cpus(name: &str, cpus: i64, priority: i32) -> Pod {
    Pod { priority, ..asking(pod(name), "cpu", Quantity::units(cpus)) }
}

fn four(name: &str) -> Node {
    sized(name, 4000, 8192)
}

fn member(p: Pod) -> Pod {
    Pod { group: Some(group_name("g")), ..p }
}

/// Two nodes, each full with one pod: `vm`, and `vn` with this priority.
fn two_full(priority: i32) -> Run {
    let mut run = Run::policy(Policy::Spread);
    run.nodes([four("m"), four("n")]);
    run.pods([bound(cpus("vm", 4, 0), "m", None), bound(cpus("vn", 4, priority), "n", None)]);
    run.settle();
    run
}

/// One step a poll.
fn slow() -> Run {
    Run::new(Config { steps_per_poll: 1, ..Config::with_policy(Policy::Spread) })
}

fn evicted(actions: &[Action]) -> Vec<String> {
    let uid = |a: &Action| if let Action::Evict { uid, .. } = a { Some(uid.to_string()) } else { None };
    actions.iter().filter_map(uid).collect()
}

fn at(p: Pod, t: u64) -> Pod {
    Pod { created_at: Timestamp(t), ..p }
}

#[test]
fn a_gang_does_not_eat_the_turn_of_others() {
    let mut run = Run::policy(Policy::Spread);
    run.nodes([four("n")]);
    run.pods([bound(cpus("x", 4, 0), "n", None)]);
    run.settle();
    run.group(&group_name("g"), Some(2));
    run.pods([at(member(cpus("a", 4, 0)), 1), at(member(cpus("b", 4, 0)), 2), at(cpus("plain", 4, 0), 3)]);
    run.settle();
    run.delete("x");
    run.settle();
    assert_eq!(run.node_of("plain").as_deref(), Some("n"));
}

#[test]
fn whoever_is_displaced_looks_elsewhere() {
    let mut run = two_full(1);
    run.pods([cpus("low", 4, 5)]);
    let mut all = evicted(&run.rest());
    run.pods([cpus("high", 4, 10)]);
    all.extend(evicted(&run.rest()));
    run.delete("vm");
    all.extend(evicted(&run.rest()));
    assert_eq!(all, ["vm", "vn"]);
}

#[test]
fn whoever_is_displaced_looks_elsewhere_in_another_class_too() {
    let mut run = two_full(1);
    run.pods([cpus("low", 3, 5)]);
    let mut all = evicted(&run.rest());
    run.pods([cpus("high", 4, 10)]);
    all.extend(evicted(&run.rest()));
    run.delete("vm");
    run.settle();
    all.extend(evicted(&run.rest()));
    assert_eq!(all, ["vm", "vn"]);
}

/// What happens to the node that is kept for `boss`: it makes room on the other one.
fn kept_node_goes(gone: impl FnOnce(&mut Run)) {
    let mut run = two_full(1);
    run.pods([cpus("boss", 4, 5)]);
    assert_eq!(evicted(&run.rest()), ["vm"]);
    gone(&mut run);
    let mut all = run.rest();
    run.delete("vm");
    all.extend(run.rest());
    assert_eq!(evicted(&all), ["vn"]);
}

#[test]
fn the_kept_node_is_deleted() {
    kept_node_goes(|run| run.engine.handle(run.now, Event::NodeDeleted { name: "m".into() }));
}

#[test]
fn the_kept_node_is_cordoned() {
    kept_node_goes(|run| {
        run.nodes([Node { unschedulable: true, ..four("m") }]);
    });
}

#[test]
fn somebody_above_takes_part_of_the_room() {
    // king (higher) takes part of the room before the victim is gone.
    let mut run = Run::policy(Policy::Spread);
    run.nodes([four("m")]);
    run.pods([bound(cpus("v", 3, 0), "m", None), bound(cpus("w", 1, 1), "m", None)]);
    run.settle();
    run.pods([cpus("boss", 3, 5)]);
    assert_eq!(evicted(&run.rest()), ["v"]);
    run.pods([bound(cpus("alien", 1, 100), "m", None)]);
    run.rest();
    run.delete("v");
    let all = run.rest();
    assert_eq!(evicted(&all), ["w"]);
}

#[test]
fn a_gang_gives_up_what_is_kept_for_it() {
    let mut run = two_full(0);
    run.group(&group_name("g"), Some(2));
    run.pods([member(cpus("a", 4, 10)), member(cpus("b", 4, 10)), cpus("plain", 3, 0)]);
    run.rest();
    run.delete("vm");
    run.settle();
    run.engine.handle(run.now, Event::NodeDeleted { name: "n".into() });
    run.delete("vn");
    run.settle();
    assert_eq!(run.node_of("plain").as_deref(), Some("m"));
}

#[test]
fn two_gangs_come_to_rest() {
    use gpu_scheduler_engine::model::{LabelSelector, PodAffinityTerm, WeightedPodAffinityTerm};
    let mut run = slow();
    run.nodes([sized("m", 8000, 8192)]);
    let gangs = ["g", "h"].map(group_name);
    for name in &gangs {
        run.group(name, Some(2));
    }
    let term = PodAffinityTerm {
        selector: Some(LabelSelector::of_labels([(&"app".to_owned(), &"x".to_owned())])),
        namespaces: vec![],
        namespace_selector: None,
        topology_key: "kubernetes.io/hostname".into(),
    };
    let near = |g: usize, name: &str, n: i64| {
        let mut p = Pod { group: Some(gangs[g].clone()), ..cpus(name, n, 0) };
        p.labels.insert("app".into(), "x".into());
        p.pod_affinity.preferred = vec![WeightedPodAffinityTerm { weight: 1, term: term.clone() }];
        p
    };
    run.pods([near(0, "a0", 2), near(0, "a1", 100)]);
    run.settle();
    run.pods([near(1, "b0", 2), near(1, "b1", 100)]);
    run.settle();
}

#[test]
fn nobody_is_passed_over_when_the_budget_ends() {
    let mut run = slow();
    run.nodes([four("n")]);
    run.pods([bound(cpus("v1", 2, 0), "n", None), bound(cpus("v2", 2, 0), "n", None)]);
    run.settle();
    run.pods([
        Pod { preempts: false, ..at(cpus("other", 4, 10), 1) },
        at(cpus("boss", 4, 10), 2),
        cpus("huge", 100, 10),
    ]);
    let all = run.rest();
    assert_eq!(evicted(&all).len(), 2);
    run.delete("v1");
    assert_eq!(run.engine.poll(run.now), Step::Busy);
    run.delete("v2");
    run.settle();
    assert_eq!(run.node_of("boss").as_deref(), Some("n"));
}

#[test]
fn another_card_is_no_room_for_whoever_wants_this_one() {
    use common::{CARD, gpu_pod, record, whole, with_cards};
    use gpu_scheduler_engine::model::GrantKind;
    use gpu_scheduler_engine::model::{CardSpec, Mib};
    let mut run = Run::policy(Policy::BestFit);
    let cards = vec![
        CardSpec::new("GPU-n-0".to_string(), 0, "NVIDIA-A100-SXM4-80GB", Some(Mib(CARD))),
        CardSpec::new("GPU-n-1".to_string(), 1, "NVIDIA-L4", Some(Mib(CARD))),
    ];
    run.nodes([with_cards(four("n"), cards)]);
    let v = asking(gpu_pod("v", whole(1)), "cpu", Quantity::units(4));
    run.pods([bound(v, "n", Some(record(GrantKind::Whole, &[("GPU-n-1", 1, CARD)])))]);
    run.settle();
    let mut boss = Pod { priority: 10, ..asking(gpu_pod("boss", whole(1)), "cpu", Quantity::units(4)) };
    boss.models = gpu_scheduler_engine::model::ModelPattern::parse("*A100*");
    run.pods([boss]);
    assert_eq!(evicted(&run.rest()), ["v"]);
    assert_eq!(run.place(Pod { priority: 10, ..gpu_pod("other", whole(1)) }), None);
    run.delete("v");
    run.settle();
    assert_eq!(run.node_of("boss").as_deref(), Some("n"));
}

fn bystander(name: &str, node: &str) -> Pod {
    Pod { nominated_node: Some(node.into()), ..cpus(name, 4, 5) }
}

fn nominations(actions: &[Action]) -> Vec<Option<String>> {
    let node = |a: &Action| {
        if let Action::Nominate { node, .. } = a { Some(node.as_deref().map(str::to_owned)) } else { None }
    };
    actions.iter().filter_map(node).collect()
}

#[test]
fn after_a_restart_the_room_is_still_kept_whatever_is_listed_first() {
    for pods_first in [false, true] {
        let mut run = Run::policy(Policy::Spread);
        let pods = |run: &mut Run| {
            run.pods([bystander("boss", "m"), Pod { terminating: true, ..bound(cpus("leaving", 4, 0), "m", None) }]);
        };
        if pods_first {
            pods(&mut run);
        }
        run.nodes([four("m")]);
        if !pods_first {
            pods(&mut run);
        }
        run.settle();
        run.pods([cpus("low", 4, 1)]);
        run.settle();
        run.delete("leaving");
        run.settle();
        assert_eq!(run.node_of("boss").as_deref(), Some("m"), "pods first: {pods_first}");
    }
}

#[test]
fn a_node_that_is_no_more_is_not_kept() {
    let mut run = Run::policy(Policy::Spread);
    run.nodes([four("m")]);
    run.pods([bound(cpus("busy", 4, 10), "m", None), bystander("boss", "gone")]);
    assert_eq!(nominations(&run.rest()), [None]);
}

/// A node that is full with one pod, which is to go for another.
fn boss_evicts_v() -> Run {
    let mut run = Run::policy(Policy::Spread);
    run.nodes([four("m")]);
    run.pods([bound(cpus("v", 4, 0), "m", None)]);
    run.settle();
    run.pods([cpus("boss", 4, 5)]);
    assert_eq!(evicted(&run.rest()), ["v"]);
    run
}

#[test]
fn whoever_makes_room_and_may_not_be_evicted_is_tried_again_later() {
    let mut run = boss_evicts_v();
    run.engine.handle(run.now, Event::EvictionRefused { uid: "v".into(), preemptor: "boss".into() });
    let at_once = run.rest();
    assert_eq!((evicted(&at_once), nominations(&at_once)), (Vec::<String>::new(), vec![None]));
    let wakeup = run.engine.next_wakeup().expect("boss backs off");
    run.now = run.now.max(wakeup);
    assert_eq!(evicted(&run.rest()), ["v"]);
}

/// Else the pod that hurts least would be asked for ever, and whom it was to make room for would never run.
#[test]
fn whoever_may_not_be_evicted_is_spared_where_others_would_do() {
    let refuse = |run: &mut Run, victim: &str| {
        run.engine.handle(run.now, Event::EvictionRefused { uid: victim.into(), preemptor: "boss".into() });
        let now = run.rest();
        let wakeup = run.engine.next_wakeup().expect("boss backs off");
        run.now = run.now.max(wakeup);
        evicted(&now)
    };
    for nodes in [&["m", "n"][..], &["m"]] {
        let mut run = Run::policy(Policy::Spread);
        run.nodes(nodes.iter().map(|n| four(n)));
        let each = 4 / (3 - i64::try_from(nodes.len()).expect("two"));
        run.pods([
            bound(cpus("least", each, 0), "m", None),
            bound(cpus("more", each, 1), nodes[nodes.len() - 1], None),
        ]);
        run.settle();
        run.pods([cpus("boss", each, 5)]);
        assert_eq!(evicted(&run.rest()), ["least"]);
        assert!(refuse(&mut run, "least").is_empty());
        assert_eq!(evicted(&run.rest()), ["more"], "{nodes:?}");
        assert!(refuse(&mut run, "more").is_empty());
        assert_eq!(evicted(&run.rest()), ["least"], "neither would go: the one that hurts less, {nodes:?}");
    }
}

/// What is on its way to being bound is not tried once more.
#[test]
fn a_refusal_that_comes_late_takes_nothing_from_whoever_found_room_elsewhere() {
    let mut run = boss_evicts_v();
    run.nodes([four("n")]).rest();
    assert_eq!(run.node_of("boss").as_deref(), Some("n"));
    run.engine.handle(run.now, Event::EvictionRefused { uid: "v".into(), preemptor: "boss".into() });
    assert_eq!((run.rest(), run.engine.next_wakeup()), (Vec::new(), None));
    run.wait(60_000).rest();
    assert_eq!(run.node_of("boss").as_deref(), Some("n"));
}

/// It goes after all: nobody else has to.
#[test]
fn whoever_was_not_evicted_and_leaves_now_makes_room() {
    let mut run = Run::policy(Policy::Spread);
    run.nodes([four("m")]);
    let v = bound(cpus("v", 2, 0), "m", None);
    run.pods([v.clone(), bound(cpus("w", 2, 1), "m", None)]);
    run.settle();
    run.pods([cpus("boss", 2, 5)]);
    assert_eq!(evicted(&run.rest()), ["v"]);
    run.engine.handle(run.now, Event::EvictionRefused { uid: "v".into(), preemptor: "boss".into() });
    run.delete("boss").rest();
    run.pods([Pod { terminating: true, ..v }, cpus("small", 2, 5)]);
    let actions = run.rest();
    assert_eq!((evicted(&actions), nominations(&actions)), (Vec::<String>::new(), vec![Some("m".to_owned())]));
}

#[test]
fn preemptions_are_counted_by_how_many_they_cost() {
    let mut run = Run::policy(Policy::Spread);
    run.nodes([four("m")]);
    run.pods(["v", "w"].map(|name| bound(cpus(name, 2, 0), "m", None)));
    run.settle();
    run.pods([cpus("boss", 4, 5), cpus("meek", 4, 0)]);
    assert_eq!(evicted(&run.rest()).len(), 2);
    let counted = run.engine.preemptions();
    assert_eq!((counted.attempts, &counted.victims), (2, &[(2, 1)].into()), "the meek looked as well");
}
