//! Asks an engine again what a journal says it was asked, and compares what comes of it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use gpu_scheduler_engine::model::Timestamp;
use gpu_scheduler_engine::{Config, Engine, Event, Step};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::reader::{End, ReadError, Reader};
use super::record::{PANICKED, Record, Start, step_text};

/// Events that are shown before a difference.
const CONTEXT: usize = 10;

/// What the replay of one file found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    /// The file.
    pub file: PathBuf,
    /// The version that wrote it.
    pub version: Option<String>,
    /// Why it begins where it does.
    pub start: Option<Start>,
    /// Records replayed.
    pub records: u64,
    /// Of them, events.
    pub events: u64,
    /// Of them, polls.
    pub polls: u64,
    /// Polls that gave an action.
    pub actions: u64,
    /// Time of the first record.
    pub from: Option<Timestamp>,
    /// Time of the last one.
    pub to: Option<Timestamp>,
    /// Whether the file ends in the middle: all whole records were replayed.
    pub cut_short: bool,
    /// How it went.
    pub result: Happened,
}

/// How a replay went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Happened {
    /// Every step came again, byte for byte.
    Identical,
    /// The file ends before its first record.
    Empty,
    /// A step came out otherwise; the replay ended there.
    Different(Box<Difference>),
    /// The engine panicked.
    Panicked {
        /// At this record.
        record: u64,
        /// With this message.
        message: String,
        /// The last events before it, oldest first.
        context: Vec<String>,
    },
    /// The file cannot be read, or not further.
    Unreadable {
        /// Why.
        why: String,
    },
}

/// The first step that came out otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The record, counted from 1.
    pub record: u64,
    /// Its time.
    pub now: Timestamp,
    /// The step that was recorded, as JSON.
    pub expected: String,
    /// The step that came now.
    pub got: String,
    /// The last events before it, oldest first, as they are written with their numbers.
    pub context: Vec<String>,
}

impl Replayed {
    fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            version: None,
            start: None,
            records: 0,
            events: 0,
            polls: 0,
            actions: 0,
            from: None,
            to: None,
            cut_short: false,
            result: Happened::Identical,
        }
    }

    /// Whether nothing differs and all could be read.
    pub fn is_identical(&self) -> bool {
        matches!(self.result, Happened::Identical | Happened::Empty)
    }
}

/// Replays one file, up to record `until` if that is given. `configure` makes an engine's configuration of the one
/// that the file says.
///
/// A panic of the engine is caught and reported.
pub fn replay(path: &Path, until: Option<u64>, configure: &dyn Fn(&Value) -> Result<Config, String>) -> Replayed {
    let mut replayed = Replayed::new(path);
    replayed.result = match run(&mut replayed, until, configure) {
        Ok(happened) => happened,
        Err(why) => Happened::Unreadable { why },
    };
    replayed
}

fn run(
    replayed: &mut Replayed,
    until: Option<u64>,
    configure: &dyn Fn(&Value) -> Result<Config, String>,
) -> Result<Happened, String> {
    let (mut reader, header) = match Reader::open(&replayed.file) {
        Ok(opened) => opened,
        Err(ReadError::NoSnapshot { .. }) => {
            replayed.cut_short = true;
            return Ok(Happened::Empty);
        }
        Err(error) => return Err(error.to_string()),
    };
    (replayed.version, replayed.start) = (Some(header.version), Some(header.start));
    let config = configure(&header.configuration)?;
    let mut again = Again {
        engine: Engine::restore(config, header.snapshot).map_err(|e| e.to_string())?,
        context: VecDeque::new(),
    };
    while replayed.records < until.unwrap_or(u64::MAX) {
        let Some((number, text, record)) = reader.next_record().map_err(|e| e.to_string())? else { break };
        replayed.records = number;
        if let Some(otherwise) = again.step(replayed, number, text, record) {
            return Ok(otherwise);
        }
    }
    replayed.cut_short = reader.end() == Some(End::CutShort);
    Ok(Happened::Identical)
}

/// An engine that does it again.
struct Again {
    engine: Engine,
    context: VecDeque<String>,
}

impl Again {
    /// One record; returns what came out otherwise, if anything did.
    fn step(&mut self, replayed: &mut Replayed, number: u64, text: &str, record: Record<'_>) -> Option<Happened> {
        let (Record::Event { now, .. } | Record::Poll { now, .. }) = record;
        replayed.from = replayed.from.or(Some(now));
        replayed.to = Some(now);
        match record {
            Record::Event { now, event } => {
                replayed.events += 1;
                if self.context.len() == CONTEXT {
                    self.context.pop_front();
                }
                self.context.push_back(numbered(number, text));
                self.handle(now, event).err().map(|message| self.panicked(number, message))
            }
            Record::Poll { now, step: expected } => {
                replayed.polls += 1;
                let got = match self.poll(now) {
                    Ok(step) => step,
                    Err(message) => return Some(self.panicked(number, message)),
                };
                replayed.actions += u64::from(matches!(got, Step::Act(_)));
                let got = step_text(&got);
                (got != expected).then(|| {
                    let expected = if expected == PANICKED { "a panic" } else { expected };
                    let context = self.context.iter().cloned().collect();
                    let difference = Difference { record: number, now, expected: expected.to_owned(), got, context };
                    Happened::Different(Box::new(difference))
                })
            }
        }
    }

    fn handle(&mut self, now: Timestamp, event: Event) -> Result<(), String> {
        catch_unwind(AssertUnwindSafe(|| self.engine.handle(now, event))).map_err(|panic| message(&*panic))
    }

    fn poll(&mut self, now: Timestamp) -> Result<Step, String> {
        catch_unwind(AssertUnwindSafe(|| self.engine.poll(now))).map_err(|panic| message(&*panic))
    }

    fn panicked(&self, record: u64, message: String) -> Happened {
        Happened::Panicked { record, message, context: self.context.iter().cloned().collect() }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

/// A record's line with its number in front: `{"n":7,"e":…}`.
fn numbered(number: u64, text: &str) -> String {
    format!("{{\"n\":{number},{}", text.strip_prefix('{').unwrap_or(text))
}

/// The header without the snapshot, which is large and means nothing to people.
#[derive(Serialize, Deserialize)]
struct Shown {
    #[serde(default)]
    n: u64,
    journal: u32,
    version: String,
    start: Box<RawValue>,
    configuration: Value,
}

/// Writes a file's records as JSON lines with their numbers, its header without the snapshot in front. It needs no
/// engine, so files of other versions can be printed too.
///
/// # Errors
/// As an outer error where `out` takes no more; as an inner one where the file cannot be read.
pub fn print(path: &Path, until: Option<u64>, out: &mut dyn Write) -> io::Result<Result<End, ReadError>> {
    let mut reader = match Reader::start(path) {
        Ok(reader) => reader,
        Err(error) => return Ok(Err(error)),
    };
    let header = match reader.header_line() {
        Ok(line) => serde_json::from_str::<Shown>(line)
            .map_err(|e| ReadError::NotAJournal { path: path.to_owned(), why: e.to_string() }),
        Err(error) => Err(error),
    };
    match header {
        Ok(header) => writeln!(out, "{}", serde_json::to_string(&header)?)?,
        Err(error) => return Ok(Err(error)),
    }
    let mut printed = 0;
    while printed < until.unwrap_or(u64::MAX) {
        match reader.next_line() {
            Ok(Some((number, text))) => writeln!(out, "{}", numbered(number, text))?,
            Ok(None) => break,
            Err(error) => return Ok(Err(error)),
        }
        printed += 1;
    }
    Ok(Ok(reader.end().unwrap_or(End::Closed)))
}
