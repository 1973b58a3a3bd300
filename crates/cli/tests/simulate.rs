//! `gpu-scheduler simulate` as a user runs it: several runs, other traces, plans and pages.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn excerpt(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/data/openb-excerpt").join(name);
    path.to_string_lossy().into_owned()
}

fn simulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-scheduler"));
    command.arg("simulate").args(arguments).env("EXCERPT", excerpt("")).env_remove("NOWHERE");
    command.output().expect("the binary runs")
}

/// Its JSON, which must have come with exit code 0.
fn json(arguments: &[&str]) -> Value {
    let output = simulate(&[arguments, &["--output", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

fn openb<'a>(files: &'a [String; 2], more: &[&'a str]) -> Vec<&'a str> {
    [&["--trace", "openb", "--nodes", files[0].as_str(), "--pods", files[1].as_str()], more].concat()
}

fn files() -> [String; 2] {
    [excerpt("nodes.csv"), excerpt("pods.csv")]
}

/// A file of jobs in a folder.
fn jobs_in(folder: &Path) -> PathBuf {
    let path = folder.join("jobs.csv");
    let rows = (0..50).map(|n| format!("2017-10-01 00:{n:02}:00,{},{}\n", 60 + 37 * n % 400, 1 + n % 9));
    let text =
        rows.fold("timestamp,duration,num_gpus,cluster\n".to_owned(), |text, row| text + &row.replace('\n', ",x\n"));
    std::fs::write(&path, text).expect("the folder can be written");
    path
}

#[test]
fn several_policies_and_seeds_in_order() {
    let files = files();
    let runs = json(&openb(&files, &["--seeds", "7..8", "--policy", "best-fit,spread", "--jobs", "3"]));
    let named: Vec<(&str, u64)> = runs
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["policy"].as_str().unwrap(), run["seed"].as_u64().unwrap()))
        .collect();
    assert_eq!(named, [("best-fit", 7), ("best-fit", 8), ("spread", 7), ("spread", 8)]);
    assert_eq!(runs[0]["protocol"], "fill");
    let one = json(&openb(&files, &["--seed", "8", "--policy", "best-fit"]));
    assert_eq!(one["curve"], runs[1]["curve"], "a run alone is the same run");
    let table = simulate(&openb(&files, &["--seeds", "7..8", "--policy", "best-fit,spread"]));
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(text.contains("2 seeds") && text.contains(" ± "), "{text}");
    assert!(table.stderr.is_empty(), "no progress where there is no terminal");
}

#[test]
fn pods_come_and_go() {
    let files = files();
    let run = json(&openb(&files, &["--load", "0.95", "--stay", "60", "--warm-up", "1", "--measure", "2"]));
    assert_eq!(
        (&run["protocol"], &run["policy"], &run["seed"]),
        (&"steady".into(), &"shadow-price".into(), &42.into())
    );
    assert_eq!((&run["load"], &run["staySeconds"]), (&0.95.into(), &60.into()));
    assert_eq!((&run["warmUpStays"], &run["measuredStays"]), (&1.into(), &2.into()));
    for key in ["allocatedPct", "heldPct", "fragmentedPct"] {
        assert!(run[key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert_eq!(run["curve"].as_array().unwrap().len(), 12);
    assert!(run["refused"]["demandPct"].is_f64() && run["refusedBySize"]["1"]["podsPct"].is_f64());
}

#[test]
fn jobs_wait() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = jobs_in(folder.path());
    let arguments = ["--trace", "philly", "--jobs-file", jobs.to_str().unwrap(), "--cluster", "2x8", "--load", "0.9"];
    let run = json(&[&arguments[..], &["--limit", "40", "--policy", "best-fit"]].concat());
    assert_eq!((&run["trace"], &run["protocol"], &run["seed"]), (&"philly".into(), &"queue".into(), &Value::Null));
    assert_eq!(run["cluster"], serde_json::json!({"nodes": 2, "cardsPerNode": 8}));
    assert_eq!(run["jobs"], serde_json::json!({"arrived": 40, "finished": 40, "stuck": 0, "tooLarge": 0}));
    for size in ["1", "2-4", "5-8", ">8"] {
        assert!(run["waitingBySize"][size]["meanSeconds"].is_f64(), "{size}");
    }
    let table = simulate(&[&arguments[..], &["--policy", "best-fit,spread"]].concat());
    let text = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(text.contains("50 jobs arrive at 2 nodes of 8 cards") && text.contains("MEAN WAIT"), "{text}");
}

#[test]
fn a_plan_is_an_experiment_and_writes_reports() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("excerpt.yaml");
    let text = "title: <Excerpt>\ntrace: openb\nnodes: ${EXCERPT}/nodes.csv\npods: ${EXCERPT}/pods.csv\n\
        policies: [best-fit, spread]\nseeds: 7..8\nreport: {html: out/page.html, json: out/runs.json, table: out/t.txt}\n";
    std::fs::write(&plan, text).unwrap();
    let runs = json(&["--plan", plan.to_str().unwrap()]);
    let file = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&file("runs.json")).unwrap(), runs);
    assert!(file("page.html").contains("<h1>&lt;Excerpt&gt;</h1>"));
    assert!(file("t.txt").contains("POLICY"));
    let files = files();
    let flags = json(&openb(&files, &["--seeds", "7..8", "--policy", "best-fit,spread"]));
    assert_eq!(flags[3]["curve"], runs[3]["curve"], "flags and fields say the same");
}

#[test]
fn exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let files = files();
    let unknown = at("unknown.yaml", "trace: openb\nlaod: 1\n");
    let unset = at("unset.yaml", "trace: openb\nnodes: ${NOWHERE}/nodes.csv\n");
    let lacking = at("lacking.yaml", "trace: philly\n");
    let broken = at("jobs.csv", "timestamp,duration,num_gpus\nnever,1,1\n");
    let philly = ["--trace", "philly", "--cluster", "2x8", "--load", "0.9", "--jobs-file"];
    for (arguments, code, words) in [
        (vec![], 2, vec!["--plan"]),
        (openb(&files, &["--plan", &unknown]), 2, vec!["--plan"]),
        (vec!["--plan", "/nonexistent.yaml"], 2, vec!["/nonexistent.yaml"]),
        (vec!["--plan", &unknown], 2, vec!["unknown.yaml", "line 2", "laod"]),
        (vec!["--plan", &unset], 2, vec!["unset.yaml", "field nodes", "NOWHERE"]),
        (vec!["--plan", &lacking], 2, vec!["lacking.yaml", "field jobs-file"]),
        (openb(&files, &["--load", "fast"]), 2, vec!["fast", "1.3"]),
        (openb(&files, &["--seeds", "9..1"]), 2, vec!["9..1"]),
        (openb(&files, &["--limit", "3"]), 2, vec!["--limit", "philly"]),
        (openb(&files, &["--load", "1", "--mix", "two-dimensional"]), 2, vec!["--pods", "mix"]),
        (openb(&files, &["--jobs", "0"]), 2, vec!["--jobs"]),
        (openb(&files, &["--order", "a.txt", "--inflate", "2"]), 2, vec!["--inflate"]),
        (openb(&files, &["--html", "/dev/null/x.html"]), 2, vec!["/dev/null/x.html"]),
        ([&philly[..], &["/nonexistent"]].concat(), 2, vec!["/nonexistent"]),
        ([&philly[..], &[broken.as_str()]].concat(), 1, vec!["line 2", "timestamp"]),
        (vec!["--trace", "philly", "--cluster", "8"], 2, vec!["64x8"]),
    ] {
        let output = simulate(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        for word in words {
            assert!(errors.contains(word), "{arguments:?}: {errors}");
        }
    }
}
