//! The writing side: a journal for the decision loop, and the thread behind it.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use gpu_scheduler_engine::Snapshot;
use gpu_scheduler_engine::model::{Millis, Timestamp};
use serde_json::Value;
use zstd::stream::write::Encoder;

use super::buffer::{Buffer, Item, MAX_PENDING, Pushed};
use super::files::{Directory, Store};
use super::record::{Header, Start};
use crate::config;

/// The least effort: lines repeat each other so much that more gains little.
const LEVEL: i32 = 1;
/// After a failure: how long until the journal is tried again. It doubles with every failure in a row …
const FIRST_PAUSE: Millis = Millis::from_secs(60);
/// … up to this.
const LONGEST_PAUSE: Millis = Millis::from_secs(3600);

/// Where a journal goes, and how much of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOptions {
    /// The directory; it is made if it is not there. It belongs to one process at a time.
    pub directory: PathBuf,
    /// Bytes of records in a file, before compression. A file takes as many bytes as its snapshot has at least, so
    /// that snapshots are at most half of the journal.
    pub max_file_bytes: u64,
    /// Files that are kept, the present one among them.
    pub max_files: usize,
}

impl JournalOptions {
    /// 64 MiB a file, 16 files.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), max_file_bytes: 64 << 20, max_files: 16 }
    }
}

impl From<&config::Journal> for JournalOptions {
    fn from(settings: &config::Journal) -> Self {
        Self {
            directory: settings.directory.clone(),
            max_file_bytes: settings.max_file_size.bytes(),
            max_files: usize::try_from(settings.max_files.get()).unwrap_or(usize::MAX),
        }
    }
}

#[derive(Debug)]
enum Phase {
    /// No file was begun yet.
    Fresh,
    /// A file takes records.
    Writing {
        /// Bytes of its records.
        bytes: u64,
        /// Bytes of its header, once it is written.
        header: Option<u64>,
    },
    /// Nothing is recorded.
    Stopped {
        /// Until then.
        until: Timestamp,
        /// And why.
        why: String,
    },
}

/// A journal that is being written. Dropping it waits until all is written.
#[derive(Debug)]
pub struct Journal {
    buffer: Arc<Buffer>,
    writer: Option<JoinHandle<()>>,
    configuration: Value,
    max_file_bytes: u64,
    phase: Phase,
    pause: Millis,
}

impl Journal {
    /// Makes the directory and starts the thread that writes. The first file begins with the first record.
    ///
    /// # Errors
    /// If the directory cannot be made, or the thread not started.
    pub fn open(options: &JournalOptions, configuration: Value) -> io::Result<Self> {
        let store = Directory::open(&options.directory, options.max_files, jiff::Timestamp::now())?;
        Self::with_store(store, options.max_file_bytes, MAX_PENDING, configuration)
    }

    pub(super) fn with_store(
        store: impl Store + 'static,
        max_file_bytes: u64,
        max_pending: usize,
        configuration: Value,
    ) -> io::Result<Self> {
        let buffer = Arc::new(Buffer::new(max_pending));
        let (taken, mut store) = (buffer.clone(), store);
        let thread = std::thread::Builder::new().name("journal".to_owned());
        let writer = Some(thread.spawn(move || write(&taken, &mut store))?);
        Ok(Self { buffer, writer, configuration, max_file_bytes, phase: Phase::Fresh, pause: FIRST_PAUSE })
    }

    /// Why nothing is recorded at present, if so.
    pub fn stopped(&self) -> Option<&str> {
        match &self.phase {
            Phase::Stopped { why, .. } => Some(why),
            Phase::Fresh | Phase::Writing { .. } => None,
        }
    }

    /// Waits until all records are with the operating system, or lost to a failure.
    pub fn flush(&self) {
        self.buffer.wait_until_written();
    }

    /// Whether it is time for a new file. Never while the header of the last one is still being written: snapshots
    /// must not pile up before a slow disk.
    pub(super) fn wants_snapshot(&self, now: Timestamp) -> bool {
        match &self.phase {
            Phase::Fresh => true,
            Phase::Writing { bytes, header } => header.is_some_and(|h| *bytes >= self.max_file_bytes.max(h)),
            Phase::Stopped { until, .. } => now >= *until,
        }
    }

    /// Begins a new file.
    pub(super) fn begin(&mut self, snapshot: Snapshot) {
        let start = match std::mem::replace(&mut self.phase, Phase::Writing { bytes: 0, header: None }) {
            Phase::Fresh => Start::Process,
            Phase::Writing { .. } => {
                self.pause = FIRST_PAUSE;
                Start::Rotation
            }
            Phase::Stopped { why, .. } => Start::Gap(why),
        };
        self.buffer.begin(Header::new(start, self.configuration.clone(), snapshot));
    }

    /// Records a line, if a file is open for it.
    pub(super) fn append(&mut self, now: Timestamp, line: impl FnOnce(&mut Vec<u8>)) {
        let Phase::Writing { bytes, header } = &mut self.phase else { return };
        match self.buffer.push(line) {
            Pushed::Taken { bytes: more, header: written } => {
                *bytes += more as u64;
                *header = written;
            }
            Pushed::Refused(why) => {
                let pause = self.pause;
                self.pause = Millis(pause.0.saturating_mul(2)).min(LONGEST_PAUSE);
                let seconds = pause.0 / 1000;
                tracing::error!(
                    reason = why,
                    "the journal stops; decisions go on, unrecorded. It is tried again in {seconds} s: free space, or \
                     name another directory"
                );
                self.phase = Phase::Stopped { until: now + pause, why };
            }
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.buffer.close();
        if self.writer.take().is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the journal's thread panicked; the last file may be cut short");
        }
    }
}

type Sink = Encoder<'static, Box<dyn Write + Send>>;

/// The thread: writes what comes, until nothing follows.
fn write(buffer: &Buffer, store: &mut dyn Store) {
    let mut file: Option<Sink> = None;
    loop {
        let (items, closed) = buffer.take();
        let mut result = items.into_iter().try_for_each(|item| write_item(item, &mut file, buffer, store));
        if closed {
            result = result.and_then(|()| finish(&mut file));
        } else if let (Ok(()), Some(open)) = (&result, &mut file) {
            // Ends a block of the stream, so that what is on disk can be read whatever happens to this process.
            result = open.flush();
        }
        if let Err(error) = result {
            // What was written of the file stays: the reader takes its whole records.
            file = None;
            if closed {
                tracing::error!(%error, "the journal's last records could not be written");
            }
            buffer.fail(error.to_string());
        }
        if closed {
            return;
        }
    }
}

fn write_item(item: Item, file: &mut Option<Sink>, buffer: &Buffer, store: &mut dyn Store) -> io::Result<()> {
    match item {
        Item::Begin(header) => {
            finish(file)?;
            let (name, sink) = store.create()?;
            let mut sink = Encoder::new(sink, LEVEL)?;
            let bytes = write_header(&header, &mut sink)?;
            sink.flush()?;
            *file = Some(sink);
            buffer.header_written(bytes);
            tracing::debug!(file = name, start = ?header.start, "a new file of the journal");
            if let Err(error) = store.prune() {
                tracing::warn!(%error, "cannot remove old files of the journal; remove them by hand");
            }
            Ok(())
        }
        Item::Lines(lines) => file.as_mut().map_or(Ok(()), |file| file.write_all(&lines)),
        Item::End => finish(file),
    }
}

fn finish(file: &mut Option<Sink>) -> io::Result<()> {
    let Some(sink) = file.take() else { return Ok(()) };
    sink.finish()?.flush()
}

/// Writes the first line; returns its length.
fn write_header(header: &Header, sink: &mut Sink) -> io::Result<u64> {
    let mut counted = Counted { out: BufWriter::with_capacity(64 << 10, sink), bytes: 0 };
    serde_json::to_writer(&mut counted, header)?;
    counted.write_all(b"\n")?;
    counted.flush()?;
    Ok(counted.bytes)
}

struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.out.write(data)?;
        self.bytes += written as u64;
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
