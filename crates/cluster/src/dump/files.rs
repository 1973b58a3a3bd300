//! Which files a dump consists of.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The path that stands for standard input.
const STDIN: &str = "-";
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Why a dump cannot be read at all.
#[derive(Debug, Error)]
pub enum DumpError {
    /// A file or directory cannot be read.
    #[error("cannot read {}; check the path and its permissions", path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A directory holds nothing to read.
    #[error("{} has no .yaml, .yml or .json file in it; name the files of the dump", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// Standard input is named more than once, and can be read only once.
    #[error("standard input (-) is named twice; name it once")]
    StdinTwice,
}

/// A file, or standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    path: PathBuf,
    name: String,
}

impl Source {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), name: path.display().to_string() }
    }

    fn is_stdin(&self) -> bool {
        self.path.as_os_str() == STDIN
    }

    /// Its name for people.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// All that is in it.
    pub(super) fn bytes(&self, stdin: &mut dyn Read) -> Result<Vec<u8>, DumpError> {
        let bytes = if self.is_stdin() {
            let mut bytes = Vec::new();
            stdin.read_to_end(&mut bytes).map(|_| bytes)
        } else {
            fs::read(&self.path)
        };
        bytes.map_err(|source| unreadable(&self.path, source))
    }
}

fn unreadable(path: &Path, source: io::Error) -> DumpError {
    DumpError::Unreadable { path: path.to_owned(), source }
}

/// The files that `paths` mean, in their order; those of a directory by name.
pub(super) fn sources(paths: &[PathBuf]) -> Result<Vec<Source>, DumpError> {
    let mut sources = Vec::new();
    for path in paths {
        let source = Source::new(path);
        if source.is_stdin() {
            if sources.iter().any(Source::is_stdin) {
                return Err(DumpError::StdinTwice);
            }
            sources.push(source);
        } else if fs::metadata(path).map_err(|e| unreadable(path, e))?.is_dir() {
            let before = sources.len();
            directory(path, &mut sources)?;
            if sources.len() == before {
                return Err(DumpError::Empty { path: path.clone() });
            }
        } else {
            sources.push(source);
        }
    }
    Ok(sources)
}

/// Adds the files below `path`. Hidden entries are left out, and links to directories are not followed: they
/// may lead in circles, and a mounted ConfigMap has all its files a second time behind them.
fn directory(path: &Path, sources: &mut Vec<Source>) -> Result<(), DumpError> {
    let entries = fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries = entries.map_err(|e| unreadable(path, e))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let path = entry.path();
        let kind = entry.file_type().map_err(|e| unreadable(&path, e))?;
        if kind.is_dir() {
            directory(&path, sources)?;
            continue;
        }
        let known = path.extension().and_then(|e| e.to_str()).is_some_and(|e| EXTENSIONS.contains(&e));
        if known && !(kind.is_symlink() && path.is_dir()) {
            sources.push(Source::new(&path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[PathBuf], root: &Path) -> Vec<String> {
        let sources = sources(paths).expect("readable");
        sources.iter().map(|s| s.path.strip_prefix(root).unwrap_or(&s.path).display().to_string()).collect()
    }

    #[test]
    fn directories_are_read_in_order() {
        let root = tempfile::tempdir().expect("a directory");
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("b/deep")).expect("made");
        fs::create_dir_all(at(".hidden")).expect("made");
        fs::create_dir_all(at("nothing")).expect("made");
        for name in
            ["c.yaml", "a.json", "b/x.yml", "b/deep/y.yaml", "b/readme.md", ".hidden/z.yaml", ".z.yaml", "d.txt"]
        {
            fs::write(at(name), "").expect("written");
        }
        let all = ["a.json", "b/deep/y.yaml", "b/x.yml", "c.yaml"];
        assert_eq!(names(&[root.path().to_owned()], root.path()), all);
        assert_eq!(names(&[at("d.txt"), "-".into(), at("b")], root.path()), ["d.txt", "-", "b/deep/y.yaml", "b/x.yml"]);
        assert!(matches!(sources(&[at("nothing")]), Err(DumpError::Empty { .. })));
        assert!(matches!(sources(&["-".into(), "-".into()]), Err(DumpError::StdinTwice)));
        let error = sources(&[at("missing.yaml")]).expect_err("missing").to_string();
        assert!(error.contains("missing.yaml"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn links_to_files_count_and_circles_do_not() {
        let root = tempfile::tempdir().expect("a directory");
        fs::write(root.path().join("a.yaml"), "").expect("written");
        std::os::unix::fs::symlink(root.path().join("a.yaml"), root.path().join("b.yaml")).expect("linked");
        std::os::unix::fs::symlink(root.path(), root.path().join("circle")).expect("linked");
        std::os::unix::fs::symlink(root.path(), root.path().join("circle.yaml")).expect("linked");
        assert_eq!(names(&[root.path().to_owned()], root.path()), ["a.yaml", "b.yaml"]);
    }
}
