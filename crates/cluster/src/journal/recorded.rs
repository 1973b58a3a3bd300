//! An engine whose every call is written down.

use gpu_scheduler_engine::model::Timestamp;
use gpu_scheduler_engine::{Engine, Event, Step};

use super::record::{write_event, write_panic, write_poll};
use super::writer::Journal;

/// An engine, and the journal of what it is asked. Without a journal it is the engine.
#[derive(Debug)]
pub struct Recorded {
    engine: Engine,
    journal: Option<Journal>,
}

impl Recorded {
    /// Stands in front of an engine, which need not be new.
    pub fn new(engine: Engine, journal: Option<Journal>) -> Self {
        Self { engine, journal }
    }

    /// As [`Engine::handle`].
    pub fn handle(&mut self, now: Timestamp, event: Event) {
        self.begin_file_if_due(now);
        if let Some(journal) = &mut self.journal {
            journal.append(now, |out| write_event(out, now, &event));
        }
        self.engine.handle(now, event);
    }

    /// As [`Engine::poll`].
    pub fn poll(&mut self, now: Timestamp) -> Step {
        self.begin_file_if_due(now);
        let Some(journal) = &mut self.journal else { return self.engine.poll(now) };
        let poll = Poll { journal, now };
        let step = self.engine.poll(now);
        poll.end(&step);
        step
    }

    /// As [`Engine::next_wakeup`].
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.engine.next_wakeup()
    }

    /// The engine, to be read.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The journal, if one is kept.
    pub fn journal(&self) -> Option<&Journal> {
        self.journal.as_ref()
    }

    /// A new file takes a copy of the engine (`O(nodes + pods)`, written down by the journal's thread) and starts
    /// without kept evaluations, which are not part of it; so must the engine that goes on. Each class in use is then
    /// evaluated on all nodes once more, as after a start: once a file.
    fn begin_file_if_due(&mut self, now: Timestamp) {
        if let Some(journal) = &mut self.journal
            && journal.wants_snapshot(now)
        {
            self.engine.drop_caches();
            journal.begin(self.engine.snapshot());
        }
    }
}

/// A poll under way. One that panics is recorded too, so that a replay comes to the same place.
struct Poll<'a> {
    journal: &'a mut Journal,
    now: Timestamp,
}

impl Poll<'_> {
    fn end(self, step: &Step) {
        let now = self.now;
        self.journal.append(now, |out| write_poll(out, now, step));
    }
}

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let now = self.now;
            self.journal.append(now, |out| write_panic(out, now));
        }
    }
}
