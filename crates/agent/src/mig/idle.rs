//! Whether a card may be cut: nobody uses it, and nobody was given any of it.

use std::fmt;

use crate::handout::Claim;
use crate::inventory::DeviceUuid;
use crate::nvml::{CallError, Partitioner};

/// Why a card may not be touched.
#[derive(Debug)]
pub enum Busy {
    /// Processes are on it.
    Processes(Vec<u32>),
    /// It, or parts of it, were given to containers.
    Held(Vec<DeviceUuid>),
    /// Nobody can tell who uses it.
    Unknown(CallError),
    /// Nobody can tell yet what containers have.
    Untold(&'static str),
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processes(pids) => {
                write!(f, "processes use it ({}); end them or their pods", listed(pids))
            }
            Self::Held(devices) => {
                write!(f, "containers have {}; end their pods, for example by kubectl drain", listed(devices))
            }
            Self::Untold(why) => write!(f, "what containers have is not known yet: {why}"),
            Self::Unknown(error) => write!(f, "whether it is idle cannot be seen: {error}"),
        }
    }
}

/// The first of them.
fn listed<T: fmt::Display>(items: &[T]) -> String {
    const SHOWN: usize = 8;
    let mut text = items.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if items.len() > SHOWN {
        text += &format!(" and {} more", items.len() - SHOWN);
    }
    text
}

/// Sees that nobody uses the card or was given any of it.
///
/// # Errors
/// [`Busy`] otherwise, and if it cannot be seen.
pub fn idle(card: &Partitioner<'_>, claim: &Claim) -> Result<(), Busy> {
    if let Some(why) = claim.unknown() {
        return Err(Busy::Untold(why));
    }
    let mut devices = vec![DeviceUuid::Gpu(card.uuid().clone())];
    devices.extend(card.mig_devices().map_err(Busy::Unknown)?.into_iter().map(DeviceUuid::Mig));
    devices.retain(|device| claim.held().contains(device));
    if !devices.is_empty() {
        return Err(Busy::Held(devices));
    }
    let pids = card.processes().map_err(Busy::Unknown)?;
    if pids.is_empty() { Ok(()) } else { Err(Busy::Processes(pids)) }
}
