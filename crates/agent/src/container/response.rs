//! The answer to `Allocate` for one container.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::called;
use super::cdi::KIND;
use super::nodes::{DeviceNode, DeviceNodes};
use crate::allocate::Give;
use crate::config::{Config, DeviceListStrategy, Imex};
use crate::inventory::Inventory;
use crate::kubelet::deviceplugin::{CdiDevice, ContainerAllocateResponse, DeviceSpec, Mount};

/// Where mounts name devices.
const MOUNTS: &str = "/var/run/nvidia-container-devices";

/// How a container reaches the MPS server that holds it to its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpsAccess {
    /// Folder of the server's pipes, on the host and in the container.
    pub pipes: PathBuf,
    /// Folder of its shared memory on the host; in the container it is `/dev/shm`.
    pub shm: PathBuf,
    /// Memory that the container may pin on each of its devices, in their order, as `0=4096M,1=512M`.
    pub memory: Option<String>,
    /// Threads that it may use, in percent of a device.
    pub threads: Option<u32>,
}

/// What the container gets for what it was given.
pub fn response(
    config: &Config,
    inventory: &Inventory,
    nodes: &DeviceNodes,
    give: &Give,
    mps: Option<&MpsAccess>,
) -> ContainerAllocateResponse {
    let uuids = give.uuids();
    let names: Vec<String> = uuids.iter().map(|uuid| called(inventory, uuid, config.device_id)).collect();
    let mut response = ContainerAllocateResponse::default();
    for strategy in &config.device_list {
        match strategy {
            DeviceListStrategy::Envvar => {
                response.envs.insert("NVIDIA_VISIBLE_DEVICES".to_owned(), names.join(","));
            }
            DeviceListStrategy::VolumeMounts => {
                // Next to `envvar` the mounts count: that is how NVIDIA's runtime is told to read them.
                response.envs.insert("NVIDIA_VISIBLE_DEVICES".to_owned(), MOUNTS.to_owned());
                response
                    .mounts
                    .extend(names.iter().map(|name| mount(Path::new("/dev/null"), &format!("{MOUNTS}/{name}"))));
            }
            DeviceListStrategy::CdiAnnotations => {
                let key = format!("{}nvidia-device-plugin_{}", config.cdi_annotation_prefix, Uuid::new_v4());
                response.annotations.insert(key, cdi(&names, config).join(","));
            }
            DeviceListStrategy::CdiCri => {
                response.cdi_devices = cdi(&names, config).into_iter().map(|name| CdiDevice { name }).collect();
            }
        }
    }
    if !config.device_list.iter().all(|strategy| strategy.is_cdi()) {
        extras(&mut response.envs, config);
        if config.pass_device_specs {
            let own = uuids.iter().filter_map(|uuid| nodes.devices.get(uuid)).flatten();
            for node in nodes.control.iter().chain(own) {
                let spec = device(node);
                if !response.devices.contains(&spec) {
                    response.devices.push(spec);
                }
            }
        }
    }
    if let Some(mps) = mps {
        reach_mps(&mut response, mps);
    }
    response
}

fn cdi(names: &[String], config: &Config) -> Vec<String> {
    let extras = [(config.extras.gdrcopy, "gdrcopy"), (config.extras.gds, "gds"), (config.extras.mofed, "mofed")];
    let extras = extras.into_iter().filter(|(on, _)| *on).map(|(_, class)| format!("nvidia.com/{class}=all"));
    names.iter().map(|name| format!("{KIND}={name}")).chain(extras).collect()
}

fn extras(envs: &mut HashMap<String, String>, config: &Config) {
    let extras = [
        (config.extras.gdrcopy, "NVIDIA_GDRCOPY"),
        (config.extras.gds, "NVIDIA_GDS"),
        (config.extras.mofed, "NVIDIA_MOFED"),
    ];
    for (_, name) in extras.into_iter().filter(|(on, _)| *on) {
        envs.insert(name.to_owned(), "enabled".to_owned());
    }
    if let Imex::First { .. } = config.imex {
        envs.insert("NVIDIA_IMEX_CHANNELS".to_owned(), "0".to_owned());
    }
}

fn reach_mps(response: &mut ContainerAllocateResponse, mps: &MpsAccess) {
    let pipes = mps.pipes.display().to_string();
    response.mounts.push(Mount { read_only: false, ..mount(&mps.pipes, &pipes) });
    response.mounts.push(Mount { read_only: false, ..mount(&mps.shm, "/dev/shm") });
    response.envs.insert("CUDA_MPS_PIPE_DIRECTORY".to_owned(), pipes);
    if let Some(memory) = &mps.memory {
        response.envs.insert("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT".to_owned(), memory.clone());
    }
    if let Some(threads) = mps.threads {
        response.envs.insert("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE".to_owned(), threads.to_string());
    }
}

fn mount(host: &Path, container: &str) -> Mount {
    Mount { container_path: container.to_owned(), host_path: host.display().to_string(), read_only: true }
}

fn device(node: &DeviceNode) -> DeviceSpec {
    DeviceSpec {
        container_path: node.path.display().to_string(),
        host_path: node.host_path.display().to_string(),
        permissions: "rw".to_owned(),
    }
}
