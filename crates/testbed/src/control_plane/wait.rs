//! Waiting for what the cluster does by itself: by watches, each with a deadline, never by sleeping.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::serde::{Serialize, de::DeserializeOwned};
use kube::api::PostParams;
use kube::runtime::wait::await_condition;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use tokio::time::timeout;

use super::ControlPlaneError;

/// How long anything may take that takes a second on idle cores.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Creations under way at once: enough to keep the API server busy, few enough not to open hundreds of connections.
const AT_ONCE: usize = 16;

/// Waits until the object exists and `holds` of it, and returns it. `what` completes "waited for …".
///
/// # Errors
///
/// It did not come to hold within [`PATIENCE`], or the API server refuses the watch.
pub async fn until<K>(api: &Api<K>, name: &str, what: &str, holds: impl Fn(&K) -> bool) -> Result<K, ControlPlaneError>
where
    K: Clone + Debug + Send + DeserializeOwned + Resource + 'static,
{
    let last = std::sync::Mutex::new(None);
    let condition = |object: Option<&K>| {
        let met = object.is_some_and(&holds);
        if !met {
            *last.lock().expect("no panic while it is held") = object.cloned();
        }
        met
    };
    let waited = |last: String| ControlPlaneError::Waited { what: what.to_owned(), patience: PATIENCE, last };
    match timeout(PATIENCE, await_condition(api.clone(), name, condition)).await {
        Ok(Ok(Some(object))) => Ok(object),
        Ok(Ok(None)) => Err(waited("; it is not there".to_owned())),
        Ok(Err(error)) => Err(waited(format!("; the watch failed: {error}"))),
        Err(_) => match last.into_inner().expect("no panic while it was held") {
            Some(object) => Err(waited(format!("; it was last seen as {object:?}"))),
            None => Err(waited("; it is not there".to_owned())),
        },
    }
}

/// Waits until the object is gone.
///
/// # Errors
///
/// It was still there after [`PATIENCE`], or the API server refuses the watch.
pub async fn until_gone<K>(api: &Api<K>, name: &str) -> Result<(), ControlPlaneError>
where
    K: Clone + Debug + Send + DeserializeOwned + Resource + 'static,
{
    let waited = |last| ControlPlaneError::Waited { what: format!("the end of {name}"), patience: PATIENCE, last };
    match timeout(PATIENCE, await_condition(api.clone(), name, |object: Option<&K>| object.is_none())).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(waited(format!("; the watch failed: {error}"))),
        Err(_) => Err(waited("; it is still there".to_owned())),
    }
}

/// Creates objects, several at a time, each by the API given with it.
pub(super) async fn create_all<K>(objects: impl IntoIterator<Item = (Api<K>, K)>) -> Result<(), ControlPlaneError>
where
    K: Clone + Debug + Serialize + DeserializeOwned + Resource,
{
    stream::iter(objects)
        .map(async |(api, object)| {
            let what = format!("could not create {}", object.name_any());
            api.create(&PostParams::default(), &object).await.map(drop).map_err(ControlPlaneError::request(what))
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// Waits until each of the nodes is ready and has no taint, by one watch over all.
pub(super) async fn until_usable(api: &Api<Node>, names: Vec<String>) -> Result<(), ControlPlaneError> {
    // Value: how the node was last seen.
    let mut missing: BTreeMap<String, &str> = names.into_iter().map(|name| (name, "not there")).collect();
    let watch = async {
        let mut nodes = std::pin::pin!(watcher(api.clone(), watcher::Config::default()).applied_objects());
        while !missing.is_empty() {
            let Some(node) = nodes.try_next().await? else { break };
            let name = node.name_any();
            match shortcoming(&node) {
                None => drop(missing.remove(&name)),
                Some(shortcoming) => {
                    missing.entry(name).and_modify(|last| *last = shortcoming);
                }
            }
        }
        Ok::<(), watcher::Error>(())
    };
    let last = match timeout(PATIENCE, watch).await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => format!("; the watch failed: {error}"),
        Err(_) => {
            let some: Vec<String> = missing.iter().take(3).map(|(name, last)| format!("{name} is {last}")).collect();
            format!("; {} are not, among them: {}", missing.len(), some.join(", "))
        }
    };
    Err(ControlPlaneError::Waited {
        what: "all nodes to be ready and without taints".to_owned(),
        patience: PATIENCE,
        last,
    })
}

fn shortcoming(node: &Node) -> Option<&'static str> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.filter(|c| c.type_ == "Ready").any(|c| c.status == "True");
    let tainted = node.spec.iter().any(|spec| spec.taints.as_ref().is_some_and(|taints| !taints.is_empty()));
    match (ready, tainted) {
        (false, _) => Some("not ready"),
        (true, true) => Some("tainted"),
        (true, false) => None,
    }
}
