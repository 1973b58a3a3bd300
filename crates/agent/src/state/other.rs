//! Notices a second agent on the node: both would write the same report in turn.

use std::collections::BTreeSet;

/// The other instances that were seen.
#[derive(Debug, Clone, Default)]
pub struct Others {
    wrote: bool,
    seen: BTreeSet<String>,
}

impl Others {
    /// This agent wrote its report. Until then, another instance there is the one before a restart.
    pub fn wrote(&mut self) {
        self.wrote = true;
    }

    /// The report is by `instance` now; whether that is another agent that was not seen before.
    pub fn found(&mut self, ours: &str, instance: Option<&str>) -> bool {
        match instance {
            Some(other) if self.wrote && other != ours => self.seen.insert(other.to_owned()),
            _ => false,
        }
    }

    /// How many were seen.
    pub fn count(&self) -> usize {
        self.seen.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_agent_is_noticed_once() {
        let mut others = Others::default();
        assert!(!others.found("a", Some("before")), "that is the one before the restart");
        others.wrote();
        assert!(!others.found("a", Some("a")));
        assert!(!others.found("a", None));
        assert!(others.found("a", Some("b")));
        assert!(!others.found("a", Some("b")));
        assert!(others.found("a", Some("c")));
        assert_eq!(others.count(), 2);
    }
}
