//! `gpu-scheduler replay` as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gpu_scheduler_cluster::config::RunConfig;
use gpu_scheduler_cluster::journal::{Journal, JournalOptions, Recorded, find};
use gpu_scheduler_engine::model::{Node, Pod, Quantity, Timestamp};
use gpu_scheduler_engine::{Action, Engine, Event, Outcome, Step};
use serde_json::{Value, json};

fn run(args: &[&str]) -> (String, String, i32) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_gpu-scheduler")).arg("replay").args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

/// Three pods are bound; returns the only file.
fn journal(directory: &Path) -> PathBuf {
    let config = RunConfig::default();
    let written = serde_json::from_str(&config.to_json()).unwrap();
    let journal = Journal::open(&JournalOptions::new(directory), written).unwrap();
    let mut engine = Recorded::new(Engine::new(config.engine_config()), Some(journal));
    let now = Timestamp(1000);
    let mut node = Node { name: "n1".into(), ..Node::default() };
    node.allocatable.insert("cpu".into(), Quantity::units(4));
    engine.handle(now, Event::NodeApplied(Box::new(node)));
    for name in ["a", "b", "c"] {
        let mut pod = Pod::new(name, "default", name);
        pod.scheduler = "gpu-scheduler".into();
        engine.handle(now, Event::PodApplied(Box::new(pod)));
        let Step::Act(Action::Bind { ticket, .. }) = engine.poll(now) else { panic!("it fits") };
        engine.handle(now, Event::ActionFinished { ticket, outcome: Outcome::Done });
    }
    drop(engine);
    find(&[directory.to_owned()]).unwrap().remove(0)
}

#[test]
fn an_identical_journal_is_a_success() {
    let directory = tempfile::tempdir().unwrap();
    let file = journal(directory.path());
    let (out, errors, code) = run(&[directory.path().to_str().unwrap()]);
    assert_eq!((code, errors.as_str()), (0, ""), "{out}");
    let row = out.lines().nth(1).unwrap();
    assert!(row.starts_with(file.file_name().unwrap().to_str().unwrap()), "{out}");
    assert_eq!(row.split_whitespace().skip(1).collect::<Vec<_>>(), ["10", "7", "3", "identical"]);
    let (out, _, code) = run(&[file.to_str().unwrap(), "--until", "5", "--output", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &report["identical"], &report["files"][0]["records"]), (0, &json!(true), &json!(5)));
    let (out, _, code) = run(&[file.to_str().unwrap(), "--print"]);
    assert_eq!((code, out.lines().count()), (0, 11));
    assert!(out.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

#[test]
fn a_difference_is_a_failure_and_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = journal(directory.path());
    let text = String::from_utf8(zstd::decode_all(File::open(&file).unwrap()).unwrap()).unwrap();
    let forged =
        text.replacen("\"step\":{\"Act\":{\"Bind\":{\"ticket\":2", "\"step\":{\"Act\":{\"Bind\":{\"ticket\":9", 1);
    assert_ne!(text, forged);
    fs::write(&file, zstd::encode_all(forged.as_bytes(), 1).unwrap()).unwrap();
    let (out, errors, code) = run(&[file.to_str().unwrap()]);
    assert_eq!((code, errors.as_str()), (1, "error: 1 of 1 file(s) did not replay identically\n"));
    assert!(out.contains("record 6 at 1.000s") && out.contains("\"ticket\":9") && out.contains("\"n\":5,"), "{out}");
}

#[test]
fn wrong_use() {
    let directory = tempfile::tempdir().unwrap();
    let (_, errors, code) = run(&[directory.path().to_str().unwrap()]);
    assert!(code == 2 && errors.contains("no file in it that ends in .journal.zst"), "{errors}");
    assert_eq!(run(&[directory.path().join("absent").to_str().unwrap()]).2, 2);
    assert_eq!(run(&[]).2, 2);
}
