//! Everything gone, so that the next one begins as the one before did.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use tokio::time::sleep;

use crate::control_plane::ControlPlaneError;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Deletes all pods and events, and waits until they are gone.
pub(super) async fn sweep(client: &Client) -> Result<(), ControlPlaneError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let failed = || ControlPlaneError::request("could not delete what the one before left".to_owned());
    let (now, all) = (DeleteParams::default().grace_period(0), ListParams::default());
    let one = ListParams::default().limit(1);
    while !pods.list_metadata(&one).await.map_err(failed())?.items.is_empty() {
        // Of many it may give up half way: what is left is deleted by the next.
        match pods.delete_collection(&now, &all).await {
            Ok(_) => sleep(PAUSE).await,
            Err(kube::Error::Api(status)) if status.code >= 500 => {}
            Err(error) => return Err(failed()(error)),
        }
    }
    while !events.list_metadata(&one).await.map_err(failed())?.items.is_empty() {
        match events.delete_collection(&DeleteParams::default(), &all).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code >= 500 => {}
            Err(error) => return Err(failed()(error)),
        }
    }
    Ok(())
}

/// Waits until there are so many events, or no more come.
pub(super) async fn events(client: &Client, count: usize) -> Result<usize, ControlPlaneError> {
    let api: Api<Event> = Api::namespaced(client.clone(), "default");
    let one = ListParams::default().limit(1);
    let (mut before, mut still) = (0, 0);
    loop {
        let list = api.list_metadata(&one).await;
        let list = list.map_err(ControlPlaneError::request("could not count events".to_owned()))?;
        let rest = list.metadata.remaining_item_count.unwrap_or(0);
        let there = list.items.len() + usize::try_from(rest).unwrap_or(0);
        still = if there == before { still + 1 } else { 0 };
        // Five seconds without any: it says no more.
        if there >= count || still > 25 {
            return Ok(there);
        }
        before = there;
        sleep(PAUSE).await;
    }
}
