//! Every shipped node gives exactly the inventory, labels, report and metrics of `tests/nodes/NAME.txt`.
//!
//! After a change that is meant, `UPDATE_NODES=1 cargo test -p gpu-scheduler-agent --test shipped_nodes` writes the files anew:
//! read the difference line by line.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs};

use common::{TestNode, shown};
use gpu_scheduler_agent::config::MigStrategy;
use gpu_scheduler_agent::labels::{LabelOptions, labels};
use gpu_scheduler_agent::metrics::{HostnameLabel, Metrics, MetricsOptions};
use gpu_scheduler_agent::state::{Instance, status};

const NODES: [(&str, MigStrategy); 6] = [
    ("8xA100-80GB-SXM", MigStrategy::None),
    ("8xH100", MigStrategy::None),
    ("4xA10", MigStrategy::Single),
    ("2xT4", MigStrategy::None),
    ("1xA30", MigStrategy::Mixed),
    ("A100-mixed-mig", MigStrategy::Mixed),
];

fn seen(name: &str, mig_strategy: MigStrategy) -> String {
    let node = TestNode::shipped(name);
    let mut looking = node.looking();
    looking.round(&[]); // rates are of the second look
    let round = Arc::new(looking.round(&[]));
    assert_eq!(round.failed_calls, Default::default(), "{name}");
    let options = LabelOptions { mig_strategy, ..LabelOptions::default() };
    let mut text = format!("# inventory\n{}\n# labels\n", shown(&round.inventory));
    for (key, value) in labels(&round.inventory, &round.facts, &options) {
        text += &format!("{key}={value}\n");
    }
    let instance = Instance {
        id: "instance".to_owned(),
        started_at: "2026-11-29T10:00:00Z".to_owned(),
        hands_out: true,
        topology_manager: None,
    };
    let report = status(&round, &instance, &options);
    text += &format!("\n# status\n{}\n", serde_json::to_string_pretty(&report).unwrap());
    let metrics = Metrics::new(MetricsOptions { node: "n1".to_owned(), hostname_label: HostnameLabel::Capital });
    metrics.round(&round);
    text += "\n# metrics\n";
    for line in metrics.render().lines().filter(|line| !line.contains("collection_duration_seconds ")) {
        text += line;
        text.push('\n');
    }
    text
}

#[test]
fn every_shipped_node_is_seen_as_it_is() {
    let mut wrong = Vec::new();
    for (name, strategy) in NODES {
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/nodes").join(name).with_extension("txt");
        let seen = seen(name, strategy);
        if env::var_os("UPDATE_NODES").is_some() {
            fs::write(&file, &seen).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if let Some((line, (expected, seen))) =
            expected.lines().zip(seen.lines()).enumerate().find(|(_, (expected, seen))| expected != seen)
        {
            wrong.push(format!("{}:{}\n  expected {expected}\n  seen     {seen}", file.display(), line + 1));
        } else if expected.lines().count() != seen.lines().count() {
            wrong.push(format!(
                "{}: {} lines expected, {} seen",
                file.display(),
                expected.lines().count(),
                seen.lines().count()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
