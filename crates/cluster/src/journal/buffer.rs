//! Between the decision loop and the thread that writes: a queue that is bounded in bytes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::record::{Header, Start};

/// At most so long does a record wait to be written: what a process that is killed can lose.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// So much is written at once, without waiting for [`FLUSH_EVERY`].
const CHUNK: usize = 256 << 10;
/// What may wait. Beyond it the disk is too slow, and the journal stops rather than fill the memory.
pub(super) const MAX_PENDING: usize = 64 << 20;

/// Something to write.
#[derive(Debug)]
pub(super) enum Item {
    /// A new file.
    Begin(Box<Header>),
    /// Whole lines for the file that is open.
    Lines(Vec<u8>),
    /// The open file ends here.
    End,
}

/// What became of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It will be written.
    Taken {
        /// Its length.
        bytes: usize,
        /// Length of the open file's header, once that is written.
        header: Option<u64>,
    },
    /// It will not, nor will be any before the next [`Buffer::begin`].
    Refused(String),
}

#[derive(Debug, Default)]
struct Inner {
    items: VecDeque<Item>,
    /// Bytes of lines among the items.
    bytes: usize,
    /// Length of the last header written, until the next one is under way.
    header: Option<u64>,
    /// Why the writer gave up; it stays until the next file begins.
    failure: Option<String>,
    /// Whether the writer has something that is not written yet.
    writing: bool,
    /// Whether somebody waits for that.
    hurry: bool,
    closed: bool,
}

impl Inner {
    fn is_quiet(&self) -> bool {
        let begins = self.items.iter().any(|item| matches!(item, Item::Begin(_)));
        self.bytes < CHUNK && !begins && !self.hurry && !self.closed
    }
}

/// The queue. Both sides hold its lock for moments only, never while they write or decide.
#[derive(Debug)]
pub(super) struct Buffer {
    inner: Mutex<Inner>,
    news: Condvar,
    written: Condvar,
    max_pending: usize,
}

impl Buffer {
    pub fn new(max_pending: usize) -> Self {
        let (inner, news, written) = (Mutex::default(), Condvar::new(), Condvar::new());
        Self { inner, news, written, max_pending }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Whatever panicked held it between two consistent states.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a new file. What the writer stumbled over meanwhile is said in it.
    pub fn begin(&self, mut header: Header) {
        let mut inner = self.lock();
        if let Some(why) = inner.failure.take() {
            header.start = Start::Gap(why);
        }
        inner.header = None;
        inner.items.push_back(Item::Begin(Box::new(header)));
        drop(inner);
        self.news.notify_one();
    }

    /// Takes a line from whoever writes it into the vector.
    pub fn push(&self, write: impl FnOnce(&mut Vec<u8>)) -> Pushed {
        let mut inner = self.lock();
        if let Some(why) = &inner.failure {
            return Pushed::Refused(why.clone());
        }
        if !matches!(inner.items.back(), Some(Item::Lines(_))) {
            inner.items.push_back(Item::Lines(Vec::with_capacity(CHUNK / 4)));
        }
        let Some(Item::Lines(lines)) = inner.items.back_mut() else { unreachable!("it was just put there") };
        let before = lines.len();
        write(lines);
        let bytes = lines.len() - before;
        inner.bytes += bytes;
        if inner.bytes > self.max_pending {
            let why = format!("the disk is too slow: {} MiB waited to be written", inner.bytes >> 20);
            // The file stays what it is so far: whole records up to some point.
            inner.items.clear();
            inner.items.push_back(Item::End);
            inner.bytes = 0;
            inner.failure = Some(why.clone());
            return Pushed::Refused(why);
        }
        let (full, header) = (inner.bytes >= CHUNK && inner.bytes - bytes < CHUNK, inner.header);
        drop(inner);
        if full {
            self.news.notify_one();
        }
        Pushed::Taken { bytes, header }
    }

    /// The writer could not go on: nothing more is taken until a new file begins.
    pub fn fail(&self, why: String) {
        let mut inner = self.lock();
        inner.items.clear();
        inner.bytes = 0;
        inner.failure = Some(why);
    }

    /// The header of the open file is written.
    pub fn header_written(&self, bytes: u64) {
        self.lock().header = Some(bytes);
    }

    /// All that waits, for the writer; waits for some itself. The second is whether nothing will follow.
    pub fn take(&self) -> (VecDeque<Item>, bool) {
        let mut inner = self.lock();
        inner.writing = false;
        self.written.notify_all();
        let waited = self.news.wait_timeout_while(inner, FLUSH_EVERY, |inner| inner.is_quiet());
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        inner.writing = !inner.items.is_empty();
        inner.hurry = false;
        inner.bytes = 0;
        (std::mem::take(&mut inner.items), inner.closed)
    }

    /// Waits until all is written that was taken before.
    pub fn wait_until_written(&self) {
        let mut inner = self.lock();
        inner.hurry = true;
        self.news.notify_one();
        drop(self.written.wait_while(inner, |inner| inner.writing || !inner.items.is_empty()));
    }

    /// Nothing follows any more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }
}
