//! What a run says of a table.

use std::collections::BTreeMap;
use std::fmt;

use super::report::{Report, Spec, State};
use super::table::{Expected, Row, Selection, Table};

/// How much of a spec's failure is shown: what comes later are whole objects.
const FAILURE_LINES: usize = 6;
/// How much of a spec's log is shown.
const LOG_LINES: usize = 25;

/// What came of a run, beside what was expected. It is shown as a table for people, then the differences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    results: Vec<String>,
    /// All that is not as the table says. A table that says less than is true is wrong as well.
    pub differences: Vec<String>,
}

impl Verdict {
    /// Holds a run against its table.
    #[must_use]
    pub fn of(table: &Table, selection: Selection, report: &Report) -> Self {
        let mut verdict = Self { results: Vec::new(), differences: report.problems.clone() };
        let mut specs: BTreeMap<&str, &Spec> = report.specs.iter().map(|spec| (&*spec.name, spec)).collect();
        for row in &table.rows {
            match specs.remove(&*row.name) {
                Some(spec) => verdict.judge(row, selection.includes(row), spec),
                None => verdict.differ(row, "the suite has no such spec; correct or remove its row"),
            }
        }
        let unknown =
            specs.values().map(|spec| format!("{}: a spec without a row; add one ({:?})", spec.name, spec.state));
        verdict.differences.extend(unknown);
        verdict
    }

    fn judge(&mut self, row: &Row, selected: bool, spec: &Spec) {
        if spec.conformance != row.conformance {
            self.differ(row, "the suite and the table do not agree on whether it is of the conformance set (C)");
        }
        let outcome = match spec.state {
            State::Skipped if !selected => return,
            _ if !selected => return self.differ(row, "it ran although it was not selected"),
            State::Passed => Some(Expected::Pass),
            State::Failed | State::Panicked | State::Timedout => Some(Expected::Fail),
            State::Skipped | State::Pending | State::Interrupted | State::Aborted => None,
        };
        let as_expected = outcome == Some(row.expected);
        let result = match (outcome, as_expected) {
            (Some(Expected::Pass), true) => "pass".to_owned(),
            (Some(Expected::Fail), true) => "fail, as expected".to_owned(),
            (Some(Expected::Pass), false) => "PASS, unexpected".to_owned(),
            (Some(Expected::Fail), false) => "FAIL".to_owned(),
            (None, _) => format!("{:?}", spec.state).to_uppercase(),
        };
        self.results.push(format!("{result:<18}{:>7.1}  {}", spec.time.as_secs_f64(), row.name));
        match outcome {
            _ if as_expected => {}
            Some(Expected::Pass) => self.differ(row, "it passes, but its row says that it cannot; correct the row"),
            _ => {
                let begin: Vec<&str> = spec.failure.lines().take(FAILURE_LINES).collect();
                let lines: Vec<&str> = spec.log.lines().collect();
                let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n    ");
                self.differ(row, &format!("{}\n  The end of what it wrote:\n    {end}", begin.join("\n  ")));
            }
        }
    }

    fn differ(&mut self, row: &Row, what: &str) {
        self.differences.push(format!("{}: {what}", row.name));
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<18}{:>7}  SPEC", "RESULT", "SECONDS")?;
        for result in &self.results {
            writeln!(f, "{result}")?;
        }
        for difference in &self.differences {
            writeln!(f, "\nNot as docs/conformance.md says: {difference}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn row(name: &str, expected: Expected) -> Row {
        Row { name: name.to_owned(), conformance: false, ci: true, expected }
    }

    fn spec(name: &str, state: State) -> Spec {
        let (time, failure, log) = (Duration::from_secs(2), "no pod".to_owned(), "one\ntwo".to_owned());
        Spec { name: name.to_owned(), conformance: false, state, time, failure, log }
    }

    fn verdict(rows: &[(&str, Expected)], selection: Selection, specs: &[(&str, State)]) -> Verdict {
        let table = Table { rows: rows.iter().map(|(name, expected)| row(name, *expected)).collect() };
        let specs = specs.iter().map(|(name, state)| spec(name, *state)).collect();
        Verdict::of(&table, selection, &Report { specs, problems: Vec::new() })
    }

    #[test]
    fn as_expected_is_no_difference() {
        let rows = [("a", Expected::Pass), ("b", Expected::Fail)];
        let all = verdict(&rows, Selection::All, &[("b", State::Timedout), ("a", State::Passed)]);
        assert_eq!(all.differences, [""; 0]);
        assert!(all.to_string().contains("pass                  2.0  a\nfail, as expected     2.0  b\n"), "{all}");
        let ci = verdict(&rows, Selection::Ci, &[("b", State::Skipped), ("a", State::Passed)]);
        assert_eq!((ci.differences.len(), ci.results.len()), (0, 1));
    }

    #[test]
    fn whatever_is_otherwise_is_a_difference() {
        let rows = [("a", Expected::Pass), ("b", Expected::Fail), ("c", Expected::Pass), ("d", Expected::Pass)];
        let specs = [("a", State::Failed), ("b", State::Passed), ("c", State::Skipped), ("e", State::Skipped)];
        let differences = verdict(&rows, Selection::All, &specs).differences;
        let expected =
            ["a: no pod\n  The end", "b: it passes, but", "c: no pod", "d: the suite has no", "e: a spec without"];
        assert_eq!(differences.len(), expected.len(), "{differences:#?}");
        for (difference, expected) in differences.iter().zip(expected) {
            assert!(difference.starts_with(expected), "{difference}");
        }
    }

    #[test]
    fn what_ran_unasked_or_changed_its_set_is_a_difference() {
        let table = Table { rows: vec![Row { ci: false, conformance: true, ..row("a", Expected::Pass) }] };
        let report = Report { specs: vec![spec("a", State::Passed)], problems: vec!["no nodes".to_owned()] };
        assert_eq!(Verdict::of(&table, Selection::Ci, &report).differences.len(), 3);
    }
}
