//! Planted violations: the checker is shown to fail on each.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::book::Book;
use super::{Rules, Violation, reason};

/// A pod of ours that asks for a card; more by a merge patch.
fn pod(name: &str, version: u64, more: &Value) -> Pod {
    let mut pod = json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()},
        "spec": {
            "schedulerName": "gpu-scheduler",
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    });
    merge(&mut pod, more);
    serde_json::from_value(pod).expect("it is a pod")
}

fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

fn waiting(name: &str, version: u64) -> Pod {
    pod(name, version, &json!({}))
}

/// Bound, with so much of one card.
fn bound(name: &str, version: u64, node: &str, kind: &str, memory: u64, compute: u64) -> Pod {
    let device = json!({"uuid": "card", "memoryMiB": memory, "computePercent": compute});
    let record = json!({"containers": [{"name": "main", "kind": kind, "devices": [device]}]}).to_string();
    let record = json!({"gpu-scheduler/allocation": record});
    pod(name, version, &json!({"metadata": {"annotations": record}, "spec": {"nodeName": node}}))
}

fn half(name: &str, version: u64) -> Pod {
    bound(name, version, "n1", "share", 40960, 50)
}

fn whole(name: &str, version: u64) -> Pod {
    bound(name, version, "n1", "whole", 81920, 100)
}

/// A book that has seen this, each event at its second.
fn book(tolerance: u64, events: impl IntoIterator<Item = (u64, Event<Pod>)>) -> (Book, Instant) {
    let rules = Rules { tolerance: Duration::from_secs(tolerance), ..Rules::default() };
    let (mut book, start) = (Book::new(rules), Instant::now());
    for (second, event) in events {
        book.take(start + Duration::from_secs(second), event);
    }
    (book, start)
}

fn violations(events: impl IntoIterator<Item = Event<Pod>>) -> Vec<Violation> {
    let (mut book, start) = book(0, events.into_iter().map(|event| (0, event)));
    book.violations(start).into_iter().collect()
}

#[test]
fn a_card_over_its_capacity() {
    let of_card = |found: Vec<Violation>| match &found[..] {
        [Violation::OverCapacity { memory, compute, holders, .. }] => (*memory, *compute, holders.join(" ")),
        other => panic!("{other:#?}"),
    };
    let third = |memory, compute| Event::Apply(bound("c", 3, "n1", "share", memory, compute));
    let two = || [Event::Apply(half("a", 1)), Event::Apply(half("b", 2))];
    assert_eq!(violations(two()), []);
    assert_eq!(of_card(violations(two().into_iter().chain([third(1, 0)]))), (81921, 100, "a b c".to_owned()));
    assert_eq!(of_card(violations(two().into_iter().chain([third(0, 1)]))), (81920, 101, "a b c".to_owned()));
    // It was so for a moment only, and was so.
    let gone = [Event::Delete(half("a", 4)), Event::Delete(half("b", 5))];
    assert_eq!(violations(two().into_iter().chain([third(1, 0)]).chain(gone)).len(), 1);
    // What is gone, or has ended, holds nothing.
    assert_eq!(violations(two().into_iter().chain([Event::Delete(half("a", 3)), third(40960, 50)])), []);
    let mut ended = half("a", 3);
    ended.status.get_or_insert_default().phase = Some("Failed".to_owned());
    assert_eq!(violations(two().into_iter().chain([Event::Apply(ended), third(40960, 50)])), []);
}

#[test]
fn two_pods_on_a_whole_card() {
    for (first, second) in [(whole("a", 1), whole("b", 2)), (half("a", 1), bound("b", 2, "n1", "whole", 0, 0))] {
        let found = violations([Event::Apply(first), Event::Apply(second)]);
        assert!(matches!(&found[..], [Violation::WholeCardShared { holders, .. }] if holders.len() == 2), "{found:#?}");
    }
    assert_eq!(
        violations([Event::Apply(whole("a", 1)), Event::Delete(whole("a", 2)), Event::Apply(whole("b", 3))]),
        []
    );
}

#[test]
fn a_slice_in_two_hands() {
    let slice = |name: &str, version, slice: &str| {
        let mut pod = bound(name, version, "n1", "mig", 10240, 0);
        let record = pod.metadata.annotations.as_mut().expect("it has some");
        record.values_mut().for_each(|v| *v = v.replace("\"uuid\"", &format!("\"mig\":{slice:?},\"uuid\"")));
        Event::Apply(pod)
    };
    assert_eq!(violations([slice("a", 1, "MIG-0"), slice("b", 2, "MIG-1")]), []);
    let found = violations([slice("a", 1, "MIG-0"), slice("b", 2, "MIG-0")]);
    assert!(matches!(&found[..], [Violation::SliceTwice { slice, .. }] if slice == "MIG-0"), "{found:#?}");
}

#[test]
fn a_pod_bound_twice() {
    let elsewhere = bound("a", 2, "n2", "share", 40960, 50);
    let found = violations([Event::Apply(half("a", 1)), Event::Apply(elsewhere.clone())]);
    assert!(
        matches!(&found[..], [Violation::BoundTwice { first, then, .. }] if first == "n1" && then == "n2"),
        "{found:#?}"
    );
    // Through a list too, when the watch was cut in between.
    let listed = [Event::Init, Event::InitApply(elsewhere), Event::InitDone];
    let found = violations([Event::Apply(half("a", 1))].into_iter().chain(listed));
    assert!(matches!(&found[..], [Violation::BoundTwice { .. }]), "{found:#?}");
    // On the same node with other cards is a second bind as well; and so is one taken back.
    let other = bound("a", 2, "n1", "share", 1, 1);
    let found = violations([Event::Apply(half("a", 1)), Event::Apply(other)]);
    assert!(matches!(&found[..], [Violation::RecordRewritten { .. }]), "{found:#?}");
    let found = violations([Event::Apply(half("a", 1)), Event::Apply(waiting("a", 2))]);
    assert!(matches!(&found[..], [Violation::Unbound { .. }]), "{found:#?}");
}

#[test]
fn a_record_that_does_not_go_with_its_pod() {
    let mut nowhere = half("a", 1);
    nowhere.spec.as_mut().expect("it has a spec").node_name = None;
    let mut bare = half("a", 1);
    bare.metadata.annotations = None;
    let mut broken = half("a", 1);
    broken.metadata.annotations.as_mut().expect("it has some").values_mut().for_each(|v| *v = "{".to_owned());
    let of = |pod| violations([Event::Apply(pod)]);
    assert!(matches!(&of(nowhere)[..], [Violation::RecordWithoutNode { .. }]));
    assert!(matches!(&of(bare)[..], [Violation::BoundWithoutRecord { .. }]));
    assert!(matches!(
        &of(broken)[..],
        [Violation::BoundWithoutRecord { .. }, Violation::BrokenRecord { .. }]
            | [Violation::BrokenRecord { .. }, Violation::BoundWithoutRecord { .. }]
    ));
}

#[test]
fn a_pod_that_neither_is_bound_nor_says_why() {
    let rules = Rules::default();
    let condition = |status: &str, message: &str| json!({"status": {"conditions": [{"type": "PodScheduled", "status": status, "message": message}]}});
    for (more, unsettled) in [
        (json!({}), true),
        (condition("False", ""), true),
        (condition("True", "why"), true),
        (condition("False", "0/1 nodes are available"), false),
        (json!({"spec": {"nodeName": "n1"}}), false),
        (json!({"spec": {"schedulingGates": [{"name": "g"}]}}), false),
        (json!({"status": {"nominatedNodeName": "n1"}}), false),
        (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), false),
        (json!({"spec": {"schedulerName": "another"}}), false),
    ] {
        let pod = pod("a", 1, &more);
        assert_eq!(rules.is_unsettled(&pod), unsettled, "{more}");
        let (book, _) = book(0, [(0, Event::Apply(pod))]);
        assert_eq!(!book.at_rest(), unsettled, "{more}");
    }
    assert_eq!(reason(&pod("a", 1, &condition("False", "full"))).as_deref(), Some("full"));
}

#[test]
fn what_is_tolerated_for_a_time_is_not_for_longer() {
    let double = |until| {
        [(0, Event::Apply(whole("a", 1))), (0, Event::Apply(whole("b", 2))), (until, Event::Delete(whole("b", 3)))]
    };
    for (until, wrong) in [(5, false), (6, true)] {
        let (mut book, start) = book(5, double(until));
        assert_eq!(book.violations(start + Duration::from_secs(60)).len(), usize::from(wrong), "until {until} s");
    }
    // One that has not ended yet.
    let (mut book, start) = book(5, double(99).into_iter().take(2));
    assert!(!book.at_rest());
    let after = |book: &mut Book, seconds| book.violations(start + Duration::from_secs(seconds)).len();
    assert_eq!((after(&mut book, 5), after(&mut book, 6)), (0, 1));
}

#[test]
fn a_list_is_taken_whole() {
    // The watch was cut: a went, b came, and the list shows b first.
    let list = [Event::Init, Event::InitApply(whole("b", 5)), Event::InitApply(waiting("c", 4)), Event::InitDone];
    assert_eq!(violations([Event::Apply(whole("a", 1))].into_iter().chain(list)), []);
    // Who is not in it is forgotten: a card of a pod that is gone can be had.
    let (mut book, start) = book(0, [(0, Event::Apply(whole("a", 1))), (0, Event::Init), (0, Event::InitDone)]);
    book.take(start, Event::Apply(whole("b", 2)));
    assert_eq!(book.violations(start), BTreeSet::new());
    assert_eq!((book.bound(), book.version()), (2, 2));
}
