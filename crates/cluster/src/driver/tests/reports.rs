//! How long the measurements of an agent's report count, by our own clock.

use super::*;

/// One card, most of which a process uses that no pod explains.
fn report(written: &str) -> Seen<objects::GpuNodeState> {
    seen(json!({"metadata": {"name": "n1"}, "status": {"updatedAt": written, "devices": [
        {"index": 0, "uuid": "GPU-a", "model": "A100", "totalMemoryMiB": 81920, "foreignMemoryMiB": 81000}]}}))
}

/// Whether its measurement counts: then there is no room for a pod.
fn counts(bed: &mut Bed, pod_name: &str) -> bool {
    bed.apply(pod(pod_name, "40Gi"));
    let effects = bed.effects();
    let bound = effects.iter().any(|e| matches!(e, Effect::Bind(order) if &*order.pod.name == pod_name));
    let said = effects.iter().any(|e| matches!(e, Effect::Say { pod, .. } if &*pod.name == pod_name));
    assert_ne!(bound, said, "{effects:?}");
    said
}

const MINUTE: u64 = 60_000;
/// When the tests begin, as reports write it.
const START: &str = "1970-01-01T00:16:40Z";

#[test]
fn measurements_count_for_the_lease_after_the_report_changed() {
    let mut bed = Bed::new(vec![node("n1", 1)], vec![]);
    bed.take(Input::Reports(Change::Applied(report(START))));
    bed.pass(10 * MINUTE);
    assert!(counts(&mut bed, "within"));
    bed.pass(2 * MINUTE);
    assert!(!counts(&mut bed, "after"));
}

#[test]
fn an_agent_whose_clock_is_behind_ours_is_believed() {
    // Or ours is ahead: it was set wrong, was followed, and does not go back in this term.
    let mut bed = Bed::new(vec![node("n1", 1)], vec![]);
    bed.pass(60 * MINUTE);
    bed.take(Input::Reports(Change::Applied(report(START))));
    assert!(counts(&mut bed, "first"));
    bed.pass(12 * MINUTE);
    bed.take(Input::Reports(Change::Applied(report("1970-01-01T00:22:40Z"))));
    assert!(counts(&mut bed, "next"));
}

#[test]
fn what_is_only_listed_again_becomes_no_younger() {
    let mut bed = Bed::new(vec![node("n1", 1)], vec![]);
    bed.take(Input::Reports(Change::Applied(report(START))));
    bed.pass(12 * MINUTE);
    bed.list(Input::Reports, vec![report(START)]);
    assert!(!counts(&mut bed, "dead"), "nobody has written it since");
    bed.list(Input::Reports, vec![report("1970-01-01T00:17:00Z")]);
    assert!(counts(&mut bed, "alive"), "somebody has written it since");
}

#[test]
fn the_first_list_believes_what_a_report_says_of_its_age() {
    let mut bed = Bed::new(vec![node("n1", 1)], vec![]);
    bed.pass(60 * MINUTE);
    bed.list(Input::Reports, vec![report(START)]);
    assert!(!counts(&mut bed, "old"), "its agent may be gone for an hour");
    // One from the future is no older than now, and lives no longer.
    let mut bed = Bed::new(vec![node("n1", 1)], vec![]);
    bed.list(Input::Reports, vec![report("1970-01-02T00:00:00Z")]);
    bed.pass(12 * MINUTE);
    assert!(!counts(&mut bed, "future"));
}
