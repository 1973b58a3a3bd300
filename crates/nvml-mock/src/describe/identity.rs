//! What a card is: its line, its chip, its place on the bus.

use std::fmt;
use std::str::FromStr;

use nvml_wrapper_sys::bindings as nvml;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::is_default;

/// The product line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Brand {
    /// Data centre cards of the older names.
    Tesla,
    /// Data centre cards since.
    Nvidia,
    /// Workstation cards of today.
    NvidiaRtx,
    /// Workstation cards of the older names.
    QuadroRtx,
    /// Cards for players.
    GeforceRtx,
}

impl Brand {
    /// NVML's number for it.
    pub fn code(self) -> u32 {
        match self {
            Self::Tesla => nvml::nvmlBrandType_enum_NVML_BRAND_TESLA,
            Self::Nvidia => nvml::nvmlBrandType_enum_NVML_BRAND_NVIDIA,
            Self::NvidiaRtx => nvml::nvmlBrandType_enum_NVML_BRAND_NVIDIA_RTX,
            Self::QuadroRtx => nvml::nvmlBrandType_enum_NVML_BRAND_QUADRO_RTX,
            Self::GeforceRtx => nvml::nvmlBrandType_enum_NVML_BRAND_GEFORCE_RTX,
        }
    }
}

/// The chip's generation, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Architecture {
    /// Tesla P100 and its kin.
    Pascal,
    /// Tesla V100.
    Volta,
    /// Tesla T4.
    Turing,
    /// A100, A30, A10.
    Ampere,
    /// L4, L40S.
    Ada,
    /// H100, H200, GH200.
    Hopper,
    /// B200, GB200, RTX PRO.
    Blackwell,
}

impl Architecture {
    /// NVML's number for it.
    pub fn code(self) -> u32 {
        match self {
            Self::Pascal => nvml::NVML_DEVICE_ARCH_PASCAL,
            Self::Volta => nvml::NVML_DEVICE_ARCH_VOLTA,
            Self::Turing => nvml::NVML_DEVICE_ARCH_TURING,
            Self::Ampere => nvml::NVML_DEVICE_ARCH_AMPERE,
            Self::Ada => nvml::NVML_DEVICE_ARCH_ADA,
            Self::Hopper => nvml::NVML_DEVICE_ARCH_HOPPER,
            Self::Blackwell => nvml::NVML_DEVICE_ARCH_BLACKWELL,
        }
    }
}

/// Declares a pair of numbers with a dot between them, which YAML would read as a fraction.
macro_rules! dotted {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name {
            /// Before the dot.
            pub major: u32,
            /// After the dot.
            pub minor: u32,
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}.{}", self.major, self.minor)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let parts = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
                let (major, minor) = parts.ok_or_else(|| {
                    serde::de::Error::custom(format!("{text:?} is not two numbers with a dot between them, like \"8.0\""))
                })?;
                Ok(Self { major, minor })
            }
        }
    };
}

dotted! {
    /// What CUDA calls the chip's abilities: `"8.0"`.
    ComputeCapability
}

dotted! {
    /// The highest version of CUDA that the driver supports: `"13.0"`.
    CudaVersion
}

/// A place on the PCI bus. It is written as `0000:07:00.0` or with the eight digits of NVML's domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BusId {
    /// The domain, mostly 0.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    /// The device; its function is always 0.
    pub device: u8,
}

impl BusId {
    /// As NVML writes it today: `00000000:07:00.0`.
    pub fn long(self) -> String {
        format!("{:08X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }

    /// As NVML wrote it once: `0000:07:00.0`.
    pub fn legacy(self) -> String {
        format!("{:04X}:{:02X}:{:02X}.0", self.domain, self.bus, self.device)
    }

    /// As the kernel names the folder in `/sys/bus/pci/devices`: like the legacy form, in lower case.
    pub fn sysfs(self) -> String {
        self.legacy().to_lowercase()
    }
}

impl fmt::Display for BusId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.legacy())
    }
}

impl FromStr for BusId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (rest, function) = text.rsplit_once('.')?;
            let (rest, device) = rest.rsplit_once(':')?;
            let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
            let id = Self {
                domain: u32::from_str_radix(domain, 16).ok()?,
                bus: u8::from_str_radix(bus, 16).ok()?,
                device: u8::from_str_radix(device, 16).ok()?,
            };
            (function == "0").then_some(id)
        };
        parse().ok_or_else(|| format!("{text:?} is not a place on the PCI bus, like \"0000:07:00.0\""))
    }
}

impl Serialize for BusId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BusId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The card on the bus, and what went over it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Pci {
    /// Where it is. By default the cards are on buses 07, 0F, 17, …
    #[serde(skip_serializing_if = "is_default")]
    pub bus_id: Option<BusId>,
    /// Device and vendor in one number, as NVML has them: `0x20B210DE`. By default the model's.
    #[serde(skip_serializing_if = "is_default")]
    pub device_id: Option<u32>,
    /// The same of the board.
    #[serde(skip_serializing_if = "is_default")]
    pub subsystem_id: Option<u32>,
    /// The class: `0x030200` is a 3D controller, which is the default, `0x030000` one with a display.
    #[serde(skip_serializing_if = "is_default")]
    pub class: Option<u32>,
    /// The PCIe switch that it is behind. Cards with the same one are close.
    #[serde(skip_serializing_if = "is_default")]
    pub switch: Option<String>,
    /// The host bridge that it is behind. Cards with the same one are less close.
    #[serde(skip_serializing_if = "is_default")]
    pub host_bridge: Option<String>,
    /// How often a packet was sent again.
    #[serde(skip_serializing_if = "is_default")]
    pub replays: u32,
    /// What the card sends, in KB/s.
    #[serde(skip_serializing_if = "is_default")]
    pub tx: u32,
    /// What the card receives, in KB/s.
    #[serde(skip_serializing_if = "is_default")]
    pub rx: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_on_the_bus_is_read_in_each_of_its_forms() {
        let id = BusId { domain: 0, bus: 0x0f, device: 0 };
        for text in ["00000000:0F:00.0", "0000:0f:00.0", "0F:00.0"] {
            assert_eq!(text.parse(), Ok(id), "{text}");
        }
        for text in ["", "0000:0f:00", "0000:0f:00.1", "0000:zz:00.0", "0000:100:00.0"] {
            assert!(text.parse::<BusId>().is_err(), "{text}");
        }
        assert_eq!((id.long().as_str(), id.sysfs().as_str()), ("00000000:0F:00.0", "0000:0f:00.0"));
    }
}
