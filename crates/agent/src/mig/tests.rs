//! Changes of cards behind a described library.

mod failures;
mod models;
mod refusals;
mod running;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use gpu_scheduler_nvml_mock::describe::{ComputeInstance, GpuInstance, Mig};
use gpu_scheduler_nvml_mock::{Gpu, Installation, Node};
use nvml_wrapper::error::NvmlError;
use tempfile::TempDir;

use super::attempt::{Again, Outcome, Setting, attempt};
use super::change::Means;
use super::journal::Journal;
use super::state::MigState;
use crate::handout::Claim;
use crate::inventory::DeviceUuid;
use crate::nvml::probe;

/// A node whose cards are cut, by attempts one after another. The journal is opened anew for each, as after a restart.
struct Lab {
    node: Node,
    installation: Installation,
    folder: TempDir,
    held: RefCell<BTreeSet<DeviceUuid>>,
    /// Whether a card was touched in the last attempt.
    touched: Cell<bool>,
    reboots: bool,
}

/// Two ways to have one of 20 GB and one of 10 GB, and the other layouts that must be had.
const LAYOUTS: &str = "
version: v1
mig-configs:
  sevenths: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]
  thirds: [{devices: all, mig-enabled: true, mig-devices: {2g.10gb: 3}}]
  twenty-ten: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 1, 2g.10gb: 1}}]
  four-ten: [{devices: all, mig-enabled: true, mig-devices: {4g.20gb: 1, 2g.10gb: 1}}]
  parts: [{devices: all, mig-enabled: true, mig-devices: {1c.3g.20gb: 1, 2c.3g.20gb: 1, 1g.5gb: 2}}]
  whole: [{devices: all, mig-enabled: true, mig-devices: {7g.40gb: 1}}]
  off: [{devices: all, mig-enabled: false}]
";

impl Lab {
    fn new(node: Node) -> Self {
        let installation = Installation::new(&node).unwrap();
        let (folder, held) = (TempDir::new().unwrap(), RefCell::default());
        Self { node, installation, folder, held, touched: Cell::new(false), reboots: false }
    }

    /// One card of a model.
    fn of(model: &str, mig: Mig) -> Self {
        Self::new(Node::with(vec![Gpu { mig, ..Gpu::of(model) }]))
    }

    fn file(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("config.yaml");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn write(&mut self, change: impl FnOnce(&mut Node)) {
        change(&mut self.node);
        self.installation.write(&self.node).unwrap();
    }

    /// As it was at first. Libraries take of what a process has few of, so one serves a whole test.
    fn reset(&mut self, mig: &Mig) {
        self.installation.reboot().unwrap();
        let _ = std::fs::remove_file(self.folder.path().join("journal.json"));
        self.held.take();
        self.write(|node| {
            node.gpus[0].mig.clone_from(mig);
            node.gpus[0].fail.clear();
        });
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.folder.path().join("journal.json")).unwrap()
    }

    fn attempt_with(&self, label: Option<&str>, file: Option<&str>) -> Outcome {
        let (library, file) = (self.installation.library(), file.map(|text| self.file(text)));
        let setting = Setting { nvml_path: &library, file: file.as_deref(), reboots: self.reboots };
        self.touched.set(false);
        let (held, begins) = (|| Claim::of(self.held.borrow().clone()), || self.touched.set(true));
        let mut journal = self.journal();
        let mut means = Means { held: &held, begins: &begins, ends: &|| {}, journal: &mut journal };
        attempt(label, Again::All, &setting, &mut means)
    }

    /// By the standard names.
    fn attempt(&self, label: &str) -> Outcome {
        self.attempt_with(Some(label), None)
    }

    /// By [`LAYOUTS`].
    fn lay_out(&self, label: &str) -> Outcome {
        self.attempt_with(Some(label), Some(LAYOUTS))
    }

    /// How the cards are cut, as the library has it: `off`, or profile, start and slices of the parts of each instance.
    fn shown(&self) -> String {
        let machine = self.installation.machine().unwrap();
        let card = |card: &gpu_scheduler_nvml_mock::machine::Card| {
            if !card.mig.enabled {
                assert!(card.instances.is_empty());
                return "off".to_owned();
            }
            let mut instances: Vec<_> = card.instances.iter().collect();
            instances.sort_by_key(|instance| instance.start);
            let shown = instances.iter().map(|instance| {
                let part = |part: &gpu_scheduler_nvml_mock::mig::ComputeInstance| {
                    format!("{}@{}", part.profile.slices, part.start)
                };
                let mut parts: Vec<_> = instance.compute.iter().map(part).collect();
                parts.sort();
                format!("{}@{}[{}]", instance.profile.name, instance.start, parts.join(" "))
            });
            shown.collect::<Vec<_>>().join(", ")
        };
        machine.cards.iter().map(card).collect::<Vec<_>>().join(" | ")
    }
}

fn state(outcome: &Outcome) -> Option<MigState> {
    outcome.status.as_ref().map(|status| status.state)
}

fn reason(outcome: &Outcome) -> String {
    outcome.status.as_ref().and_then(|status| status.reason.clone()).unwrap_or_default()
}

/// A card that is cut already: three slices in two parts, one slice, and one that is not cut.
fn cut() -> Mig {
    let part = |slices, start| ComputeInstance { id: None, slices, start: Some(start) };
    let instance = |profile: &str, start, parts: Vec<ComputeInstance>| GpuInstance {
        start: Some(start),
        compute_instances: Some(parts),
        ..GpuInstance::of(profile)
    };
    let instances = vec![
        instance("3g.20gb", 4, vec![part(2, 0), part(1, 2)]),
        instance("1g.5gb", 2, vec![part(1, 0)]),
        instance("2g.10gb", 0, vec![]),
    ];
    Mig { enabled: true, pending: None, instances }
}

/// Shows each call of this thread to `see`, by its number, until the value is dropped.
struct Watched {
    calls: Rc<Cell<usize>>,
}

impl Watched {
    fn by(mut see: impl FnMut(usize, &'static str) -> Result<(), NvmlError> + 'static) -> Self {
        let calls = Rc::new(Cell::new(0));
        let count = Rc::clone(&calls);
        probe::set(Some(Box::new(move |call| {
            let number = count.get();
            count.set(number + 1);
            see(number, call)
        })));
        Self { calls }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        probe::set(None);
    }
}
