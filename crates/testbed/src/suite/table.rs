//! What is expected of each spec: the table of `docs/conformance.md`.

/// The document with the table. People read the same lines that the tests hold.
const DOCUMENT: &str = include_str!("../../../../docs/conformance.md");
/// The table's first line.
const HEAD: &str = "| spec | C | judges | runs | since | ours | why, or what it waits for |";

/// The specs of one minor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub(super) rows: Vec<Row>,
}

/// What is expected of one spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The spec's text without its group and its tags in brackets.
    pub name: String,
    /// Whether Kubernetes demands it of every cluster that calls itself conformant.
    pub conformance: bool,
    /// Whether it runs with every merge, once it passes.
    pub ci: bool,
    /// What comes of it with the scheduler under test.
    pub expected: Expected,
}

/// What comes of a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// It passes.
    Pass,
    /// It cannot pass, and the row says why.
    Fail,
}

/// Which specs are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// Those of every merge. One that cannot pass is none of them: it waits for minutes for what does not come.
    Ci,
    /// All.
    All,
}

impl Table {
    /// The table's rows for a minor.
    ///
    /// # Panics
    ///
    /// The document has no table, or a line of it is malformed: the message shows it.
    #[must_use]
    pub fn of(minor: &str) -> Self {
        Self::parse(DOCUMENT, minor)
    }

    fn parse(document: &str, minor: &str) -> Self {
        let mut lines = document.lines();
        assert!(lines.any(|line| line == HEAD), "docs/conformance.md has no line `{HEAD}`");
        let lines = lines.skip(1).take_while(|line| line.starts_with('|'));
        let rows = lines.filter_map(|line| {
            let (since, row) =
                Row::parse(line).unwrap_or_else(|| panic!("docs/conformance.md: no row of specs: {line}"));
            (number(minor) >= since).then_some(row)
        });
        Self { rows: rows.collect() }
    }

    /// The same specs, with nothing but passes expected: Kubernetes' own scheduler.
    #[must_use]
    pub fn all_pass(mut self) -> Self {
        for row in &mut self.rows {
            row.expected = Expected::Pass;
        }
        self
    }

    /// What Ginkgo is told to run.
    pub(super) fn focus(&self, selection: Selection) -> String {
        match selection {
            Selection::All => r"\[sig-scheduling\] ".to_owned(),
            Selection::Ci => {
                let names: Vec<String> =
                    self.rows.iter().filter(|row| selection.includes(row)).map(|row| pattern(&row.name)).collect();
                format!(r"\[sig-scheduling\] ({})$", names.join("|"))
            }
        }
    }
}

impl Selection {
    /// Whether a spec is run.
    pub(super) fn includes(self, row: &Row) -> bool {
        match self {
            Self::All => true,
            Self::Ci => row.ci && row.expected == Expected::Pass,
        }
    }
}

impl Row {
    /// The minor since which there is the spec, and the row; `None` if it is none.
    fn parse(line: &str) -> Option<(Vec<u32>, Self)> {
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let [name, conformance, judges, runs, since, ours, why] = cells[..] else { return None };
        let conformance = one_of(conformance, [("C", true), ("", false)])?;
        // Read by people only, but they must find a word that they know.
        one_of(judges, [("yes", ()), ("weakly", ()), ("no", ())])?;
        let ci = one_of(runs, [("ci", true), ("matrix", false)])?;
        let expected = one_of(ours, [("pass", Expected::Pass), ("**fail**", Expected::Fail)])?;
        if name.is_empty() || (expected == Expected::Fail && why.is_empty()) {
            return None;
        }
        let since = if since.is_empty() { Vec::new() } else { number(since) };
        Some((since, Self { name: name.to_owned(), conformance, ci, expected }))
    }
}

fn one_of<T, const N: usize>(cell: &str, words: [(&str, T); N]) -> Option<T> {
    words.into_iter().find(|(word, _)| *word == cell).map(|(_, value)| value)
}

/// A minor as numbers, which compare as minors do.
fn number(minor: &str) -> Vec<u32> {
    minor.split('.').map(|part| part.parse().unwrap_or_else(|_| panic!("'{minor}' is no minor"))).collect()
}

/// A regular expression of a spec's text, with tags anywhere between its words.
fn pattern(name: &str) -> String {
    const TAGS: &str = r"( \[[^]]*\])*";
    let words = name.split(' ').map(|word| {
        let escaped = word.chars().map(|c| if c.is_ascii_punctuation() { format!("\\{c}") } else { c.to_string() });
        escaped.collect::<String>()
    });
    words.collect::<Vec<_>>().join(&format!("{TAGS} ")) + TAGS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &str, minor: &str) -> Table {
        Table::parse(&format!("# Text\n\n{HEAD}\n|---|\n{rows}\n\nMore | text\n"), minor)
    }

    const ROWS: &str = "\
| Predicates holds | C | yes | ci | | pass | |
| Gangs wait. | | yes | ci | 1.37 | **fail** | gangs |
| Gangs run | | no | matrix | | pass | a minute |";

    #[test]
    fn a_minor_has_the_specs_that_were_there_by_then() {
        let names = |minor| table(ROWS, minor).rows.into_iter().map(|row| row.name).collect::<Vec<_>>();
        assert_eq!(names("1.36"), ["Predicates holds", "Gangs run"]);
        assert_eq!(names("1.100").len(), 3);
    }

    #[test]
    fn ci_runs_what_passes_with_tags_anywhere() {
        let table = table(ROWS, "1.37");
        assert_eq!(table.focus(Selection::Ci), r"\[sig-scheduling\] (Predicates( \[[^]]*\])* holds( \[[^]]*\])*)$");
        assert_eq!(pattern("wait."), r"wait\.( \[[^]]*\])*");
        assert!(table.all_pass().rows.iter().all(|row| row.expected == Expected::Pass));
    }

    #[test]
    #[should_panic(expected = "no row of specs: | a | | yes | ci | | **fail** | |")]
    fn what_cannot_pass_has_a_reason() {
        table("| a | | yes | ci | | **fail** | |", "1.37");
    }

    #[test]
    fn the_document_has_a_table_of_specs_of_their_own_names() {
        let rows = Table::of("1.37").rows;
        let mut names: Vec<&str> = rows.iter().map(|row| &*row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() == rows.len() && rows.iter().any(|row| row.ci && row.conformance));
    }
}
