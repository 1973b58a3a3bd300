//! A journal does again what was done: over random histories, over files that were cut or forged, after panics.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::op::ops;
use common::world::World;
use gpu_scheduler_cluster::journal::{
    Difference, Happened, Header, Journal, JournalOptions, Reader, Recorded, Replayed, Start, find, print, replay,
};
use gpu_scheduler_engine::framework::{PluginName, PreBind};
use gpu_scheduler_engine::model::{NodeId, Pod, PodId, Timestamp};
use gpu_scheduler_engine::state::State;
use gpu_scheduler_engine::{Action, Config, Engine, Event, Outcome, Policy, PreBindStep, Step};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::{Value, json};

type Tape = Vec<(Timestamp, Option<Event>)>;

fn config(configuration: &Value) -> Result<Config, String> {
    let policy: Policy = configuration["policy"].as_str().unwrap().parse().unwrap();
    let steps = configuration["steps"].as_u64().unwrap();
    Ok(Config { steps_per_poll: u32::try_from(steps).unwrap(), ..Config::with_policy(policy) })
}

/// What a world asks of an engine, with some nodes at the beginning.
fn tape(configuration: &Value, ops: &[common::op::Op]) -> Tape {
    let mut world = World::new(config(configuration).unwrap());
    for name in ["n0", "n1", "n2"] {
        let node = common::gpu_node(name, 2);
        world.nodes.insert(name.into(), node.clone());
        world.send(Event::NodeApplied(Box::new(node)));
    }
    ops.iter().for_each(|op| world.step(op));
    world.tape
}

/// A history of some length, always the same.
fn some_tape(configuration: &Value) -> Tape {
    let seeded = ProptestConfig { rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() };
    let mut runner = TestRunner::new(seeded);
    let drawn = prop::collection::vec(common::op::op(), 400..401).new_tree(&mut runner).unwrap();
    tape(configuration, &drawn.current())
}

/// Writes a history down, in files of so many bytes; returns them.
fn record(directory: &Path, max_file_bytes: u64, configuration: &Value, tape: &Tape) -> Vec<PathBuf> {
    let options = JournalOptions { max_file_bytes, ..JournalOptions::new(directory) };
    let journal = Journal::open(&options, configuration.clone()).unwrap();
    let mut engine = Recorded::new(Engine::new(config(configuration).unwrap()), Some(journal));
    for (n, (now, event)) in tape.iter().enumerate() {
        match event {
            Some(event) => engine.handle(*now, event.clone()),
            None => drop(engine.poll(*now)),
        }
        // Where files end depends on how far the writer is; so it is the same every time.
        if n.is_multiple_of(16) {
            engine.journal().unwrap().flush();
        }
    }
    drop(engine);
    find(&[directory.to_owned()]).unwrap()
}

fn replayed(file: &Path) -> Replayed {
    replay(file, None, &config)
}

fn lines(file: &Path) -> Vec<String> {
    let text = zstd::decode_all(File::open(file).unwrap()).unwrap();
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

fn write_lines(file: &Path, lines: &[String]) {
    let text = lines.join("\n") + "\n";
    fs::write(file, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 250,
        rng_seed: RngSeed::Fixed(31),
        failure_persistence: None,
        max_shrink_iters: 500,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_file_replays_identically(
        ops in ops(120),
        policy in prop::sample::select(Policy::ALL.to_vec()),
        steps in prop_oneof![1_u32..8, Just(2048_u32)],
    ) {
        let configuration = json!({ "policy": policy.name(), "steps": steps });
        let tape = tape(&configuration, &ops);
        let directory = tempfile::tempdir().unwrap();
        let files = record(directory.path(), 2000, &configuration, &tape);
        let mut records = 0;
        for (n, file) in files.iter().enumerate() {
            let found = replayed(file);
            prop_assert_eq!(&found.result, &Happened::Identical, "{}", file.display());
            prop_assert_eq!(found.start, Some(if n == 0 { Start::Process } else { Start::Rotation }));
            prop_assert!(!found.cut_short && found.events + found.polls == found.records);
            records += found.records;
        }
        prop_assert_eq!(records, tape.len() as u64);
    }
}

fn journalled() -> (tempfile::TempDir, Vec<PathBuf>) {
    let configuration = json!({ "policy": "shadow-price", "steps": 20 });
    let directory = tempfile::tempdir().unwrap();
    let files = record(directory.path(), 20_000, &configuration, &some_tape(&configuration));
    assert!(files.len() > 2, "{} files", files.len());
    (directory, files)
}

#[test]
fn a_forged_action_is_found_at_its_record() {
    let (_directory, files) = journalled();
    let mut forged = lines(&files[1]);
    let at = forged.iter().rposition(|line| line.contains("\"Act\":{\"Bind\"")).unwrap();
    let original = forged[at].clone();
    forged[at] = original.replacen("\"node\":\"n", "\"node\":\"m", 1);
    write_lines(&files[1], &forged);
    let Happened::Different(difference) = replayed(&files[1]).result else { panic!("it was forged") };
    let Difference { record, expected, got, context, .. } = *difference;
    // The header is line 0, so a record's number is its line's.
    assert_eq!(record, at as u64);
    assert!(original.contains(&got) && forged[at].contains(&expected) && got != expected);
    assert!(!context.is_empty() && context.iter().all(|line| line.contains("\"event\"")));
    let before = replay(&files[1], Some(record - 1), &config);
    assert_eq!((before.result, before.records), (Happened::Identical, record - 1));
    assert_eq!(replayed(&files[2]).result, Happened::Identical, "every file stands by itself");
}

#[test]
fn a_lost_event_is_found_too() {
    let (_directory, files) = journalled();
    let mut forged = lines(&files[0]);
    let at = forged.iter().position(|line| line.contains("PodApplied")).unwrap();
    forged.remove(at);
    write_lines(&files[0], &forged);
    assert!(!replayed(&files[0]).is_identical());
}

#[test]
fn a_file_that_was_cut_is_read_as_far_as_it_goes() {
    let (_directory, files) = journalled();
    let whole = fs::read(&files[0]).unwrap();
    let all = replayed(&files[0]).records;
    let mut seen = std::collections::BTreeSet::new();
    for part in [0, 1, 5, 40, 100, whole.len() / 2, whole.len() * 3 / 4, whole.len() * 9 / 10, whole.len() - 1] {
        fs::write(&files[0], &whole[..part]).unwrap();
        let found = replayed(&files[0]);
        assert!(found.is_identical() && found.cut_short, "{part} bytes: {found:?}");
        assert!(found.records <= all);
        seen.insert(found.records);
    }
    assert!(seen.len() > 3, "of a longer part more can be read: {seen:?}");
}

#[test]
fn damage_is_no_cut() {
    let (_directory, files) = journalled();
    let mut damaged = lines(&files[0]);
    damaged[3] = damaged[3].replace("\"e\":", "\"x\":").replace("\"p\":", "\"x\":");
    write_lines(&files[0], &damaged);
    let Happened::Unreadable { why } = replayed(&files[0]).result else { panic!("record 3 is none") };
    assert!(why.contains("record 3"), "{why}");
    fs::write(&files[0], "not compressed").unwrap();
    assert!(matches!(replayed(&files[0]).result, Happened::Unreadable { .. }));
    let mut other = lines(&files[1]);
    other[0] = other[0].replacen("{\"journal\":1", "{\"journal\":2", 1);
    write_lines(&files[1], &other);
    let Happened::Unreadable { why } = replayed(&files[1]).result else { panic!("another format") };
    assert!(why.contains("replay it with the version that wrote it"), "{why}");
}

#[test]
fn only_so_many_files_are_kept() {
    let configuration = json!({ "policy": "fgd", "steps": 2048 });
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("notes.txt"), "not of the journal").unwrap();
    let options = JournalOptions { max_file_bytes: 1000, max_files: 3, ..JournalOptions::new(directory.path()) };
    let journal = Journal::open(&options, configuration.clone()).unwrap();
    let mut engine = Recorded::new(Engine::new(config(&configuration).unwrap()), Some(journal));
    for (now, event) in some_tape(&configuration) {
        match event {
            Some(event) => engine.handle(now, event),
            None => drop(engine.poll(now)),
        }
        engine.journal().unwrap().flush();
    }
    drop(engine);
    let files = find(&[directory.path().to_owned()]).unwrap();
    assert_eq!(files.len(), 3);
    let (_, last): (Reader, Header) = Reader::open(&files[2]).unwrap();
    assert_eq!((last.start, last.configuration), (Start::Rotation, configuration));
    assert!(directory.path().join("notes.txt").exists());
}

#[test]
fn records_are_printed_with_their_numbers() {
    let (_directory, files) = journalled();
    let mut out = Vec::new();
    print(&files[0], Some(5), &mut out).unwrap().unwrap();
    let printed: Vec<Value> =
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(printed.len(), 6);
    assert_eq!(
        (&printed[0]["configuration"]["policy"], &printed[0]["snapshot"]),
        (&json!("shadow-price"), &Value::Null)
    );
    assert_eq!((&printed[1]["n"], &printed[1]["event"]["NodeApplied"]["name"]), (&json!(1), &json!("n0")));
}

/// Panics at the second pod.
#[derive(Debug)]
struct Faulty;

impl PreBind for Faulty {
    fn name(&self) -> PluginName {
        "Faulty"
    }
    fn pre_bind(&self, state: &State, _: PodId, _: NodeId) -> Option<PreBindStep> {
        assert!(state.pods().count() < 2, "two pods are too many");
        None
    }
}

#[test]
fn a_panic_happens_again_where_it_happened() {
    let faulty = |_: &Value| Ok(Config::with_profile(Policy::Fgd.profile().with_pre_bind(Faulty)));
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(&JournalOptions::new(directory.path()), json!({})).unwrap();
    let mut engine = Recorded::new(Engine::new(faulty(&json!({})).unwrap()), Some(journal));
    let died = std::thread::spawn(move || {
        let now = Timestamp(1000);
        engine.handle(now, Event::NodeApplied(Box::new(common::gpu_node("n0", 2))));
        for name in ["a", "b"] {
            engine.handle(now, Event::PodApplied(Box::new(common::gpu_pod(name, common::whole(1)))));
            while engine.poll(now) != Step::Rest {}
        }
    });
    assert!(died.join().is_err());
    let files = find(&[directory.path().to_owned()]).unwrap();
    let found = replay(&files[0], None, &faulty);
    let Happened::Panicked { record, message, .. } = found.result else { panic!("{found:?}") };
    assert_eq!((record, message.as_str()), (lines(&files[0]).len() as u64 - 1, "two pods are too many"));
}

/// Pods come, are bound and go; returns how long the engine took over it, and how many events there were.
fn churn(engine: &mut Recorded, nodes: u32, pods: u32) -> (Duration, u32) {
    let mut events = 0;
    for n in 0..nodes {
        engine.handle(Timestamp(0), Event::NodeApplied(Box::new(common::gpu_node(&format!("node-{n:05}"), 8))));
    }
    let started = Instant::now();
    for n in 0..pods {
        let now = Timestamp(1000 + u64::from(n));
        // UIDs are as incompressible as real ones: most of what is left of a pod.
        let uid = |n: u32| u128::from(n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let pod = |n: u32| {
            let pod = common::gpu_pod(&format!("pod-{n:07}"), common::share(1000 + u64::from(n % 5) * 500));
            Pod { uid: format!("{:032x}", uid(n)).as_str().into(), ..pod }
        };
        engine.handle(now, Event::PodApplied(Box::new(pod(n))));
        loop {
            match engine.poll(now) {
                Step::Act(Action::Bind { ticket, .. }) => {
                    engine.handle(now, Event::ActionFinished { ticket, outcome: Outcome::Done });
                    events += 1;
                }
                Step::Act(_) | Step::Busy => {}
                Step::Rest => break,
            }
        }
        events += 1;
        if n >= nodes * 8 {
            engine.handle(now, Event::PodDeleted { uid: pod(n - nodes * 8).uid });
            events += 1;
        }
    }
    (started.elapsed(), events)
}

/// Prints what a journal costs. Figures are for people; nothing depends on them.
#[test]
fn what_it_costs() {
    let configuration = json!({ "policy": "shadow-price", "steps": 2048 });
    let (nodes, pods) = (200, 6000);
    let engine = || Engine::new(config(&configuration).unwrap());
    let (bare, events) = churn(&mut Recorded::new(engine(), None), nodes, pods);
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(&JournalOptions::new(directory.path()), configuration.clone()).unwrap();
    let mut recorded = Recorded::new(engine(), Some(journal));
    let (kept, _) = churn(&mut recorded, nodes, pods);
    let copied = Instant::now();
    let snapshot = recorded.engine().snapshot();
    let copied = copied.elapsed();
    let snapshot = serde_json::to_vec(&snapshot).unwrap().len();
    drop(recorded);
    let files = find(&[directory.path().to_owned()]).unwrap();
    let packed: u64 = files.iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    let plain: usize = files.iter().flat_map(|file| lines(file)).map(|line| line.len() + 1).sum();
    let per = |time: Duration| time.as_nanos() / u128::from(events);
    println!("{} ns an event without a journal, {} with one", per(bare), per(kept));
    println!("{} bytes a pod in lines, {} compressed", plain / pods as usize, packed / u64::from(pods));
    println!("a snapshot of {nodes} nodes and their pods: {} KiB, copied in {copied:?}", snapshot >> 10);
    for file in files {
        assert_eq!(replayed(&file).result, Happened::Identical);
    }
}
