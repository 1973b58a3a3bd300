//! What containerd says of a container: what it was really started with.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::NodeError;
use crate::control_plane::ControlPlaneError;

/// A container as it was started, from its OCI spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// containerd's id, the same in the pod's status after `containerd://`.
    pub id: String,
    /// The whole environment: the image's, the pod's, Kubernetes' service variables, and what device plugins add. runc gives
    /// processes `HOME` besides.
    pub env: BTreeMap<String, String>,
    /// Device files beside those that every container has (`/dev/null`, …), in the order of their paths.
    pub devices: Vec<ContainerDevice>,
    /// What is mounted: Kubernetes' own files, the pod's volumes, and what device plugins add, in the order of the spec.
    pub mounts: Vec<ContainerMount>,
    /// Its control group below the root of each hierarchy.
    pub cgroup: String,
}

/// A device file in a container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerDevice {
    /// Where the container sees it.
    pub path: String,
    /// `c` or `b`, as in the spec.
    pub kind: String,
    /// The kernel's number of the driver.
    pub major: i64,
    /// The driver's number of the device.
    pub minor: i64,
    /// What the control group allows: `r` read, `w` write, `m` make the file. Empty: nothing.
    pub access: String,
}

/// A mount in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerMount {
    /// What is mounted: a path of the node, or a kind of file system.
    pub source: String,
    /// Where the container sees it.
    pub destination: String,
    /// Whether the container may not write there.
    pub read_only: bool,
}

impl Container {
    /// Reads the JSON of an OCI spec.
    pub(super) fn parse(id: &str, spec: &str) -> Result<Self, NodeError> {
        let spec: Spec = serde_json::from_str(spec).map_err(|source| NodeError::Spec { id: id.to_owned(), source })?;
        let variables = spec.process.env.iter().map(|variable| variable.split_once('=').unwrap_or((variable, "")));
        let Linux { devices, resources, cgroups_path } = spec.linux;
        // The last rule wins.
        let access = |device: &Device| {
            let rule = resources.devices.iter().rev().find(|rule| rule.is_of(device)).filter(|rule| rule.allow);
            rule.map(|rule| rule.access.clone()).unwrap_or_default()
        };
        let mut devices: Vec<ContainerDevice> = devices
            .into_iter()
            .map(|device| ContainerDevice {
                access: access(&device),
                path: device.path,
                kind: device.kind,
                major: device.major,
                minor: device.minor,
            })
            .collect();
        devices.sort();
        Ok(Self {
            id: id.to_owned(),
            env: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            devices,
            mounts: spec.mounts.into_iter().map(ContainerMount::from).collect(),
            cgroup: cgroups_path,
        })
    }

    /// The processes in it, by the numbers that this process knows them by, in ascending order; none once it has ended.
    ///
    /// # Errors
    ///
    /// The machine mounts no control groups where they are expected.
    pub fn processes(&self) -> Result<Vec<u32>, NodeError> {
        // Version 1 has a hierarchy for each controller, version 2 has one.
        let root = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(Path::new).into_iter().find(|root| root.is_dir());
        let root = root.unwrap_or(Path::new("/sys/fs/cgroup"));
        let path = root.join(self.cgroup.trim_start_matches('/')).join("cgroup.procs");
        let text = match fs::read_to_string(&path) {
            Err(error) if root.is_dir() && error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(ControlPlaneError::system(format!("could not read {}", path.display())))?,
        };
        let mut processes: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        processes.sort_unstable();
        Ok(processes)
    }
}

impl From<Mount> for ContainerMount {
    fn from(mount: Mount) -> Self {
        let read_only = mount.options.iter().any(|option| option == "ro");
        Self { source: mount.source, destination: mount.destination, read_only }
    }
}

/// The parts of an OCI spec that are read.
#[derive(Deserialize)]
struct Spec {
    process: Process,
    #[serde(default)]
    mounts: Vec<Mount>,
    linux: Linux,
}

#[derive(Deserialize)]
struct Process {
    #[serde(default)]
    env: Vec<String>,
}

#[derive(Deserialize)]
struct Mount {
    destination: String,
    #[serde(default)]
    source: String,
    #[serde(default)]
    options: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Linux {
    #[serde(default)]
    devices: Vec<Device>,
    #[serde(default)]
    resources: Resources,
    #[serde(default)]
    cgroups_path: String,
}

#[derive(Deserialize, Default)]
struct Resources {
    #[serde(default)]
    devices: Vec<Rule>,
}

#[derive(Deserialize)]
struct Device {
    path: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    major: i64,
    #[serde(default)]
    minor: i64,
}

/// Who may do what with a device. Without a number it is of all devices.
#[derive(Deserialize)]
struct Rule {
    allow: bool,
    #[serde(rename = "type", default)]
    kind: String,
    major: Option<i64>,
    minor: Option<i64>,
    #[serde(default)]
    access: String,
}

impl Rule {
    fn is_of(&self, device: &Device) -> bool {
        (matches!(&*self.kind, "" | "a") || self.kind == device.kind)
            && self.major.is_none_or(|major| major == device.major)
            && self.minor.is_none_or(|minor| minor == device.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = r#"{
        "process": {"env": ["PATH=/bin", "A=1=2", "EMPTY="]},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid"]},
            {"destination": "/data", "type": "bind", "source": "/srv", "options": ["rbind", "ro"]}
        ],
        "linux": {
            "cgroupsPath": "/kubepods/pod1/c1",
            "devices": [
                {"path": "/dev/b", "type": "c", "major": 1, "minor": 5},
                {"path": "/dev/a", "type": "c", "major": 1, "minor": 3}
            ],
            "resources": {"devices": [
                {"allow": false, "access": "rwm"},
                {"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rw"}
            ]}
        }
    }"#;

    #[test]
    fn a_spec_is_read_as_it_is_written() {
        let device = |path: &str, minor, access: &str| ContainerDevice {
            path: path.into(),
            kind: "c".into(),
            major: 1,
            minor,
            access: access.into(),
        };
        let mount = |source: &str, destination: &str, read_only| ContainerMount {
            source: source.into(),
            destination: destination.into(),
            read_only,
        };
        let env = [("A", "1=2"), ("EMPTY", ""), ("PATH", "/bin")];
        let expected = Container {
            id: "c1".into(),
            env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            devices: vec![device("/dev/a", 3, "rw"), device("/dev/b", 5, "")],
            mounts: vec![mount("proc", "/proc", false), mount("/srv", "/data", true)],
            cgroup: "/kubepods/pod1/c1".into(),
        };
        assert_eq!(Container::parse("c1", SPEC).unwrap(), expected);
    }

    #[test]
    fn what_is_no_spec_is_an_error_that_names_the_container() {
        let error = Container::parse("c1", "{}").unwrap_err().to_string();
        assert!(error.contains("c1") && error.contains("process"), "{error}");
    }
}
