//! etcd: one member, its data worth nothing.

use kube::{Client, Config};

use super::ports::Port;
use super::probe::until_ready;
use super::process::Program;
use super::{ControlPlaneError, Setup};

/// The running etcd.
#[derive(Debug)]
pub(super) struct Etcd {
    pub(super) program: Program,
    client_port: Port,
    _peer_port: Port,
}

impl Etcd {
    pub(super) async fn start(setup: &Setup<'_>) -> Result<Self, ControlPlaneError> {
        let folder = setup.folder.path();
        let (client_port, peer_port) = (Port::claim()?, Port::claim()?);
        let client_url = format!("http://127.0.0.1:{}", client_port.number());
        let peer_url = format!("http://127.0.0.1:{}", peer_port.number());
        let args = [
            format!("--data-dir={}", folder.join("etcd").display()),
            format!("--listen-client-urls={client_url}"),
            format!("--advertise-client-urls={client_url}"),
            format!("--listen-peer-urls={peer_url}"),
            format!("--initial-advertise-peer-urls={peer_url}"),
            format!("--initial-cluster=default={peer_url}"),
            "--unsafe-no-fsync".to_owned(),
            // Ten thousand pods with their history are more than the two GiB that it takes by default.
            format!("--quota-backend-bytes={}", 8_u64 << 30),
        ];
        let mut program = Program::start("etcd", &setup.binaries.kubernetes("etcd"), args, folder)?;
        let client = plain_client(&client_url)?;
        until_ready(&mut program, &client, "/health").await?;
        Ok(Self { program, client_port, _peer_port: peer_port })
    }

    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client_port.number())
    }
}

/// A client for health checks of servers that want neither a token nor TLS.
pub(super) fn plain_client(url: &str) -> Result<Client, ControlPlaneError> {
    let config = Config::new(url.parse().expect("a scheme, an address and a port make a URL"));
    Client::try_from(config).map_err(ControlPlaneError::request("could not make a client for health checks"))
}
