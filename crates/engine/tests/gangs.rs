//! Pods of a group: together where the group says how many, each for itself where it does not.

mod common;

use common::{Run, asking, group_name, pod, sized};
use gpu_scheduler_engine::Policy;
use gpu_scheduler_engine::model::{Pod, Quantity};

fn member(uid: &str, cpus: i64) -> Pod {
    Pod { group: Some(group_name("g")), ..asking(pod(uid), "cpu", Quantity::units(cpus)) }
}

fn run(min_count: Option<u32>) -> Run {
    let mut run = Run::policy(Policy::Spread);
    run.nodes([sized("n", 4000, 8192)]);
    run.group(&group_name("g"), min_count);
    run
}

#[test]
fn without_a_number_each_pod_is_placed_for_itself() {
    let mut run = run(None);
    run.pods([member("a", 3), member("b", 3), member("c", 1)]);
    run.settle();
    let placed = ["a", "b", "c"].map(|pod| run.node_of(pod).is_some());
    assert_eq!(placed, [true, false, true]);
}

#[test]
fn with_a_number_so_many_or_none() {
    for (min_count, expected) in [(2, [true, false, true]), (3, [false, false, false])] {
        let mut run = run(Some(min_count));
        run.pods([member("a", 3), member("b", 3), member("c", 1)]);
        run.settle();
        let placed = ["a", "b", "c"].map(|pod| run.node_of(pod).is_some());
        assert_eq!(placed, expected, "{min_count}");
    }
}

#[test]
fn a_group_that_is_not_there_is_waited_for() {
    let mut run = Run::policy(Policy::Spread);
    run.nodes([sized("n", 4000, 8192)]);
    run.pods([member("a", 1)]);
    run.settle();
    assert_eq!(run.node_of("a"), None);
    run.group(&group_name("g"), None);
    run.settle();
    assert_eq!(run.node_of("a").as_deref(), Some("n"));
}
