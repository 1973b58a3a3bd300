//! Reads one file of a journal, line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use thiserror::Error;
use zstd::stream::read::Decoder;

use super::record::{FORMAT, Header, Preamble, Record, parse, version};

/// Why a file cannot be read, or not further.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The operating system, or the compression, says so.
    #[error("{}: cannot read after record {after}; {source}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// The last record that was read.
        after: u64,
        /// Why.
        source: io::Error,
    },
    /// The process ended before the snapshot was written: there is nothing to replay.
    #[error("{}: it ends within its snapshot, before any record", path.display())]
    NoSnapshot {
        /// The file.
        path: PathBuf,
    },
    /// It was written by another version.
    #[error(
        "{}: written by version {written} in format {format}, and this is version {} with format {FORMAT}; replay it \
         with the version that wrote it ({why})",
        path.display(), version()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        written: String,
        /// Its format.
        format: u32,
        /// What cannot be read.
        why: String,
    },
    /// The first line is no header.
    #[error("{}: not a journal of gpu-scheduler ({why})", path.display())]
    NotAJournal {
        /// The file.
        path: PathBuf,
        /// What is wrong with the first line.
        why: String,
    },
    /// A line is no record.
    #[error("{}: record {record} cannot be read; {why}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Its number.
        record: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// As it should: it was closed.
    Closed,
    /// In the middle: the process died, or still writes it. All whole records before that were read.
    CutShort,
}

/// A file that is being read.
pub struct Reader {
    path: PathBuf,
    input: BufReader<Decoder<'static, BufReader<File>>>,
    line: Vec<u8>,
    number: u64,
    end: Option<End>,
}

impl Reader {
    /// Opens a file and reads its header. `O(snapshot)`.
    ///
    /// # Errors
    /// If it is no journal, or one that this version cannot read.
    pub fn open(path: &Path) -> Result<(Self, Header), ReadError> {
        let mut reader = Self::start(path)?;
        let header = reader.header()?;
        Ok((reader, header))
    }

    /// Opens a file whose header is not read yet.
    pub(super) fn start(path: &Path) -> Result<Self, ReadError> {
        let opened = File::open(path).and_then(Decoder::new);
        let input = opened.map_err(|source| ReadError::Input { path: path.to_owned(), after: 0, source })?;
        let input = BufReader::with_capacity(64 << 10, input);
        Ok(Self { path: path.to_owned(), input, line: Vec::new(), number: 0, end: None })
    }

    /// The first line as it is written.
    pub(super) fn header_line(&mut self) -> Result<&str, ReadError> {
        if !self.read_line()? {
            return Err(ReadError::NoSnapshot { path: self.path.clone() });
        }
        self.text().map_err(|why| ReadError::NotAJournal { path: self.path.clone(), why })
    }

    fn header(&mut self) -> Result<Header, ReadError> {
        let path = self.path.clone();
        let text = self.header_line()?;
        let why = |e: serde_json::Error| e.to_string();
        let preamble: Preamble =
            serde_json::from_str(text).map_err(|e| ReadError::NotAJournal { path: path.clone(), why: why(e) })?;
        let other = |why: String| ReadError::OtherVersion {
            path,
            written: preamble.version.clone(),
            format: preamble.journal,
            why,
        };
        if preamble.journal != FORMAT {
            return Err(other("the format differs".to_owned()));
        }
        serde_json::from_str(text).map_err(|e| other(why(e)))
    }

    /// The next record with its number, which counts from 1; none at the end ([`Reader::end`]).
    ///
    /// # Errors
    /// Where the file is damaged. A file that ends in the middle of a record is not: the record is left out.
    pub fn next_record(&mut self) -> Result<Option<(u64, &str, Record<'_>)>, ReadError> {
        let path = self.path.clone();
        let Some((record, text)) = self.next_line()? else { return Ok(None) };
        let parsed = parse(text).map_err(|why| ReadError::Record { path, record, why })?;
        Ok(Some((record, text, parsed)))
    }

    /// As [`Reader::next_record`], as it is written.
    pub(super) fn next_line(&mut self) -> Result<Option<(u64, &str)>, ReadError> {
        if !self.read_line()? {
            return Ok(None);
        }
        self.number += 1;
        let record = self.number;
        let text = self.text().map_err(|why| ReadError::Record { path: self.path.clone(), record, why })?;
        Ok(Some((record, text)))
    }

    /// How the file ended, once it has.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    fn text(&self) -> Result<&str, String> {
        std::str::from_utf8(&self.line).map_err(|e| e.to_string())
    }

    /// Reads a whole line, without its end; false where there is none.
    fn read_line(&mut self) -> Result<bool, ReadError> {
        if self.end.is_some() {
            return Ok(false);
        }
        self.line.clear();
        match self.input.read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.last() == Some(&b'\n') => {
                self.line.pop();
                Ok(true)
            }
            Ok(read) => {
                self.end = Some(if read == 0 { End::Closed } else { End::CutShort });
                Ok(false)
            }
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                self.end = Some(End::CutShort);
                Ok(false)
            }
            Err(source) => Err(ReadError::Input { path: self.path.clone(), after: self.number, source }),
        }
    }
}
