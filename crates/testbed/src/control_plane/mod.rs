//! A real Kubernetes control plane on this machine, for as long as a value lives.
//!
//! etcd, the API server and what else [`Options`] names run on 127.0.0.1 with throwaway certificates, below one
//! temporary folder. They end with the [`ControlPlane`] that started them: when it is stopped or dropped, and when
//! its process is killed. The programs are built from Go modules on the first use; see `docs/cluster.md`.
//!
//! ```no_run
//! use gpu_scheduler_testbed::control_plane::{ControlPlane, ControlPlaneError, Options};
//! use gpu_scheduler_testbed::objects::{NodeObject, PodObject};
//!
//! # async fn example() -> Result<(), ControlPlaneError> {
//! let cluster = ControlPlane::start(Options::default()).await?;
//! cluster.add_nodes((1..=3).map(|n| NodeObject::new(&format!("node-{n}")).build())).await?;
//! cluster.add_pods([PodObject::new("a").share("8Gi", 30).build()]).await?;
//! let _kubeconfig_for_the_program_under_test = cluster.admin_kubeconfig();
//! cluster.stop();
//! # Ok(())
//! # }
//! ```

mod access;
mod api_server;
pub(crate) mod binaries;
mod certificates;
mod controller_manager;
pub(crate) mod error;
mod etcd;
pub(crate) mod folder;
mod kube_scheduler;
mod kwok;
mod options;
pub(crate) mod ports;
mod probe;
pub(crate) mod process;
pub mod wait;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client, Config, ResourceExt};

pub use access::Access;
pub use api_server::ApiServer;
pub use binaries::{Binaries, minor};
pub use error::ControlPlaneError;
pub use options::{KubeScheduler, Options, User};

use access::Tokens;
use certificates::Certificates;
use etcd::Etcd;
use folder::Folder;
use kube_scheduler::Scheduler;
use kwok::Kwok;
use process::Program;

/// The user that may do everything.
const ADMIN: &str = "admin";
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
const KWOK: &str = "kwok";

/// What the programs are started with.
struct Setup<'a> {
    binaries: &'a Binaries,
    folder: &'a Folder,
    certificates: &'a Certificates,
    options: &'a Options,
}

impl Setup<'_> {
    /// A client for health checks of servers with our certificate.
    fn tls_client(&self, url: &str) -> Result<Client, ControlPlaneError> {
        let mut config = Config::new(url.parse().expect("a scheme, an address and a port make a URL"));
        config.root_cert = Some(vec![self.certificates.authority_der.clone()]);
        Client::try_from(config).map_err(ControlPlaneError::request("could not make a client for health checks"))
    }
}

/// A running control plane. It ends when this is dropped.
pub struct ControlPlane {
    // Fields are dropped in this order: those who call before those who are called, the folder last.
    kwok: Option<Kwok>,
    scheduler: Option<Scheduler>,
    controller_manager: Option<Program>,
    api_server: ApiServer,
    etcd: Etcd,
    client: Client,
    admin: Access,
    admin_kubeconfig: PathBuf,
    binaries: Binaries,
    certificates: Certificates,
    options: Options,
    /// What Kubernetes' own scheduler talks to the API server with.
    scheduler_kubeconfig: PathBuf,
    folder: Folder,
}

impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ControlPlane");
        shown.field("url", &self.url()).field("folder", &self.folder()).field("processes", &self.processes());
        shown.finish_non_exhaustive()
    }
}

impl ControlPlane {
    /// Starts one and returns when it is usable: pods can be created, and what [`Options`] asks for runs.
    ///
    /// # Errors
    ///
    /// The programs cannot be built, or one of them ends or does not get ready; the error shows the end of its log.
    /// Nothing is left running then.
    pub async fn start(options: Options) -> Result<Self, ControlPlaneError> {
        let binaries = Binaries::find(options.minor.as_deref()).await?;
        let folder = Folder::create()?;
        let certificates = Certificates::create(folder.path())?;
        let setup = Setup { binaries: &binaries, folder: &folder, certificates: &certificates, options: &options };
        let ours = [
            User::new(ADMIN, &["system:masters"]),
            User::new(CONTROLLER_MANAGER, &[]),
            User::new(SCHEDULER, &[]),
            User::new(KWOK, &["system:masters"]),
        ];
        let tokens = Tokens::create(ours.into_iter().chain(options.users.iter().cloned()))?;

        let etcd = Etcd::start(&setup).await?;
        let api_server = ApiServer::start(&setup, &etcd.url(), tokens).await?;
        let admin = api_server.access(ADMIN)?;
        let client = admin.client().await?;
        let kubeconfig = |user: &str| {
            let path = folder.path().join(format!("{}.kubeconfig", user.trim_start_matches("system:")));
            api_server.access(user)?.write_kubeconfig(&path)?;
            Ok::<PathBuf, ControlPlaneError>(path)
        };
        let admin_kubeconfig = kubeconfig(ADMIN)?;
        let (manager_config, scheduler_config, kwok_config) =
            (kubeconfig(CONTROLLER_MANAGER)?, kubeconfig(SCHEDULER)?, kubeconfig(KWOK)?);

        // Side by side: each takes a second, and none needs another.
        let controller_manager = async {
            if !options.controller_manager {
                return Ok(None);
            }
            let mut program = controller_manager::start(&setup, &manager_config)?;
            let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
            let waited = wait::until(&accounts, "default", "the default service account", |_| true).await;
            // If it has ended, its log says more than that the account is missing.
            program.check()?;
            waited?;
            Ok(Some(program))
        };
        let scheduler = async {
            match &options.kube_scheduler {
                Some(wanted) => Scheduler::start(&setup, &scheduler_config, wanted).await.map(Some),
                None => Ok(None),
            }
        };
        let kwok = async { if options.kwok { Kwok::start(&setup, &kwok_config).await.map(Some) } else { Ok(None) } };
        let (controller_manager, scheduler, kwok) = tokio::try_join!(controller_manager, scheduler, kwok)?;

        Ok(Self {
            kwok,
            scheduler,
            controller_manager,
            api_server,
            etcd,
            client,
            admin,
            admin_kubeconfig,
            binaries,
            certificates,
            options,
            scheduler_kubeconfig: scheduler_config,
            folder,
        })
    }

    /// Where the API server listens.
    #[must_use]
    pub fn url(&self) -> String {
        self.api_server.url()
    }

    /// A client that may do everything. kube's own retries are on.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The access of the administrator.
    #[must_use]
    pub fn admin(&self) -> &Access {
        &self.admin
    }

    /// The administrator's kubeconfig, a file that goes with the control plane.
    #[must_use]
    pub fn admin_kubeconfig(&self) -> &Path {
        &self.admin_kubeconfig
    }

    /// The access of a user of [`Options::users`].
    ///
    /// # Errors
    ///
    /// Nobody of that name has a token.
    pub fn access_for(&self, user: &str) -> Result<Access, ControlPlaneError> {
        self.api_server.access(user)
    }

    /// The access of a service account that exists, by a fresh token: what a pod under it would have.
    ///
    /// # Errors
    ///
    /// There is no such service account.
    pub async fn access_for_service_account(&self, namespace: &str, name: &str) -> Result<Access, ControlPlaneError> {
        self.access_by_request(namespace, name, TokenRequestSpec::default()).await
    }

    async fn access_by_request(
        &self,
        namespace: &str,
        name: &str,
        spec: TokenRequestSpec,
    ) -> Result<Access, ControlPlaneError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let what = format!("could not get a token for the service account {namespace}/{name}");
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .map_err(ControlPlaneError::request(what))?;
        let token = answer.status.and_then(|status| status.token).unwrap_or_default();
        Ok(self.api_server.access_by_token(&format!("system:serviceaccount:{namespace}:{name}"), &token))
    }

    /// The access of a service account that exists, by a token for what runs on one node: the API server knows the node by it,
    /// as it does by the token of a pod there.
    ///
    /// # Errors
    ///
    /// There is no such service account or node.
    pub async fn access_on_node(&self, namespace: &str, name: &str, node: &str) -> Result<Access, ControlPlaneError> {
        let what = format!("could not read the node {node}");
        let object = Api::<Node>::all(self.client()).get(node).await.map_err(ControlPlaneError::request(what))?;
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            uid: object.metadata.uid,
        };
        let spec = TokenRequestSpec { bound_object_ref: Some(bound), ..TokenRequestSpec::default() };
        self.access_by_request(namespace, name, spec).await
    }

    /// The API server, to be killed and restarted by tests of faults.
    pub fn api_server(&mut self) -> &mut ApiServer {
        &mut self.api_server
    }

    /// Where Kubernetes' own scheduler serves its metrics (`/metrics`, TLS), if it runs.
    #[must_use]
    pub fn scheduler_url(&self) -> Option<String> {
        self.scheduler.as_ref().map(Scheduler::url)
    }

    /// Starts Kubernetes' own scheduler on what is there, in place of one that runs, and waits until it is ready: it
    /// decides on nothing before it has seen every object that exists now.
    ///
    /// # Errors
    ///
    /// It ended or did not get ready.
    pub async fn start_kube_scheduler(&mut self, wanted: &KubeScheduler) -> Result<(), ControlPlaneError> {
        self.stop_kube_scheduler();
        let Self { binaries, folder, certificates, options, .. } = self;
        let setup = Setup { binaries, folder, certificates, options };
        self.scheduler = Some(Scheduler::start(&setup, &self.scheduler_kubeconfig, wanted).await?);
        Ok(())
    }

    /// Kills Kubernetes' own scheduler; a no-op where none runs.
    pub fn stop_kube_scheduler(&mut self) {
        self.scheduler = None;
    }

    /// The programs that it runs, such as `kubectl`.
    #[must_use]
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// The folder of data, keys and logs (`NAME.log`).
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The certificate of the authority that signed the API server's, as a file.
    pub(crate) fn authority(&self) -> &Path {
        &self.certificates.authority
    }

    /// What a program wrote, such as `kube-scheduler`: all of its runs, one after the other.
    #[must_use]
    pub fn log(&self, program: &str) -> PathBuf {
        process::log_in(self.folder(), program)
    }

    /// Name and process id of each program that runs.
    #[must_use]
    pub fn processes(&self) -> Vec<(&'static str, u32)> {
        let programs = [
            Some(&self.etcd.program),
            self.api_server.program(),
            self.controller_manager.as_ref(),
            self.scheduler.as_ref().map(|scheduler| &scheduler.program),
            self.kwok.as_ref().map(|kwok| &kwok.program),
        ];
        programs.into_iter().flatten().map(|program| (program.name(), program.pid())).collect()
    }

    /// An error if any program has ended by itself.
    ///
    /// # Errors
    ///
    /// The first that has, with the end of its log.
    pub fn check(&mut self) -> Result<(), ControlPlaneError> {
        let programs = [
            Some(&mut self.etcd.program),
            self.api_server.program_mut(),
            self.controller_manager.as_mut(),
            self.scheduler.as_mut().map(|scheduler| &mut scheduler.program),
            self.kwok.as_mut().map(|kwok| &mut kwok.program),
        ];
        programs.into_iter().flatten().try_for_each(Program::check)
    }

    /// Waits until a program ends by itself, and says which and why. Polls: the kernel tells only one waiter a child,
    /// and that is whoever stops it.
    pub async fn ended(&mut self) -> ControlPlaneError {
        loop {
            if let Err(error) = self.check() {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Creates nodes and waits until each is ready and has no taint.
    ///
    /// # Errors
    ///
    /// One is refused, or does not get ready.
    pub async fn add_nodes(&self, nodes: impl IntoIterator<Item = Node>) -> Result<(), ControlPlaneError> {
        let nodes: Vec<Node> = nodes.into_iter().collect();
        let names = nodes.iter().map(ResourceExt::name_any).collect();
        let api = Api::all(self.client());
        wait::create_all(nodes.into_iter().map(|node| (api.clone(), node))).await?;
        wait::until_usable(&api, names).await
    }

    /// Creates pods, each in its own namespace or in `default`.
    ///
    /// # Errors
    ///
    /// One is refused.
    pub async fn add_pods(&self, pods: impl IntoIterator<Item = Pod>) -> Result<(), ControlPlaneError> {
        let api = |pod: &Pod| Api::namespaced(self.client(), pod.metadata.namespace.as_deref().unwrap_or("default"));
        wait::create_all(pods.into_iter().map(|pod| (api(&pod), pod))).await
    }

    /// Stops everything and removes the folder, as dropping it does.
    pub fn stop(self) {
        drop(self);
    }
}
