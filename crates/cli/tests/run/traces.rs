//! Traces on their way out of the process. What is in them is tested on a real API server.

use std::net::SocketAddr;

use gpu_scheduler_testbed::collector::Collector;

use crate::process::{Process, folder, nobody};

fn tracing(collector: SocketAddr) -> String {
    format!("tracing: {{endpoint: '{collector}', samplingRatePerMillion: 0}}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_is_sent_when_the_process_ends() {
    let collector = Collector::start().await.expect("a collector");
    let folder = folder(&tracing(collector.address()));
    let mut process = Process::start(folder.path(), &[]);
    process.address().await;
    let (status, log) = process.stop().await;
    assert!(status.success(), "{log}");
    let spans = collector.spans();
    assert_eq!(spans.len(), 1, "{spans:#?}");
    let term = &spans[0];
    assert_eq!((term.name.as_str(), term.is("gpu_scheduler.end"), &term.error), ("lead", "asked", &None));
    assert_eq!((term.is("service.name"), term.is("service.version")), ("gpu-scheduler", env!("CARGO_PKG_VERSION")));
    assert!(term.is("service.instance.id").contains('_') && term.time.0 <= term.time.1, "{term:?}");
    assert!(!log.contains("traces"), "{log}");
}

#[tokio::test]
async fn a_collector_that_is_away_is_told_and_costs_nothing_else() {
    let away = nobody();
    let folder = folder(&tracing(away));
    let mut process = Process::start(folder.path(), &[]);
    process.address().await;
    let (status, log) = process.stop().await;
    assert!(status.success(), "{log}");
    let told: Vec<&str> = log.lines().filter(|line| line.contains("traces cannot be sent")).collect();
    assert!(told.len() == 1 && told[0].contains(&away.to_string()), "{log}");
}
