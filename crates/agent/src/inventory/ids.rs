//! Names of devices.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Box<str>);

        impl $name {
            /// The text, as NVML writes it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// A card: `GPU-…`.
    GpuUuid
}
text_id! {
    /// A MIG device: `MIG-…`.
    MigUuid
}
text_id! {
    /// Where a card sits, as NVML writes it: `00000000:07:00.0`.
    PciBusId
}

impl PciBusId {
    /// As the kernel writes it: small letters, and four digits for the domain where they are enough. The same for a place
    /// however it was written.
    pub fn in_sysfs(&self) -> String {
        let lower = self.0.to_ascii_lowercase();
        match lower.split_once(':') {
            Some((domain, rest)) if rest.contains(':') => format!("{:0>4}:{rest}", domain.trim_start_matches('0')),
            _ => lower,
        }
    }
}

/// A card's place in NVML's enumeration. It may change with a reboot; UUIDs do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CardIndex(pub u32);

/// The number in `/dev/nvidia<minor>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Minor(pub u32);

/// What a container can be given: a card or one of its MIG devices.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DeviceUuid {
    /// A card, all of it or a seat on it.
    Gpu(GpuUuid),
    /// A MIG device.
    Mig(MigUuid),
}

impl DeviceUuid {
    /// By the prefix that NVML writes; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once('-')? {
            ("GPU", rest) if !rest.is_empty() => Some(Self::Gpu(text.into())),
            ("MIG", rest) if !rest.is_empty() => Some(Self::Mig(text.into())),
            _ => None,
        }
    }

    /// The text, as NVML writes it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Gpu(uuid) => uuid.as_str(),
            Self::Mig(uuid) => uuid.as_str(),
        }
    }
}

impl fmt::Display for DeviceUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_on_the_bus() {
        for (text, expected) in [
            ("00000000:07:00.0", "0000:07:00.0"),
            ("0000:07:00.0", "0000:07:00.0"),
            ("0000:0F:00.0", "0000:0f:00.0"),
            ("00010000:0F:00.0", "10000:0f:00.0"),
            ("00000009:01:00.0", "0009:01:00.0"),
            ("07:00.0", "07:00.0"),
            ("", ""),
        ] {
            assert_eq!(PciBusId::from(text).in_sysfs(), expected, "{text}");
        }
    }
}
