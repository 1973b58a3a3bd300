//! The wall clock of the scheduler jumps, far ahead and far back, while a burst is bound.
//!
//! libfaketime shows the process another wall clock than the machine's; its monotonic clock stays as it is, as when an
//! administrator or NTP sets a clock.

use std::fs;
use std::path::{Path, PathBuf};

use gpu_scheduler_testbed::checker::Rules;
use gpu_scheduler_testbed::objects::PodObject;
use gpu_scheduler_testbed::proxy::{Fault, Proxy, Rule};
use http::{Method, StatusCode};
use tempfile::TempDir;

use crate::bed::{Bed, Scheduler, holder};
use crate::burst::{self, Burst, Progress};
use crate::chance::Chance;

const NODES: usize = 20;
const SKIPPED: &str = "SKIPPED: there is no libfaketime on this machine; scripts/install-faketime installs it";
/// Where distributions put it.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

/// A wall clock that can be set.
struct WallClock {
    library: PathBuf,
    folder: TempDir,
}

impl WallClock {
    /// The machine's, at first. None where there is no libfaketime.
    fn new() -> Option<Self> {
        let library = LIBRARIES.iter().map(Path::new).find(|path| path.exists())?.to_owned();
        let clock = Self { library, folder: tempfile::tempdir().expect("a folder") };
        clock.set(0);
        Some(clock)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }

    /// So many seconds ahead of the machine's. It jumps at the next look.
    fn set(&self, ahead: i64) {
        let next = self.folder.path().join("next");
        fs::write(&next, format!("{ahead:+}\n")).expect("a file");
        fs::rename(next, self.file()).expect("a file");
    }

    /// What a process is to have in its environment.
    fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file().display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }
}

/// The scheduler of this process id has ended: what libfaketime shared with its children, which it has none of, goes too.
fn clean_up(pid: u32) {
    for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
        // A process that ends in order has done so by itself.
        let _ = fs::remove_file(Path::new("/dev/shm").join(name));
    }
}

/// Removes what a scheduler left, once it has ended.
struct Faked(Option<Scheduler>);

impl Drop for Faked {
    fn drop(&mut self) {
        let pid = self.0.as_ref().map(Scheduler::pid);
        drop(self.0.take());
        pid.into_iter().for_each(clean_up);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_jumps_in_a_burst_moves_no_timeout_and_no_lease() {
    let Some(clock) = WallClock::new() else {
        eprintln!("{SKIPPED}");
        return;
    };
    let mut chance = Chance::new();
    let bed = burst::bed(NODES, Rules::default()).await;
    bed.elect_slowly();
    let proxy = Proxy::start(bed.cluster.admin()).await.expect("a proxy");
    let Burst { pods, fit } = Burst::filling(NODES, &mut chance);
    let progress = Progress::of(&bed);
    let scheduler = start(&bed, &clock, &bed.kubeconfig_through("a", &proxy));
    let leader = holder(&bed, "").await;
    let jumping = async {
        for (point, ahead) in chance.points(4, fit).into_iter().zip([3600, -7200, 90_000, -60]) {
            progress.reach(point).await;
            clock.set(ahead);
            println!("{ahead} s ahead at {} bound pods, meant for {point}", progress.now());
        }
    };
    let created = async { bed.cluster.add_pods(pods).await.expect("pods") };
    tokio::join!(jumping, created);
    progress.reach(fit).await;
    // Set back by two days while a pod waits for its next try, and while an answer is asked for again: neither waits two days.
    let refuse = |times, status| Rule {
        method: Method::POST,
        path: "/pods/backs-off/binding".to_owned(),
        times,
        fault: Fault::Refuse(status),
    };
    proxy.add(refuse(2, StatusCode::FORBIDDEN));
    proxy.add(refuse(3, StatusCode::INTERNAL_SERVER_ERROR));
    bed.cluster.add_pods([PodObject::new("backs-off").build()]).await.expect("a pod");
    bed.waits("backs-off").await;
    clock.set(-172_800);
    bed.bound("backs-off").await;
    assert_eq!(holder(&bed, "").await, leader, "it led all the time");
    let log = scheduler.0.as_ref().expect("it runs").log();
    assert!(!log.contains("leads no more"), "{log}");
    bed.check().await;
}

fn start(bed: &Bed, clock: &WallClock, kubeconfig: &Path) -> Faked {
    Faked(Some(bed.scheduler_in("a", kubeconfig, &clock.environment())))
}
