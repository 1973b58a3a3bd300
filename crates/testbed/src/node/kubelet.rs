//! The node's kubelet.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::programs::Programs;
use super::surroundings::Surroundings;
use super::{NodeError, RealNodeOptions, containerd};
use crate::control_plane::error::write;
use crate::control_plane::ports::Port;
use crate::control_plane::process::Program;
use crate::control_plane::{Access, ControlPlaneError};

pub(super) const NAME: &str = "kubelet";

/// How a kubelet is started, as often as it is.
#[derive(Debug)]
pub(super) struct Kubelet {
    args: Vec<String>,
    binary: PathBuf,
    path: OsString,
    _port: Port,
}

impl Kubelet {
    /// Writes its files. `authority` is who vouches for the API server.
    pub(super) fn prepare(
        surroundings: &Surroundings,
        programs: &Programs,
        access: &Access,
        authority: &Path,
        options: &RealNodeOptions,
    ) -> Result<Self, NodeError> {
        let folder = surroundings.folder();
        let port = Port::claim()?;
        let (kubeconfig, config, resolver) =
            (folder.join("kubelet.kubeconfig"), folder.join("kubelet.json"), folder.join("resolv.conf"));
        access.write_kubeconfig(&kubeconfig)?;
        write(&resolver, "")?;
        let mut wanted = configuration(port.number(), authority, &resolver, &surroundings.cgroup(), options);
        let fields = wanted.as_object_mut().expect("it is written as an object");
        fields.extend(options.kubelet_config.clone());
        // JSON is YAML.
        write(&config, &wanted.to_string())?;
        let args = vec![
            format!("--config={}", config.display()),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--hostname-override={}", options.name),
            // It refuses a loopback address by itself, and takes what the node object says when somebody else is said to
            // care for addresses.
            "--cloud-provider=external".to_owned(),
        ];
        Ok(Self { args, binary: folder.join("bin").join(NAME), path: programs.path.clone(), _port: port })
    }

    pub(super) fn start(&self, surroundings: &Surroundings) -> Result<Program, ControlPlaneError> {
        let mut command = Command::new(&self.binary);
        command.args(&self.args).env("PATH", &self.path).env("TMPDIR", surroundings.folder().join("tmp"));
        Program::start_by(|command| surroundings.spawn(command), NAME, command, surroundings.folder())
    }
}

/// What differs from the defaults, and why.
fn configuration(port: u16, authority: &Path, resolver: &Path, cgroup: &str, options: &RealNodeOptions) -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        // Nobody on this machine but the API server may look into containers, or run something in them.
        "address": "127.0.0.1",
        "port": port,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": false},
            "x509": {"clientCAFile": authority},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": format!("unix://{}", containerd::SOCKET),
        // Control groups of its own, of either version, and no limits on what all pods together may take.
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "failCgroupV1": false,
        "enforceNodeAllocatable": [],
        // The machine is shared: how full its disks and its memory are is none of this node's business.
        "failSwapOn": false,
        "localStorageCapacityIsolation": false,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "0%",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
            "pid.available": "0%",
        },
        // Rules of packet filters are the machine's, too.
        "makeIPTablesUtilChains": false,
        // The machine's may be a link to where the node sees its own folder.
        "resolvConf": resolver,
        // Below the folders that are laid over the machine's.
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "topologyManagerPolicy": options.topology_manager_policy.as_str(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::TopologyManagerPolicy;

    #[test]
    fn every_policy_is_spelt_as_the_kubelet_knows_it() {
        let expected = [
            (TopologyManagerPolicy::None, "none"),
            (TopologyManagerPolicy::BestEffort, "best-effort"),
            (TopologyManagerPolicy::Restricted, "restricted"),
            (TopologyManagerPolicy::SingleNumaNode, "single-numa-node"),
        ];
        for (topology_manager_policy, spelt) in expected {
            let options = RealNodeOptions { topology_manager_policy, ..RealNodeOptions::new("n1") };
            let config = configuration(1, Path::new("ca"), Path::new("resolv"), "/group", &options);
            assert_eq!(config["topologyManagerPolicy"], spelt);
        }
    }
}
