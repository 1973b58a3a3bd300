//! Cards are cut as the node's label wants them, around what runs.

use gpu_scheduler_nvml_mock::describe::Mig;
use gpu_scheduler_nvml_mock::{Gpu, Node as Description};
use gpu_scheduler_testbed::node::RealNodeOptions;
use gpu_scheduler_testbed::objects::PodObject;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;

use super::bed::{Bed, NODE, is_running};

/// The label that names a configuration.
const CONFIG: &str = "nvidia.com/mig.config";

fn state(node: &Node) -> Option<&str> {
    node.labels().get("nvidia.com/mig.config.state").map(String::as_str)
}

fn slice(name: &str, profile: &str) -> Pod {
    PodObject::new(name).limit(&format!("nvidia.com/mig-{profile}"), "1").runs().build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cards_are_cut_when_they_are_idle() {
    let card = || Gpu { mig: Mig { enabled: true, ..Mig::default() }, ..Gpu::of("A100-SXM4-40GB") };
    let mut bed = Bed::without_agent(Description::with(vec![card(), card()]), RealNodeOptions::new(NODE)).await;
    bed.run_agent(&["--mig-strategy", "mixed", "--partition"], &[]);
    // A pod may wait for slices that are not there yet.
    bed.create([slice("early", "1g.5gb")]).await;
    bed.label(CONFIG, "all-1g.5gb").await;
    bed.node_until("success", |node| state(node) == Some("success")).await;
    bed.offers("nvidia.com/mig-1g.5gb", 14).await;
    bed.runs("early").await;
    let device = bed.devices("early", "main").await;
    assert!(device[0].starts_with("MIG-"));

    // One card is in use: it stays as it is, the other one is cut, and the reason is told.
    bed.label(CONFIG, "all-2g.10gb").await;
    bed.node_until("a failure", |node| state(node) == Some("failed")).await;
    bed.offers("nvidia.com/mig-2g.10gb", 3).await;
    bed.offers("nvidia.com/mig-1g.5gb", 7).await;
    assert!(is_running(&bed.pods().get("early").await.unwrap()));
    assert_eq!(bed.devices("early", "main").await, device);

    bed.delete("early").await;
    bed.node_until("success", |node| state(node) == Some("success")).await;
    bed.offers("nvidia.com/mig-2g.10gb", 6).await;
    bed.create([slice("late", "2g.10gb")]).await;
    bed.runs("late").await;
    bed.devices("late", "main").await;
    bed.check().await;
}
