//! What kubelet calls a device.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::inventory::DeviceUuid;

/// `<UUID>`, or `<UUID>::<n>` where one device is offered several times.
///
/// ```
/// use gpu_scheduler_agent::resources::DeviceId;
/// let id = DeviceId::parse("GPU-1::12").expect("a seat");
/// assert_eq!((id.device.as_str(), id.seat), ("GPU-1", Some(12)));
/// assert_eq!(id.to_string(), "GPU-1::12");
/// assert_eq!(DeviceId::parse("nvidia0"), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DeviceId {
    /// The device.
    pub device: DeviceUuid,
    /// Which of its seats or replicas, from 0.
    pub seat: Option<u32>,
}

impl DeviceId {
    /// Reads an id; `None` for what is none of ours.
    pub fn parse(text: &str) -> Option<Self> {
        let (uuid, seat) = match text.split_once("::") {
            Some((uuid, seat)) => (uuid, Some(seat.parse().ok()?)),
            None => (text, None),
        };
        Some(Self { device: DeviceUuid::parse(uuid)?, seat })
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seat {
            Some(seat) => write!(f, "{}::{seat}", self.device),
            None => write!(f, "{}", self.device),
        }
    }
}

impl TryFrom<String> for DeviceId {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is not the id of a device"))
    }
}

impl From<DeviceId> for String {
    fn from(id: DeviceId) -> Self {
        id.to_string()
    }
}
