//! Facts that no sane cluster holds: they cost little, break nothing for others, and are forgotten when they go.

mod common;

use common::{CARD, Run, asking, bound, gpu_node, gpu_pod, node, pod, record, report, share, whole};
use gpu_scheduler_engine::model::{
    Allocation, CardSpec, Container, ContainerAllocation, ContainerKind, Demand, DeviceGrant, GrantKind, Holder, Mib,
    Percent, Pod, Quantity, ShareMemory,
};
use gpu_scheduler_engine::{Action, Config, Policy, Step};

fn memory(name: &str, bytes: i64) -> Pod {
    asking(pod(name), "memory", Quantity::units(bytes))
}

#[test]
fn huge_amounts_leave_no_trace() {
    let mut run = Run::policy(Policy::BestFit);
    run.nodes([common::sized("n1", 64_000, 100 << 10)]);
    run.place(memory("x", 60 << 30));
    run.pods([bound(memory("a", i64::MAX), "n1", None), bound(memory("b", i64::MAX), "n1", None)]);
    run.delete("a");
    run.delete("b");
    let requested = run.engine.state().node_named("n1").expect("it is there").requested().memory;
    assert_eq!(requested, 60 << 30);
    assert_eq!(run.place(memory("y", 60 << 30)), None, "60 and 60 GiB are more than 100");
    assert_eq!(run.place(memory("z", 30 << 30)).as_deref(), Some("n1"));
}

#[test]
fn huge_nodes_do_not_overflow_sums() {
    let mut run = Run::policy(Policy::ShadowPrice);
    let huge = |n: usize| {
        let mut node = gpu_node(&format!("n{n}"), 2);
        for resource in ["cpu", "memory"] {
            node.allocatable.insert(resource.into(), Quantity::units(i64::MAX));
        }
        node
    };
    run.nodes((0..8).map(huge));
    assert!(run.place(gpu_pod("a", share(100))).is_some());
    let card = CardSpec::new("GPU-big", 0, common::MODEL, Some(Mib(u64::MAX)));
    run.nodes([common::with_cards(node("big"), vec![card])]);
    for policy in Policy::ALL {
        let mut run = Run::policy(policy);
        let card = |i| CardSpec::new(format!("GPU-{i}"), i, common::MODEL, Some(Mib(u64::MAX)));
        run.nodes([common::with_cards(node("big"), (0..3).map(card).collect())]);
        assert!(run.place(gpu_pod("a", share(100))).is_some(), "{policy}");
    }
}

#[test]
fn absurd_counts_are_refused_at_once() {
    let mut run = Run::policy(Policy::Fgd);
    run.nodes([gpu_node("n1", 8)]);
    let many = Demand::Share { memory: ShareMemory::Mib(Mib(1)), compute: Percent(0), count: u32::MAX };
    assert_eq!(run.place(gpu_pod("a", many)), None);
    assert!(run.message("a").contains("room for the share on too few GPUs"), "{}", run.message("a"));
    // Somebody else's pod: a fact, however absurd.
    run.pods([bound(gpu_pod("b", whole(u32::MAX)), "n1", None)]);
    assert_eq!(run.devices_of("b").len(), 8);
}

#[test]
fn a_record_cannot_fill_the_memory() {
    let mut run = Run::policy(Policy::Fgd);
    run.nodes([gpu_node("n1", 1)]);
    for n in 0..20 {
        let device = |i: u32| DeviceGrant {
            uuid: format!("GPU-{n}-{i}"),
            index: i,
            memory: Mib(1),
            compute: Percent(0),
            mig: None,
        };
        let devices = (0..3500).map(device).collect();
        let container = ContainerAllocation { name: "main".into(), kind: Some(GrantKind::Share), devices };
        let record = Allocation { containers: vec![container] };
        run.pods([bound(gpu_pod(&format!("p{n}"), share(1)), "n1", Some(record))]);
    }
    assert!(run.engine.state().node_named("n1").expect("it is there").ledger().cards().len() <= 4096);
    assert_eq!(run.place(gpu_pod("sane", whole(1))).as_deref(), Some("n1"), "its real card is free");
}

#[test]
fn seventy_thousand_cards_are_no_other_cards() {
    let mut run = Run::policy(Policy::Fgd);
    let cards = (0..70_000).map(|i| common::card("n1", i, CARD)).collect();
    run.nodes([common::with_cards(node("n1"), cards)]);
    let mut pinned = gpu_pod("a", share(1));
    pinned.uuids = vec!["GPU-n1-65540".into()];
    assert_eq!(run.place(pinned), None, "a card beyond those that are kept apart is not there at all");
    let mut pinned = gpu_pod("b", share(1));
    pinned.uuids = vec!["GPU-n1-4".into()];
    run.place(pinned);
    assert_eq!(run.devices_of("b"), ["GPU-n1-4"]);
}

#[test]
fn one_uuid_is_one_card() {
    let mut run = Run::policy(Policy::Fgd);
    let twice = vec![common::card("n1", 0, CARD), CardSpec { index: 1, ..common::card("n1", 0, CARD) }];
    run.nodes([common::with_cards(node("n1"), twice)]);
    assert!(run.place(gpu_pod("a", whole(1))).is_some());
    assert_eq!(run.place(gpu_pod("b", whole(1))), None);
}

/// Twenty containers that cannot be arranged: the search gives up, and counts as what it takes.
#[test]
fn a_hard_pod_holds_nothing_up() {
    let mut run = Run::new(Config { steps_per_poll: 64, ..Config::with_policy(Policy::Fgd) });
    run.nodes((0..50).map(|n| gpu_node(&format!("n{n:02}"), 8)));
    let mut hard = pod("hard");
    hard.containers = (0..17)
        .map(|n| {
            let mut container = Container::new(format!("c{n}"), ContainerKind::App, [].into());
            container.gpu = vec![share(4_500)];
            container
        })
        .collect();
    run.pods([hard]);
    let mut polls = 0;
    loop {
        polls += 1;
        match run.engine.poll(run.now) {
            Step::Act(Action::SetCondition { condition, .. }) => {
                assert!(condition.message.contains("not for all together"), "{}", condition.message);
                break;
            }
            Step::Busy => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(polls >= 50, "a poll of 64 steps looks at one node for such a pod, but all came in {polls} polls");
}

#[test]
fn memory_of_unknown_pods_is_taken() {
    let mut run = Run::policy(Policy::Fgd);
    let n1 = gpu_node("n1", 1);
    let mut seen = report(&n1, 1_000_000, 0);
    seen.devices[0].used = Mib(6000);
    seen.devices[0].holders = vec![Holder { pod: "nobody".into(), used: Mib(6000) }];
    run.nodes([n1.clone()]).report(seen.clone());
    assert_eq!(run.place(gpu_pod("a", share(7000))), None, "processes of a pod that is not known use 6000");
    // Without holders: what is used and not explained is foreign.
    seen.devices[0].holders.clear();
    run.report(seen.clone());
    assert_eq!(run.place(gpu_pod("b", share(7000))), None);
    // The pod turns up: what it uses is its own.
    seen.devices[0].holders = vec![Holder { pod: "nobody".into(), used: Mib(6000) }];
    run.report(seen);
    let granted = record(GrantKind::Share, &[("GPU-n1-0", 0, 6000)]);
    run.pods([bound(gpu_pod("nobody", share(6000)), "n1", Some(granted))]);
    assert_eq!(run.place(gpu_pod("c", share(4000))).as_deref(), Some("n1"));
}

#[test]
fn an_update_does_not_put_off_the_next_try() {
    let mut run = Run::policy(Policy::Fgd);
    run.nodes([gpu_node("n1", 1)]);
    assert_eq!(run.place(gpu_pod("a", whole(2))), None);
    let due = run.engine.next_wakeup();
    assert!(due.is_some());
    run.pods([gpu_pod("a", whole(2))]);
    assert_eq!(run.engine.next_wakeup(), due);
}
