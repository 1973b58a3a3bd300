//! Registration with kubelet.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use thiserror::Error;

use crate::kubelet::deviceplugin::registration_client::RegistrationClient;
use crate::kubelet::deviceplugin::{DevicePluginOptions, RegisterRequest};
use crate::podresources::{chain, connect};
use crate::resources::ResourceName;

/// How long kubelet may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// The protocol's version.
const VERSION: &str = "v1beta1";

/// A registration that kubelet did not take.
#[derive(Debug, Error)]
#[error("kubelet did not take the plugin of {resource} ({why}); it is tried again")]
pub(super) struct RegisterError {
    resource: ResourceName,
    why: String,
}

/// One run of kubelet's: each makes its socket anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KubeletRun {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl KubeletRun {
    /// Which run the socket is of; `None` while there is none.
    pub fn of(socket: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(socket).ok()?;
        // An inode may be used again at once, the time of its making may not.
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Some(Self { device: metadata.dev(), inode: metadata.ino(), changed })
    }
}

/// What kubelet may ask of a plugin.
pub(super) fn options() -> DevicePluginOptions {
    DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true }
}

/// Registers the plugin that listens on `endpoint`, a file next to kubelet's socket.
pub(super) async fn register(kubelet: &Path, resource: &ResourceName, endpoint: &str) -> Result<(), RegisterError> {
    let fail = |why| RegisterError { resource: resource.clone(), why };
    let channel = connect(kubelet).await.map_err(|error| fail(chain(&error)))?;
    let request = RegisterRequest {
        version: VERSION.to_owned(),
        endpoint: endpoint.to_owned(),
        resource_name: resource.as_str().to_owned(),
        options: Some(options()),
    };
    let mut client = RegistrationClient::new(channel);
    let answer = tokio::time::timeout(ANSWER, client.register(request)).await;
    let answer = answer.map_err(|_| fail("it does not answer".to_owned()))?;
    answer.map(drop).map_err(|status| fail(status.message().to_owned()))
}
