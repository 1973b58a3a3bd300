//! GPU models of the cluster, and patterns that choose among them.

use serde::{Deserialize, Serialize};

use crate::collections::Lookup;
use crate::model::ids::slot;

slot! {
    /// A GPU model that some node has or had.
    ModelId
}
slot! {
    /// A distinct [`ModelPattern`] that some pod uses.
    PatternId
}

/// A set of models.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ModelSet(Vec<u64>);

impl ModelSet {
    /// Whether `model` is in it.
    pub fn contains(&self, model: ModelId) -> bool {
        self.0.get(model.index() / 64).is_some_and(|word| word >> (model.index() % 64) & 1 == 1)
    }
    /// Whether no model is in it.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
    fn insert(&mut self, model: ModelId) {
        let word = model.index() / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (model.index() % 64);
    }
}

/// Which models a pod accepts: `A100*,H100*,!*PCIE*`. Globs (`*`, `?`), case ignored, matched with and
/// without the vendor's prefix (`NVIDIA-`, `Tesla-`). Nothing included means all but the excluded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct ModelPattern {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl ModelPattern {
    /// Reads the comma-separated form of the annotation `gpu-scheduler/model`.
    pub fn parse(text: &str) -> Self {
        Self::from_globs(text.split(','))
    }

    /// From single globs, `!` in front excludes; empty ones are skipped.
    pub fn from_globs<'a>(globs: impl IntoIterator<Item = &'a str>) -> Self {
        let mut pattern = Self::default();
        for glob in globs {
            let glob = glob.trim();
            let (list, glob) = match glob.strip_prefix('!') {
                Some(rest) => (&mut pattern.exclude, rest.trim()),
                None => (&mut pattern.include, glob),
            };
            if !glob.is_empty() {
                list.push(glob.to_owned());
            }
        }
        // A repeated glob stays: patterns are told apart by their texts, and the openb trace does so too.
        for list in [&mut pattern.include, &mut pattern.exclude] {
            list.sort();
        }
        pattern
    }

    /// Whether every model matches.
    pub fn is_any(&self) -> bool {
        self.include.is_empty() && self.exclude.is_empty()
    }

    /// Whether `model` matches.
    ///
    /// ```
    /// use gpu_scheduler_engine::model::ModelPattern;
    /// assert!(ModelPattern::parse("a100*").matches("NVIDIA-A100-SXM4-80GB"));
    /// assert!(!ModelPattern::parse("A100*,!*-80GB").matches("NVIDIA-A100-SXM4-80GB"));
    /// ```
    pub fn matches(&self, model: &str) -> bool {
        let full = model.to_lowercase();
        let bare =
            ["nvidia-", "tesla-"].iter().fold(full.as_str(), |name, vendor| name.strip_prefix(vendor).unwrap_or(name));
        let matches = |g: &String| {
            let g = g.to_lowercase();
            glob(g.as_bytes(), full.as_bytes()) || glob(g.as_bytes(), bare.as_bytes())
        };
        let any = |list: &[String]| list.iter().any(matches);
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

impl std::fmt::Display for ModelPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let globs = self.include.iter().cloned().chain(self.exclude.iter().map(|g| format!("!{g}")));
        f.write_str(&globs.collect::<Vec<_>>().join(","))
    }
}

/// Glob match with `*` and `?`, `O(pattern * text)`.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&c) if c == b'?' || c == text[t] => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((star_p, star_t)) => {
                    star = Some((star_p, star_t + 1));
                    p = star_p + 1;
                    t = star_t + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

/// All models ever seen and all patterns ever asked, with who matches whom worked out once.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "WrittenModels")]
pub struct Models {
    names: Vec<String>,
    #[serde(skip)]
    by_name: Lookup<String, ModelId>,
    patterns: Vec<(ModelPattern, ModelSet)>,
    #[serde(skip)]
    by_pattern: Lookup<ModelPattern, PatternId>,
}

impl Models {
    /// The id of `name`, made if it is new: `O(patterns)` then.
    pub fn model(&mut self, name: &str) -> ModelId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = ModelId::from_index(self.names.len());
        self.names.push(name.to_owned());
        self.by_name.insert(name.to_owned(), id);
        for (pattern, models) in &mut self.patterns {
            if pattern.matches(name) {
                models.insert(id);
            }
        }
        id
    }

    /// The id of `pattern`, made if it is new: `O(models)` then.
    pub fn pattern(&mut self, pattern: &ModelPattern) -> PatternId {
        if let Some(id) = self.by_pattern.get(pattern) {
            return *id;
        }
        let id = PatternId::from_index(self.patterns.len());
        let mut models = ModelSet::default();
        for (index, name) in self.names.iter().enumerate() {
            if pattern.matches(name) {
                models.insert(ModelId::from_index(index));
            }
        }
        self.patterns.push((pattern.clone(), models));
        self.by_pattern.insert(pattern.clone(), id);
        id
    }

    /// The models that a pattern matches.
    pub fn matching(&self, pattern: PatternId) -> &ModelSet {
        &self.patterns[pattern.index()].1
    }

    /// The pattern behind an id.
    pub fn pattern_text(&self, pattern: PatternId) -> &ModelPattern {
        &self.patterns[pattern.index()].0
    }

    /// The name of a model.
    pub fn name(&self, model: ModelId) -> &str {
        &self.names[model.index()]
    }
}

/// As they are written down: ids are places in the lists. Who matches whom is worked out again.
#[derive(Deserialize)]
struct WrittenModels {
    names: Vec<String>,
    patterns: Vec<(ModelPattern, ModelSet)>,
}

impl From<WrittenModels> for Models {
    fn from(written: WrittenModels) -> Self {
        let mut models = Self::default();
        for name in &written.names {
            models.model(name);
        }
        for (pattern, _) in &written.patterns {
            models.pattern(pattern);
        }
        models
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, model, expected) in [
            ("A100*", "NVIDIA-A100-SXM4-80GB", true),
            ("a100*", "A100-PCIE-40GB", true),
            ("NVIDIA-A100*", "NVIDIA-A100-SXM4-80GB", true),
            ("100", "NVIDIA-A100-SXM4-80GB", false),
            ("*100*", "NVIDIA-H100-80GB-HBM3", true),
            ("V100*", "Tesla-V100-SXM2-32GB", true),
            ("T4", "Tesla-T4", true),
            ("T?", "T4", true),
            ("A100*,H100*", "NVIDIA-H100-PCIe", true),
            ("!A100*", "NVIDIA-A100-SXM4-80GB", false),
            ("!A100*", "NVIDIA-H100-PCIe", true),
            ("H100*, !*pcie", "NVIDIA-H100-PCIe", false),
            ("", "anything", true),
            (" , ", "anything", true),
        ] {
            assert_eq!(ModelPattern::parse(pattern).matches(model), expected, "{pattern:?} on {model}");
        }
    }

    #[test]
    fn a_new_model_joins_the_patterns_that_match_it() {
        let mut models = Models::default();
        let t4 = models.model("T4");
        let pattern = models.pattern(&ModelPattern::parse("A100*"));
        assert!(models.matching(pattern).is_empty());
        let a100 = models.model("NVIDIA-A100-SXM4-80GB");
        assert!(models.matching(pattern).contains(a100) && !models.matching(pattern).contains(t4));
    }

    proptest::proptest! {
        #[test]
        fn globs_never_panic(pattern in "[a*?!,]{0,12}", text in "[ab]{0,12}") {
            let _ = ModelPattern::parse(&pattern).matches(&text);
        }
    }
}
