//! Whose processes are.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fs, io};

use super::cgroup::{ContainerRef, read_cgroup};

/// Where a process comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A container.
    Container(ContainerRef),
    /// The host itself.
    Host,
    /// It ended since it was listed, or is in a namespace that cannot be seen from here.
    Gone,
}

/// Origins of processes. What does not change in a process's life is read once: a process is known by its id and the time
/// at which it started.
#[derive(Debug)]
pub struct ProcessTable {
    procfs: PathBuf,
    known: BTreeMap<u32, Known>,
}

#[derive(Debug)]
struct Known {
    started: Option<u64>,
    origin: Origin,
    seen: bool,
}

impl ProcessTable {
    /// The processes below `procfs`, such as `/proc`.
    pub fn new(procfs: PathBuf) -> Self {
        Self { procfs, known: BTreeMap::new() }
    }

    /// The origin of a process.
    pub fn origin(&mut self, pid: u32) -> Origin {
        let folder = self.procfs.join(pid.to_string());
        let started = fs::read_to_string(folder.join("stat")).ok().as_deref().and_then(start_time);
        if let Some(known) = self.known.get_mut(&pid)
            && started.is_some()
            && known.started == started
        {
            known.seen = true;
            return known.origin.clone();
        }
        let origin = match fs::read_to_string(folder.join("cgroup")) {
            Ok(text) => read_cgroup(&text).map_or(Origin::Host, Origin::Container),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Origin::Gone,
            Err(error) => {
                tracing::debug!(pid, %error, "cannot read whose process this is");
                Origin::Gone
            }
        };
        if origin != Origin::Gone {
            self.known.insert(pid, Known { started, origin: origin.clone(), seen: true });
        }
        origin
    }

    /// Ends a round: forgets processes that nobody asked about in it.
    pub fn end_round(&mut self) {
        self.known.retain(|_, known| std::mem::take(&mut known.seen));
    }
}

/// The 22nd field of `/proc/PID/stat`. The second one, the program's name, may contain spaces and parentheses, so fields
/// are counted from its end.
fn start_time(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn write(root: &std::path::Path, pid: u32, started: u64, cgroup: &str) {
        let folder = root.join(pid.to_string());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("stat"), stat(started)).unwrap();
        fs::write(folder.join("cgroup"), cgroup).unwrap();
    }

    fn stat(started: u64) -> String {
        format!("7 (a ) b) S 1 7 7 0 -1 4194560 10 0 0 0 150 50 0 0 20 0 1 0 {started} 1000 200")
    }

    fn container() -> Origin {
        Origin::Container(ContainerRef { pod_uid: None, container_id: Some(ID.to_owned()) })
    }

    #[test]
    fn start_times() {
        assert_eq!(start_time(&stat(123)), Some(123));
        assert_eq!(start_time("7 (a"), None);
        assert_eq!(start_time(&std::fs::read_to_string("/proc/self/stat").unwrap()).map(|time| time > 0), Some(true));
    }

    #[test]
    fn origins() {
        let root = tempfile::tempdir().unwrap();
        let mut table = ProcessTable::new(root.path().to_owned());
        write(root.path(), 1, 5, &format!("0::/docker/{ID}\n"));
        write(root.path(), 2, 5, "0::/user.slice\n");
        assert_eq!([table.origin(1), table.origin(2), table.origin(3)], [container(), Origin::Host, Origin::Gone]);
    }

    #[test]
    fn a_control_group_is_read_once_in_the_life_of_a_process() {
        let root = tempfile::tempdir().unwrap();
        let mut table = ProcessTable::new(root.path().to_owned());
        write(root.path(), 1, 5, &format!("0::/docker/{ID}\n"));
        assert_eq!(table.origin(1), container());
        fs::remove_file(root.path().join("1/cgroup")).unwrap();
        table.end_round();
        assert_eq!(table.origin(1), container(), "it is known");
        write(root.path(), 1, 6, "0::/user.slice\n");
        assert_eq!(table.origin(1), Origin::Host, "the id was given to another process");
        table.end_round();
        table.end_round();
        assert!(table.known.is_empty(), "nobody asked for a round");
    }

    #[test]
    fn a_process_that_ended_is_gone_although_it_was_known() {
        let root = tempfile::tempdir().unwrap();
        let mut table = ProcessTable::new(root.path().to_owned());
        write(root.path(), 1, 5, &format!("0::/docker/{ID}\n"));
        table.origin(1);
        fs::remove_dir_all(root.path().join("1")).unwrap();
        assert_eq!(table.origin(1), Origin::Gone);
    }
}
