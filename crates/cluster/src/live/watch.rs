//! Watches of the API server as inputs of the driver.

use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch_kind};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::watched::{Kind, Watched};
use crate::driver::{Change, Input};
use crate::metrics::Metrics;

/// Inputs that may wait between the watches and the loop. A full channel holds the watches back.
pub(super) const CHANNEL: usize = 4096;
/// How often to look whether a kind exists that the server does not know.
const ABSENT_AGAIN: Duration = Duration::from_secs(30);

/// Watches a kind until the receiver is gone.
pub(super) async fn watch<T: Kind>(
    client: Client,
    wrap: fn(Change<T>) -> Input,
    inputs: mpsc::Sender<Input>,
    metrics: Metrics,
) {
    loop {
        let mut events = Box::pin(events::<T>(client.clone()));
        let absent = loop {
            let change = match events.next().await {
                Some(Ok(event)) => change_of(event),
                // Of what every server knows, "not found" is an error on the way: nothing is gone because of it.
                Some(Err(error)) if T::OPTIONAL && is_absent(&error) => break true,
                Some(Err(error)) => {
                    metrics.watch_restarted(T::NAME);
                    warn!(resource = T::NAME.as_str(), %error, "a watch was interrupted and goes on");
                    continue;
                }
                None => break false,
            };
            if inputs.send(wrap(change)).await.is_err() {
                return;
            }
        };
        if absent {
            info!(resource = T::NAME.as_str(), group = T::GROUP, "the server does not know this kind (yet)");
            if inputs.send(wrap(Change::Absent)).await.is_err() {
                return;
            }
        }
        drop(events);
        tokio::select! {
            () = tokio::time::sleep(ABSENT_AGAIN) => {}
            () = inputs.closed() => return,
        }
    }
}

fn events<T: Kind>(client: Client) -> impl Stream<Item = watcher::Result<Event<Watched<T>>>> {
    let config = match T::FIELDS {
        Some(fields) => watcher::Config::default().fields(fields),
        None => watcher::Config::default(),
    };
    watch_kind(Api::<Watched<T>>::all(client), config).default_backoff()
}

fn change_of<T: Kind>(event: Event<Watched<T>>) -> Change<T> {
    match event {
        Event::Init => Change::Restarted,
        Event::InitApply(object) => Change::Listed(object.seen),
        Event::InitDone => Change::Synced,
        Event::Apply(object) => Change::Applied(object.seen),
        Event::Delete(object) => Change::Deleted(object.seen),
    }
}

fn is_absent(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error)) = error else {
        return false;
    };
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
