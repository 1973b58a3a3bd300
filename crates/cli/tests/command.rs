//! The binary as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn excerpt(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/data/openb-excerpt").join(name)
}

fn run(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gpu-scheduler"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that fails before it reads closes the pipe; that is its right.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn plan(args: &[&str], input: &str) -> (Value, String, i32) {
    let output = run(&[&["plan", "--output", "json"], args].concat(), input);
    (serde_json::from_slice(&output.stdout).unwrap(), text(&output.stderr), output.status.code().unwrap())
}

fn pod<'a>(plan: &'a Value, name: &str) -> &'a Value {
    plan["pods"].as_array().unwrap().iter().find(|p| p["name"] == name).unwrap()
}

#[test]
fn plan_says_what_becomes_of_every_pod() {
    let file = data("dump.yaml");
    let (plan, errors, code) = plan(&["-f", file.to_str().unwrap()], "");
    assert_eq!(code, 0);
    let names: Vec<&str> = plan["pods"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["running", "share", "big", "model", "bad", "huge", "t4"]);
    assert_eq!(pod(&plan, "running")["phase"], "Running");
    assert_eq!(pod(&plan, "running")["assumed"], true);
    let share = pod(&plan, "share");
    assert_eq!((&share["phase"], &share["node"]), (&"Scheduled".into(), &"n1".into()));
    let gpu = serde_json::json!({"container": "main", "uuid": "n1/gpu-1", "index": 1, "kind": "share", "memoryMiB": 8192,
        "computePercent": 30, "mig": null});
    assert_eq!(share["gpus"], serde_json::json!([gpu]));
    let expected =
        serde_json::json!({"scheduled": 1, "pending": 5, "evicted": 0, "gpusTotal": 6, "gpuAllocatedMilli": 1300});
    assert_eq!(plan["summary"], expected);
    assert!(errors.contains("object 10 (Pod default/broken), field spec.containers"), "{errors}");
    assert!(errors.contains("ignored: 1 v1/ConfigMap"), "{errors}");
}

#[test]
fn plan_says_why_pods_wait() {
    let file = data("dump.yaml");
    let (plan, _, _) = plan(&["-f", file.to_str().unwrap()], "");
    for (name, message) in [
        (
            "big",
            "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had untolerated taint(s). \
             Nearest: n1: 1 of 2 nvidia.com/gpu free, 3 asked (no node here has more than 2); n2: taint gpu.",
        ),
        (
            "model",
            "0/2 nodes are available: 1 node(s) had no GPU of the requested model or UUID, 1 node(s) had untolerated \
             taint(s). Nearest: n2: taint gpu. No GPU in the cluster matches model \"H200*\"; known models: \
             NVIDIA-A100-SXM4-80GB, Tesla-T4.",
        ),
        (
            "bad",
            "0/2 nodes are available: invalid GPU request: container \"main\" asks for gpu-scheduler/compute without \
             gpu-scheduler/memory; add the memory per card, such as gpu-scheduler/memory: 8Gi.",
        ),
        (
            "huge",
            "0/2 nodes are available: 1 node(s) had no GPU with enough free memory, 1 node(s) had untolerated taint(s). \
             Nearest: n1: GPU 1 has 73728 MiB free, 80896 MiB asked; n2: taint gpu.",
        ),
        (
            "t4",
            "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) didn't state \
             their GPU memory. Nearest: n2: label nvidia.com/gpu.memory is missing and no GPUNodeState reports it; run \
             the node agent or set the label (MiB).",
        ),
    ] {
        let said = pod(&plan, name)["message"].as_str().expect("a text").to_owned();
        // That nobody could make room stands behind each.
        let (why, room) = said.split_once(" preemption: ").expect("what preemption says");
        assert_eq!(why, message, "{name}");
        assert!(room.starts_with("0/2 nodes are available: "), "{name}: {room}");
    }
}

#[test]
fn plan_reads_standard_input_and_folders() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = std::fs::read_to_string(data("dump.yaml")).unwrap();
    std::fs::write(folder.path().join("a.yaml"), &manifest).unwrap();
    let (from_folder, _, _) = plan(&["-f", folder.path().to_str().unwrap()], "");
    let (from_stdin, _, _) = plan(&["-f", "-"], &manifest);
    assert_eq!(from_folder, from_stdin);
    assert_eq!(from_stdin["summary"]["scheduled"], 1);
}

#[test]
fn plan_honours_reports_only_while_they_are_fresh() {
    let report = |now: &str| {
        let input = r#"
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 64Gi, pods: "110"}}
---
apiVersion: gpu-scheduler.io/v1alpha1
kind: GPUNodeState
metadata: {name: n1}
status:
  updatedAt: "2026-11-29T10:00:00Z"
  devices:
  - {index: 0, uuid: GPU-a, model: NVIDIA-A10, totalMemoryMiB: 24576, usedMemoryMiB: 20480, foreignMemoryMiB: 20480, health: Healthy, mode: exclusive}
---
apiVersion: v1
kind: Pod
metadata: {name: share, namespace: ml}
spec: {schedulerName: gpu-scheduler, containers: [{name: main, resources: {limits: {gpu-scheduler/memory: 8Gi}}}]}
"#;
        let (plan, _, _) = plan(&["-f", "-", "--now", now], input);
        (pod(&plan, "share")["phase"].clone(), pod(&plan, "share")["message"].clone())
    };
    let (phase, message) = report("2026-11-29T10:05:00Z");
    assert_eq!(phase, "Pending");
    assert!(message.as_str().unwrap().contains("GPU 0 has 4096 MiB free, 8192 MiB asked"), "{message}");
    let (phase, _) = report("2026-11-29T10:12:00Z");
    assert_eq!(phase, "Scheduled", "a report past its lease of 11 minutes counts no more");
}

#[test]
fn exit_codes() {
    let file = data("dump.yaml");
    let file = file.to_str().unwrap();
    for (args, code, word) in [
        (vec!["plan", "-f", file], 0, "problem"),
        (vec!["plan", "-f", file, "--strict"], 1, "--strict"),
        (vec!["plan"], 2, "--filename"),
        (vec!["plan", "-f", "/nonexistent"], 2, "/nonexistent"),
        (vec!["plan", "-f", file, "--policy", "magic"], 2, "best-fit"),
        (vec!["plan", "-f", file, "--now", "yesterday"], 2, "yesterday"),
        (vec!["simulate", "--trace", "openb", "--nodes", "/nonexistent", "--pods", file], 2, "/nonexistent"),
        (vec!["simulate", "--trace", "openb", "--nodes", file, "--pods", file], 1, "column"),
        (vec!["simulate", "--trace", "closedb"], 2, "openb"),
        (vec![], 2, "Usage"),
        (vec!["--help"], 0, ""),
    ] {
        let output = run(&args, "");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(word), "{args:?}: {errors}");
    }
    let nothing = run(&["plan", "-f", "-"], "{{{{ not yaml");
    assert_eq!(nothing.status.code(), Some(1), "{}", text(&nothing.stderr));
}

#[test]
fn simulate_compares_policies() {
    let (nodes, pods) = (excerpt("nodes.csv"), excerpt("pods.csv"));
    let files = ["--nodes", nodes.to_str().unwrap(), "--pods", pods.to_str().unwrap()];
    let arguments = [&["simulate", "--trace", "openb"], &files[..], &["--seed", "7", "--policy"]].concat();
    let json = |policies: &str| -> Value {
        let output = run(&[&arguments[..], &[policies, "--output", "json"]].concat(), "");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let runs = json("spread,fgd");
    let at_full = |run: &Value, key: &str| run["atArrived"]["100"][key].as_f64().unwrap();
    let (spread, fgd) = (&runs[0], &runs[1]);
    assert_eq!((&spread["policy"], &fgd["policy"], &fgd["seed"]), (&"spread".into(), &"fgd".into(), &7.into()));
    assert!(at_full(fgd, "allocatedPct") > at_full(spread, "allocatedPct") + 5.0);
    assert!(
        at_full(spread, "heldPct") > at_full(spread, "allocatedPct"),
        "whole cards for shares hold more than is asked"
    );
    assert_eq!(at_full(fgd, "allocatedPct"), at_full(fgd, "heldPct"));
    let one = json("fgd");
    assert!(one.is_object(), "one run is one object");
    assert_eq!(one["curve"], fgd["curve"], "runs do not depend on each other, nor on the machine");
    let table = run(&[&arguments[..], &["spread,fgd"]].concat(), "");
    assert!(text(&table.stdout).contains("POLICY  ALLOCATED"), "{}", text(&table.stdout));
}
