//! `DefaultPreemption`: who has to go, and what is said of it, against the rules of kube-scheduler 1.37.

mod common;

use common::{CARD, Run, asking, bound, gpu_node, gpu_pod, pod, share, sized, tainted, whole};
use gpu_scheduler_engine::model::{
    DisruptionBudget, Effect, LabelSelector, Node, Pod, PodGroup, PodGroupName, Quantity, Timestamp,
};
use gpu_scheduler_engine::{Action, Event, EvictReason, Policy};

/// A pod of a priority that asks for CPUs.
fn cpus(name: &str, cpus: i64, priority: i32) -> Pod {
    Pod { priority, ..asking(pod(name), "cpu", Quantity::units(cpus)) }
}

/// A node of four CPUs.
fn four(name: &str) -> Node {
    sized(name, 4000, 8192)
}

/// A cluster with pods that run on its nodes.
fn cluster(nodes: impl IntoIterator<Item = Node>, pods: impl IntoIterator<Item = (Pod, &'static str)>) -> Run {
    let mut run = Run::policy(Policy::Spread);
    run.nodes(nodes);
    run.pods(pods.into_iter().map(|(pod, node)| bound(pod, node, None)));
    run.settle();
    run
}

/// Who has to go for a pod, in order, and the node that is kept for it.
fn preempts(run: &mut Run, pod: Pod) -> (Vec<String>, Option<String>) {
    let mut kept = None;
    let mut victims = Vec::new();
    run.pods([pod]);
    for action in run.rest() {
        match action {
            Action::Evict { uid, reason: EvictReason::Preempted, .. } => victims.push(uid.to_string()),
            Action::Nominate { node, .. } => kept = node.map(|n| n.to_string()),
            _ => {}
        }
    }
    (victims, kept)
}

fn victims(run: &mut Run, pod: Pod) -> String {
    preempts(run, pod).0.join(" ")
}

fn started(pod: Pod, seconds: u64) -> Pod {
    Pod { started_at: Some(Timestamp(seconds * 1000)), ..pod }
}

#[test]
fn the_least_important_go_and_no_more_than_needed() {
    for (pods, expected, what) in [
        (vec![cpus("a", 2, 1), cpus("b", 2, 2)], "a", "the lower priority"),
        (vec![started(cpus("a", 2, 1), 5), started(cpus("b", 2, 1), 9)], "b", "the younger"),
        (vec![cpus("a", 1, 1), cpus("b", 1, 1), cpus("c", 2, 1)], "c", "one is enough"),
        (vec![cpus("a", 2, 10), cpus("b", 2, 11)], "", "none of its own priority or above"),
        (vec![cpus("a", 3, 1), cpus("b", 1, 50)], "a", "who is above stays"),
    ] {
        let mut run = cluster([four("n")], pods.into_iter().map(|p| (p, "n")));
        assert_eq!(victims(&mut run, cpus("boss", 2, 10)), expected, "{what}");
    }
}

#[test]
fn the_node_whose_victims_matter_least() {
    let budget = DisruptionBudget {
        namespace: "default".into(),
        name: "pdb".into(),
        selector: Some(LabelSelector::of_labels([(&"app".to_owned(), &"web".to_owned())])),
        disruptions_allowed: 0,
        disrupted: [].into(),
    };
    let web = |mut pod: Pod| {
        pod.labels.insert("app".into(), "web".into());
        pod
    };
    for (on_m, on_n, expected, what) in [
        (vec![web(cpus("m1", 4, 1))], vec![cpus("n1", 4, 5)], "n1", "no budget is broken"),
        (vec![cpus("m1", 4, 3)], vec![cpus("n1", 4, 2)], "n1", "the lowest top priority"),
        (vec![cpus("m1", 2, 3), cpus("m2", 2, 2)], vec![cpus("n1", 2, 3), cpus("n2", 2, 1)], "n1 n2", "the lowest sum"),
        (vec![cpus("m1", 2, 3), cpus("m2", 2, 3)], vec![cpus("n1", 4, 3)], "n1", "the fewest"),
        (vec![started(cpus("m1", 4, 3), 5)], vec![started(cpus("n1", 4, 3), 9)], "n1", "the latest start"),
        (vec![cpus("m1", 4, 3)], vec![cpus("n1", 4, 3)], "m1", "the first"),
    ] {
        let pods = on_m.into_iter().map(|p| (p, "m")).chain(on_n.into_iter().map(|p| (p, "n")));
        let mut run = cluster([four("m"), four("n")], pods);
        run.engine.handle(run.now, Event::DisruptionBudgetApplied(Box::new(budget.clone())));
        assert_eq!(victims(&mut run, cpus("boss", 4, 10)), expected, "{what}");
    }
}

#[test]
fn nobody_goes_where_it_would_not_help() {
    let text = |run: &Run| {
        let message = run.explain("boss").message.map(|m| m.to_string()).unwrap_or_default();
        message.split_once(" preemption: ").map(|(_, text)| text.to_owned()).unwrap_or_default()
    };
    // A taint cannot be freed; on n somebody important is in the way.
    let nodes = || [tainted(four("t"), "k", "", Effect::NoSchedule), four("n")];
    let mut run = cluster(nodes(), [(cpus("a", 2, 1), "n"), (cpus("b", 2, 50), "n")]);
    assert_eq!(preempts(&mut run, cpus("boss", 4, 10)), (vec![], None));
    assert_eq!(text(&run), "0/2 nodes are available: 1 Insufficient cpu, 1 Preemption is not helpful for scheduling.");
    let mut run = cluster(nodes(), [(cpus("b", 4, 50), "n")]);
    assert_eq!(preempts(&mut run, cpus("boss", 4, 10)), (vec![], None));
    let expected = "0/2 nodes are available: 1 No preemption victims found for incoming pod, \
                    1 Preemption is not helpful for scheduling.";
    assert_eq!(text(&run), expected);
    let mut run = cluster([four("n")], [(cpus("a", 4, 1), "n")]);
    assert_eq!(preempts(&mut run, Pod { preempts: false, ..cpus("boss", 4, 10) }), (vec![], None));
    assert_eq!(text(&run), "not eligible due to preemptionPolicy=Never.");
}

#[test]
fn one_card_is_freed() {
    let eighth = CARD / 8;
    let shares = |name: &str, eighths: u64, priority| Pod { priority, ..gpu_pod(name, share(eighths * eighth)) };
    // Card 0: six small ones; card 1: two large ones. Each is bound in order, so that they fill one card after the other.
    let fill = || {
        let mut run = Run::policy(Policy::BestFit);
        run.nodes([gpu_node("n", 2)]);
        for n in 0..8 {
            run.place(shares(&format!("s{n}"), 1, 0));
        }
        run.place(shares("l0", 4, 0));
        run.place(shares("l1", 4, 0));
        run
    };
    for (asked, expected) in [(1, 1), (2, 1), (4, 1), (5, 2), (8, 2)] {
        let mut run = fill();
        let (gone, kept) = preempts(&mut run, shares("boss", asked, 10));
        assert_eq!((gone.len(), kept.as_deref()), (expected, Some("n")), "{asked} eighths: {gone:?}");
        for uid in gone {
            run.delete(&uid);
        }
        run.settle();
        assert_eq!(run.node_of("boss").as_deref(), Some("n"));
    }
    // Two whole cards take all; one takes those of the card where fewest are.
    let mut run = fill();
    assert_eq!(victims(&mut run, Pod { priority: 10, ..gpu_pod("boss", whole(1)) }), "l0 l1");
    let mut run = fill();
    assert_eq!(preempts(&mut run, Pod { priority: 10, ..gpu_pod("boss", whole(2)) }).0.len(), 10);
}

#[test]
fn the_room_is_kept() {
    let mut run = cluster([four("n")], [(cpus("a", 4, 1), "n")]);
    assert_eq!(preempts(&mut run, cpus("boss", 4, 10)), (vec!["a".to_owned()], Some("n".to_owned())));
    // While its victim goes nobody else is evicted, and what gets free is not for others of its priority or below.
    assert_eq!(victims(&mut run, cpus("second", 4, 9)), "");
    run.delete("a").settle();
    assert_eq!(run.node_of("boss").as_deref(), Some("n"));
    assert_eq!(run.node_of("second"), None);
    // One of higher priority takes it over, and the first one gives it up.
    let mut run = cluster([four("n")], [(cpus("a", 4, 1), "n")]);
    preempts(&mut run, cpus("boss", 4, 10));
    assert_eq!(preempts(&mut run, cpus("king", 4, 20)).1.as_deref(), Some("n"));
    run.delete("a").settle();
    assert_eq!((run.node_of("king").as_deref(), run.node_of("boss")), (Some("n"), None));
    // A node that was kept before this engine began is kept on.
    let mut run = cluster([four("n")], []);
    run.pods([Pod { nominated_node: Some("n".into()), gates: vec!["hold".into()], ..cpus("kept", 4, 10) }]);
    assert_eq!(run.place(cpus("other", 4, 5)), None);
    assert_eq!(run.place(cpus("above", 4, 11)).as_deref(), Some("n"));
}

#[test]
fn a_group_that_goes_as_one() {
    let group = PodGroupName { namespace: "default".into(), name: "g".into() };
    let member = |name: &str| Pod { group: Some(group.clone()), ..cpus(name, 4, 1) };
    for (as_one, expected) in [(true, "a b"), (false, "a")] {
        let facts = PodGroup { name: group.clone(), min_count: Some(2), disrupted_as_one: as_one, priority: 1 };
        let mut run = Run::policy(Policy::Spread);
        run.engine.handle(run.now, Event::PodGroupApplied(Box::new(facts)));
        run.nodes([four("m"), four("n")]);
        run.pods([bound(member("a"), "m", None), bound(member("b"), "n", None)]);
        run.settle();
        assert_eq!(victims(&mut run, cpus("boss", 4, 10)), expected, "as one: {as_one}");
    }
}

#[test]
fn a_gang_whose_room_was_taken_by_others_makes_room_again() {
    let mut run = cluster([four("n")], [(cpus("a", 4, 1), "n")]);
    let name = PodGroupName { namespace: "default".into(), name: "gang".into() };
    let gang = PodGroup { name: name.clone(), min_count: Some(2), disrupted_as_one: false, priority: 10 };
    run.engine.handle(run.now, Event::PodGroupApplied(Box::new(gang)));
    run.pods(["x", "y"].map(|member| Pod { group: Some(name.clone()), ..cpus(member, 2, 10) }));
    let evicted = |run: &mut Run| -> Vec<String> {
        let victim = |action| match action {
            Action::Evict { uid, .. } => Some(uid.to_string()),
            _ => None,
        };
        run.rest().into_iter().filter_map(victim).collect()
    };
    assert_eq!(evicted(&mut run), ["a"]);
    // It goes, and somebody else is there before anybody looks. Both still have the node kept for them.
    run.delete("a");
    run.pods([bound(cpus("b", 4, 1), "n", None)]);
    assert_eq!(evicted(&mut run), ["b"]);
}

#[test]
fn a_gang_that_waits_for_a_pod_on_its_way_out_rests_until_it_is_gone() {
    // On two nodes, and on one that has room for one of them.
    for (terminating, together) in [(false, false), (true, false), (false, true), (true, true)] {
        let leaves = Pod { terminating, ..cpus("a", 4, 1) };
        let nodes = if together { vec![sized("n", 8000, 16384)] } else { vec![four("m"), four("n")] };
        let mut run = cluster(nodes, [(leaves, "n")]);
        let name = PodGroupName { namespace: "default".into(), name: "gang".into() };
        let gang = PodGroup { name: name.clone(), min_count: Some(2), disrupted_as_one: false, priority: 10 };
        run.engine.handle(run.now, Event::PodGroupApplied(Box::new(gang)));
        run.pods(["x", "y"].map(|member| Pod { group: Some(name.clone()), ..cpus(member, 4, 10) }));
        // One of them has room, the other one will have it.
        run.rest();
        assert_eq!(
            (run.node_of("x"), run.node_of("y")),
            (None, None),
            "terminating: {terminating}, together: {together}"
        );
        run.delete("a").settle();
        assert!(
            run.node_of("x").is_some() && run.node_of("y").is_some(),
            "terminating: {terminating}, together: {together}"
        );
    }
}
