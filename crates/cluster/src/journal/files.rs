//! The directory of a journal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How the name of every file of a journal ends.
pub const SUFFIX: &str = ".journal.zst";

/// Where files go.
pub(super) trait Store: Send {
    /// A new file, later in the order of names than all others.
    fn create(&mut self) -> io::Result<(String, Box<dyn Write + Send>)>;
    /// Removes what is too old, now that a new file stands by itself.
    fn prune(&mut self) -> io::Result<()>;
}

/// A directory that holds so many files at most.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// When this process began: the first part of its files' names.
    started: String,
    sequence: u32,
    max_files: usize,
}

impl Directory {
    pub fn open(path: &Path, max_files: usize, started: jiff::Timestamp) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        // Without colons, which some file systems and many shells do not like.
        let started = started.strftime("%Y%m%dT%H%M%S.%3fZ").to_string();
        Ok(Self { path: path.to_owned(), started, sequence: 0, max_files: max_files.max(1) })
    }
}

impl Store for Directory {
    fn create(&mut self) -> io::Result<(String, Box<dyn Write + Send>)> {
        loop {
            self.sequence += 1;
            let path = self.path.join(format!("{}-{:06}{SUFFIX}", self.started, self.sequence));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((path.display().to_string(), Box::new(file) as Box<dyn Write + Send>)),
                // A process that began in the same moment, or a clock that was set back: neither is overwritten.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn prune(&mut self) -> io::Result<()> {
        let files = list(&self.path)?;
        let surplus = files.len().saturating_sub(self.max_files);
        files[..surplus].iter().try_for_each(fs::remove_file)
    }
}

/// The files of a journal in a directory, oldest first.
fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(SUFFIX)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The files of a journal behind paths: each is a file, or a directory with files of a journal, oldest first.
///
/// # Errors
/// Where a path cannot be read, or a directory has no file of a journal. The text names the path.
pub fn find(paths: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("cannot read {}: {e}", path.display()));
        if !fs::metadata(path).map_err(named)?.is_dir() {
            File::open(path).map_err(named)?;
            files.push(path.clone());
            continue;
        }
        let found = list(path).map_err(named)?;
        if found.is_empty() {
            let text = format!("{} has no file in it that ends in {SUFFIX}", path.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        files.extend(found);
    }
    Ok(files)
}
