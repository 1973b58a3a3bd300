//! What if? Changes that are kept or undone as a whole.
//!
//! The log keeps a copy of each node and pod from before its first change in a transaction; undoing puts
//! the copies back. So a rollback is exact by construction, costs `O(touched)`, and no operation needs an
//! inverse. Generations go back with the contents; the counter itself does not, so a number never means
//! two different contents.

use crate::ledger::Placement;
use crate::model::{NodeId, PodId};
use crate::state::{NodeState, Placed, PodEntry, State};

/// What was there before.
#[derive(Debug, Clone)]
pub(super) enum Undo {
    Node(Box<NodeState>),
    Pod(Box<PodEntry>),
}

/// How a transaction ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution<T> {
    /// Keep all changes.
    Commit(T),
    /// Undo all changes.
    Rollback(T),
}

/// An open transaction: reads like a [`State`], and changes placements only.
#[derive(Debug)]
pub struct Transaction<'a> {
    state: &'a mut State,
}

impl std::ops::Deref for Transaction<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        self.state
    }
}

impl Transaction<'_> {
    /// Places a pod that is nowhere, as a decision of ours.
    ///
    /// # Panics
    /// If the pod is placed already, or the placement breaks an invariant of the ledger.
    pub fn place(&mut self, pod: PodId, node: NodeId, placement: &Placement) {
        self.state.assume(pod, node, placement);
    }

    /// Takes a pod off its node.
    pub fn remove(&mut self, pod: PodId) -> Option<Placed> {
        self.state.unplace(pod)
    }

    /// Puts a pod back where it was before it was removed in this transaction.
    pub fn put_back(&mut self, pod: PodId, placed: Placed) {
        self.state.replace(pod, placed);
    }

    /// Gives back what a pod holds of GPUs, and leaves it where it is.
    pub fn release_devices(&mut self, pod: PodId) {
        self.state.release_devices(pod);
    }

    /// A transaction within this one.
    pub fn transaction<T>(&mut self, f: impl FnOnce(&mut Transaction<'_>) -> Resolution<T>) -> T {
        self.state.transaction(f)
    }
}

impl State {
    /// Runs `f` and keeps or undoes all that it changed. `O(touched nodes and pods)` in release builds; a
    /// debug build also compares the hash of the whole state around a rollback.
    pub(crate) fn transaction<T>(&mut self, f: impl FnOnce(&mut Transaction<'_>) -> Resolution<T>) -> T {
        let before = cfg!(debug_assertions).then(|| self.content_hash());
        let (mark, notices, disturbances) = (self.log.len(), self.notices.len(), self.disturbances.len());
        self.transactions.push(self.next_transaction);
        self.next_transaction += 1;
        let resolution = f(&mut Transaction { state: self });
        self.transactions.pop();
        match resolution {
            Resolution::Commit(value) => {
                if self.transactions.is_empty() {
                    // What was kept back while it could still be undone: guesses that
                    // can move, ghosts whose last pod went, and what was planned for placements.
                    for undo in std::mem::take(&mut self.log) {
                        match undo {
                            Undo::Node(node) => self.settle_kept(node.id()),
                            Undo::Pod(pod) if self.pods.get(pod.id.index()).is_some_and(|p| p.placed.is_none()) => {
                                self.give_back_plan(pod.id);
                            }
                            Undo::Pod(_) => {}
                        }
                    }
                }
                value
            }
            Resolution::Rollback(value) => {
                while self.log.len() > mark {
                    match self.log.pop() {
                        Some(Undo::Node(node)) => self.restore_node(node),
                        Some(Undo::Pod(pod)) => self.pods.restore(pod.id.index(), pod),
                        None => break,
                    }
                }
                self.notices.truncate(notices);
                self.disturbances.truncate(disturbances);
                if let Some(before) = before {
                    assert_eq!(before, self.content_hash(), "a rollback left the state changed");
                }
                value
            }
        }
    }

    fn restore_node(&mut self, node: Box<NodeState>) {
        let current = self.nodes.at(node.id().index());
        let lowest = (current.lowest_priority(), node.lowest_priority());
        self.changed.remove(&current.generation());
        self.relaxed.remove(&current.relaxed());
        if node.generation() > 0 {
            self.changed.insert(node.generation(), node.id());
        }
        if node.relaxed() > 0 {
            self.relaxed.insert(node.relaxed(), node.id());
        }
        self.count_lowest(lowest.0, lowest.1);
        let id = node.id();
        self.nodes.restore(id.index(), node);
        self.price(id);
    }

    /// Keeps a node's before-image, if a transaction is open that has none yet.
    pub(super) fn remember_node(&mut self, id: NodeId) {
        let Some(current) = self.transactions.last().copied() else { return };
        if mark(&mut self.node_marks, id.index(), current) {
            self.log.push(Undo::Node(Box::new(self.nodes.at(id.index()).clone())));
        }
    }

    /// Keeps a pod's before-image, if a transaction is open that has none yet.
    pub(super) fn remember_pod(&mut self, id: PodId) {
        let Some(current) = self.transactions.last().copied() else { return };
        if mark(&mut self.pod_marks, id.index(), current) {
            self.log.push(Undo::Pod(Box::new(self.pods.at(id.index()).clone())));
        }
    }
}

/// Notes that slot `at` has its before-image in `transaction`; false if it was noted already. After an
/// inner transaction the outer one may keep a second image: undoing goes backwards, so the first one wins.
fn mark(marks: &mut Vec<u64>, at: usize, transaction: u64) -> bool {
    if marks.len() <= at {
        marks.resize(at + 1, 0);
    }
    std::mem::replace(&mut marks[at], transaction) != transaction
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Mib, Pod};

    /// Outside of a transaction a ghost goes with its last pod; in one that is kept it must go too.
    #[test]
    fn a_kept_removal_buries_the_ghost() {
        let mut state = State::new(Mib(1024));
        let id = state.apply_pod(&Pod::new("a", "default", "a"), None);
        state.observe(id, "ghost", None);
        state.transaction(|tx| Resolution::Commit(tx.remove(id)));
        assert!(state.log.is_empty() && state.transactions.is_empty());
        assert!(state.node_named("ghost").is_none(), "nobody is on it, and nobody describes it");
    }
}
