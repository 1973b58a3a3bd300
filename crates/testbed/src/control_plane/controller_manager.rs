//! The controller manager: service accounts, garbage collection, taints and evictions of nodes.

use std::path::Path;

use super::process::Program;
use super::{ControlPlaneError, Setup};

/// Starts it. It is of use once the default service account is there, and the caller waits for that: it says
/// more than the health of the process does.
pub(super) fn start(setup: &Setup<'_>, kubeconfig: &Path) -> Result<Program, ControlPlaneError> {
    let certificates = setup.certificates;
    let controllers = if setup.options.static_nodes { "*,-node-lifecycle-controller" } else { "*" };
    let mut args = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--controllers={controllers}"),
        "--leader-elect=false".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        "--allocate-node-cidrs=false".to_owned(),
        // No port at all: nobody asks it anything.
        "--secure-port=0".to_owned(),
        format!("--root-ca-file={}", certificates.authority.display()),
        format!("--service-account-private-key-file={}", certificates.service_account_key.display()),
        format!("--cluster-signing-cert-file={}", certificates.authority.display()),
        format!("--cluster-signing-key-file={}", certificates.authority_key.display()),
        // Its own limit of 20 a second is for sharing an API server; this one is its own.
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=1000".to_owned(),
    ];
    args.extend(setup.options.feature_gates_arg());
    let name = "kube-controller-manager";
    Program::start(name, &setup.binaries.kubernetes(name), args, setup.folder.path())
}
