//! The server of one resource.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, stream};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tracing::warn;

use super::register::options;
use crate::handout::{Desk, Stand};
use crate::kubelet::deviceplugin::device_plugin_server::{DevicePlugin, DevicePluginServer};
use crate::kubelet::deviceplugin::{
    AllocateRequest, AllocateResponse, ContainerPreferredAllocationResponse, Device, DevicePluginOptions, Empty,
    ListAndWatchResponse, NumaNode, PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
    PreferredAllocationResponse, TopologyInfo,
};
use crate::resources::{Resource, ResourceName};

/// A server that runs.
#[derive(Debug)]
pub(super) struct Running {
    /// Its socket.
    pub socket: PathBuf,
    /// Open for as long as it is to run.
    open: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    /// Begins to serve `resource` on `socket`. A file that is there already is of a server that has ended.
    pub fn start(desk: Arc<Desk>, resource: ResourceName, socket: PathBuf) -> io::Result<Self> {
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&socket)?;
        let (open, mut closed) = watch::channel(());
        let plugin = Plugin { desk, resource, open: open.subscribe() };
        let server = Server::builder().add_service(DevicePluginServer::new(plugin));
        let until = async move { while closed.changed().await.is_ok() {} };
        let serving = server.serve_with_incoming_shutdown(UnixListenerStream::new(listener), until);
        let path = socket.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = serving.await {
                warn!(%error, socket = %path.display(), "a device plugin's server ended and is started again");
            }
        });
        Ok(Self { socket, open, task })
    }

    /// Whether kubelet can reach it.
    pub fn is_reachable(&self) -> bool {
        !self.task.is_finished() && self.socket.exists()
    }

    /// Ends it: streams end, calls that are under way are answered, the socket goes.
    pub async fn stop(self) {
        let Self { socket, open, mut task } = self;
        drop(open);
        if tokio::time::timeout(ENDS_WITHIN, &mut task).await.is_err() {
            task.abort();
        }
        remove(&socket);
    }
}

/// How long calls that are under way may take when a server ends.
const ENDS_WITHIN: std::time::Duration = std::time::Duration::from_secs(2);

fn remove(socket: &Path) {
    if let Err(error) = fs::remove_file(socket)
        && error.kind() != io::ErrorKind::NotFound
    {
        warn!(%error, socket = %socket.display(), "a device plugin's socket could not be removed");
    }
}

/// The plugin of one resource.
struct Plugin {
    desk: Arc<Desk>,
    resource: ResourceName,
    open: watch::Receiver<()>,
}

#[tonic::async_trait]
impl DevicePlugin for Plugin {
    type ListAndWatchStream = Pin<Box<dyn Stream<Item = Result<ListAndWatchResponse, Status>> + Send>>;

    async fn get_device_plugin_options(&self, _: Request<Empty>) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(options()))
    }

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let lists =
            Lists { stand: self.desk.stand(), resource: self.resource.clone(), open: self.open.clone(), sent: None };
        Ok(Response::new(Box::pin(stream::unfold(lists, Lists::next))))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let mut container_responses = Vec::new();
        for request in request.into_inner().container_requests {
            let size = usize::try_from(request.allocation_size).unwrap_or(0);
            let (available, must) = (&request.available_device_i_ds, &request.must_include_device_i_ds);
            let device_i_ds = self.desk.prefer(&self.resource, available, must, size).await;
            container_responses.push(ContainerPreferredAllocationResponse { device_i_ds });
        }
        Ok(Response::new(PreferredAllocationResponse { container_responses }))
    }

    async fn allocate(&self, request: Request<AllocateRequest>) -> Result<Response<AllocateResponse>, Status> {
        let mut container_responses = Vec::new();
        for request in request.into_inner().container_requests {
            let given = self.desk.allocate(&self.resource, &request.devices_ids).await;
            container_responses.push(given.map_err(|why| Status::failed_precondition(why.to_string()))?);
        }
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}

/// The devices of a resource, and again whenever they change.
struct Lists {
    stand: watch::Receiver<Arc<Stand>>,
    resource: ResourceName,
    open: watch::Receiver<()>,
    sent: Option<Vec<Device>>,
}

impl Lists {
    /// The next list that differs from the one before. The stream ends with the server, or with the resource.
    async fn next(mut self) -> Option<(Result<ListAndWatchResponse, Status>, Self)> {
        loop {
            let devices = {
                let stand = self.stand.borrow_and_update();
                let resource = stand.offer.resources.iter().find(|resource| resource.name == self.resource)?;
                devices(&stand, resource)
            };
            if self.sent.as_ref() != Some(&devices) {
                self.sent = Some(devices.clone());
                return Some((Ok(ListAndWatchResponse { devices }), self));
            }
            tokio::select! {
                changed = self.stand.changed() => changed.ok()?,
                closed = self.open.changed() => closed.ok()?,
            }
        }
    }
}

fn devices(stand: &Stand, resource: &Resource) -> Vec<Device> {
    let device = |unit: &crate::resources::Unit| Device {
        id: unit.id.to_string(),
        health: if stand.is_healthy(resource, unit) { "Healthy" } else { "Unhealthy" }.to_owned(),
        topology: unit.numa.map(|node| TopologyInfo { nodes: vec![NumaNode { id: i64::from(node) }] }),
    };
    resource.units.iter().map(device).collect()
}
