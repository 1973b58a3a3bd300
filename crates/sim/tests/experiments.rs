//! Whole experiments on the excerpt: what must hold of every run.

use std::path::{Path, PathBuf};

use gpu_scheduler_engine::Policy;
use gpu_scheduler_sim::experiment::{Experiment, Mix, Quiet, Settings, TraceName, read_plan};
use gpu_scheduler_sim::html;
use gpu_scheduler_sim::report::{Comparison, Outcome};
use gpu_scheduler_sim::{Permille, Seeds};
use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

fn excerpt(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/openb-excerpt").join(name)
}

fn openb() -> Settings {
    Settings {
        trace: Some(TraceName::Openb),
        nodes: Some(excerpt("nodes.csv")),
        pods: Some(excerpt("pods.csv")),
        policies: vec![Policy::Fgd, Policy::Spread],
        seeds: Some(Seeds(vec![7, 8])),
        ..Settings::default()
    }
}

fn steady(load: u64) -> Settings {
    Settings { load: Some(Permille(load)), warm_up: Some(1), measure: Some(2), ..openb() }
}

fn run(settings: &Settings, threads: usize) -> Vec<Outcome> {
    let experiment = Experiment::load(settings).expect("the settings are sound");
    experiment.run(threads, &Quiet).into_iter().map(Outcome::without_timing).collect()
}

fn json(outcomes: &[Outcome]) -> String {
    serde_json::to_string_pretty(outcomes).expect("reports are JSON")
}

#[test]
fn the_same_seed_gives_the_same_report_on_any_number_of_threads() {
    for settings in [openb(), steady(950)] {
        let once = run(&settings, 1);
        assert_eq!(json(&once), json(&run(&settings, 4)));
        let order: Vec<&str> = once.iter().map(Outcome::policy).collect();
        assert_eq!(order, ["fgd", "fgd", "spread", "spread"]);
        assert_ne!(json(&once[..1]), json(&once[1..2]), "seeds differ");
    }
}

#[test]
fn a_steady_state_has_the_demand_that_was_asked_for() {
    // Far from full next to nothing is refused (a scarce model now and then), and what is offered is allocated.
    let policies = vec![Policy::BestFit];
    let settings = Settings { warm_up: Some(6), measure: Some(200), policies, ..steady(400) };
    for outcome in run(&settings, 2) {
        let run = outcome.steady().expect("a load makes a steady state");
        assert!(run.refused.demand_pct < 0.1, "{:?}", run.refused);
        assert_eq!(run.held_pct, run.allocated_pct);
        assert!((run.allocated_pct - 40.0).abs() < 1.5, "{} allocated of 40 offered", run.allocated_pct);
        let offered = 100.0 * run.arrived.gpu_milli as f64 / run.capacity.gpu_milli as f64 / 200.0;
        assert!((offered - 40.0).abs() < 1.5, "{offered} % arrive in a mean stay");
        assert_eq!(run.curve.len(), 4 * 206);
    }
}

#[test]
fn pods_that_are_heavy_in_one_dimension_pair_up_on_cards() {
    let mix = Some(Mix::TwoDimensional);
    let settings = Settings { mix, pods: None, policies: vec![Policy::BestFit], ..steady(2000) };
    for outcome in run(&settings, 2) {
        let run = outcome.steady().expect("a load makes a steady state");
        assert_eq!(run.mix, "two-dimensional");
        assert!(run.allocated_pct > 100.0, "the larger dimensions sum to more than the cards: {}", run.allocated_pct);
    }
}

#[test]
fn the_excerpt_gives_these_numbers() {
    // Changed on purpose? Then the numbers in docs/simulate.md have changed too.
    let fills = run(&Settings { policies: vec![Policy::BestFit, Policy::Fgd, Policy::Spread], ..openb() }, 2);
    let at_full = |o: &Outcome| o.fill().and_then(|r| r.allocated_at(100)).expect("the order reaches 100 %");
    let found: Vec<(&str, f64)> = fills.iter().map(|o| (o.policy(), at_full(o))).collect();
    assert_eq!(found, GOLDEN_FILL);
    let policies = vec![Policy::BestFit, Policy::Fgd];
    let steadies = run(&Settings { policies, warm_up: Some(4), measure: Some(4), ..steady(950) }, 2);
    let found: Vec<(&str, f64)> =
        steadies.iter().filter_map(Outcome::steady).map(|r| (r.policy.as_str(), r.refused.demand_pct)).collect();
    assert_eq!(found, GOLDEN_STEADY);
}

const GOLDEN_FILL: &[(&str, f64)] = &[
    ("best-fit", 93.4926),
    ("best-fit", 93.8309),
    ("fgd", 94.8532),
    ("fgd", 93.2881),
    ("spread", 80.6691),
    ("spread", 80.7955),
];
const GOLDEN_STEADY: &[(&str, f64)] = &[("best-fit", 11.6175), ("best-fit", 4.8068), ("fgd", 10.7757), ("fgd", 4.4051)];

#[test]
fn pages_show_every_policy() {
    for settings in [openb(), steady(950)] {
        let outcomes = run(&settings, 2);
        let page = html::page("Title & <more>", &outcomes);
        assert!(page.contains("Title &amp; &lt;more&gt;"));
        for word in ["fgd", "spread", "<svg", "polygon", "polyline", "prefers-color-scheme", "aria-labelledby"] {
            assert!(page.contains(word), "{word}");
        }
        for word in ["http:", "https:", "<script", "NaN", "url("] {
            assert!(!page.contains(word), "{word}");
        }
        let comparison = Comparison::of(&outcomes).expect("pods arrived");
        assert_eq!(comparison.rows.len(), 2);
        assert!(comparison.rows.iter().all(|row| row.len() == comparison.columns.len()));
        assert!(comparison.head.contains("2 seeds"), "{}", comparison.head);
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let order = vec![PathBuf::from("a.42.txt")];
    let template = vec![PathBuf::from("a.{seed}.txt")];
    for (settings, setting, word) in [
        (Settings::default(), "trace", "openb or philly"),
        (Settings { nodes: None, ..openb() }, "nodes", "missing"),
        (Settings { pods: None, ..openb() }, "pods", "missing"),
        (Settings { order: order.clone(), ..openb() }, "seeds", "{seed}"),
        (Settings { order: template, seeds: None, ..openb() }, "order", "42..51"),
        (Settings { order, seeds: None, ..steady(950) }, "order", "without load"),
        (Settings { stay: Some(5), ..openb() }, "stay", "with load"),
        (Settings { stay: Some(0), ..steady(950) }, "stay", "seconds"),
        (Settings { measure: Some(0), ..steady(950) }, "measure", "mean stays"),
        (Settings { limit: Some(5), ..openb() }, "limit", "philly"),
        (Settings { mix: Some(Mix::Trace), ..openb() }, "mix", "with load"),
        (Settings { mix: Some(Mix::TwoDimensional), ..steady(950) }, "pods", "own mix"),
        (Settings { policies: vec![Policy::Fgd, Policy::Fgd], ..openb() }, "policies", "twice"),
        (Settings { trace: Some(TraceName::Philly), ..Settings::default() }, "jobs-file", "missing"),
        (Settings { trace: Some(TraceName::Philly), ..openb() }, "nodes", "openb"),
    ] {
        let error = Experiment::load(&settings).expect_err(setting).to_string();
        assert!(error.starts_with(&format!("{setting}: ")) && error.contains(word), "{setting}: {error}");
    }
}

#[test]
fn the_experiments_of_the_repository_can_be_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut plans = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        plans += 1;
        match read_plan(&path) {
            // Fields are read before variables are put in, so this says that the fields are right.
            Err(error) => assert!(error.to_string().contains("is not set"), "{error}"),
            Ok(settings) if path.to_string_lossy().contains("excerpt") => {
                Experiment::load(&settings).unwrap();
            }
            Ok(_) => {}
        }
    }
    assert!(plans >= 8, "{plans}");
}

/// A file of jobs, and the settings to replay it.
fn philly(folder: &Path, jobs: &[(u32, u32, u32)], cluster: &str) -> Settings {
    let mut text = "timestamp,duration,num_gpus\n".to_owned();
    for (minute, seconds, cards) in jobs {
        text += &format!("2017-10-01 {:02}:{:02}:00,{seconds},{cards}\n", minute / 60, minute % 60);
    }
    let path = folder.join("jobs.csv");
    std::fs::write(&path, text).expect("the folder can be written");
    Settings {
        trace: Some(TraceName::Philly),
        jobs_file: Some(path),
        cluster: Some(cluster.parse().expect("a cluster")),
        load: Some(Permille(900)),
        policies: vec![Policy::BestFit, Policy::Spread],
        ..Settings::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever comes and goes, everything is given back, and no job is lost.
    #[test]
    fn departures_free_everything(
        jobs in proptest::collection::vec((0_u32..1440, 0_u32..5000, 1_u32..20), 1..60),
        cluster in proptest::sample::select(vec!["1x8", "2x4", "4x8", "3x1"]),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let settings = philly(folder.path(), &jobs, cluster);
        if let Ok(experiment) = Experiment::load(&settings) {
            for outcome in experiment.run(1, &Quiet) {
                let run = outcome.queue().unwrap();
                prop_assert_eq!(run.left_over_milli, 0);
                prop_assert_eq!(run.jobs.arrived + run.jobs.too_large, jobs.len() as u64);
                prop_assert_eq!(run.jobs.arrived, run.jobs.finished + run.jobs.stuck);
                prop_assert_eq!(run.waiting.jobs, run.jobs.finished);
                prop_assert!(run.utilisation_pct <= 100.0 && run.utilisation_to_end_pct <= 100.0);
            }
        }
    }

    #[test]
    fn endings_free_everything(seed in 0_u64..1000, load in 100_u64..2000) {
        let settings = Settings { seeds: Some(Seeds(vec![seed])), policies: vec![Policy::BestFit], ..steady(load) };
        let experiment = Experiment::load(&settings).unwrap();
        for outcome in experiment.run(1, &Quiet) {
            let run = outcome.steady().unwrap();
            prop_assert_eq!(run.left_over_milli, 0);
            prop_assert!(run.held_pct <= 100.0 && run.allocated_pct <= run.held_pct + 1e-3);
        }
    }
}
