//! Everything gone, so that the next one begins as the one before did.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use crate::control_plane::ControlPlaneError;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Deletes all pods and events, and waits until they are gone.
pub(super) async fn sweep(client: &Client) -> Result<(), ControlPlaneError> {
    clear(&Api::<Pod>::namespaced(client.clone(), "default"), &DeleteParams::default().grace_period(0)).await?;
    clear(&Api::<Event>::namespaced(client.clone(), "default"), &DeleteParams::default()).await
}

async fn clear<K>(api: &Api<K>, how: &DeleteParams) -> Result<(), ControlPlaneError>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut left = usize::MAX;
    loop {
        let there = count(api).await?;
        if there == 0 {
            return Ok(());
        }
        match api.delete_collection(how, &ListParams::default()).await {
            Ok(_) => sleep(PAUSE).await,
            // Of tens of thousands it deletes what it can in a minute, and then closes the connection without an answer:
            // the rest is the next one's.
            Err(_) if there < left => left = there,
            Err(error) => {
                let what = format!("could not delete what the one before left: {there} are still there");
                return Err(ControlPlaneError::request(what)(error));
            }
        }
    }
}

/// How many there are.
async fn count<K>(api: &Api<K>) -> Result<usize, ControlPlaneError>
where
    K: Clone + Debug + DeserializeOwned,
{
    let list = api.list_metadata(&ListParams::default().limit(1)).await;
    let list = list.map_err(ControlPlaneError::request("could not count what is there".to_owned()))?;
    let rest = list.metadata.remaining_item_count.unwrap_or(0);
    Ok(list.items.len() + usize::try_from(rest).unwrap_or(0))
}

/// Waits until there are so many events, or no more come.
pub(super) async fn events(client: &Client, count: usize) -> Result<usize, ControlPlaneError> {
    let api: Api<Event> = Api::namespaced(client.clone(), "default");
    let (mut before, mut still) = (0, 0);
    loop {
        let there = self::count(&api).await?;
        still = if there == before { still + 1 } else { 0 };
        // Five seconds without any: it says no more.
        if there >= count || still > 25 {
            return Ok(there);
        }
        before = there;
        sleep(PAUSE).await;
    }
}
