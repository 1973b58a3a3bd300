//! Nodes that cannot but score alike are scored once.
//!
//! In a large cluster most candidates are empty nodes of a few makes. After prices moved, or for a new class, each
//! of them would get a score that another one just got.

use smallvec::SmallVec;

use crate::framework::{Candidate, Profile};
use crate::state::{Class, NodeState, State};

/// Makes of nodes that are remembered: a look through them has to stay cheaper than a score.
const MAX_MAKES: usize = 8;

/// Scores of one class, while neither nodes nor prices change.
pub(super) struct Twins<'a> {
    profile: &'a Profile,
    state: &'a State,
    class: &'a Class,
    /// Whether the profile's scores are such that twins get the same.
    share: bool,
    scored: SmallVec<[(&'a NodeState, Candidate); MAX_MAKES]>,
}

impl<'a> Twins<'a> {
    pub fn new(profile: &'a Profile, state: &'a State, class: &'a Class) -> Self {
        // A UUID tells twins apart before any plugin does.
        let share = class.spec.gpu.uuids.is_empty() && profile.scorers().iter().all(|s| s.plugin.same_on_twins(class));
        Self { profile, state, class, share, scored: SmallVec::new() }
    }

    /// What [`Profile::score`] says of the node.
    pub fn score(&mut self, node: &'a NodeState) -> Option<Candidate> {
        if !self.share || !node.is_bare() {
            return self.profile.score(self.state, self.class, node);
        }
        if let Some((_, candidate)) = self.scored.iter().find(|(twin, _)| twin.is_twin_of(node)) {
            return Some(candidate.clone());
        }
        let candidate = self.profile.score(self.state, self.class, node)?;
        if self.scored.len() == MAX_MAKES {
            self.scored.remove(0);
        }
        self.scored.push((node, candidate.clone()));
        Some(candidate)
    }
}
