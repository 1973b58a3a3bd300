//! Disks that are full or slow.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use gpu_scheduler_engine::model::{Node, Pod, Quantity, Timestamp};
use gpu_scheduler_engine::{Action, Config, Engine, Event, Outcome, Policy, Step};
use serde_json::Value;

use super::buffer::MAX_PENDING;
use super::files::Store;
use super::record::{Header, Start};
use super::{Journal, Recorded};

type Files = Arc<Mutex<Vec<Vec<u8>>>>;

/// Keeps files in memory, and is full or stands still on demand.
#[derive(Debug, Clone, Default)]
struct Disk {
    files: Files,
    full: Arc<AtomicBool>,
    stands_still: Arc<(Mutex<bool>, Condvar)>,
}

impl Disk {
    fn stand_still(&self, still: bool) {
        *self.stands_still.0.lock().unwrap() = still;
        self.stands_still.1.notify_all();
    }

    /// The headers of all files that have one.
    fn headers(&self) -> Vec<Header> {
        let files = self.files.lock().unwrap();
        let header = |file: &Vec<u8>| {
            let mut decoder = zstd::stream::read::Decoder::new(file.as_slice()).ok()?;
            let mut text = Vec::new();
            // A file that a failure cut short has its header all the same.
            let _ = io::Read::read_to_end(&mut decoder, &mut text);
            serde_json::from_slice(text.split(|b| *b == b'\n').next()?).ok()
        };
        files.iter().filter_map(header).collect()
    }
}

struct Sink(Disk, usize);

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let (still, moves) = &*self.0.stands_still;
        drop(moves.wait_while(still.lock().unwrap(), |still| *still).unwrap());
        if self.0.full.load(Ordering::SeqCst) {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left on device"));
        }
        self.0.files.lock().unwrap()[self.1].extend_from_slice(data);
        Ok(data.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Store for Disk {
    fn create(&mut self) -> io::Result<(String, Box<dyn Write + Send>)> {
        let mut files = self.files.lock().unwrap();
        files.push(Vec::new());
        Ok((files.len().to_string(), Box::new(Sink(self.clone(), files.len() - 1))))
    }
    fn prune(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn engine(disk: &Disk, max_pending: usize) -> Recorded {
    let journal = Journal::with_store(disk.clone(), 1 << 20, max_pending, Value::Null).unwrap();
    let mut engine = Recorded::new(Engine::new(Config::with_policy(Policy::Fgd)), Some(journal));
    let mut node = Node { name: "n1".into(), ..Node::default() };
    node.allocatable.insert("cpu".into(), Quantity::units(1_000_000));
    node.allocatable.insert("pods".into(), Quantity::units(1_000_000));
    engine.handle(Timestamp(0), Event::NodeApplied(Box::new(node)));
    engine
}

/// A pod comes and is bound; panics if it is not.
fn bind(engine: &mut Recorded, now: Timestamp, name: &str) {
    let mut pod = Pod::new(name, "default", name);
    pod.scheduler = "gpu-scheduler".into();
    engine.handle(now, Event::PodApplied(Box::new(pod)));
    let Step::Act(Action::Bind { ticket, .. }) = engine.poll(now) else { panic!("{name} is not bound") };
    engine.handle(now, Event::ActionFinished { ticket, outcome: Outcome::Done });
}

fn stopped(engine: &Recorded) -> Option<&str> {
    engine.journal().unwrap().stopped()
}

fn flush(engine: &Recorded) {
    engine.journal().unwrap().flush();
}

#[test]
fn a_full_disk_stops_the_journal_and_nothing_else() {
    let disk = Disk::default();
    let mut engine = engine(&disk, MAX_PENDING);
    bind(&mut engine, Timestamp(1000), "a");
    flush(&engine);
    assert_eq!(stopped(&engine), None);
    disk.full.store(true, Ordering::SeqCst);
    bind(&mut engine, Timestamp(2000), "b");
    flush(&engine);
    // The writer found out; the next record does.
    bind(&mut engine, Timestamp(3000), "c");
    assert!(stopped(&engine).is_some_and(|why| why.contains("no space left")), "{:?}", stopped(&engine));
    bind(&mut engine, Timestamp(62_000), "d");
    assert!(stopped(&engine).is_some(), "it is tried again a minute later, not before");
    // Still full: the pause doubles.
    bind(&mut engine, Timestamp(63_000), "e");
    flush(&engine);
    bind(&mut engine, Timestamp(64_000), "f");
    assert!(stopped(&engine).is_some());
    disk.full.store(false, Ordering::SeqCst);
    bind(&mut engine, Timestamp(180_000), "g");
    assert!(stopped(&engine).is_some());
    bind(&mut engine, Timestamp(184_000), "h");
    assert_eq!(stopped(&engine), None);
    drop(engine);
    let starts: Vec<Start> = disk.headers().into_iter().map(|h| h.start).collect();
    assert_eq!(starts, [Start::Process, Start::Gap("no space left on device".into())]);
}

#[test]
fn a_slow_disk_stops_the_journal_and_nothing_else() {
    let disk = Disk::default();
    let mut engine = engine(&disk, 100_000);
    flush(&engine);
    disk.stand_still(true);
    let mut bound = 0;
    while stopped(&engine).is_none() {
        bind(&mut engine, Timestamp(1000), &format!("pod-{bound}"));
        bound += 1;
        assert!(bound < 10_000, "what waits is bounded");
    }
    assert!(stopped(&engine).is_some_and(|why| why.contains("too slow")));
    bind(&mut engine, Timestamp(2000), "more");
    disk.stand_still(false);
    bind(&mut engine, Timestamp(62_000), "later");
    drop(engine);
    let starts: Vec<Start> = disk.headers().into_iter().map(|h| h.start).collect();
    assert!(matches!(&starts[..], [Start::Process, Start::Gap(why)] if why.contains("too slow")), "{starts:?}");
}
