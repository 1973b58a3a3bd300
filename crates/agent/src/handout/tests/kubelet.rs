//! The other side of kubelet's protocol.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};

use crate::kubelet::deviceplugin::device_plugin_client::DevicePluginClient;
use crate::kubelet::deviceplugin::registration_server::{Registration, RegistrationServer};
use crate::kubelet::deviceplugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse, ContainerPreferredAllocationRequest, Device,
    Empty, ListAndWatchResponse, PreferredAllocationRequest, RegisterRequest,
};
use crate::kubelet::podresources::pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer};
use crate::kubelet::podresources::{
    ContainerDevices, ContainerResources, ListPodResourcesRequest, ListPodResourcesResponse, PodResources,
};

/// A kubelet as plugins see it.
pub(super) struct Kubelet {
    folder: PathBuf,
    requests: mpsc::UnboundedReceiver<RegisterRequest>,
    known: BTreeMap<String, RegisterRequest>,
    state: Arc<State>,
    open: watch::Sender<()>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    refusals: Mutex<u32>,
    listed: Mutex<Vec<PodResources>>,
}

impl Kubelet {
    pub async fn start(folder: &Path, pod_resources: &Path) -> Self {
        let state = Arc::<State>::default();
        let (open, closed) = watch::channel(());
        let (sender, requests) = mpsc::unbounded_channel();
        let registry = RegistrationServer::new(Registry { state: Arc::clone(&state), requests: sender });
        let lister = PodResourcesListerServer::new(Lister(Arc::clone(&state)));
        let until = |mut closed: watch::Receiver<()>| async move { while closed.changed().await.is_ok() {} };
        let listen = |path: &Path| {
            let _ = std::fs::remove_file(path);
            UnixListenerStream::new(UnixListener::bind(path).expect("a socket"))
        };
        let (registrations, lists) = (listen(&folder.join("kubelet.sock")), listen(pod_resources));
        let server =
            Server::builder().add_service(registry).serve_with_incoming_shutdown(registrations, until(closed.clone()));
        let list = Server::builder().add_service(lister).serve_with_incoming_shutdown(lists, until(closed));
        let tasks = vec![
            tokio::spawn(async move { server.await.expect("it serves") }),
            tokio::spawn(async move { list.await.expect("it serves") }),
        ];
        Self { folder: folder.to_owned(), requests, known: BTreeMap::new(), state, open, tasks }
    }

    pub async fn stop(self) {
        drop(self.open);
        for task in self.tasks {
            task.await.expect("it ends");
        }
    }

    /// Refuses so many registrations.
    pub fn refuse(&self, n: u32) {
        *self.state.refusals.lock().unwrap() = n;
    }

    /// Forgets what was registered, as a plugin that ended is forgotten.
    pub fn forget(&mut self) {
        while self.requests.try_recv().is_ok() {}
        self.known.clear();
    }

    /// Waits until the resource is registered.
    pub async fn registered(&mut self, resource: &str) {
        while !self.known.contains_key(resource) {
            let request = self.requests.recv().await.expect("it is open");
            assert_eq!(request.version, "v1beta1");
            assert!(
                request
                    .options
                    .as_ref()
                    .is_some_and(|it| it.get_preferred_allocation_available && !it.pre_start_required)
            );
            self.known.insert(request.resource_name.clone(), request);
        }
    }

    /// The plugin of a resource that is registered.
    pub async fn plugin(&self, resource: &str) -> Plugin {
        let socket = self.folder.join(&self.known[resource].endpoint);
        let channel = crate::podresources::connect(&socket).await.expect("it listens");
        Plugin(DevicePluginClient::new(channel))
    }

    pub fn lists(&self, name: &str, container: &str, resource: &str, ids: &[&str]) {
        let devices = ContainerDevices {
            resource_name: resource.into(),
            device_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        };
        self.state.listed.lock().unwrap().push(PodResources {
            name: name.into(),
            namespace: "default".into(),
            containers: vec![ContainerResources { name: container.into(), devices: vec![devices] }],
        });
    }

    pub fn lists_nothing(&self) {
        self.state.listed.lock().unwrap().clear();
    }
}

struct Registry {
    state: Arc<State>,
    requests: mpsc::UnboundedSender<RegisterRequest>,
}

#[tonic::async_trait]
impl Registration for Registry {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let mut refusals = self.state.refusals.lock().unwrap();
        if *refusals > 0 {
            *refusals -= 1;
            return Err(Status::unavailable("not yet"));
        }
        let _ = self.requests.send(request.into_inner());
        Ok(Response::new(Empty {}))
    }
}

struct Lister(Arc<State>);

#[tonic::async_trait]
impl PodResourcesLister for Lister {
    async fn list(&self, _: Request<ListPodResourcesRequest>) -> Result<Response<ListPodResourcesResponse>, Status> {
        let pod_resources = self.0.listed.lock().unwrap().clone();
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }
}

/// A plugin, as kubelet calls it.
#[derive(Clone)]
pub(super) struct Plugin(DevicePluginClient<Channel>);

impl Plugin {
    pub async fn devices(&self) -> Vec<String> {
        self.watch().await.next().await.expect("a list")
    }

    pub async fn watch(&self) -> Devices {
        Devices(self.0.clone().list_and_watch(Empty {}).await.expect("a stream").into_inner())
    }

    pub async fn prefer(&self, available: &[&str], must: &[&str], size: i32) -> Vec<String> {
        let own = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        let request = ContainerPreferredAllocationRequest {
            available_device_i_ds: own(available),
            must_include_device_i_ds: own(must),
            allocation_size: size,
        };
        let request = PreferredAllocationRequest { container_requests: vec![request] };
        let answer = self.0.clone().get_preferred_allocation(request).await.expect("an answer").into_inner();
        let mut ids = answer.container_responses.into_iter().next().expect("one").device_i_ds;
        ids.sort();
        ids
    }

    pub async fn allocate(&self, ids: &[impl AsRef<str>]) -> Result<ContainerAllocateResponse, String> {
        let devices_ids = ids.iter().map(|id| id.as_ref().to_owned()).collect();
        let request = AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids }] };
        let answer = self.0.clone().allocate(request).await.map_err(|status| status.message().to_owned())?;
        Ok(answer.into_inner().container_responses.into_iter().next().expect("one"))
    }
}

/// The lists of a plugin.
pub(super) struct Devices(Streaming<ListAndWatchResponse>);

impl Devices {
    /// The next list, as `id health numa node`; `None` once there is none.
    pub async fn next(&mut self) -> Option<Vec<String>> {
        let text = |device: Device| {
            let numa: String =
                device.topology.iter().flat_map(|it| &it.nodes).map(|node| format!(" numa {}", node.id)).collect();
            format!("{} {}{numa}", device.id, device.health)
        };
        let list = self.0.message().await.ok()??;
        Some(list.devices.into_iter().map(text).collect())
    }
}
