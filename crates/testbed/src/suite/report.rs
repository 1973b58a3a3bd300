//! What the suite says of a run: Ginkgo's report, as far as we read it.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// What all of our specs' names begin with.
pub(super) const GROUP: &str = "[sig-scheduling] ";

/// What came of a run: every scheduling spec there is, run or not, and what went wrong beside them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    pub(super) specs: Vec<Spec>,
    /// Failures that are no spec's: in what goes before and after all of them, and of the run as a whole.
    pub(super) problems: Vec<String>,
}

/// A spec and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spec {
    /// Without its tags, see [`name`].
    pub name: String,
    pub conformance: bool,
    pub state: State,
    pub time: Duration,
    /// Why it failed, and where; empty if it did not.
    pub failure: String,
    /// What it wrote.
    pub log: String,
}

/// How a spec ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// Also one that was not selected.
    Skipped,
    Pending,
    Passed,
    Failed,
    Panicked,
    Timedout,
    Interrupted,
    Aborted,
}

impl Report {
    /// Reads Ginkgo's JSON report.
    pub(super) fn read(json: &[u8]) -> serde_json::Result<Self> {
        let mut report = Self::default();
        for suite in serde_json::from_slice::<Vec<SuiteReport>>(json)? {
            report.problems.extend(suite.special_suite_failure_reasons);
            for spec in suite.spec_reports {
                report.take(spec);
            }
        }
        Ok(report)
    }

    fn take(&mut self, spec: SpecReport) {
        let mut texts = spec.container_hierarchy_texts;
        texts.push(spec.leaf_node_text);
        let text = texts.join(" ");
        let failure = if spec.failure.message.is_empty() {
            String::new()
        } else {
            let Location { file_name, line_number } = &spec.failure.location;
            // The path begins with a module's folder, which says nothing.
            let file = file_name.rsplit_once("/test/").map_or(file_name.as_str(), |(_, file)| file);
            format!("{file}:{line_number}: {}", spec.failure.message.trim_end())
        };
        if spec.leaf_node_type != "It" {
            if !matches!(spec.state, State::Passed | State::Skipped) {
                self.problems.push(format!("{}: {failure}", spec.leaf_node_type));
            }
            return;
        }
        let Some(text) = text.strip_prefix(GROUP) else { return };
        self.specs.push(Spec {
            name: name(text),
            conformance: text.contains("[Conformance]"),
            state: spec.state,
            time: Duration::from_nanos(spec.run_time),
            failure,
            log: spec.captured_ginkgo_writer_output,
        });
    }
}

/// A spec's text without its tags (`[Serial]`, `[Alpha]`, …): they come and go with minors, and it is unique without.
pub(super) fn name(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').filter(|word| !(word.starts_with('[') && word.ends_with(']'))).collect();
    words.join(" ")
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SuiteReport {
    #[serde(deserialize_with = "null_is_empty")]
    special_suite_failure_reasons: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    spec_reports: Vec<SpecReport>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SpecReport {
    #[serde(deserialize_with = "null_is_empty")]
    container_hierarchy_texts: Vec<String>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: State,
    run_time: u64,
    #[serde(default)]
    failure: Failure,
    #[serde(default)]
    captured_ginkgo_writer_output: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Failure {
    message: String,
    location: Location,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Location {
    file_name: String,
    line_number: u32,
}

/// Go writes an empty list as `null`.
fn null_is_empty<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<Vec<T>>::deserialize(from).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_its_specs_and_what_failed_beside_them() {
        let json = br#"[{"SpecialSuiteFailureReasons": ["Suite Timeout Elapsed"], "SpecReports": [
            {"ContainerHierarchyTexts": null, "LeafNodeType": "SynchronizedBeforeSuite", "LeafNodeText": "", "State": "failed",
             "RunTime": 1, "Failure": {"Message": "no nodes\n", "Location": {"FileName": "/m/test/e2e/e2e.go", "LineNumber": 7}}},
            {"ContainerHierarchyTexts": ["[sig-scheduling] Predicates [Serial]"], "LeafNodeType": "It",
             "LeafNodeText": "holds [Conformance]", "State": "passed", "RunTime": 2000000000, "Failure": {"Message": ""}},
            {"ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeType": "It", "LeafNodeText": "runs", "State": "skipped",
             "RunTime": 0}]}]"#;
        let report = Report::read(json).unwrap();
        assert_eq!(report.problems, ["Suite Timeout Elapsed", "SynchronizedBeforeSuite: e2e/e2e.go:7: no nodes"]);
        let [spec] = &report.specs[..] else { panic!("{report:?}") };
        assert_eq!((&*spec.name, spec.conformance, spec.state), ("Predicates holds", true, State::Passed));
        assert_eq!((spec.time.as_secs(), &*spec.failure), (2, ""));
    }
}
