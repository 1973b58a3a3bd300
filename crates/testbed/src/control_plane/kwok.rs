//! kwok: keeps simulated nodes ready and makes bound pods on them run.

use std::path::Path;

use super::etcd::plain_client;
use super::ports::Port;
use super::probe::until_ready;
use super::process::Program;
use super::{ControlPlaneError, Setup};
use crate::objects::SIMULATED;

/// The running kwok.
#[derive(Debug)]
pub(super) struct Kwok {
    pub(super) program: Program,
    _port: Port,
}

impl Kwok {
    pub(super) async fn start(setup: &Setup<'_>, kubeconfig: &Path) -> Result<Self, ControlPlaneError> {
        let port = Port::claim()?;
        let (key, value) = SIMULATED;
        let args = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--config={}", setup.binaries.kwok_stages().display()),
            // Real nodes beside simulated ones are none of its business.
            "--manage-all-nodes=false".to_owned(),
            format!("--manage-nodes-with-annotation-selector={key}={value}"),
            "--node-ip=127.0.0.1".to_owned(),
            format!("--server-address=127.0.0.1:{}", port.number()),
            // The heartbeat; a node is given up after 50 s without.
            "--node-lease-duration-seconds=40".to_owned(),
        ];
        let mut program = Program::start("kwok", &setup.binaries.kwok(), args, setup.folder.path())?;
        let client = plain_client(&format!("http://127.0.0.1:{}", port.number()))?;
        until_ready(&mut program, &client, "/healthz").await?;
        Ok(Self { program, _port: port })
    }
}
