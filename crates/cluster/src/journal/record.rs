//! The lines of a journal: a header, then one line a record. All of them are JSON.

use gpu_scheduler_engine::model::Timestamp;
use gpu_scheduler_engine::{Event, Snapshot, Step};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The number of this format. It grows with every change that older readers cannot read.
pub const FORMAT: u32 = 1;

/// Recorded as the step of a poll that never came back.
pub(super) const PANICKED: &str = "\"Panicked\"";

/// Why a file begins where it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Start {
    /// The process began to write a journal.
    Process,
    /// The file before it was full; nothing is missing between the two.
    Rotation,
    /// Records before it are missing, for this reason.
    Gap(String),
}

/// The first line of a file: all that the records after it build on.
#[derive(Debug, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`] when it was written.
    pub journal: u32,
    /// The version of the engine. Another one need not be able to read the snapshot, nor decide alike.
    pub version: String,
    /// Why the file begins here.
    pub start: Start,
    /// The configuration, as the driver has it.
    pub configuration: Value,
    /// The engine.
    pub snapshot: Snapshot,
}

impl Header {
    pub(super) fn new(start: Start, configuration: Value, snapshot: Snapshot) -> Self {
        Self { journal: FORMAT, version: version().to_owned(), start, configuration, snapshot }
    }
}

/// What can be said of a header whose snapshot may be in another form.
#[derive(Debug, Deserialize)]
pub(super) struct Preamble {
    pub journal: u32,
    pub version: String,
}

/// The version of this engine.
pub(super) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// One record.
#[derive(Debug)]
pub enum Record<'a> {
    /// The engine was told of a fact.
    Event {
        /// When.
        now: Timestamp,
        /// The fact.
        event: Event,
    },
    /// The engine was polled.
    Poll {
        /// When.
        now: Timestamp,
        /// What came of it, as it was written.
        step: &'a str,
    },
}

#[derive(Serialize)]
struct EventLine<'a> {
    e: Timestamp,
    event: &'a Event,
}

#[derive(Serialize)]
struct PollLine<'a> {
    p: Timestamp,
    step: &'a Step,
}

#[derive(Deserialize)]
struct Line<'a> {
    e: Option<Timestamp>,
    event: Option<Event>,
    p: Option<Timestamp>,
    #[serde(borrow)]
    step: Option<&'a RawValue>,
}

/// Appends an event's line.
pub(super) fn write_event(out: &mut Vec<u8>, now: Timestamp, event: &Event) {
    line(out, &EventLine { e: now, event });
}

/// Appends a poll's line.
pub(super) fn write_poll(out: &mut Vec<u8>, now: Timestamp, step: &Step) {
    line(out, &PollLine { p: now, step });
}

/// Appends the line of a poll that never came back.
pub(super) fn write_panic(out: &mut Vec<u8>, now: Timestamp) {
    out.extend_from_slice(format!("{{\"p\":{},\"step\":{PANICKED}}}\n", now.0).as_bytes());
}

fn line(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(&mut *out, value).expect("a Vec takes all, and the keys of all maps are texts");
    out.push(b'\n');
}

/// A step as it is written.
pub(super) fn step_text(step: &Step) -> String {
    serde_json::to_string(step).expect("the keys of all maps are texts")
}

/// Reads a record's line.
pub(super) fn parse(text: &str) -> Result<Record<'_>, String> {
    let line: Line<'_> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    match line {
        Line { e: Some(now), event: Some(event), p: None, step: None } => Ok(Record::Event { now, event }),
        Line { p: Some(now), step: Some(step), e: None, event: None } => Ok(Record::Poll { now, step: step.get() }),
        _ => Err("a record has either \"e\" and \"event\", or \"p\" and \"step\"".to_owned()),
    }
}
