//! Facts are never refused, whatever they contradict, and it does not matter which of them comes first.

mod common;

use common::{
    CARD, MODEL, Run, bound, card, cpu_pod, gpu_node, gpu_pod, node, pod, record, report, share, whole, with_cards,
};
use gpu_scheduler_engine::ledger::{Closed, HoldKind, Overcommit};
use gpu_scheduler_engine::model::{
    CardSpec, DeviceReport, GrantKind, Health, Holder, Mib, Millis, Node, Pod, Timestamp,
};
use gpu_scheduler_engine::{Action, Config, Event, Notice, Outcome, Place, PodPhase, Policy, Step};

fn run() -> Run {
    Run::policy(Policy::Fgd)
}

fn notices(actions: &[Action]) -> Vec<&Notice> {
    actions.iter().filter_map(|a| if let Action::Report(notice) = a { Some(notice) } else { None }).collect()
}

/// A report in which `pod` uses this much of the first card.
fn used_by(node: &Node, pod: &str, mib: u64) -> DeviceReport {
    let mut report = report(node, 1_000_000, 0);
    report.devices[0].used = Mib(mib);
    report.devices[0].holders.push(Holder { pod: pod.into(), used: Mib(mib) });
    report
}

// ---- records ---------------------------------------------------------------------------------------

#[test]
fn a_record_of_a_card_that_is_not_there() {
    let mut run = run();
    run.nodes([gpu_node("n1", 1)]);
    run.pods([bound(gpu_pod("a", whole(1)), "n1", Some(record(GrantKind::Whole, &[("GPU-gone", 7, CARD)])))]);
    let actions = run.rest();
    assert!(
        matches!(notices(&actions)[..], [Notice::CardOvercommitted { uuid, .. }] if &**uuid == "GPU-gone"),
        "{actions:?}"
    );
    assert_eq!(run.card("n1", 1).room().closed, Some(Closed::Overcommitted(Overcommit::Gone)));
    assert_eq!(run.place(gpu_pod("b", whole(1))).as_deref(), Some("n1"), "the card that is there is free");
    run.delete("a");
    assert!(matches!(notices(&run.rest())[..], [Notice::CardHealed { .. }]));
    assert_eq!(run.engine.state().node_named("n1").map(|n| n.ledger().cards().len()), Some(1), "nobody holds it now");
}

#[test]
fn a_record_that_contradicts_our_grant_closes_the_card_until_one_leaves() {
    let mut run = run();
    run.nodes([gpu_node("n1", 1)]);
    run.place(gpu_pod("ours", share(4000)));
    run.pods([bound(gpu_pod("theirs", whole(1)), "n1", Some(record(GrantKind::Whole, &[("GPU-n1-0", 0, CARD)])))]);
    let closed = Some(Closed::Overcommitted(Overcommit::Mixed { holders: 2 }));
    assert_eq!(run.card("n1", 0).room().closed, closed);
    run.pods([gpu_pod("next", share(1000))]);
    run.settle();
    assert_eq!(run.node_of("next"), None);
    run.delete("theirs").settle();
    assert_eq!(run.node_of("next").as_deref(), Some("n1"), "woken when the card healed");
}

#[test]
fn a_record_outranks_a_guess_whichever_came_first() {
    let guess = || bound(gpu_pod("guess", whole(1)), "n1", None);
    let known = || bound(gpu_pod("known", whole(1)), "n1", Some(record(GrantKind::Whole, &[("GPU-n1-0", 0, CARD)])));
    for pods in [[guess(), known()], [known(), guess()]] {
        let mut run = run();
        run.nodes([gpu_node("n1", 2)]).pods(pods);
        assert_eq!(run.devices_of("guess"), ["GPU-n1-1"]);
        assert_eq!(run.devices_of("known"), ["GPU-n1-0"]);
    }
}

/// A guess that had to share a card moves to one that falls free: where the other pod left before the guess
/// was made, it would have been there from the start.
#[test]
fn a_guess_moves_to_a_card_that_falls_free() {
    let on = |name: &str, at: u32| {
        let uuid = format!("GPU-n1-{at}");
        bound(gpu_pod(name, whole(1)), "n1", Some(record(GrantKind::Whole, &[(&uuid, at, CARD)])))
    };
    let mut run = run();
    run.nodes([gpu_node("n1", 2)]).pods([on("a", 0), on("b", 1), bound(gpu_pod("guess", whole(1)), "n1", None)]);
    run.delete("b").rest();
    assert_eq!(run.devices_of("guess"), ["GPU-n1-1"]);
    assert_eq!(run.card("n1", 0).room().closed, None);
}

/// What the pod itself uses is no reason against the card that it uses.
#[test]
fn a_guess_is_where_the_agent_saw_the_pod() {
    let n1 = gpu_node("n1", 2);
    for demand in [whole(1), share(4000), share(9000)] {
        let theirs = || bound(gpu_pod("theirs", demand.clone()), "n1", None);
        let mut seen = used_by(&n1, "theirs", 2000);
        seen.devices[0].holders.clear();
        seen.devices[1].holders.push(Holder { pod: "theirs".into(), used: Mib(2000) });
        let facts = [
            Event::NodeApplied(Box::new(n1.clone())),
            Event::DevicesReported(Box::new(seen)),
            Event::PodApplied(Box::new(theirs())),
        ];
        for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 2, 0]] {
            let mut run = run();
            for at in order {
                run.engine.handle(run.now, facts[at].clone());
            }
            assert_eq!(run.devices_of("theirs"), ["GPU-n1-1"], "{demand:?}, {order:?}");
        }
    }
}

#[test]
fn releasing_twice_is_a_no_op() {
    let mut run = run();
    run.nodes([gpu_node("n1", 1)]);
    run.place(gpu_pod("a", share(4000)));
    run.place(gpu_pod("b", share(4000)));
    run.delete("a");
    let once = run.engine.state().content_hash();
    run.delete("a");
    assert_eq!(run.engine.state().content_hash(), once);
    assert_eq!(run.card("n1", 0).room().memory, Mib(6000));
}

// ---- cards that change -----------------------------------------------------------------------------

#[test]
fn cards_keep_their_holders_when_they_get_real_names() {
    let made_up = |i| CardSpec { uuid: CardSpec::made_up_uuid("n1", i), ..card("n1", i, CARD) };
    let real = gpu_node("n1", 2);
    let mut run = run();
    run.nodes([with_cards(node("n1"), vec![made_up(0), made_up(1)])]);
    run.place(gpu_pod("a", share(4000)));
    run.report(report(&real, 1_000_000, 0));
    assert_eq!(&**run.card("n1", 0).uuid(), "GPU-n1-0");
    assert_eq!(run.card("n1", 0).holdings().len(), 1);
    // The record still has the old name; seen again, it is the same card.
    run.pods([bound(gpu_pod("a", share(4000)), "n1", Some(record(GrantKind::Share, &[("n1/gpu-0", 0, 4000)])))]);
    assert_eq!(run.card("n1", 0).holdings().len(), 1);
    assert_eq!(run.engine.state().node_named("n1").map(|n| n.ledger().cards().len()), Some(2));
}

#[test]
fn a_sick_card_keeps_its_pods_and_takes_no_new_one() {
    let mut run = run();
    let n1 = gpu_node("n1", 1);
    run.nodes([n1.clone()]);
    run.place(gpu_pod("a", share(1000)));
    let mut sick = report(&n1, 1_000_000, 0);
    sick.devices[0].card.health = Health::Unhealthy("XID 79".into());
    run.report(sick);
    assert_eq!(run.card("n1", 0).room().closed, Some(Closed::Unhealthy));
    assert_eq!(run.place(gpu_pod("b", share(1000))), None);
    run.report(report(&n1, 1_000_001, 0)).settle();
    assert_eq!(run.node_of("b").as_deref(), Some("n1"));
    assert_eq!(run.card("n1", 0).holdings().len(), 2);
}

#[test]
fn a_lost_card_stays_listed_while_it_is_held() {
    let mut run = run();
    let n1 = gpu_node("n1", 2);
    run.nodes([n1.clone()]);
    run.place(gpu_pod("a", whole(1)));
    let mut lost = report(&n1, 1_000_000, 0);
    lost.devices.remove(0);
    run.report(lost);
    let gone = run.card("n1", 1);
    assert_eq!((gone.present(), gone.holdings().len()), (false, 1));
    assert_eq!(gone.room().closed, Some(Closed::Overcommitted(Overcommit::Gone)));
    run.report(report(&n1, 1_000_001, 0));
    assert_eq!(run.card("n1", 0).room().closed, None, "it is back, with its holder");
    assert_eq!(run.card("n1", 0).holdings()[0].kind, HoldKind::Whole);
}

// ---- measurements ----------------------------------------------------------------------------------

#[test]
fn foreign_memory_within_the_tolerance_leaves_a_card_whole() {
    for (foreign, fits) in [(0, true), (1024, true), (1025, false)] {
        let mut run = run();
        let n1 = gpu_node("n1", 1);
        run.nodes([n1.clone()]).report(report(&n1, 1_000_000, foreign));
        assert_eq!(run.card("n1", 0).room().memory, Mib(CARD - foreign), "shares get what is left in any case");
        assert_eq!(run.place(gpu_pod("a", whole(1))).is_some(), fits, "{foreign} MiB");
    }
}

#[test]
fn measurements_end_with_their_lease() {
    let mut run = Run::new(Config { report_lease: Millis::from_secs(60), ..Config::default() });
    let n1 = gpu_node("n1", 1);
    run.nodes([n1.clone()]).report(report(&n1, 1_000_000, 9000));
    assert_eq!(run.place(gpu_pod("a", share(5000))), None);
    assert_eq!(run.engine.next_wakeup(), Some(Timestamp(1_060_000)));
    run.wait(59_999).settle();
    assert_eq!(run.node_of("a"), None);
    run.wait(1).settle();
    assert_eq!(run.node_of("a").as_deref(), Some("n1"), "what was granted counts again");
    run.report(report(&n1, 1_000_000, 9000));
    assert_eq!(run.card("n1", 0).foreign(), Mib(0), "a report that is too old when it comes measures nothing");
}

/// Whatever comes first: the card has what the pod uses or was granted, whichever is more, taken off.
#[test]
fn the_order_of_facts_does_not_matter() {
    let known = gpu_node("n1", 1);
    let bare = Node { cards: Vec::new(), ..known.clone() };
    let facts = |node: &Node, recorded: bool| {
        let record = recorded.then(|| record(GrantKind::Share, &[("GPU-n1-0", 0, 1000)]));
        [
            Event::NodeApplied(Box::new(node.clone())),
            Event::PodApplied(Box::new(bound(gpu_pod("a", share(1000)), "n1", record))),
            Event::DevicesReported(Box::new(used_by(&gpu_node("n1", 1), "a", 3000))),
        ]
    };
    for (node, recorded) in [(&bare, true), (&bare, false), (&known, true), (&known, false)] {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut run = run();
            for at in order {
                run.engine.handle(run.now, facts(node, recorded)[at].clone());
            }
            run.rest();
            let what = format!("{order:?}, recorded: {recorded}, {} cards on the node", node.cards.len());
            assert_eq!(run.card("n1", 0).room().memory, Mib(CARD - 3000), "{what}");
        }
    }
}

/// A report is an object of its own: it outlives its node, and no longer than its lease.
#[test]
fn a_node_that_comes_back_brings_no_old_measurement() {
    let n1 = gpu_node("n1", 1);
    for lease_ends in [true, false] {
        let mut run = run();
        run.nodes([n1.clone()]).pods([bound(pod("a"), "n1", None)]).report(report(&n1, 1_000_000, 7000));
        run.engine.handle(run.now, Event::NodeDeleted { name: "n1".into() });
        if lease_ends {
            run.nodes([n1.clone()]);
            assert_eq!(run.card("n1", 0).foreign(), Mib(7000), "the report is there");
            run.wait(11 * 60 * 1000).rest();
        } else {
            run.engine.handle(run.now, Event::DeviceReportDeleted { node: "n1".into() });
            run.nodes([n1.clone()]);
        }
        assert_eq!(run.card("n1", 0).foreign(), Mib(0), "no report, no lease, no measurement");
        assert_eq!(run.engine.next_wakeup(), None);
    }
}

#[test]
fn a_parked_pod_looks_again_after_a_while() {
    let mut run = Run::new(Config { retry_after: Some(Millis::from_secs(60)), ..Config::default() });
    run.nodes([node("n1")]).pods([cpu_pod("a", 1_000_000)]).rest();
    for tries in 1..4 {
        assert_eq!(run.explain("a").attempts, tries);
        assert_eq!(run.engine.next_wakeup(), Some(Timestamp(run.now.0 + 60_000)));
        run.wait(59_999);
        assert!(run.rest().is_empty());
        assert_eq!(run.explain("a").attempts, tries, "not before its time");
        run.wait(1);
        assert!(run.rest().is_empty(), "nothing new to say");
    }
}

// ---- pods that go their own way --------------------------------------------------------------------

/// Two pods of one class wait; the node opens, the first of them is woken and goes away untried.
fn woken_then(happens: fn(Pod) -> Event) -> Run {
    let mut run = run();
    let cordoned = Node { unschedulable: true, ..node("n1") };
    let first = Pod { priority: 10, ..cpu_pod("first", 2000) };
    run.nodes([cordoned]).pods([first, cpu_pod("a", 1000), cpu_pod("b", 1000)]).rest();
    run.nodes([node("n1")]);
    assert!(matches!(run.engine.poll(run.now), Step::Act(Action::Bind { .. })), "the urgent one is bound");
    run.engine.handle(run.now, happens(cpu_pod("a", 1000)));
    run.rest();
    run
}

#[test]
fn a_woken_pod_that_goes_leaves_the_wake_to_the_next() {
    type Happens = fn(Pod) -> Event;
    fn applied(pod: Pod) -> Event {
        Event::PodApplied(Box::new(pod))
    }
    let cases: [(&str, Happens); 5] = [
        ("deleted", |a| Event::PodDeleted { uid: a.uid }),
        ("bound by another", |a| applied(bound(a, "far", None))),
        ("being deleted", |a| applied(Pod { terminating: true, ..a })),
        ("gated", |a| applied(Pod { gates: vec!["wait".into()], ..a })),
        ("of another class now", |a| applied(Pod { node_selector: [("no".into(), "where".into())].into(), ..a })),
    ];
    for (what, happens) in cases {
        let run = woken_then(happens);
        assert_eq!(run.node_of("b").as_deref(), Some("n1"), "{what}: {:?}", run.explain("b").phase);
    }
}

#[test]
fn somebody_else_binds_what_we_are_binding() {
    let mut run = run();
    run.nodes([gpu_node("n1", 1), gpu_node("n2", 1)]).pods([gpu_pod("a", whole(1))]);
    let bind = run.rest();
    let Some(Action::Bind { ticket, .. }) = bind.first() else { panic!("{bind:?}") };
    run.pods([bound(gpu_pod("a", whole(1)), "n2", Some(record(GrantKind::Whole, &[("GPU-n2-0", 0, CARD)])))]);
    let actions = run.rest();
    assert!(matches!(notices(&actions)[..], [Notice::BoundElsewhere { .. }]), "{actions:?}");
    run.answer(*ticket, Outcome::Failed("already bound".into())).rest();
    assert_eq!(run.node_of("a").as_deref(), Some("n2"));
    assert!(run.card("n1", 0).room().whole, "our claim is dropped");
}

#[test]
fn a_bound_pod_stays_bound_whatever_old_version_comes() {
    let mut run = run();
    run.nodes([gpu_node("n1", 1)]);
    let theirs = || Pod { scheduler: "other".into(), ..gpu_pod("theirs", share(1000)) };
    run.pods([bound(theirs(), "n1", None), theirs()]);
    run.place(gpu_pod("ours", share(1000)));
    run.pods([gpu_pod("ours", share(1000))]).rest();
    assert_eq!(run.node_of("ours").as_deref(), Some("n1"));
    assert!(run.engine.explain(&"theirs".into()).is_some(), "a bind is never undone by the API server");
}

#[test]
fn a_pod_that_is_deleted_while_it_is_bound_frees_its_place_at_once() {
    let mut run = run();
    run.nodes([gpu_node("n1", 1)]).pods([gpu_pod("a", whole(1)), gpu_pod("b", whole(1))]);
    let bind = run.rest();
    let ticket = bind.iter().find_map(|a| if let Action::Bind { ticket, .. } = a { Some(*ticket) } else { None });
    run.pods([Pod { terminating: true, ..gpu_pod("a", whole(1)) }]).settle();
    assert_eq!(run.explain("a").phase, PodPhase::Terminating);
    assert_eq!(run.node_of("b").as_deref(), Some("n1"));
    run.answer(ticket.expect("a was being bound"), Outcome::Failed("being deleted".into())).rest();
    assert_eq!(run.explain("a").phase, PodPhase::Terminating, "a late answer changes nothing");
}

#[test]
fn a_refused_bind_backs_off_and_is_tried_again() {
    let mut run = run();
    run.nodes([gpu_node("n1", 1)]).pods([gpu_pod("a", whole(1))]);
    for wait in [1000, 2000, 4000, 8000, 10_000, 10_000] {
        let bind = run.rest();
        let Some(Action::Bind { ticket, .. }) = bind.iter().find(|a| matches!(a, Action::Bind { .. })) else {
            panic!("{bind:?}")
        };
        run.answer(*ticket, Outcome::Failed("no".into())).rest();
        let until = Timestamp(run.now.0 + wait);
        assert_eq!(run.explain("a").phase, PodPhase::Waiting(Place::Backoff(until)));
        run.wait(wait);
    }
}

#[test]
fn one_step_a_poll_is_enough() {
    let mut run = Run::new(Config { steps_per_poll: 1, ..Config::default() });
    run.nodes((0..5).map(|i| gpu_node(&format!("n{i}"), 1)));
    assert_eq!(run.place(gpu_pod("a", whole(1))).as_deref(), Some("n0"));
}

#[test]
fn a_model_nobody_has_is_named_with_those_there_are() {
    let mut run = run();
    let wanted = Pod { models: gpu_scheduler_engine::model::ModelPattern::parse("H100*"), ..gpu_pod("a", whole(1)) };
    run.nodes([gpu_node("n1", 1)]).pods([wanted]).rest();
    let expected = format!(
        "0/1 nodes are available: 1 node(s) had no GPU of the requested model or UUID. \
         No GPU in the cluster matches model \"H100*\"; known models: {MODEL}."
    );
    assert_eq!(run.message("a"), expected);
}
