//! A way to cut a card with every place said, and the steps from how it is cut to there.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::inventory::Placement;
use crate::nvml::{Division, GpuInstance, ProfileId};

/// A way to cut a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Whether the card is in MIG's mode. If not, there are no instances.
    pub enabled: bool,
    /// The GPU instances.
    pub instances: Vec<Instance>,
}

/// A GPU instance and what it is cut into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// What it is made by.
    pub profile: ProfileId,
    /// Where it lies.
    pub placement: Placement,
    /// Its compute instances.
    pub parts: Vec<Part>,
}

/// A compute instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// Its compute slices.
    pub slices: u32,
    /// Where it lies in the GPU instance; `None`: wherever there is room.
    pub placement: Option<Placement>,
}

impl Layout {
    /// How a card is cut now.
    pub fn of(division: &Division) -> Self {
        let instance = |instance: &GpuInstance| Instance {
            profile: instance.profile,
            placement: instance.placement,
            parts: instance
                .compute
                .iter()
                .map(|part| Part { slices: part.slices, placement: Some(part.placement) })
                .collect(),
        };
        Self { enabled: division.mode.current, instances: division.instances.iter().map(instance).collect() }
    }

    /// Not in MIG's mode.
    pub fn disabled() -> Self {
        Self { enabled: false, instances: Vec::new() }
    }

    /// In MIG's mode, and nothing more.
    pub fn empty() -> Self {
        Self { enabled: true, instances: Vec::new() }
    }

    fn instance_at(&self, there: &GpuInstance) -> Option<&Instance> {
        let same = |wanted: &&Instance| (wanted.profile, wanted.placement) == (there.profile, there.placement);
        self.instances.iter().find(same)
    }
}

impl Instance {
    /// Whether the instance that is there is cut as this one.
    fn is_cut_like(&self, there: &GpuInstance) -> bool {
        let mut left: Vec<_> = there.compute.iter().map(|part| (part.slices, part.placement)).collect();
        // Parts that must lie somewhere choose before those that may lie anywhere.
        let mut parts = self.parts.clone();
        parts.sort_by_key(|part| part.placement.is_none());
        for part in &parts {
            let fits = |(slices, place): &(u32, Placement)| {
                *slices == part.slices && part.placement.is_none_or(|wanted| wanted == *place)
            };
            match left.iter().position(fits) {
                Some(at) => drop(left.swap_remove(at)),
                None => return false,
            }
        }
        left.is_empty()
    }
}

/// One step of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Takes a compute instance away.
    DestroyCompute {
        /// The GPU instance's number.
        gpu: u32,
        /// Its number.
        compute: u32,
    },
    /// Takes a GPU instance away.
    DestroyGpu {
        /// Its number.
        gpu: u32,
    },
    /// Puts the card into MIG's mode, or out of it.
    Mode {
        /// Which.
        enabled: bool,
    },
    /// Makes a GPU instance.
    CreateGpu {
        /// What of.
        profile: ProfileId,
        /// Where.
        placement: Placement,
    },
    /// Cuts an empty GPU instance.
    Cut {
        /// Where it lies.
        placement: Placement,
        /// Into what.
        parts: Vec<Part>,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DestroyCompute { gpu, compute } => {
                write!(f, "destroy compute instance {compute} of GPU instance {gpu}")
            }
            Self::DestroyGpu { gpu } => write!(f, "destroy GPU instance {gpu}"),
            Self::Mode { enabled: true } => f.write_str("enable MIG"),
            Self::Mode { enabled: false } => f.write_str("disable MIG"),
            Self::CreateGpu { profile, placement } => {
                let Placement { start, size } = placement;
                write!(f, "create a GPU instance of profile {} at {start}:{size}", profile.0)
            }
            Self::Cut { placement, parts } => {
                write!(f, "create {} compute instances in the GPU instance at {}", parts.len(), placement.start)
            }
        }
    }
}

/// The steps from how the card is cut to `to`: what is in the way goes first, then the mode, then what is new. Instances
/// that are wanted where they are stay, and keep their UUIDs. None if it is so already.
pub fn steps(from: &Division, to: &Layout) -> Vec<Step> {
    let mut destroy = Vec::new();
    let mut create = Vec::new();
    let mut missing: BTreeMap<(u32, ProfileId), &Instance> =
        to.instances.iter().map(|wanted| ((wanted.placement.start, wanted.profile), wanted)).collect();
    for there in &from.instances {
        let wanted = to.instance_at(there);
        if let Some(wanted) = wanted {
            missing.remove(&(wanted.placement.start, wanted.profile));
            if wanted.is_cut_like(there) {
                continue;
            }
            create.push(Step::Cut { placement: wanted.placement, parts: wanted.parts.clone() });
        }
        let parts = there.compute.iter().map(|part| Step::DestroyCompute { gpu: there.id, compute: part.id });
        destroy.extend(parts);
        if wanted.is_none() {
            destroy.push(Step::DestroyGpu { gpu: there.id });
        }
    }
    for wanted in missing.into_values() {
        create.push(Step::CreateGpu { profile: wanted.profile, placement: wanted.placement });
        create.push(Step::Cut { placement: wanted.placement, parts: wanted.parts.clone() });
    }
    create.retain(|step| !matches!(step, Step::Cut { parts, .. } if parts.is_empty()));
    let mode = from.mode.current != to.enabled || from.mode.pending != to.enabled;
    destroy.extend(mode.then_some(Step::Mode { enabled: to.enabled }));
    destroy.extend(create);
    destroy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvml::{ComputeInstance, MigMode};

    fn place(start: u32, size: u32) -> Placement {
        Placement { start, size }
    }

    fn instance(id: u32, profile: u32, at: Placement, parts: &[(u32, u32)]) -> GpuInstance {
        let part = |(id, (start, slices)): (u32, &(u32, u32))| ComputeInstance {
            id,
            slices: *slices,
            placement: place(*start, *slices),
        };
        GpuInstance { id, profile: ProfileId(profile), placement: at, compute: (0..).zip(parts).map(part).collect() }
    }

    fn wanted(profile: u32, at: Placement, parts: &[(u32, Option<u32>)]) -> Instance {
        let parts = parts
            .iter()
            .map(|(slices, start)| Part { slices: *slices, placement: start.map(|start| place(start, *slices)) })
            .collect();
        Instance { profile: ProfileId(profile), placement: at, parts }
    }

    fn division(current: bool, pending: bool, instances: Vec<GpuInstance>) -> Division {
        Division { mode: MigMode { current, pending }, profiles: Vec::new(), instances }
    }

    fn text(from: &Division, to: &Layout) -> Vec<String> {
        steps(from, to).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_so_already_takes_no_step() {
        let cut = instance(1, 9, place(4, 4), &[(0, 2), (2, 1)]);
        let divided = division(true, true, vec![cut]);
        assert!(steps(&divided, &Layout::of(&divided)).is_empty());
        let anywhere = Layout { enabled: true, instances: vec![wanted(9, place(4, 4), &[(1, None), (2, None)])] };
        assert!(steps(&divided, &anywhere).is_empty());
        assert!(steps(&division(false, false, vec![]), &Layout::disabled()).is_empty());
    }

    #[test]
    fn what_is_in_the_way_goes_first() {
        let divided =
            division(true, true, vec![instance(2, 9, place(0, 4), &[(0, 3)]), instance(5, 14, place(4, 2), &[(0, 2)])]);
        let to = Layout {
            enabled: true,
            instances: vec![wanted(19, place(0, 1), &[(1, None)]), wanted(14, place(4, 2), &[(2, None)])],
        };
        let expected = [
            "destroy compute instance 0 of GPU instance 2",
            "destroy GPU instance 2",
            "create a GPU instance of profile 19 at 0:1",
            "create 1 compute instances in the GPU instance at 0",
        ];
        assert_eq!(text(&divided, &to), expected);
        let off = text(&divided, &Layout::disabled());
        assert_eq!(off.last().map(String::as_str), Some("disable MIG"));
        assert_eq!(off.len(), 5);
    }

    #[test]
    fn an_instance_that_is_cut_otherwise_is_cut_anew() {
        let divided = division(true, true, vec![instance(1, 9, place(4, 4), &[(0, 2), (2, 1)])]);
        let to = Layout { enabled: true, instances: vec![wanted(9, place(4, 4), &[(1, Some(0)), (2, Some(1))])] };
        let expected = [
            "destroy compute instance 0 of GPU instance 1",
            "destroy compute instance 1 of GPU instance 1",
            "create 2 compute instances in the GPU instance at 4",
        ];
        assert_eq!(text(&divided, &to), expected);
    }

    #[test]
    fn the_mode_changes_when_nothing_is_left() {
        let to = Layout { enabled: true, instances: vec![wanted(0, place(0, 8), &[(7, None)])] };
        assert_eq!(text(&division(false, false, vec![]), &to)[0], "enable MIG");
        assert_eq!(
            text(&division(true, false, vec![]), &Layout::empty()),
            ["enable MIG"],
            "a pending change is taken back"
        );
        assert_eq!(text(&division(true, false, vec![]), &Layout::disabled()), ["disable MIG"], "it is asked for again");
    }

    #[test]
    fn a_layout_outlives_the_process() {
        let layout = Layout { enabled: true, instances: vec![wanted(9, place(4, 4), &[(1, Some(0)), (2, None)])] };
        let text = serde_json::to_string(&layout).unwrap();
        assert_eq!(serde_json::from_str::<Layout>(&text).unwrap(), layout);
    }
}
