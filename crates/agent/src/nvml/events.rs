//! Watches for XIDs, on a thread of its own: NVML's wait blocks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::sync::Notify;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::library::Library;
use super::raw::EventSet;
use super::xid::XidEvent;
use crate::inventory::GpuUuid;

/// How long a wait lasts, and so how long a watcher may take to end.
const WAIT_MS: u32 = 5000;

/// Where XIDs arrive, from however many watchers.
#[derive(Debug)]
pub struct XidInbox {
    sink: XidSink,
    events: UnboundedReceiver<XidEvent>,
}

/// The way into an inbox.
#[derive(Debug, Clone)]
pub struct XidSink {
    events: UnboundedSender<XidEvent>,
    arrived: Arc<Notify>,
}

impl XidInbox {
    /// An empty one.
    pub fn new() -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        Self { sink: XidSink { events: sender, arrived: Arc::default() }, events }
    }

    /// The way into it.
    pub fn sink(&self) -> XidSink {
        self.sink.clone()
    }

    /// Is notified when something arrived.
    pub fn arrived(&self) -> Arc<Notify> {
        self.sink.arrived.clone()
    }

    /// What arrived first, if anything is there.
    pub fn take(&mut self) -> Option<XidEvent> {
        self.events.try_recv().ok()
    }
}

impl Default for XidInbox {
    fn default() -> Self {
        Self::new()
    }
}

/// A thread that waits for XIDs of certain cards. Dropping it ends the thread at the end of its wait.
#[derive(Debug)]
pub struct XidWatcher {
    cards: BTreeSet<GpuUuid>,
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl XidWatcher {
    /// Watches these cards and sends what happens to them. When it returns, they are registered: what happens from now on
    /// arrives. Cards that cannot be watched are said and left out of [`Self::cards`]; health then rests on whether they
    /// answer.
    pub fn start(library: &Library, cards: impl IntoIterator<Item = GpuUuid>, sink: XidSink) -> Self {
        let mut watched = BTreeSet::new();
        let set = match EventSet::new(library.shared()) {
            Ok(mut set) => {
                for card in cards {
                    match set.add(card.as_str()) {
                        Ok(()) => {
                            watched.insert(card);
                        }
                        Err(error) => tracing::warn!(%card, %error, "XIDs of this card cannot be watched"),
                    }
                }
                Some(set)
            }
            Err(error) => {
                tracing::warn!(%error, "XIDs cannot be watched");
                None
            }
        };
        let stop = Arc::new(AtomicBool::new(false));
        let seen_by_thread = stop.clone();
        let thread = thread::spawn(move || {
            if let Some(set) = set {
                wait(set, &seen_by_thread, &sink);
            }
        });
        Self { cards: watched, stop, thread }
    }

    /// The cards that are watched.
    pub fn cards(&self) -> &BTreeSet<GpuUuid> {
        &self.cards
    }

    /// Whether it still waits. It ends by itself if the driver refuses to wait, or nobody listens.
    pub fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }
}

impl Drop for XidWatcher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn wait(mut set: EventSet, stop: &AtomicBool, sink: &XidSink) {
    while !stop.load(Ordering::Relaxed) {
        match set.wait(WAIT_MS) {
            Ok(None) => {}
            Ok(Some(event)) => {
                if sink.events.send(event).is_err() {
                    return;
                }
                sink.arrived.notify_one();
            }
            Err(error) => {
                tracing::warn!(%error, "waiting for XIDs failed; it is begun again at the next round");
                return;
            }
        }
    }
}
