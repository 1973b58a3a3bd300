//! What a collector gets of a scheduler's work.

use gpu_scheduler_testbed::collector::{Collector, Span};
use gpu_scheduler_testbed::objects::PodObject;
use gpu_scheduler_testbed::proxy::{Fault, Proxy, Rule};
use http::{Method, StatusCode};

use crate::bed::Bed;

/// The spans right below one, in the order in which they began.
fn below<'a>(spans: &'a [Span], parent: &Span) -> Vec<&'a Span> {
    let mut below: Vec<_> = spans.iter().filter(|s| s.id.0 == parent.id.0 && s.parent == parent.id.1).collect();
    below.sort_by_key(|s| s.time);
    below
}

fn attempt<'a>(spans: &'a [Span], pod: &str) -> &'a Span {
    let of_pod = |s: &&Span| s.name == "schedule" && s.is("k8s.pod.name") == pod;
    spans.iter().find(of_pod).unwrap_or_else(|| panic!("no attempt at {pod}: {spans:#?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_with_their_requests_and_the_term() {
    let collector = Collector::start().await.expect("a collector");
    let bed = Bed::start(1).await;
    bed.configure(&format!("tracing: {{endpoint: '{}', samplingRatePerMillion: 1000000}}\n", collector.address()));
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    // It takes effect, and nobody says so.
    proxy.add(Rule {
        method: Method::POST,
        path: "/pods/lost/binding".to_owned(),
        times: 1,
        fault: Fault::Lose(StatusCode::GATEWAY_TIMEOUT),
    });
    let scheduler = bed.scheduler_through("a", &proxy);
    let pods = [
        PodObject::new("share").share("8Gi", 30).build(),
        PodObject::new("lost").gpus(1).build(),
        PodObject::new("big").gpus(9).build(),
    ];
    bed.cluster.add_pods(pods).await.expect("pods");
    bed.bound("share").await;
    bed.bound("lost").await;
    bed.waits("big").await;
    bed.check().await;
    assert!(scheduler.stop(), "it ends well when asked to");

    let spans = collector.spans();
    let share = attempt(&spans, "share");
    assert_eq!((share.is("gpu_scheduler.result"), share.is("k8s.node.name")), ("scheduled", "n1"));
    assert_eq!((share.is("k8s.namespace.name"), share.is("gpu_scheduler.attempts")), ("default", "1"));
    assert_eq!((share.is("gpu_scheduler.profile"), &share.error), ("gpu-scheduler", &None));
    let requests = below(&spans, share);
    assert_eq!(requests.len(), 1, "{requests:#?}");
    let bind = requests[0];
    assert_eq!((bind.name.as_str(), bind.is("gpu_scheduler.outcome")), ("bind", "bound"));
    assert_eq!((bind.is("k8s.pod.uid"), bind.is("k8s.node.name")), (share.is("k8s.pod.uid"), "n1"));
    assert!(bind.is("gpu_scheduler.ticket").parse::<u64>().is_ok(), "{bind:?}");
    assert!(
        share.time.0 <= bind.time.0 && bind.time.0 < bind.time.1 && bind.time.1 <= share.time.1,
        "{share:?} {bind:?}"
    );

    let lost = attempt(&spans, "lost");
    assert_eq!(lost.is("gpu_scheduler.result"), "scheduled");
    let outcomes: Vec<_> = below(&spans, lost)
        .iter()
        .map(|s| (s.name.as_str(), s.is("gpu_scheduler.outcome"), s.error.is_some()))
        .collect();
    assert_eq!(outcomes, [("bind", "unknown", true), ("read_back", "bound", false)]);

    let big = attempt(&spans, "big");
    assert_eq!((big.is("gpu_scheduler.result"), &big.error), ("unschedulable", &None));
    assert!(big.is("gpu_scheduler.message").starts_with("0/1 nodes are available: "), "{big:?}");

    let term = spans.iter().find(|s| s.name == "lead").expect("the term has ended");
    assert_eq!((term.is("gpu_scheduler.lease"), term.is("gpu_scheduler.end")), ("gpu-scheduler", "asked"));
    // The loop looks for work all the time, and that is no attempt.
    assert!(spans.iter().all(|s| s.name == "lead" || !s.is("k8s.pod.uid").is_empty()), "{spans:#?}");
}
