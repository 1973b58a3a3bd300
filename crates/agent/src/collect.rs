//! One round: looks at all cards and says who uses them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::checkpoint::Listed;
use crate::health::{Health, XidPolicy};
use crate::host::{GpuMode, Origin, ProcessTable, Sysfs};
use crate::inventory::{DeviceHealth, DeviceUuid, GpuUuid, Inventory};
use crate::nvml::{
    self, DriverGone, Failures, Fingerprint, Library, LibraryError, Sample, Sampler, XidInbox, XidWatcher,
};
use crate::pods::NodePod;
use crate::usage::{Assignments, CardUse, attribute};

/// How long what changes seldom counts, such as links between cards. What cards there are and how they are partitioned is
/// looked at in every round.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// Where to look, and what to make of it.
#[derive(Debug, Clone)]
pub struct CollectOptions {
    /// NVIDIA's library.
    pub nvml_path: PathBuf,
    /// Such as `/sys`.
    pub sysfs_root: PathBuf,
    /// Such as `/proc`.
    pub procfs_root: PathBuf,
    /// Which XIDs make a device unhealthy.
    pub xids: XidPolicy,
    /// How long a device stays unhealthy after its last critical XID.
    pub quiet: Duration,
}

/// What is known of the node beside its cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// What the machine calls itself.
    pub machine: Option<String>,
    /// What its cards are for.
    pub mode: GpuMode,
    /// The NVLink fabric that all its cards are in: cluster UUID and clique.
    pub fabric: Option<([u8; 16], u32)>,
    /// Whether a card is a part of one that a hypervisor divides.
    pub vgpu: bool,
}

/// What a round found.
#[derive(Debug, Clone)]
pub struct Round {
    /// The cards.
    pub inventory: Arc<Inventory>,
    /// What else is known.
    pub facts: Arc<NodeFacts>,
    /// How each device is.
    pub health: BTreeMap<DeviceUuid, DeviceHealth>,
    /// What cards that answered measured.
    pub samples: BTreeMap<GpuUuid, Sample>,
    /// Who uses each card.
    pub usage: BTreeMap<GpuUuid, CardUse>,
    /// The last XID of cards that had one.
    pub last_xids: BTreeMap<GpuUuid, u64>,
    /// How often each call to NVML failed so far.
    pub failed_calls: BTreeMap<&'static str, u64>,
    /// How long the round took.
    pub took: Duration,
}

/// Why there was no round.
#[derive(Debug, thiserror::Error)]
pub enum RoundError {
    /// The library cannot be opened.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The driver went away.
    #[error(transparent)]
    Driver(#[from] DriverGone),
}

/// Looks again and again, and remembers what it must from one round to the next. It blocks: give it a thread.
pub struct Collector {
    options: CollectOptions,
    begun: Instant,
    open: Option<Open>,
    sampler: Sampler,
    failures: Failures,
    processes: ProcessTable,
    health: Health,
    xids: XidInbox,
    last: Last,
}

/// The library and what watches by it.
struct Open {
    library: Library,
    wanted: BTreeSet<GpuUuid>,
    watcher: Option<XidWatcher>,
}

/// What was read last.
struct Last {
    fingerprint: Fingerprint,
    read_at: Option<Duration>,
    inventory: Arc<Inventory>,
    facts: Arc<NodeFacts>,
    silent: bool,
}

impl Collector {
    /// A collector that has looked at nothing yet.
    pub fn new(options: CollectOptions) -> Self {
        let facts = NodeFacts { machine: None, mode: GpuMode::Unknown, fabric: None, vgpu: false };
        Self {
            begun: Instant::now(),
            open: None,
            sampler: Sampler::default(),
            failures: Failures::default(),
            processes: ProcessTable::new(options.procfs_root.clone()),
            health: Health::new(options.xids.clone(), options.quiet),
            xids: XidInbox::new(),
            last: Last {
                fingerprint: Fingerprint::default(),
                read_at: None,
                inventory: Arc::default(),
                facts: Arc::new(facts),
                silent: false,
            },
            options,
        }
    }

    /// Is notified when the driver reported an XID: a round now says what it means.
    pub fn xid_arrived(&self) -> Arc<Notify> {
        self.xids.arrived()
    }

    /// A round on the real clock, of a node with these pods, to which kubelet gave this.
    ///
    /// # Errors
    /// [`RoundError`] if the driver cannot be asked at all. The next round opens it again.
    pub fn round(&mut self, pods: &[NodePod], listed: &[Listed]) -> Result<Round, RoundError> {
        self.round_at(pods, listed, self.begun.elapsed())
    }

    /// A round at `now` since any moment that stays the same.
    ///
    /// # Errors
    /// As [`Self::round`].
    pub fn round_at(&mut self, pods: &[NodePod], listed: &[Listed], now: Duration) -> Result<Round, RoundError> {
        let begun = Instant::now();
        let library = self.library()?;
        if let Err(gone) = self.look(&library, now) {
            self.open = None;
            self.last.read_at = None;
            return Err(gone.into());
        }
        self.hear(now);
        let inventory = self.last.inventory.clone();
        let samples = self.sample(&library, &inventory, now);
        let usage = self.attribute(&inventory, &samples, &Assignments::new(pods, listed));
        self.watch(&library, &inventory);
        let last_xid = |card: &GpuUuid| Some((card.clone(), self.health.last_xid(card)?));
        Ok(Round {
            facts: self.last.facts.clone(),
            health: self.health.of(&inventory),
            last_xids: inventory.cards.iter().filter_map(|card| last_xid(&card.uuid)).collect(),
            failed_calls: self.failures.counts().clone(),
            samples,
            usage,
            inventory,
            took: begun.elapsed(),
        })
    }

    /// The driver cannot be asked: no card answers. What there was is kept, all of it unhealthy.
    pub fn blind(&mut self) -> (Arc<Inventory>, BTreeMap<DeviceUuid, DeviceHealth>) {
        for card in &self.last.inventory.cards {
            self.health.lost(&card.uuid, nvml::CardFault::Lost);
        }
        (self.last.inventory.clone(), self.health.of(&self.last.inventory))
    }

    fn library(&mut self) -> Result<Library, LibraryError> {
        if let Some(open) = &self.open {
            return Ok(open.library.clone());
        }
        let library = Library::open(&self.options.nvml_path)?;
        self.open = Some(Open { library: library.clone(), wanted: BTreeSet::new(), watcher: None });
        Ok(library)
    }

    /// Reads the inventory if it may have changed.
    fn look(&mut self, library: &Library, now: Duration) -> Result<(), DriverGone> {
        let fingerprint = nvml::fingerprint(library)?;
        let fresh = self.last.read_at.is_some_and(|then| now.saturating_sub(then) < READ_AGAIN);
        if fresh && !self.last.silent && fingerprint == self.last.fingerprint {
            return Ok(());
        }
        let mut reading = nvml::read(library, &self.last.inventory, &mut self.failures)?;
        let sysfs = Sysfs::new(self.options.sysfs_root.clone());
        for card in &mut reading.inventory.cards {
            card.numa_node = sysfs.numa_node(&card.pci);
        }
        let facts = NodeFacts {
            machine: sysfs.machine(),
            mode: GpuMode::of_all(reading.inventory.cards.iter().map(|card| sysfs.mode(&card.pci))),
            fabric: reading.fabric,
            vgpu: reading.vgpu,
        };
        self.health.keep(&reading.inventory);
        self.sampler.keep(&reading.inventory);
        for (card, fault) in &reading.faults {
            self.health.lost(card, *fault);
        }
        // Equal ones stay the same object, so that whoever compares is fast.
        if *self.last.inventory != reading.inventory {
            self.last.inventory = Arc::new(reading.inventory);
        }
        if *self.last.facts != facts {
            self.last.facts = Arc::new(facts);
        }
        self.last.fingerprint = fingerprint;
        self.last.read_at = Some(now);
        Ok(())
    }

    fn hear(&mut self, now: Duration) {
        while let Some(event) = self.xids.take() {
            let card = event.card.as_ref().map_or("an unknown card", GpuUuid::as_str);
            tracing::warn!(card, xid = event.xid, gpu_instance = ?event.gpu_instance, "the driver reports an XID");
            self.health.xid(&self.last.inventory, &event, now);
        }
    }

    fn sample(&mut self, library: &Library, inventory: &Inventory, now: Duration) -> BTreeMap<GpuUuid, Sample> {
        let mut samples = BTreeMap::new();
        self.last.silent = false;
        for card in &inventory.cards {
            match self.sampler.sample(library, card, now, &mut self.failures) {
                Ok(sample) => {
                    self.health.answered(card, sample.energy_mj, now);
                    samples.insert(card.uuid.clone(), sample);
                }
                Err(fault) => {
                    self.health.lost(&card.uuid, fault);
                    self.last.silent = true;
                }
            }
        }
        samples
    }

    fn attribute(
        &mut self,
        inventory: &Inventory,
        samples: &BTreeMap<GpuUuid, Sample>,
        assignments: &Assignments<'_>,
    ) -> BTreeMap<GpuUuid, CardUse> {
        let mut origins: BTreeMap<u32, Origin> = BTreeMap::new();
        for process in samples.values().flat_map(|sample| sample.processes.iter().flatten()) {
            origins.entry(process.pid).or_insert_with(|| self.processes.origin(process.pid));
        }
        self.processes.end_round();
        let of = |card: &crate::inventory::Card| {
            let processes = samples.get(&card.uuid).and_then(|sample| sample.processes.as_deref());
            (card.uuid.clone(), attribute(card, processes, assignments, &origins))
        };
        inventory.cards.iter().map(of).collect()
    }

    /// Watches the cards that answer for XIDs; anew where others are to be watched, or the watch broke off.
    fn watch(&mut self, library: &Library, inventory: &Inventory) {
        let Some(open) = &mut self.open else { return };
        let cards = inventory.cards.iter().map(|card| &card.uuid);
        let answering = cards.filter(|card| !self.health.is_lost(card)).cloned();
        let wanted: BTreeSet<GpuUuid> = answering.collect();
        let waits = open.watcher.as_ref().is_some_and(XidWatcher::is_running);
        if open.wanted != wanted || !waits {
            let start = || XidWatcher::start(library, wanted.clone(), self.xids.sink());
            open.watcher = (!wanted.is_empty()).then(start);
            open.wanted = wanted;
        }
    }
}
