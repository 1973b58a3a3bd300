//! What kube-scheduler found good, from its log.
//!
//! At `--vmodule=schedule_one=10` it writes one line for each plugin and node, and one for each node's sum; at `-v=2` one
//! line for each pod that was bound, which says between how many nodes it chose.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The arguments that make it write what is read here.
pub(super) const ARGS: [&str; 2] = ["-v=2", "--vmodule=schedule_one=10"];

/// What it thought of the nodes for one pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scores {
    /// The sum of each node that would do. Empty where only one would: then nothing is scored.
    pub totals: BTreeMap<String, i64>,
    /// The parts, by node and plugin, already weighted.
    pub parts: BTreeMap<String, BTreeMap<String, i64>>,
}

impl Scores {
    /// The nodes with the highest sum, in the order of their names.
    #[must_use]
    pub fn best(&self) -> Vec<&str> {
        let most = self.totals.values().max();
        self.totals.iter().filter(|(_, total)| Some(*total) == most).map(|(node, _)| node.as_str()).collect()
    }
}

/// Reads the log as it grows.
#[derive(Debug)]
pub(super) struct ScoreLog {
    path: PathBuf,
    read: u64,
    /// What is left of a line that is not whole yet.
    rest: Vec<u8>,
    pods: BTreeMap<String, Scores>,
    /// Between how many nodes it chose, of pods that were bound.
    feasible: BTreeMap<String, usize>,
}

impl ScoreLog {
    /// From the end of what is there now.
    pub(super) fn follow(path: &Path) -> Self {
        let read = std::fs::metadata(path).map_or(0, |file| file.len());
        Self { path: path.to_owned(), read, rest: Vec::new(), pods: BTreeMap::new(), feasible: BTreeMap::new() }
    }

    /// What was written about a pod, `NAMESPACE/NAME`, up to now.
    pub(super) fn of(&mut self, pod: &str) -> io::Result<Scores> {
        self.catch_up()?;
        Ok(self.pods.get(pod).cloned().unwrap_or_default())
    }

    /// Whether the log says what it should: a pod with a choice has its scores. Otherwise the format has changed.
    pub(super) fn check(&mut self) -> io::Result<()> {
        self.catch_up()?;
        for (pod, feasible) in &self.feasible {
            let scored = self.pods.get(pod).map_or(0, |scores| scores.totals.len());
            if *feasible > 1 && scored != *feasible {
                let path = self.path.display();
                return Err(io::Error::other(format!(
                    "kube-scheduler chose for {pod} between {feasible} nodes, and {scored} scores are in {path}"
                )));
            }
        }
        Ok(())
    }

    fn catch_up(&mut self) -> io::Result<()> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut bytes = std::mem::take(&mut self.rest);
        self.read += file.read_to_end(&mut bytes)? as u64;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.rest = bytes.split_off(whole);
        for line in String::from_utf8_lossy(&bytes).lines() {
            self.line(line);
        }
        Ok(())
    }

    fn line(&mut self, line: &str) {
        let Some((message, fields)) = parse(line) else { return };
        let Some(pod) = fields.get("pod") else { return };
        let number = |field: &str| fields.get(field).and_then(|value| value.parse::<i64>().ok());
        let node = || fields.get("node").cloned();
        match message.as_str() {
            "Plugin scored node for pod" => {
                let scores = self.pods.entry(pod.clone()).or_default();
                if !scores.totals.is_empty() {
                    // Another try.
                    *scores = Scores::default();
                }
                if let (Some(node), Some(plugin), Some(score)) = (node(), fields.get("plugin"), number("score")) {
                    scores.parts.entry(node).or_default().insert(plugin.clone(), score);
                }
            }
            "Calculated node's final score for pod" => {
                if let (Some(node), Some(score)) = (node(), number("score")) {
                    self.pods.entry(pod.clone()).or_default().totals.insert(node, score);
                }
            }
            "Successfully bound pod to node" => {
                if let Some(feasible) = number("feasibleNodes").and_then(|count| usize::try_from(count).ok()) {
                    self.feasible.insert(pod.clone(), feasible);
                }
            }
            _ => {}
        }
    }
}

/// Message and fields of a line of structured text: `I1130 … file.go:1] "message" key="text" key=number`.
fn parse(line: &str) -> Option<(String, BTreeMap<String, String>)> {
    let (_, rest) = line.split_once("] ")?;
    let (message, mut rest) = quoted(rest)?;
    let mut fields = BTreeMap::new();
    while let Some((key, value)) = rest.trim_start().split_once('=') {
        let (text, left) = match quoted(value) {
            Some(read) => read,
            None => {
                let end = value.find(' ').unwrap_or(value.len());
                (value[..end].to_owned(), &value[end..])
            }
        };
        fields.insert(key.to_owned(), text);
        rest = left;
    }
    Some((message, fields))
}

/// A quoted text at the start, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut said = String::new();
    let mut characters = inner.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((said, &inner[at + 1..])),
            '\\' => said.extend(characters.next().map(|(_, escaped)| escaped)),
            other => said.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"I1130 01:02:03.004005    1234 schedule_one.go:985] "Plugin scored node for pod" pod="default/a" plugin="TaintToleration" node="n1" score=300
I1130 01:02:03.004005    1234 schedule_one.go:985] "Plugin scored node for pod" pod="default/a" plugin="NodeAffinity" node="n1" score=0
I1130 01:02:03.004005    1234 schedule_one.go:985] "Plugin scored node for pod" pod="default/a" plugin="TaintToleration" node="n2" score=300
I1130 01:02:03.004006    1234 schedule_one.go:1052] "Calculated node's final score for pod" pod="default/a" node="n1" score=300
I1130 01:02:03.004006    1234 schedule_one.go:1052] "Calculated node's final score for pod" pod="default/a" node="n2" score=300
E1130 01:02:03.004006    1234 other.go:1] "Something \"else\"" err="a=b" pod="default/b"
I1130 01:02:03.004007    1234 schedule_one.go:483] "Successfully bound pod to node" pod="default/a" node="n2" evaluatedNodes=3 feasibleNodes=2
"#;

    #[test]
    fn scores_are_read_however_the_log_grows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let old = LOG.replace("default/a", "default/old");
        std::fs::write(&path, &old).unwrap();
        let mut log = ScoreLog::follow(&path);
        for end in [10, 300, LOG.len()] {
            std::fs::write(&path, format!("{old}{}", &LOG[..end])).unwrap();
            log.catch_up().unwrap();
        }
        let scores = log.of("default/a").unwrap();
        assert_eq!(scores.best(), ["n1", "n2"]);
        assert_eq!(scores.parts["n1"], BTreeMap::from([("NodeAffinity".into(), 0), ("TaintToleration".into(), 300)]));
        assert_eq!(log.of("default/old").unwrap(), Scores::default());
        log.check().unwrap();
    }

    #[test]
    fn a_log_without_scores_is_found_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut log = ScoreLog::follow(&path);
        std::fs::write(&path, LOG.replace("final score", "last word")).unwrap();
        let error = log.check().unwrap_err().to_string();
        assert!(error.contains("between 2 nodes, and 0 scores"), "{error}");
    }

    #[test]
    fn escapes_are_read() {
        let (message, fields) = parse(r#"E1130 x] "Something \"else\"" err="a=b c" n=1 pod="default/b""#).unwrap();
        assert_eq!(message, "Something \"else\"");
        assert_eq!((&*fields["err"], &*fields["n"], &*fields["pod"]), ("a=b c", "1", "default/b"));
    }
}
