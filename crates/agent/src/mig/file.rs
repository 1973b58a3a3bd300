//! mig-parted's file: named configurations, each a list of what is wanted of which cards.

use std::collections::BTreeMap;
use std::path::Path;

use gpu_scheduler_cluster::config::{ConfigError as FileError, ConfigProblem, plain_words, read_yaml};
use gpu_scheduler_cluster::objects::nullable;
use serde::Deserialize;

use super::name::ProfileName;
use super::wanted::Wanted;
use crate::config::Version;

/// The file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MigFile {
    /// `version`: `v1`.
    pub version: Version,
    /// `mig-configs`: configurations by name.
    #[serde(default, deserialize_with = "nullable")]
    pub mig_configs: BTreeMap<String, Vec<Entry>>,
}

/// What is wanted of some cards.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Entry {
    /// `device-filter`: kinds of cards, `0x<device><vendor>`; without it all kinds.
    #[serde(default)]
    pub device_filter: Option<OneOrMany>,
    /// `devices`: `all`, or indices.
    pub devices: Devices,
    /// `mig-enabled`: whether they are in the mode.
    pub mig_enabled: bool,
    /// `mig-devices`: how many of which profiles; needed in the mode and not allowed outside it.
    #[serde(default)]
    pub mig_devices: Option<BTreeMap<ProfileName, Count>>,
}

/// How many of a profile: at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "i64")]
pub struct Count(u32);

impl TryFrom<i64> for Count {
    type Error = String;
    fn try_from(count: i64) -> Result<Self, String> {
        let wrong = || format!("{count} is no count; write 1 or more, or leave the profile out");
        u32::try_from(count).ok().filter(|count| *count > 0).map(Self).ok_or_else(wrong)
    }
}

/// Kinds of cards.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected one or a list of kinds of cards such as \"0x20B010DE\"")]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Some.
    Many(Vec<String>),
}

/// Which cards.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected all, or a list of indices such as [0, 1]")]
pub enum Devices {
    /// `all`.
    Word(All),
    /// These.
    Indices(Vec<u32>),
}

/// The word `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum All {
    /// All cards of the kind.
    #[serde(rename = "all")]
    All,
}

impl Entry {
    /// Whether it is about this card.
    pub fn is_about(&self, index: u32, pci_device: u32) -> bool {
        let kinds: &[String] = match &self.device_filter {
            None => &[],
            Some(OneOrMany::One(kind)) => std::slice::from_ref(kind),
            Some(OneOrMany::Many(kinds)) => kinds,
        };
        let of_kind = kinds.is_empty() || kinds.iter().any(|kind| pci_kind(kind) == Some(pci_device));
        of_kind && self.devices.names(index)
    }

    /// What it wants of them.
    pub fn wanted(&self) -> Wanted {
        match &self.mig_devices {
            Some(devices) => {
                Wanted::Devices(devices.iter().map(|(profile, count)| (profile.clone(), count.0)).collect())
            }
            None => Wanted::Disabled,
        }
    }

    /// What is wrong with it, with the field.
    fn problem(&self) -> Option<(String, String)> {
        let kinds = match &self.device_filter {
            None => &[],
            Some(OneOrMany::One(kind)) => std::slice::from_ref(kind),
            Some(OneOrMany::Many(kinds)) => kinds.as_slice(),
        };
        if let Some(kind) = kinds.iter().find(|kind| pci_kind(kind).is_none()) {
            let what = format!("{kind:?} is no kind of card; write device and vendor such as \"0x20B010DE\"");
            return Some(("device-filter".to_owned(), what));
        }
        match (self.mig_enabled, &self.mig_devices) {
            (true, None) => {
                Some(("mig-devices".to_owned(), "it is missing; write profiles and counts, or {}".to_owned()))
            }
            (false, Some(_)) => {
                let what =
                    "a card that is not in MIG's mode has no MIG devices; leave it out, or set mig-enabled: true";
                Some(("mig-devices".to_owned(), what.to_owned()))
            }
            (true, Some(_)) | (false, None) => None,
        }
    }
}

impl Devices {
    fn names(&self, index: u32) -> bool {
        match self {
            Self::Word(All::All) => true,
            Self::Indices(indices) => indices.contains(&index),
        }
    }
}

/// `0x20B010DE` as NVML has it.
fn pci_kind(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
    (digits.len() == 8).then(|| u32::from_str_radix(digits, 16).ok())?
}

impl MigFile {
    /// Reads a file, YAML or JSON.
    ///
    /// # Errors
    /// If it cannot be read, is not of the file's shape, or makes no sense.
    pub fn load(path: &Path) -> Result<Self, FileError> {
        let unreadable = |source| FileError::Io { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&text).map_err(|problem| FileError::Content(problem.in_file(Some(path))))
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// If it is not of the file's shape or makes no sense, with line or field.
    pub fn parse(text: &str) -> Result<Self, ConfigProblem> {
        let file: Self = read_yaml(text, plain_words)?;
        for (name, entries) in &file.mig_configs {
            for (at, entry) in entries.iter().enumerate() {
                if let Some((field, what)) = entry.problem() {
                    return Err(ConfigProblem::of_field(format!("mig-configs.{name}[{at}].{field}"), what));
                }
            }
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> String {
        format!("version: v1\nmig-configs:\n  a:\n  - {text}\n")
    }

    #[test]
    fn a_file_is_read() {
        let text = "version: v1\nmig-configs:\n  all-disabled:\n  - devices: all\n    mig-enabled: false\n  mixed:\n  \
                    - device-filter: \"0x233510DE\"\n    devices: [0, 2]\n    mig-enabled: true\n    mig-devices:\n      \
                    \"1g.18gb+me\": 1\n      1c.3g.71gb: 3\n";
        let file = MigFile::parse(text).unwrap();
        assert_eq!(file.mig_configs.keys().collect::<Vec<_>>(), ["all-disabled", "mixed"]);
        let mixed = &file.mig_configs["mixed"][0];
        let about =
            [(0, 0x2335_10DE), (1, 0x2335_10DE), (2, 0x2330_10DE)].map(|(index, kind)| mixed.is_about(index, kind));
        assert_eq!(about, [true, false, false]);
        assert!(file.mig_configs["all-disabled"][0].is_about(7, 1));
        let counts: Vec<_> =
            mixed.mig_devices.as_ref().unwrap().iter().map(|(name, n)| (name.to_string(), n.0)).collect();
        assert_eq!(counts, [("1g.18gb+me".to_owned(), 1), ("1c.3g.71gb".to_owned(), 3)]);
        let json = r#"{"version":"v1","mig-configs":{"a":[{"devices":"all","mig-enabled":true,"mig-devices":{}}]}}"#;
        assert!(MigFile::parse(json).is_ok());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, place, what) in [
            ("mig-configs: {}".to_owned(), "line 1", "version is missing"),
            ("version: v2".to_owned(), "field version", "v1"),
            ("version: v1\nmig-config: {}".to_owned(), "line 2", "mig-config"),
            (entry("{devices: all}"), "field mig-configs.a[0]", "mig-enabled is missing"),
            (entry("{mig-enabled: false}"), "field mig-configs.a[0]", "devices is missing"),
            (entry("{devices: some, mig-enabled: false}"), "field mig-configs.a[0].devices", "expected all, or a list"),
            (entry("{devices: [-1], mig-enabled: false}"), "field mig-configs.a[0].devices", "expected all, or a list"),
            (entry("{devices: all, mig-enabled: true}"), "field mig-configs.a[0].mig-devices", "it is missing"),
            (
                entry("{devices: all, mig-enabled: false, mig-devices: {}}"),
                "field mig-configs.a[0].mig-devices",
                "leave",
            ),
            (
                entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}"),
                "field mig-configs.a[0].mig-devices.1g.5gb",
                "0 is no count",
            ),
            (
                entry("{devices: all, mig-enabled: true, mig-devices: {1g: 1}}"),
                "field mig-configs.a[0].mig-devices",
                "no profile",
            ),
            (entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1}}"), "1g.5gb", "-1 is no count"),
            (
                entry("{device-filter: A100, devices: all, mig-enabled: false}"),
                "field mig-configs.a[0].device-filter",
                "\"A100\" is no kind of card",
            ),
            (
                entry("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 1, 1g.5gb: 2}}"),
                "field mig-configs.a[0].mig-devices",
                "twice",
            ),
        ] {
            let problem = MigFile::parse(&text).expect_err(&text).to_string();
            assert!(problem.contains(place) && problem.contains(what), "{text}: {problem}");
        }
    }
}
