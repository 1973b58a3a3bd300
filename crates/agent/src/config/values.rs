//! Single values of a configuration, each with one way to be written.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// All that may be written.
            pub const TEXTS: &[&str] = &[$($text),+];

            /// As it is written.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),+
                }
            }
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(format!("unknown value {text:?}; known are {}", Self::TEXTS.join(", "))),
                }
            }
        }
    };
}

choice! {
    /// The version of the file.
    Version {
        /// The only one there is.
        V1 = "v1",
    }
}
choice! {
    /// How MIG devices are offered.
    #[derive(Default)]
    MigStrategy {
        /// Not at all: every card is `nvidia.com/gpu`.
        #[default]
        None = "none",
        /// As `nvidia.com/gpu`, all cards being partitioned alike.
        Single = "single",
        /// As `nvidia.com/mig-<profile>` next to whole cards.
        Mixed = "mixed",
    }
}
choice! {
    /// How a container is told of its devices.
    DeviceListStrategy {
        /// `NVIDIA_VISIBLE_DEVICES` names them.
        Envvar = "envvar",
        /// Mounts below `/var/run/nvidia-container-devices` name them.
        VolumeMounts = "volume-mounts",
        /// An annotation names them for CDI.
        CdiAnnotations = "cdi-annotations",
        /// kubelet names them to the runtime for CDI.
        CdiCri = "cdi-cri",
    }
}
choice! {
    /// How a device is called.
    DeviceIdStrategy {
        /// By its UUID.
        Uuid = "uuid",
        /// By its place in NVML's enumeration.
        Index = "index",
    }
}
choice! {
    /// Where replicas go that nobody has placed.
    AllocationPolicy {
        /// To the device with the fewest taken.
        Distributed = "distributed",
        /// To the device with the most taken.
        Packed = "packed",
    }
}
choice! {
    /// How devices are found.
    DiscoveryStrategy {
        /// As the machine allows.
        Auto = "auto",
        /// By NVML.
        Nvml = "nvml",
        /// As on Tegra, which is not supported here.
        Tegra = "tegra",
    }
}

impl DeviceListStrategy {
    /// Whether it works by CDI alone.
    pub fn is_cdi(self) -> bool {
        matches!(self, Self::CdiAnnotations | Self::CdiCri)
    }
}
