//! Kubelet and agent end and come back: nothing that runs is killed, nothing is given twice.

use std::time::Duration;

use gpu_scheduler_testbed::control_plane::wait::until;
use gpu_scheduler_testbed::objects::{PodObject, waiting};
use k8s_openapi::api::core::v1::Pod;

use super::bed::{Bed, has_failed, is_running, share, whole};

/// How long the agent is late after kubelet came back.
const LATE: Duration = Duration::from_secs(30);

fn restarts(pod: &Pod) -> i32 {
    pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].restart_count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubelet_comes_back_and_the_agent_is_late() {
    let mut bed = Bed::start("4xA10").await;
    let mut done = PodObject::new("done").gpus(1).command(&["true"]).build();
    done.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
    bed.create([done]).await;
    let ended = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Succeeded"));
    until(&bed.pods(), "done", "done to end", ended).await.unwrap();
    bed.create([whole("a", 2), whole("b", 1), share("c", "8Gi")]).await;
    let mut before = Vec::new();
    for pod in ["a", "b", "c"] {
        bed.runs(pod).await;
        let container = bed.node.container("default", pod, "main").await.unwrap();
        before.push((pod, bed.devices(pod, "main").await, container.processes().unwrap()));
    }

    bed.node.kill_kubelet();
    bed.agent.take().unwrap().kill();
    bed.node.start_kubelet().await.unwrap();
    // Without an agent nothing new comes here, and what comes waits rather than fails.
    bed.create([share("late", "8Gi"), PodObject::new("plain").runs().build()]).await;
    bed.runs("plain").await;
    until(&bed.pods(), "late", "late to wait", |pod| waiting(pod).is_some()).await.unwrap();
    tokio::time::sleep(LATE).await;
    bed.start_agent(&[]).await;
    bed.runs("late").await;
    let late = bed.devices("late", "main").await;

    for (pod, devices, processes) in before {
        let object = bed.pods().get(pod).await.unwrap();
        assert!(is_running(&object) && restarts(&object) == 0, "{object:?}");
        assert_eq!(bed.devices(pod, "main").await, devices);
        assert_eq!(bed.node.container("default", pod, "main").await.unwrap().processes().unwrap(), processes);
        if pod == "c" {
            assert_eq!(late, devices, "the only card with room");
        }
    }
    assert!(ended(&bed.pods().get("done").await.unwrap()), "what has ended stays as it ended");
    bed.nothing_is_given_twice("nvidia.com/gpu").await;
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_is_killed_at_every_step_of_an_allocation() {
    let mut bed = Bed::start("8xA100-80GB-SXM").await;
    bed.create([whole("keeps", 2)]).await;
    bed.runs("keeps").await;
    let kept = bed.devices("keeps", "main").await;
    let steps = ["kubelet asks which devices", "kubelet gives devices", "entered in the books", "handed out to"];
    for (n, step) in steps.into_iter().enumerate() {
        bed.agent.take().unwrap().kill();
        bed.offers("nvidia.com/gpu", 0).await;
        bed.run_agent(&[], &[("GPU_SCHEDULER_LOG", "info,gpu_scheduler_agent=debug")]);
        bed.offers("nvidia.com/gpu", 8).await;
        let name = format!("p{n}");
        bed.create([whole(&name, 2)]).await;
        let agent = bed.agent.take().unwrap();
        agent.says(step);
        agent.kill();
        bed.offers("nvidia.com/gpu", 0).await;
        bed.start_agent(&[]).await;
        bed.offers("nvidia.com/gpu", 8).await;
        // Whoever loses the answer to its call has failed by kubelet's rules; then it holds nothing.
        let pod =
            until(&bed.pods(), &name, "it to run or fail", |pod| is_running(pod) || has_failed(pod)).await.unwrap();
        if is_running(&pod) {
            bed.devices(&name, "main").await;
        } else {
            assert_eq!(pod.status.unwrap().reason.as_deref(), Some("UnexpectedAdmissionError"), "after {step}");
        }
        bed.nothing_is_given_twice("nvidia.com/gpu").await;
        bed.delete(&name).await;
    }
    bed.create([whole("rest", 6)]).await;
    bed.runs("rest").await;
    let rest = bed.devices("rest", "main").await;
    assert!(rest.len() == 6 && !rest.iter().any(|device| kept.contains(device)), "{rest:?}");
    let keeps = bed.pods().get("keeps").await.unwrap();
    assert!(is_running(&keeps) && restarts(&keeps) == 0);
    bed.nothing_is_given_twice("nvidia.com/gpu").await;
    bed.check().await;
}
