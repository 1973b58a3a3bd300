//! The CDI specification of the node's devices.
//!
//! It lists device nodes. A container needs the driver's libraries too, and which these are only NVIDIA's `nvidia-ctk cdi
//! generate` knows for a given host; its specification of kind `nvidia.com/gpu` is another one.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use thiserror::Error;

use super::called;
use super::nodes::{DeviceNode, DeviceNodes};
use crate::config::Config;
use crate::inventory::{DeviceUuid, Inventory};

/// What devices are called before their name.
pub(super) const KIND: &str = "k8s.device-plugin.nvidia.com/gpu";
/// The file, in a folder of CDI's.
pub const CDI_FILE: &str = "k8s.device-plugin.nvidia.com-gpu.json";

/// A specification that cannot be written.
#[derive(Debug, Error)]
#[error("cannot write the CDI specification {}: {source}; see that the folder is mounted and writable", path.display())]
pub struct SpecError {
    path: PathBuf,
    source: io::Error,
}

/// The specification. `NVIDIA_VISIBLE_DEVICES=void` keeps NVIDIA's older hook from adding anything.
pub fn spec(config: &Config, inventory: &Inventory, nodes: &DeviceNodes) -> Value {
    let device = |(uuid, own): (&DeviceUuid, &Vec<DeviceNode>)| {
        json!({
            "name": called(inventory, uuid, config.device_id),
            "containerEdits": {"deviceNodes": own.iter().map(node).collect::<Vec<_>>()},
        })
    };
    json!({
        "cdiVersion": "0.5.0",
        "kind": KIND,
        "devices": nodes.devices.iter().map(device).collect::<Vec<_>>(),
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "deviceNodes": nodes.control.iter().map(node).collect::<Vec<_>>(),
        },
    })
}

fn node(node: &DeviceNode) -> Value {
    if node.path == node.host_path {
        return json!({"path": node.path});
    }
    json!({"path": node.path, "hostPath": node.host_path})
}

/// Writes the specification into `folder`, whole: a runtime may read it at any time.
///
/// # Errors
/// [`SpecError`] if the folder cannot be made or written to.
pub fn write_spec(folder: &Path, spec: &Value) -> Result<PathBuf, SpecError> {
    let path = folder.join(CDI_FILE);
    let write = || -> io::Result<()> {
        fs::create_dir_all(folder)?;
        // Runtimes read every file that ends in .json or .yaml.
        let next = folder.join(format!(".{CDI_FILE}.next"));
        let mut file = File::create(&next)?;
        file.write_all(spec.to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(next, &path)
    };
    write().map_err(|source| SpecError { path: path.clone(), source })?;
    Ok(path)
}

/// The names in a specification.
#[cfg(test)]
pub(super) fn names(spec: &Value) -> std::collections::BTreeSet<String> {
    let devices = spec["devices"].as_array().expect("a list");
    devices.iter().map(|device| device["name"].as_str().expect("a name").to_owned()).collect()
}
