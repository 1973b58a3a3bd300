//! Clients of the API server.

use std::path::Path;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use thiserror::Error;

/// No way to the API server.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The file does not say where the API server is, or who we are.
    #[error("kubeconfig {path}: {why}")]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// There is neither a file nor a service account.
    #[error("no way to the API server: {0}; give --kubeconfig FILE, or run in a pod with a service account")]
    Nowhere(String),
    /// The settings make no client.
    #[error("no client for the API server: {0}")]
    Unusable(String),
}

/// One client for reads, which repeats what failed, and one for writes, which does not: whether a bind may be sent
/// again is decided where it is known what it was for.
///
/// # Errors
/// [`ClientError`] if no API server is configured. It need not be reachable yet.
pub async fn clients(kubeconfig: Option<&Path>) -> Result<(Client, Client), ClientError> {
    let config = match kubeconfig {
        Some(path) => {
            let why = |e: &dyn std::fmt::Display| ClientError::Kubeconfig {
                path: path.display().to_string(),
                why: e.to_string(),
            };
            let file = Kubeconfig::read_from(path).map_err(|e| why(&e))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(|e| why(&e))?
        }
        None => Config::infer().await.map_err(|e| ClientError::Nowhere(e.to_string()))?,
    };
    let client = |config: Config| Client::try_from(config).map_err(|e| ClientError::Unusable(e.to_string()));
    let mut writes = config.clone();
    writes.default_retry = false;
    Ok((client(config)?, client(writes)?))
}
