//! Replicas: one device offered several times.

use std::collections::BTreeMap;

use super::ConfigProblem;
use super::file::{Devices, FileSharing, SharedFile};
use crate::resources::ResourceName;

/// Whether and how devices are replicated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Sharing {
    /// They are not.
    #[default]
    None,
    /// Containers take turns.
    TimeSlicing(Replication),
    /// Containers run at once below an MPS server.
    Mps(Replication),
}

impl Sharing {
    /// The replicas, whatever shares them.
    pub fn replication(&self) -> Option<&Replication> {
        match self {
            Self::None => None,
            Self::TimeSlicing(replication) | Self::Mps(replication) => Some(replication),
        }
    }
}

/// Which resources are replicated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replication {
    /// Whether they are then called `<name>.shared`.
    pub rename: bool,
    /// Whether a container may have no more than one.
    pub one_only: bool,
    /// Replicas by resource, each at least 2.
    pub resources: BTreeMap<ResourceName, u32>,
}

/// What the file's `sharing` comes to.
pub(super) fn settle(file: FileSharing, warnings: &mut Vec<ConfigProblem>) -> Result<Sharing, ConfigProblem> {
    let time_slicing =
        file.time_slicing.map(|it| replication(it, "sharing.timeSlicing", false, warnings)).transpose()?;
    let mps = file.mps.map(|it| replication(it, "sharing.mps", true, warnings)).transpose()?;
    Ok(match (mps, time_slicing) {
        (Some(mps), time_slicing) => {
            if time_slicing.is_some() {
                warnings.push(ConfigProblem::of_field(
                    "sharing.timeSlicing",
                    "it has no effect next to sharing.mps; leave one of them out",
                ));
            }
            Sharing::Mps(mps)
        }
        (None, Some(time_slicing)) => Sharing::TimeSlicing(time_slicing),
        (None, None) => Sharing::None,
    })
}

/// One of the two. `one_only` is what holds where the file does not say.
fn replication(
    file: SharedFile,
    at: &str,
    one_only: bool,
    warnings: &mut Vec<ConfigProblem>,
) -> Result<Replication, ConfigProblem> {
    if file.resources.is_empty() {
        let what = "the list is empty; name a resource and its replicas, or leave the whole part out";
        return Err(ConfigProblem::of_field(format!("{at}.resources"), what));
    }
    let mut resources = BTreeMap::new();
    for (index, entry) in file.resources.into_iter().enumerate() {
        let at = format!("{at}.resources[{index}]");
        let fail = |field: &str, what: String| Err(ConfigProblem::of_field(format!("{at}.{field}"), what));
        let name = match ResourceName::nvidia(&entry.name) {
            Ok(name) => name,
            Err(error) => return fail("name", error.to_string()),
        };
        let replicas = match u32::try_from(entry.replicas) {
            Ok(replicas) if replicas >= 2 => replicas,
            _ => return fail("replicas", format!("{} is not a number of replicas; write 2 or more", entry.replicas)),
        };
        match entry.devices {
            None => {}
            Some(Devices::Text(text)) if text == "all" => {}
            Some(Devices::Text(text)) => {
                return fail("devices", format!("{text:?} is not a choice; write all, or leave it out"));
            }
            Some(Devices::Count(count)) if count <= 0 => {
                return fail("devices", format!("{count} is not a count; write all, or leave it out"));
            }
            Some(Devices::Count(_) | Devices::List(_)) => warnings.push(ConfigProblem::of_field(
                format!("{at}.devices"),
                "a choice of devices has no effect: all are replicated; leave it out",
            )),
        }
        if entry.rename.is_some() {
            warnings.push(ConfigProblem::of_field(
                format!("{at}.rename"),
                "a name of one's own has no effect; leave it out, or set renameByDefault for <name>.shared",
            ));
        }
        if resources.insert(name, replicas).is_some() {
            return fail("name", format!("{} stands in the list twice; leave one out", entry.name));
        }
    }
    Ok(Replication {
        rename: file.rename_by_default.unwrap_or(false),
        one_only: file.fail_requests_greater_than_one.unwrap_or(one_only),
        resources,
    })
}
