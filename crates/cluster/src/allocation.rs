//! The allocation record: the text of the annotation [`ANNOTATION`].
//!
//! `{"v":1,"containers":[{"name","kind"?,"devices":[{"uuid","index","memoryMiB","computePercent","mig"?}]}]}`.
//! Fields that are not known are ignored, so that a later version may add some; a change that an older
//! reader would misread raises `v`.

use gpu_scheduler_engine::model::{Allocation, ContainerAllocation, DeviceGrant, GrantKind, Mib, Percent};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The annotation that holds the record.
pub const ANNOTATION: &str = "gpu-scheduler/allocation";

/// The version that is written and understood.
const VERSION: u64 = 1;

/// Why a record cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordError {
    /// It is not JSON of the expected shape.
    #[error("it is not an allocation record ({0})")]
    Malformed(String),
    /// It is of another version.
    #[error("its version is {0}, and only version {VERSION} is understood")]
    Version(u64),
    /// A container was given a kind of thing that is not known.
    #[error("container {container:?} has the unknown kind {kind:?}")]
    Kind {
        /// The container.
        container: String,
        /// What stands there.
        kind: String,
    },
    /// A grant says more compute than a card has.
    #[error("container {container:?} holds {percent} % of the compute of {uuid}, more than a card has")]
    Compute {
        /// The container.
        container: String,
        /// The card.
        uuid: String,
        /// What stands there.
        percent: u32,
    },
}

/// The version alone: a record of another version need not have the fields of this one.
#[derive(Deserialize)]
struct Version {
    v: u64,
}

#[derive(Serialize, Deserialize)]
struct Record {
    v: u64,
    containers: Vec<RecordContainer>,
}

#[derive(Serialize, Deserialize)]
struct RecordContainer {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    devices: Vec<RecordDevice>,
}

#[derive(Serialize, Deserialize)]
struct RecordDevice {
    uuid: String,
    index: u32,
    #[serde(rename = "memoryMiB")]
    memory_mib: u64,
    #[serde(rename = "computePercent")]
    compute_percent: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mig: Option<String>,
}

/// The text of a record, always the same for the same record.
///
/// ```
/// use gpu_scheduler_cluster::allocation::{parse, serialise};
/// use gpu_scheduler_engine::model::Allocation;
/// let text = serialise(&Allocation::default());
/// assert_eq!(text, r#"{"v":1,"containers":[]}"#);
/// assert_eq!(parse(&text), Ok(Allocation::default()));
/// ```
pub fn serialise(allocation: &Allocation) -> String {
    let containers = allocation
        .containers
        .iter()
        .map(|container| RecordContainer {
            name: container.name.clone(),
            kind: container.kind.map(|kind| kind_name(kind).to_owned()),
            devices: container
                .devices
                .iter()
                .map(|device| RecordDevice {
                    uuid: device.uuid.clone(),
                    index: device.index,
                    memory_mib: device.memory.0,
                    compute_percent: device.compute.0,
                    mig: device.mig.clone(),
                })
                .collect(),
        })
        .collect();
    serde_json::to_string(&Record { v: VERSION, containers }).expect("strings and numbers are always JSON")
}

/// Reads a record. Containers of kind `claim` are left out: what a resource claim holds is not in the
/// engine's books.
///
/// # Errors
///
/// [`RecordError`] if the text is no record, or one that is not understood in full. Half a record would
/// be worse than none: what it leaves out would be given away a second time.
pub fn parse(text: &str) -> Result<Allocation, RecordError> {
    let malformed = |error: serde_json::Error| RecordError::Malformed(error.to_string());
    let Version { v } = serde_json::from_str(text).map_err(malformed)?;
    if v != VERSION {
        return Err(RecordError::Version(v));
    }
    let record: Record = serde_json::from_str(text).map_err(malformed)?;
    let mut containers = Vec::with_capacity(record.containers.len());
    for container in record.containers {
        let kind = match container.kind.as_deref() {
            Some("claim") => continue,
            Some(name) => Some(
                kind_of(name)
                    .ok_or_else(|| RecordError::Kind { container: container.name.clone(), kind: name.to_owned() })?,
            ),
            None => None,
        };
        let devices = container
            .devices
            .into_iter()
            .map(|device| grant(&container.name, device))
            .collect::<Result<Vec<_>, _>>()?;
        containers.push(ContainerAllocation { name: container.name, kind, devices });
    }
    Ok(Allocation { containers })
}

fn grant(container: &str, device: RecordDevice) -> Result<DeviceGrant, RecordError> {
    if device.compute_percent > Percent::ALL.0 {
        return Err(RecordError::Compute {
            container: container.to_owned(),
            uuid: device.uuid,
            percent: device.compute_percent,
        });
    }
    Ok(DeviceGrant {
        uuid: device.uuid,
        index: device.index,
        memory: Mib(device.memory_mib),
        compute: Percent(device.compute_percent),
        mig: device.mig,
    })
}

const KINDS: [(&str, GrantKind); 4] =
    [("whole", GrantKind::Whole), ("share", GrantKind::Share), ("mig", GrantKind::Mig), ("seat", GrantKind::Seat)];

fn kind_of(name: &str) -> Option<GrantKind> {
    KINDS.iter().find(|(n, _)| *n == name).map(|(_, kind)| *kind)
}

/// How the record names a kind.
pub(crate) fn kind_name(kind: GrantKind) -> &'static str {
    match kind {
        GrantKind::Whole => "whole",
        GrantKind::Share => "share",
        GrantKind::Mig => "mig",
        GrantKind::Seat => "seat",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written() {
        let device = |mig: Option<&str>| DeviceGrant {
            uuid: "GPU-1".into(),
            index: 3,
            memory: Mib(8192),
            compute: Percent(30),
            mig: mig.map(Into::into),
        };
        let allocation = Allocation {
            containers: vec![
                ContainerAllocation { name: "a".into(), kind: Some(GrantKind::Share), devices: vec![device(None)] },
                ContainerAllocation { name: "b".into(), kind: None, devices: vec![device(Some("MIG-1"))] },
            ],
        };
        assert_eq!(
            serialise(&allocation),
            concat!(
                r#"{"v":1,"containers":[{"name":"a","kind":"share","devices":[{"uuid":"GPU-1","index":3,"#,
                r#""memoryMiB":8192,"computePercent":30}]},{"name":"b","devices":[{"uuid":"GPU-1","index":3,"#,
                r#""memoryMiB":8192,"computePercent":30,"mig":"MIG-1"}]}]}"#
            )
        );
    }

    #[test]
    fn what_is_refused() {
        let device = r#"{"uuid":"u","index":0,"memoryMiB":1,"computePercent":101}"#;
        for (text, expected) in [
            ("", "it is not an allocation record"),
            ("[]", "it is not an allocation record"),
            (r#"{"v":1}"#, "missing field `containers`"),
            (r#"{"v":2,"cards":[]}"#, "its version is 2"),
            (r#"{"v":1,"containers":[{"name":"a","kind":"loan","devices":[]}]}"#, "unknown kind \"loan\""),
            (r#"{"v":1,"containers":[{"name":"a","devices":[{"uuid":"u"}]}]}"#, "missing field `index`"),
            (&format!(r#"{{"v":1,"containers":[{{"name":"a","devices":[{device}]}}]}}"#), "more than a card has"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_tolerated() {
        let text = r#"{"v":1,"gang":{"uid":"g","size":4},"containers":[{"name":"a","kind":"claim","devices":[]},
            {"name":"b","kind":"whole","devices":[{"uuid":"u","index":0,"memoryMiB":1,"computePercent":100,"mig":null,"x":1}]}]}"#;
        let allocation = parse(text).expect("a record");
        assert_eq!(allocation.containers.len(), 1);
        assert_eq!(allocation.containers[0].kind, Some(GrantKind::Whole));
    }

    fn records() -> impl Strategy<Value = Allocation> {
        let device = ("\\PC{0,8}", any::<u32>(), any::<u64>(), 0..=100_u32, proptest::option::of("\\PC{0,8}"))
            .prop_map(|(uuid, index, memory, compute, mig)| DeviceGrant {
                uuid,
                index,
                memory: Mib(memory),
                compute: Percent(compute),
                mig,
            });
        let kind = proptest::option::of(proptest::sample::select(KINDS.map(|(_, kind)| kind).to_vec()));
        let container = ("\\PC{0,8}", kind, proptest::collection::vec(device, 0..4))
            .prop_map(|(name, kind, devices)| ContainerAllocation { name, kind, devices });
        proptest::collection::vec(container, 0..4).prop_map(|containers| Allocation { containers })
    }

    proptest! {
        #[test]
        fn comes_back_as_it_was(allocation in records()) {
            prop_assert_eq!(parse(&serialise(&allocation)), Ok(allocation));
        }

        #[test]
        fn never_panics(text in "\\PC{0,64}") {
            let _ = parse(&text);
        }
    }
}
