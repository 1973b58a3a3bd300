//! Files that others read while they change.

use std::io::{self, Write};
use std::path::Path;

/// The folder that a file is in.
pub(crate) fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Puts a text where the file is, in one step: a reader sees the old content or the new.
pub(crate) fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut new = tempfile::NamedTempFile::new_in(folder(file))?;
    new.write_all(text.as_bytes())?;
    new.persist(file)?;
    Ok(())
}
