//! What is behind the exported functions: one driver for each loaded copy of the library.

mod change;
mod events;
mod handles;
mod source;
mod watch;

pub(crate) use events::{Event, EventSets, SUPPORTED as SUPPORTED_EVENTS};
pub(crate) use handles::{Handles, Target};
pub(crate) use watch::Watch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::describe::{Function, Gpm, NvmlError};
use crate::machine::{Card, Machine, MigDevice};
use crate::mig::{ComputeInstance, GpuInstance, Table};
use source::Source;

static DRIVER: Mutex<Driver> = Mutex::new(Driver {
    clients: 0,
    node: None,
    function: Function::exported("nvmlInit_v2"),
    handles: Handles::new(),
    sets: EventSets::new(),
    samples: BTreeMap::new(),
    last_sample: 0,
});

/// The driver of this copy of the library. Every call holds its lock but while it waits for events.
pub(crate) struct Driver {
    /// How often it was initialised, less how often it was shut down.
    clients: u32,
    node: Option<Node>,
    /// The function that is being called.
    function: Function,
    pub handles: Handles,
    pub sets: EventSets,
    /// Samples of the performance monitors, by number; none before it is taken.
    pub samples: BTreeMap<u64, Option<Gpm>>,
    last_sample: u64,
}

/// The node as it was when the call began.
struct Node {
    source: Source,
    machine: Arc<Machine>,
}

/// What a handle of a device stands for.
#[derive(Clone, Copy)]
pub(crate) enum Device<'a> {
    Gpu(&'a Card),
    Mig(MigDevice<'a>),
}

impl<'a> Device<'a> {
    /// The card that it is or is on.
    pub fn card(self) -> &'a Card {
        match self {
            Self::Gpu(card) => card,
            Self::Mig(device) => device.card,
        }
    }
}

impl Driver {
    /// Takes the driver for one call.
    pub fn lock() -> MutexGuard<'static, Self> {
        // A call that panicked answered with an error; what it left is a node that was read, or nothing.
        DRIVER.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call: reads the node anew.
    pub fn begin(&mut self, function: Function) -> Result<(), NvmlError> {
        self.function = function;
        let node = self.node.as_mut().filter(|_| self.clients > 0).ok_or(NvmlError::Uninitialized)?;
        if let Some(machine) = node.source.read() {
            node.machine = machine;
        }
        self.fails_here()
    }

    fn fails_here(&self) -> Result<(), NvmlError> {
        self.machine()?.node.fail.get(&self.function).map_or(Ok(()), |error| Err(*error))
    }

    /// Initialises, or counts one more client.
    pub fn initialise(&mut self, function: Function) -> Result<(), NvmlError> {
        self.function = function;
        if self.clients == 0 || self.node.is_none() {
            let mut source = Source::find().ok_or(NvmlError::DriverNotLoaded)?;
            let machine = source.read().ok_or(NvmlError::DriverNotLoaded)?;
            self.node = Some(Node { source, machine });
        } else if let Some(node) = &mut self.node
            && let Some(machine) = node.source.read()
        {
            node.machine = machine;
        }
        self.fails_here()?;
        self.clients += 1;
        Ok(())
    }

    /// Counts one client less. Handles of devices stay good for the next.
    pub fn shut_down(&mut self) {
        self.clients -= 1;
        if self.clients == 0 {
            self.sets = EventSets::new();
            self.samples.clear();
        }
    }

    /// Makes room for a sample, under a number that no other ever had.
    pub fn new_sample(&mut self) -> u64 {
        self.last_sample += 1;
        self.samples.insert(self.last_sample, None);
        self.last_sample
    }

    /// The node.
    pub fn machine(&self) -> Result<&Machine, NvmlError> {
        self.node.as_ref().map(|node| &*node.machine).ok_or(NvmlError::Uninitialized)
    }

    /// A watch over the files that the node comes from.
    pub fn watch(&self) -> Watch {
        Watch::over(self.node.as_ref().map(|node| node.source.folder()))
    }

    /// The card, if it answers and this call does not fail on it.
    pub fn answering<'a>(&self, card: &'a Card) -> Result<&'a Card, NvmlError> {
        if card.gpu.lost {
            return Err(NvmlError::GpuIsLost);
        }
        card.gpu.fail.get(&self.function).map_or(Ok(card), |error| Err(*error))
    }

    /// The card with this UUID; one that is no longer described fell off the bus.
    fn card(&self, uuid: &str) -> Result<&Card, NvmlError> {
        let card = self.machine()?.card(uuid).ok_or(NvmlError::GpuIsLost)?;
        self.answering(card)
    }

    /// What the handle stands for.
    pub fn device(&self, handle: usize) -> Result<Device<'_>, NvmlError> {
        match self.handles.target(handle)? {
            Target::Gpu { card } => self.card(card).map(Device::Gpu),
            Target::Mig { card, uuid } => {
                let card = self.card(card)?;
                // What was destroyed is no longer a device.
                card.mig_devices()
                    .find(|device| device.uuid() == *uuid)
                    .map(Device::Mig)
                    .ok_or(NvmlError::InvalidArgument)
            }
            _ => Err(NvmlError::InvalidArgument),
        }
    }

    /// The card of a handle, for what a MIG device does not have.
    pub fn gpu(&self, handle: usize) -> Result<&Card, NvmlError> {
        match self.device(handle)? {
            Device::Gpu(card) => Ok(card),
            Device::Mig(_) => Err(NvmlError::NotSupported),
        }
    }

    /// The card of a handle and what can be cut out of it.
    pub fn divisible(&self, handle: usize) -> Result<(&Card, &'static Table), NvmlError> {
        let card = self.gpu(handle)?;
        Ok((card, card.model.mig.ok_or(NvmlError::NotSupported)?))
    }

    /// The same, of a card that is in the mode.
    pub fn divided(&self, handle: usize) -> Result<(&Card, &'static Table), NvmlError> {
        let (card, table) = self.divisible(handle)?;
        if card.mig.enabled { Ok((card, table)) } else { Err(NvmlError::NotSupported) }
    }

    /// The GPU instance of a handle and its card.
    pub fn gpu_instance(&self, handle: usize) -> Result<(&Card, &GpuInstance), NvmlError> {
        let Target::GpuInstance { card, id, profile } = self.handles.target(handle)? else {
            return Err(NvmlError::InvalidArgument);
        };
        let card = self.card(card)?;
        let instance = card.instances.get(*id).filter(|instance| instance.profile.id == *profile);
        Ok((card, instance.ok_or(NvmlError::InvalidArgument)?))
    }

    /// The compute instance of a handle, with what it is in.
    pub fn compute_instance(&self, handle: usize) -> Result<(&Card, &GpuInstance, &ComputeInstance), NvmlError> {
        let Target::ComputeInstance { card, instance, id, profile } = self.handles.target(handle)? else {
            return Err(NvmlError::InvalidArgument);
        };
        let card = self.card(card)?;
        let instance = card.instances.get(*instance).ok_or(NvmlError::InvalidArgument)?;
        let found = instance.compute.iter().find(|compute| compute.id == *id && compute.profile.id == *profile);
        Ok((card, instance, found.ok_or(NvmlError::InvalidArgument)?))
    }
}
