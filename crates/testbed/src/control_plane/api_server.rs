//! The API server, which can be killed and started again on the same port and data.

use std::fmt;
use std::path::PathBuf;

use kube::Client;

use super::access::{Access, Tokens};
use super::error::write;
use super::ports::Port;
use super::probe::until_ready;
use super::process::Program;
use super::{ADMIN, ControlPlaneError, Setup};

const NAME: &str = "kube-apiserver";

/// The API server of a control plane.
pub struct ApiServer {
    binary: PathBuf,
    args: Vec<String>,
    folder: PathBuf,
    /// `None` after [`kill`](Self::kill).
    program: Option<Program>,
    port: Port,
    tokens: Tokens,
    authority_pem: String,
    /// For health checks, which want an answer as it is: no retries.
    probe: Client,
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("url", &self.url()).field("program", &self.program).finish_non_exhaustive()
    }
}

impl ApiServer {
    pub(super) async fn start(setup: &Setup<'_>, etcd_url: &str, tokens: Tokens) -> Result<Self, ControlPlaneError> {
        let folder = setup.folder.path();
        let token_file = folder.join("tokens.csv");
        write(&token_file, &tokens.csv())?;
        let port = Port::claim()?;
        let admin = access(&port, &setup.certificates.authority_pem, &tokens, ADMIN)?;
        let mut config = admin.config().await?;
        config.default_retry = false;
        let probe = Client::try_from(config).map_err(ControlPlaneError::request("could not make a client"))?;

        let mut args = vec![
            format!("--etcd-servers={etcd_url}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", port.number()),
            "--advertise-address=127.0.0.1".to_owned(),
            // It refuses to write a loopback address into the endpoints of its own service.
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--cert-dir={}", folder.join(NAME).display()),
            format!("--client-ca-file={}", setup.certificates.authority.display()),
            format!("--token-auth-file={}", token_file.display()),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".to_owned(),
            format!("--service-account-key-file={}", setup.certificates.service_account_public.display()),
            format!("--service-account-signing-key-file={}", setup.certificates.service_account_key.display()),
            format!("--kubelet-client-certificate={}", setup.certificates.kubelet_client.display()),
            format!("--kubelet-client-key={}", setup.certificates.kubelet_client_key.display()),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
        ];
        args.extend(setup.certificates.serving_args());
        let mut without = Vec::new();
        if !setup.options.controller_manager {
            // Nobody makes the default service account that every pod is given.
            without.push("ServiceAccount");
        }
        if !setup.options.controller_manager || setup.options.static_nodes {
            // Nobody takes the taint of a new node away.
            without.push("TaintNodesByCondition");
        }
        if !without.is_empty() {
            args.push(format!("--disable-admission-plugins={}", without.join(",")));
        }
        if setup.options.load_test {
            args.push("--max-requests-inflight=0".to_owned());
            args.push("--max-mutating-requests-inflight=0".to_owned());
            args.push("--enable-priority-and-fairness=false".to_owned());
            // Thousands of pods are cleared away between two runs.
            args.push("--delete-collection-workers=4".to_owned());
        }
        args.extend(setup.options.feature_gates_arg());
        args.extend(setup.options.api_server_args.iter().cloned());

        let mut server = Self {
            binary: setup.binaries.kubernetes(NAME),
            args,
            folder: folder.to_owned(),
            program: None,
            port,
            tokens,
            authority_pem: setup.certificates.authority_pem.clone(),
            probe,
        };
        server.restart().await?;
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        url(&self.port)
    }

    /// Kills it, as a crash does: nothing is told to its clients. Its data are etcd's and stay.
    pub fn kill(&mut self) {
        self.program = None;
    }

    /// Starts it again, on the same port and data, and waits until it is ready. Kills it first if it runs.
    ///
    /// # Errors
    ///
    /// It ended or did not get ready.
    pub async fn restart(&mut self) -> Result<(), ControlPlaneError> {
        self.kill();
        let program = Program::start(NAME, &self.binary, self.args.iter().cloned(), &self.folder)?;
        // Kept before it is ready: whoever drops the future still has a server that can be killed.
        let program = self.program.insert(program);
        until_ready(program, &self.probe, "/readyz").await
    }

    /// Its process id, for faults of other kinds; `None` after [`kill`](Self::kill).
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.program.as_ref().map(Program::pid)
    }

    pub(super) fn program(&self) -> Option<&Program> {
        self.program.as_ref()
    }

    pub(super) fn program_mut(&mut self) -> Option<&mut Program> {
        self.program.as_mut()
    }

    pub(super) fn access(&self, user: &str) -> Result<Access, ControlPlaneError> {
        access(&self.port, &self.authority_pem, &self.tokens, user)
    }

    pub(super) fn access_by_token(&self, user: &str, token: &str) -> Access {
        Access::new(&self.url(), &self.authority_pem, user, token)
    }
}

fn url(port: &Port) -> String {
    format!("https://127.0.0.1:{}", port.number())
}

fn access(port: &Port, authority: &str, tokens: &Tokens, user: &str) -> Result<Access, ControlPlaneError> {
    let token = tokens.of(user).ok_or_else(|| ControlPlaneError::UnknownUser { user: user.to_owned() })?;
    Ok(Access::new(&url(port), authority, user, token))
}
