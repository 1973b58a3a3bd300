//! kubelet's list of which container has which devices.

mod follow;

pub use follow::{Following, Pace};

use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::checkpoint::Listed;
use crate::kubelet::podresources::pod_resources_lister_client::PodResourcesListerClient;
use crate::kubelet::podresources::{ListPodResourcesRequest, ListPodResourcesResponse};
use crate::resources::{DeviceId, ResourceName};

/// How long kubelet may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Longest answer: 16 MiB, as kubelet's own clients allow.
const LONGEST: usize = 16 << 20;

/// A list that could not be had.
#[derive(Debug, Error)]
#[error("kubelet's pod resources at {} cannot be listed: {why}; see that the folder is mounted", socket.display())]
pub struct ListError {
    socket: PathBuf,
    why: String,
}

/// Asks kubelet over one connection, which is opened when it is needed first and after a failure.
#[derive(Debug)]
pub struct Lister {
    socket: PathBuf,
    answer: Duration,
    client: Option<PodResourcesListerClient<Channel>>,
}

impl Lister {
    /// For the kubelet that listens on this socket. Nothing is opened yet.
    pub fn new(socket: &Path) -> Self {
        Self { socket: socket.to_owned(), answer: ANSWER, client: None }
    }

    /// Which container has which devices of NVIDIA's.
    ///
    /// # Errors
    /// [`ListError`] if kubelet does not answer on that socket, after five seconds at the latest.
    pub async fn list(&mut self) -> Result<Vec<Listed>, ListError> {
        let answer = tokio::time::timeout(self.answer, self.ask()).await;
        let answer = answer.unwrap_or_else(|_| Err("it does not answer".to_owned()));
        answer.map(listed).map_err(|why| {
            self.client = None;
            ListError { socket: self.socket.clone(), why }
        })
    }

    async fn ask(&mut self) -> Result<ListPodResourcesResponse, String> {
        let client = match &mut self.client {
            Some(client) => client,
            None => {
                let channel = connect(&self.socket).await.map_err(|error| chain(&error))?;
                let client = PodResourcesListerClient::new(channel).max_decoding_message_size(LONGEST);
                self.client.insert(client)
            }
        };
        let answer = client.list(ListPodResourcesRequest {}).await;
        Ok(answer.map_err(|status| status.message().to_owned())?.into_inner())
    }
}

/// Asks kubelet once which container has which devices of NVIDIA's.
///
/// # Errors
/// As [`Lister::list`].
pub async fn list(socket: &Path) -> Result<Vec<Listed>, ListError> {
    Lister::new(socket).list().await
}

/// What is NVIDIA's of an answer. Ids that no plugin of NVIDIA's and none of ours makes are left out.
fn listed(answer: ListPodResourcesResponse) -> Vec<Listed> {
    let mut listed = Vec::new();
    for pod in answer.pod_resources {
        for container in pod.containers {
            for devices in container.devices {
                let Ok(resource) = ResourceName::nvidia(&devices.resource_name) else { continue };
                let ids: Vec<_> = devices.device_ids.iter().filter_map(|id| DeviceId::parse(id)).collect();
                add(
                    &mut listed,
                    Listed {
                        namespace: pod.namespace.clone(),
                        name: pod.name.clone(),
                        container: container.name.clone(),
                        resource,
                        ids,
                    },
                );
            }
        }
    }
    listed
}

/// kubelet lists devices by NUMA node, so one resource of a container may stand there several times.
fn add(listed: &mut Vec<Listed>, item: Listed) {
    let same = |other: &&mut Listed| {
        (&other.namespace, &other.name, &other.container, &other.resource)
            == (&item.namespace, &item.name, &item.container, &item.resource)
    };
    match listed.iter_mut().find(same) {
        Some(there) => there.ids.extend(item.ids),
        None if item.ids.is_empty() => {}
        None => listed.push(item),
    }
}

/// A connection over a Unix socket.
pub(crate) async fn connect(socket: &Path) -> Result<Channel, tonic::transport::Error> {
    let socket = socket.to_owned();
    let connector = service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    // The address has to be one, and is not used.
    Endpoint::from_static("http://localhost").connect_timeout(ANSWER).connect_with_connector(connector).await
}

/// An error with what caused it: a transport's own words say nothing.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
