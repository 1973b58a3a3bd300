//! The links between cards.

use std::fmt;

use nvml_wrapper_sys::bindings as nvml;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::is_default;

/// One NVLink, or several that are alike. They are numbered in the order of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Link {
    /// How many they are.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// Whether it is up.
    #[serde(default = "yes")]
    pub active: bool,
    /// What is at its other end.
    pub remote: Remote,
    /// What was sent as data, in KiB, ever rising.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tx: u64,
    /// What was received as data, in KiB, ever rising.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rx: u64,
    /// How often a packet was sent again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replays: u64,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

fn yes() -> bool {
    true
}

impl Link {
    /// So many links to the same end, up and idle.
    pub fn to(remote: Remote, count: u32) -> Self {
        Self { count, active: true, remote, tx: 0, rx: 0, replays: 0 }
    }
}

/// The other end of a link. In a description it is `switch`, another card's UUID, or its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    /// An NVSwitch, which reaches all cards.
    Switch,
    /// The card with this UUID.
    Gpu(String),
    /// The card with this index.
    Index(u32),
}

impl Serialize for Remote {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Switch => serializer.serialize_str("switch"),
            Self::Gpu(uuid) => serializer.serialize_str(uuid),
            Self::Index(index) => serializer.serialize_u32(*index),
        }
    }
}

impl<'de> Deserialize<'de> for Remote {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl Visitor<'_> for Either {
            type Value = Remote;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"switch\", the UUID of a card or its index")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Remote, E> {
                match text {
                    "switch" => Ok(Remote::Switch),
                    uuid if uuid.starts_with("GPU-") => Ok(Remote::Gpu(uuid.to_owned())),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_u64<E: serde::de::Error>(self, index: u64) -> Result<Remote, E> {
                u32::try_from(index)
                    .map(Remote::Index)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(index), &self))
            }
        }

        deserializer.deserialize_any(Either)
    }
}

/// The card's part in a fabric of several nodes; since Hopper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Fabric {
    /// How far the card is with joining it.
    pub state: FabricState,
    /// The UUID of the fabric; its zeros stand for none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cluster: uuid::Uuid,
    /// The part of the fabric whose cards reach each other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub clique: u32,
}

/// How far a card is with joining a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FabricState {
    /// It cannot.
    NotSupported,
    /// It has not begun.
    NotStarted,
    /// It is about to.
    InProgress,
    /// It has joined, or failed to.
    Completed,
}

impl FabricState {
    /// NVML's number for it.
    pub fn code(self) -> u8 {
        let code = match self {
            Self::NotSupported => nvml::NVML_GPU_FABRIC_STATE_NOT_SUPPORTED,
            Self::NotStarted => nvml::NVML_GPU_FABRIC_STATE_NOT_STARTED,
            Self::InProgress => nvml::NVML_GPU_FABRIC_STATE_IN_PROGRESS,
            Self::Completed => nvml::NVML_GPU_FABRIC_STATE_COMPLETED,
        };
        u8::try_from(code).expect("there are four states")
    }
}
