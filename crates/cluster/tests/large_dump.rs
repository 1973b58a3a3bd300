//! How long large dumps take. Run with
//! `cargo test --release -p gpu-scheduler-cluster --test large_dump -- --ignored --nocapture`.

use std::fmt::Write;
use std::time::Instant;

use gpu_scheduler_cluster::PodFact;
use gpu_scheduler_cluster::dump::DumpReader;

/// A pod as `kubectl get -o yaml` writes it, with about 130 lines of which few are read.
fn pod(index: usize) -> String {
    let mut text = format!(
        r#"- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      prometheus.io/scrape: "true"
    creationTimestamp: "2026-11-02T08:00:{:02}Z"
    labels:
      app: trainer
      pod-template-hash: 5d9c7b8f6
    managedFields:
    - apiVersion: v1
      fieldsType: FieldsV1
      fieldsV1:
        f:metadata:
"#,
        index % 60
    );
    for field in 0..60 {
        writeln!(text, "          f:some-field-with-a-name-{field}: {{}}").expect("a String takes all");
    }
    write!(
        text,
        r#"      manager: kubelet
      operation: Update
      time: "2026-11-02T08:00:00Z"
    name: trainer-{index}
    namespace: team-{}
    uid: 9a7c7f5e-0000-4c56-9d2a-{index:012}
  spec:
    containers:
    - args: [--epochs, "3"]
      env:
"#,
        index % 20
    )
    .expect("a String takes all");
    for variable in 0..15 {
        writeln!(text, "      - name: VARIABLE_{variable}\n        value: some value {variable}")
            .expect("a String takes all");
    }
    text += r#"      image: registry.example/trainer:1.2.3
      name: main
      resources:
        limits:
          cpu: "8"
          memory: 64Gi
          nvidia.com/gpu: "1"
        requests:
          cpu: "4"
          memory: 32Gi
          nvidia.com/gpu: "1"
    schedulerName: gpu-scheduler
  status:
    conditions:
    - lastProbeTime: null
      lastTransitionTime: "2026-11-02T08:00:00Z"
      status: "False"
      type: PodScheduled
    phase: Pending
"#;
    text
}

#[test]
#[ignore = "takes long; for measuring"]
fn time_grows_with_size() {
    for count in [5_000, 20_000, 100_000] {
        let items: String = (0..count).map(pod).collect();
        let text = format!("apiVersion: v1\nitems:\n{items}kind: List\nmetadata:\n  resourceVersion: \"\"\n");
        let yaml = measure("large.yaml", &text, count);
        if count <= 20_000 {
            let value: serde_json::Value =
                serde_saphyr::from_str_with_options(&text, serde_saphyr::options! { budget: None }).expect("YAML");
            let json = serde_json::to_string_pretty(&value).expect("JSON");
            assert_eq!(measure("large.json", &json, count), yaml);
        }
    }
}

/// Reads `text`, says how long it took, and returns the pods.
fn measure(file: &str, text: &str, count: usize) -> Vec<PodFact> {
    let start = Instant::now();
    let mut reader = DumpReader::default();
    reader.read_bytes(file, text.as_bytes());
    let dump = reader.finish();
    let taken = start.elapsed();
    assert_eq!((dump.pods.len(), dump.problems.len()), (count, 0));
    println!("{file} of {count} pods, {} MB: {} ms", text.len() / 1_000_000, taken.as_millis());
    dump.pods
}
