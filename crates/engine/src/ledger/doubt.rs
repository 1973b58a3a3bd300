//! Records that cannot be true.
//!
//! Nobody but the scheduler is let write a record, but where admission is not set up anybody who may write a pod can.
//! So a record is held against what its pod asks for: where it says less, what the pod asks for counts; where it
//! leaves devices out, it says nothing, and the devices are guessed as those of a pod without one.

use std::fmt;

use crate::model::{
    Allocation, ContainerAllocation, ContainerKind, Demand, DeviceGrant, GpuRequest, GrantKind, Mib, ShareMemory,
};

/// What is wrong with a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It names fewer devices than the container asks for.
    Missing {
        /// The container.
        container: String,
        /// How many it names.
        named: usize,
        /// How many are asked for.
        asked: usize,
    },
    /// It says less of a device than the container asks for.
    Less {
        /// The container.
        container: String,
        /// UUID of the device.
        uuid: String,
    },
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { container, named, asked } => write!(
                f,
                "container {container:?} asks for {asked} devices and its record names {named}; its devices are assumed"
            ),
            Self::Less { container, uuid } => write!(
                f,
                "the record gives container {container:?} less of GPU {uuid} than it asks for; what it asks for is charged"
            ),
        }
    }
}

/// What is to be charged for a record, and what is wrong with it. `None`: it leaves devices out and says nothing.
///
/// The cards play no part, so the order in which pods and nodes become known makes no difference. `O(devices)`.
pub(crate) fn at_worst(record: &Allocation, request: &GpuRequest) -> (Option<Allocation>, Vec<Doubt>) {
    let mut charged = record.clone();
    let mut doubts = Vec::new();
    for asked in &request.containers {
        // An init container has run by the time that anybody looks, and old records leave it out.
        let may_miss = asked.kind == ContainerKind::Init;
        let wanted: usize = asked.demands.iter().map(|d| devices_of(d) as usize).sum();
        let entry = charged.containers.iter_mut().find(|c| c.name == asked.name);
        let named = entry.as_ref().map_or(0, |c| distinct(c));
        if named < wanted && !may_miss {
            doubts.push(Doubt::Missing { container: asked.name.clone(), named, asked: wanted });
            continue;
        }
        let Some(entry) = entry else { continue };
        for demand in &asked.demands {
            raise(entry, demand, &mut doubts);
        }
    }
    let says_nothing = doubts.iter().any(|d| matches!(d, Doubt::Missing { .. }));
    ((!says_nothing).then_some(charged), doubts)
}

fn devices_of(demand: &Demand) -> u32 {
    match demand {
        Demand::Cards { count }
        | Demand::Share { count, .. }
        | Demand::Seats { count }
        | Demand::Slices { count, .. } => *count,
    }
}

fn distinct(container: &ContainerAllocation) -> usize {
    let mut devices: Vec<_> = container.devices.iter().map(|d| d.mig.as_deref().unwrap_or(&d.uuid)).collect();
    devices.sort_unstable();
    devices.dedup();
    devices.len()
}

/// Raises what a record gives a container to what it asks for.
fn raise(entry: &mut ContainerAllocation, demand: &Demand, doubts: &mut Vec<Doubt>) {
    match demand {
        // Whole cards may be given as seats or slices, where that is how the node divides its cards.
        Demand::Cards { .. } if entry.kind == Some(GrantKind::Share) => {
            doubts.extend(entry.devices.first().map(|d| less(&entry.name, d)));
            entry.kind = Some(GrantKind::Whole);
        }
        Demand::Share { memory, compute, .. } => {
            // A fraction is of whichever card it is: its record is taken at its word.
            let asked = if let ShareMemory::Mib(memory) = memory { *memory } else { Mib(0) };
            // Slices beside shares are not a matter of memory.
            for device in entry.devices.iter_mut().filter(|d| d.mig.is_none()) {
                if device.memory < asked || device.compute < *compute {
                    doubts.push(less(&entry.name, device));
                    device.memory = device.memory.max(asked);
                    device.compute = device.compute.max(*compute);
                }
            }
        }
        Demand::Cards { .. } | Demand::Seats { .. } | Demand::Slices { .. } => {}
    }
}

fn less(container: &str, device: &DeviceGrant) -> Doubt {
    Doubt::Less { container: container.to_owned(), uuid: device.uuid.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ContainerDemand, Percent};

    fn request(demand: Demand, kind: ContainerKind) -> GpuRequest {
        let containers = vec![ContainerDemand { name: "c".into(), kind, demands: vec![demand] }];
        GpuRequest { containers, ..GpuRequest::default() }
    }

    fn record(kind: Option<GrantKind>, devices: &[(&str, u64, u32)]) -> Allocation {
        let device = |(uuid, memory, compute): &(&str, u64, u32)| DeviceGrant {
            uuid: (*uuid).into(),
            index: 0,
            memory: Mib(*memory),
            compute: Percent(*compute),
            mig: None,
        };
        let devices = devices.iter().map(device).collect();
        Allocation { containers: vec![ContainerAllocation { name: "c".into(), kind, devices }] }
    }

    #[test]
    fn what_is_charged() {
        let share = |count| Demand::Share { memory: ShareMemory::Mib(Mib(500)), compute: Percent(30), count };
        let (whole, shared) = (Some(GrantKind::Whole), Some(GrantKind::Share));
        let app = ContainerKind::App;
        for (name, demand, kind, written, charged, doubts) in [
            ("as asked", share(1), app, record(shared, &[("a", 500, 30)]), Some(record(shared, &[("a", 500, 30)])), 0),
            (
                "more than asked",
                share(1),
                app,
                record(shared, &[("a", 900, 90)]),
                Some(record(shared, &[("a", 900, 90)])),
                0,
            ),
            ("less memory", share(1), app, record(shared, &[("a", 1, 30)]), Some(record(shared, &[("a", 500, 30)])), 1),
            (
                "less compute",
                share(1),
                app,
                record(shared, &[("a", 500, 0)]),
                Some(record(shared, &[("a", 500, 30)])),
                1,
            ),
            ("one of two", share(2), app, record(shared, &[("a", 500, 30)]), None, 1),
            ("one twice", share(2), app, record(shared, &[("a", 500, 30), ("a", 500, 30)]), None, 1),
            (
                "whole as a share",
                Demand::Cards { count: 1 },
                app,
                record(shared, &[("a", 1, 1)]),
                Some(record(whole, &[("a", 1, 1)])),
                1,
            ),
            (
                "seats for cards",
                Demand::Cards { count: 1 },
                app,
                record(Some(GrantKind::Seat), &[("a", 250, 0)]),
                Some(record(Some(GrantKind::Seat), &[("a", 250, 0)])),
                0,
            ),
            ("no device at all", Demand::Cards { count: 1 }, app, Allocation::default(), None, 1),
            (
                "an init container left out",
                Demand::Cards { count: 1 },
                ContainerKind::Init,
                Allocation::default(),
                Some(Allocation::default()),
                0,
            ),
        ] {
            let (result, found) = at_worst(&written, &request(demand, kind));
            assert_eq!(result, charged, "{name}");
            assert_eq!(found.len(), doubts, "{name}: {found:?}");
        }
    }
}
