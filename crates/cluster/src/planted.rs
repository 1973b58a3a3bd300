//! Faults that are planted on purpose, so that a test can show that it would find them. Compiled with the feature
//! `planted-bugs` alone, and even then none is there before a thread chooses it.

use std::cell::Cell;

/// A planted fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A bind without an answer is taken for one that failed: what it holds is given back at once.
    LostAnswerIsRefusal,
    /// A bind that is refused because of how things stand is taken for one that took effect.
    ConflictIsSuccess,
    /// What a new list does not name is kept.
    NothingIsSwept,
    /// A leader writes although its fence is closed.
    FenceIsIgnored,
    /// What could not be said of a pod is not said again.
    SaidOnlyOnce,
    /// A pod whose bind failed is not tried again; of the engine, which whoever makes one has to tell.
    FailuresAreForgotten,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::LostAnswerIsRefusal,
        Self::ConflictIsSuccess,
        Self::NothingIsSwept,
        Self::FenceIsIgnored,
        Self::SaidOnlyOnce,
        Self::FailuresAreForgotten,
    ];
}

thread_local! {
    static CHOSEN: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Plants a fault into whatever runs on this thread, or takes it out again.
pub fn plant(bug: Option<Bug>) {
    CHOSEN.set(bug);
}

/// Whether this fault is there.
pub fn is_planted(bug: Bug) -> bool {
    CHOSEN.get() == Some(bug)
}
