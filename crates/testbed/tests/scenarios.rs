//! Plays every file in `scenarios/`. With `UPDATE_SCENARIOS=1` in the environment it writes what came out
//! into the files instead of comparing.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use gpu_scheduler_testbed::{RunOptions, Scenario, Transcript, run};

/// Numbers of steps a poll that must all lead to the same outcome; `None` is the engine's default.
const STEPS: [Option<u32>; 4] = [None, None, Some(1), Some(3)];

#[test]
fn scenarios() {
    let update = std::env::var_os("UPDATE_SCENARIOS").is_some();
    let only = std::env::var("SCENARIO").unwrap_or_default();
    let mut failures = Vec::new();
    let files: Vec<PathBuf> = scenario_files().into_iter().filter(|f| f.to_string_lossy().contains(&only)).collect();
    assert!(!files.is_empty(), "no scenario matches {only:?}");
    for file in &files {
        if let Err(failure) = check(file, update) {
            failures.push(failure);
        }
    }
    let (failed, all) = (failures.len(), files.len());
    assert!(failures.is_empty(), "\n{}\n\n{failed} of {all} scenarios failed", failures.join("\n\n"));
}

fn scenario_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("the folder can be read").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "txt"));
    files.sort();
    files
}

fn check(file: &Path, update: bool) -> Result<(), String> {
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = fs::read_to_string(file).map_err(|e| format!("{name}: {e}"))?;
    let scenario = Scenario::parse(&name, &text).map_err(|e| e.to_string())?;
    let first = play(&scenario, STEPS[0])?;
    let written = scenario.with_outputs(&first);
    if update && written != text {
        fs::write(file, written).map_err(|e| format!("{name}: {e}"))?;
    } else if let Some(difference) = difference(&scenario, &first) {
        return Err(difference);
    }
    for steps in &STEPS[1..] {
        let again = play(&scenario, *steps)?;
        if again != first {
            let blocks = scenario.blocks.iter().zip(first.outputs.iter().zip(&again.outputs));
            let (block, (one, two)) = blocks.into_iter().find(|(_, (a, b))| a != b).expect("the transcripts differ");
            return Err(format!("{name}:{}: steps per poll {steps:?} say otherwise\n{}", block.line, diff(one, two)));
        }
    }
    Ok(())
}

fn play(scenario: &Scenario, steps_per_poll: Option<u32>) -> Result<Transcript, String> {
    let steps = steps_per_poll.map_or_else(|| "by default".to_owned(), |n| n.to_string());
    catch_unwind(AssertUnwindSafe(|| run(scenario, RunOptions { steps_per_poll, ..RunOptions::default() })))
        .map_err(|_| format!("{}: the engine panicked (steps per poll: {steps})", scenario.file))?
        .map_err(|e| format!("{e} (steps per poll: {steps})"))
}

fn difference(scenario: &Scenario, transcript: &Transcript) -> Option<String> {
    let blocks = scenario.blocks.iter().zip(&transcript.outputs);
    let wrong: Vec<String> = blocks
        .filter(|(block, output)| block.expected != **output)
        .map(|(block, output)| format!("{}:{}:\n{}", scenario.file, block.line, diff(&block.expected, output)))
        .collect();
    (!wrong.is_empty()).then(|| wrong.join("\n"))
}

/// Lines of both, those that only one of them has marked: `-` is expected, `+` is what came.
fn diff(expected: &[String], got: &[String]) -> String {
    let mut lines = Vec::new();
    let mut rest = got;
    for line in expected {
        match rest.iter().position(|g| g == line) {
            Some(at) => {
                lines.extend(rest[..at].iter().map(|g| format!("  + {g}")));
                lines.push(format!("    {line}"));
                rest = &rest[at + 1..];
            }
            None => lines.push(format!("  - {line}")),
        }
    }
    lines.extend(rest.iter().map(|g| format!("  + {g}")));
    lines.join("\n")
}
