//! Which devices a container gets: those of the record, in its environment and in kubelet's books.

use std::collections::BTreeSet;

use gpu_scheduler_testbed::objects::PodObject;

use super::bed::{Bed, visible};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_cards_and_shares() {
    let mut bed = Bed::start("8xA100-80GB-SXM").await;
    bed.offers("nvidia.com/gpu", 8).await;
    bed.offers("nvidia.com/gpu.shared", 8 * 48).await;

    bed.create([PodObject::new("first").gpus(1).runs(), PodObject::new("none").runs()]).await;
    bed.runs("first").await;
    let first = bed.devices("first", "main").await;
    assert_eq!(first.len(), 1);
    bed.runs("none").await;
    let none = bed.node.container("default", "none", "main").await.unwrap();
    assert_eq!(visible(&none), [""; 0], "a container without an allocation sees no card");

    let share = |name: &str, memory: &str| PodObject::new(name).limit("gpu-scheduler/memory", memory).runs();
    bed.create([share("a", "8Gi"), share("b", "12Gi")]).await;
    bed.runs("a").await;
    bed.runs("b").await;
    let (a, b) = (bed.devices("a", "main").await, bed.devices("b", "main").await);
    assert_eq!((a.len(), &a), (1, &b), "two shares are on one card");
    assert_ne!(a, first);

    for pod in ["first", "a", "b"] {
        bed.delete(pod).await;
    }
    bed.create([PodObject::new("all").gpus(8).runs()]).await;
    bed.runs("all").await;
    let all = bed.devices("all", "main").await;
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 8);
    bed.check().await;
}
