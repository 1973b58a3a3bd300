//! What can be wrong with a trace file, and where.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A trace that cannot be used.
#[derive(Debug, Error)]
pub enum TraceError {
    /// A file cannot be opened or read.
    #[error("cannot read {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not CSV.
    #[error("{path} is not CSV")]
    Csv {
        /// The file.
        path: PathBuf,
        /// Why, with the line.
        source: csv::Error,
    },
    /// A column is missing.
    #[error("{path} has no column {column:?}; its first line must name the columns {expected}")]
    Column {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
        /// All columns that are needed.
        expected: String,
    },
    /// A value makes no sense.
    #[error("{path}, line {line}, column {column}: {value:?} is not valid; expected {expected}")]
    Value {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: &'static str,
        /// What stands there.
        value: String,
        /// What should.
        expected: &'static str,
    },
    /// A file as a whole makes no sense.
    #[error("{path}: {what}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        what: String,
    },
}

/// A CSV file read by column name.
pub(crate) struct Table {
    path: PathBuf,
    columns: Vec<(&'static str, usize)>,
    reader: csv::Reader<BufReader<File>>,
}

impl Table {
    /// Opens a file that has at least `required`, and perhaps `optional` columns.
    pub fn open(path: &Path, required: &[&'static str], optional: &[&'static str]) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(|source| TraceError::Io { path: path.into(), source })?;
        let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(BufReader::new(file));
        let headers = reader.headers().map_err(|source| TraceError::Csv { path: path.into(), source })?.clone();
        let mut columns = Vec::new();
        for column in required.iter().chain(optional) {
            match headers.iter().position(|h| h.trim() == *column) {
                Some(at) => columns.push((*column, at)),
                None if optional.contains(column) => {}
                None => {
                    let expected = required.join(", ");
                    return Err(TraceError::Column { path: path.into(), column, expected });
                }
            }
        }
        Ok(Self { path: path.into(), columns, reader })
    }

    /// Reads all rows.
    pub fn rows<T>(mut self, mut read: impl FnMut(&Row<'_>) -> Result<T, TraceError>) -> Result<Vec<T>, TraceError> {
        let mut rows = Vec::new();
        let mut record = csv::StringRecord::new();
        loop {
            let more = self.reader.read_record(&mut record);
            if !more.map_err(|source| TraceError::Csv { path: self.path.clone(), source })? {
                return Ok(rows);
            }
            rows.push(read(&Row { path: &self.path, columns: &self.columns, record: &record })?);
        }
    }
}

/// One row.
pub(crate) struct Row<'a> {
    path: &'a Path,
    columns: &'a [(&'static str, usize)],
    record: &'a csv::StringRecord,
}

impl Row<'_> {
    /// The text in a column; empty where the file lacks an optional one.
    pub fn text(&self, column: &'static str) -> &str {
        let at = self.columns.iter().find(|(name, _)| *name == column);
        at.and_then(|(_, at)| self.record.get(*at)).unwrap_or("").trim()
    }

    /// The whole number in a column, at most `max`.
    pub fn number(&self, column: &'static str, max: u64) -> Result<u64, TraceError> {
        let text = self.text(column);
        let number = text.parse::<u64>().ok().filter(|n| *n <= max);
        number.ok_or_else(|| self.bad(column, "a whole number that is not negative and not absurdly large"))
    }

    /// An error about a column.
    pub fn bad(&self, column: &'static str, expected: &'static str) -> TraceError {
        TraceError::Value {
            path: self.path.into(),
            line: self.record.position().map_or(0, csv::Position::line),
            column,
            value: self.text(column).to_owned(),
            expected,
        }
    }
}

/// The whole of a small text file.
pub(super) fn read_text(path: &Path) -> Result<String, TraceError> {
    let io = |source| TraceError::Io { path: path.into(), source };
    let mut text = String::new();
    File::open(path).map_err(io)?.read_to_string(&mut text).map_err(io)?;
    Ok(text)
}
