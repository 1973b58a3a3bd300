//! The checkpoint on disk: one file, written whole.

use std::fs::{self, File};
use std::hash::Hasher as _;
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use fnv::FnvHasher;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use super::Entry;

/// The version that is written and understood.
const VERSION: u32 = 1;

/// A checkpoint that cannot be kept.
#[derive(Debug, Error)]
#[error("cannot {what} {}: {source}; see that the folder is there, writable, and not full", path.display())]
pub struct CheckpointError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Where what was handed out is kept.
pub type Checkpoint = KeptList<Entry>;

/// Where a list is that outlives the process.
#[derive(Debug)]
pub struct KeptList<E> {
    path: PathBuf,
    entries: PhantomData<fn(E) -> E>,
}

/// What a checkpoint held.
#[derive(Debug)]
pub struct Loaded<E> {
    /// For writing the next one.
    pub checkpoint: KeptList<E>,
    /// What it held.
    pub entries: Vec<E>,
    /// What was wrong with the file, which lies next to it now under another name. Then `entries` is empty, and what
    /// was handed out follows from kubelet's list and the pods' records.
    pub broken: Option<Broken>,
}

/// A checkpoint that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the checkpoint could not be used ({why}) and lies at {} now", aside.display())]
pub struct Broken {
    /// What is wrong with it.
    pub why: String,
    /// Where it is now.
    pub aside: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    /// Of the text of `entries`, in hexadecimal.
    checksum: String,
    entries: Box<RawValue>,
}

impl<E: Serialize + DeserializeOwned> KeptList<E> {
    /// Opens the checkpoint at `path`; where there is none, it holds nothing.
    ///
    /// # Errors
    /// If it cannot be read at all, or cannot be set aside where it is broken.
    pub fn open(path: &Path) -> Result<Loaded<E>, CheckpointError> {
        let checkpoint = Self { path: path.to_owned(), entries: PhantomData };
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Loaded { checkpoint, entries: Vec::new(), broken: None });
            }
            Err(source) => return Err(CheckpointError { what: "read the checkpoint", path: path.to_owned(), source }),
        };
        match read(&text) {
            Ok(entries) => Ok(Loaded { checkpoint, entries, broken: None }),
            Err(why) => {
                let aside = beside(path, ".broken");
                fs::rename(path, &aside).map_err(|source| CheckpointError {
                    what: "set aside the broken checkpoint",
                    path: path.to_owned(),
                    source,
                })?;
                Ok(Loaded { checkpoint, entries: Vec::new(), broken: Some(Broken { why, aside }) })
            }
        }
    }

    /// Writes it. Afterwards it is on disk; if it fails or the machine stops at any point, the one before is.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, entries: &[E]) -> Result<(), CheckpointError> {
        let next = beside(&self.path, ".next");
        let fail = |what, path: &Path| {
            let path = path.to_owned();
            move |source| CheckpointError { what, path, source }
        };
        let mut file = File::create(&next).map_err(fail("create", &next))?;
        file.write_all(write(entries).as_bytes()).map_err(fail("write", &next))?;
        file.sync_all().map_err(fail("write", &next))?;
        fs::rename(&next, &self.path).map_err(fail("replace", &self.path))?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(fail("write the folder", folder))
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

fn checksum(text: &str) -> String {
    let mut hasher = FnvHasher::default();
    hasher.write(text.as_bytes());
    format!("{:016x}", hasher.finish())
}

/// The text of a checkpoint.
pub(super) fn write<E: Serialize>(entries: &[E]) -> String {
    let entries = serde_json::value::to_raw_value(entries).expect("entries are text and numbers");
    let content = Content { version: VERSION, checksum: checksum(entries.get()), entries };
    serde_json::to_string(&content).expect("a checkpoint is text and numbers")
}

/// What a text holds, or what is wrong with it.
pub(super) fn read<E: DeserializeOwned>(text: &[u8]) -> Result<Vec<E>, String> {
    let content: Content = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if content.version != VERSION {
        return Err(format!("its version is {}, and only {VERSION} is understood", content.version));
    }
    if checksum(content.entries.get()) != content.checksum {
        return Err("its checksum does not fit what it says".to_owned());
    }
    serde_json::from_str(content.entries.get()).map_err(|error| error.to_string())
}
