//! The pods of this node, followed.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt as _;
use gpu_scheduler_engine::model::PodUid;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as follow};
use kube::{Api, Client};
use tokio::sync::watch;
use tracing::warn;

use super::NodePod;
use super::object::{BoundAt, ReadPod, SlimPod, read};
use crate::report::{Report, Reports};

/// Follows the pods of `node` that have not ended, in the order in which they were bound, until nobody listens. The first
/// value that is sent is complete; whoever has seen none knows that the pods are not known yet.
pub async fn watch(client: Client, node: &str, pods: watch::Sender<Arc<Vec<NodePod>>>, reports: Reports) {
    let fields = format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed");
    let config = watcher::Config::default().fields(&fields);
    let mut events = Box::pin(follow(Api::<SlimPod>::all(client), config).default_backoff());
    let mut known = Known::default();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = pods.closed() => return,
        };
        match event {
            Some(Ok(event)) => {
                if known.take(event, &reports) {
                    pods.send_replace(Arc::new(known.in_order()));
                }
            }
            Some(Err(error)) => warn!(%error, "the watch of this node's pods was interrupted and goes on"),
            None => return,
        }
    }
}

/// The pods that are known.
#[derive(Debug, Default)]
struct Known {
    pods: BTreeMap<PodUid, ReadPod>,
    /// Those of a list that is not complete yet.
    listing: Option<BTreeMap<PodUid, ReadPod>>,
}

impl Known {
    /// Takes an event in; true if the pods are others now, and complete.
    fn take(&mut self, event: Event<SlimPod>, reports: &Reports) -> bool {
        match event {
            Event::Init => self.listing = Some(BTreeMap::new()),
            Event::InitApply(object) => {
                if let Some(read) = self.read(&object, reports) {
                    self.listing.get_or_insert_default().insert(read.pod.uid.clone(), read);
                }
            }
            Event::InitDone => {
                self.pods = self.listing.take().unwrap_or_default();
                return true;
            }
            Event::Apply(object) => {
                let read = self.read(&object, reports);
                let before =
                    kube::ResourceExt::uid(&object).and_then(|uid| self.pods.remove(&PodUid::from(uid.as_str())));
                let changed = before != read;
                if let Some(read) = read {
                    self.pods.insert(read.pod.uid.clone(), read);
                }
                return changed;
            }
            Event::Delete(object) => {
                let uid = kube::ResourceExt::uid(&object);
                return uid.is_some_and(|uid| self.pods.remove(&PodUid::from(uid.as_str())).is_some());
            }
        }
        false
    }

    /// Reads a pod, and says once of each that its record cannot be used.
    fn read(&self, object: &SlimPod, reports: &Reports) -> Option<ReadPod> {
        let read = read(object)?;
        let said = self.pods.get(&read.pod.uid).and_then(|before| before.unreadable.as_ref());
        if let Some(error) = read.unreadable.as_ref().filter(|error| said != Some(error)) {
            reports.tell(Report::UnreadableRecord {
                uid: read.pod.uid.clone(),
                namespace: read.pod.namespace.clone(),
                name: read.pod.name.clone(),
                error: error.clone(),
            });
        }
        Some(read)
    }

    fn in_order(&self) -> Vec<NodePod> {
        let mut pods: Vec<(&BoundAt, &NodePod)> = self.pods.values().map(|read| (&read.at, &read.pod)).collect();
        pods.sort_by_key(|(at, _)| *at);
        pods.into_iter().map(|(_, pod)| pod.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, record: Option<&str>, phase: &str) -> SlimPod {
        let annotations = record.map_or(json!({}), |record| json!({"gpu-scheduler/allocation": record}));
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": annotations},
            "status": {"phase": phase},
        }))
        .expect("a pod")
    }

    fn names(known: &Known) -> Vec<String> {
        known.in_order().into_iter().map(|pod| pod.name).collect()
    }

    #[test]
    fn a_list_counts_once_it_is_complete() {
        let (reports, _teller) = Reports::channel();
        let mut known = Known::default();
        assert!(!known.take(Event::Init, &reports));
        assert!(!known.take(Event::InitApply(object("b", None, "Running")), &reports));
        assert!(!known.take(Event::InitApply(object("a", None, "Pending")), &reports));
        assert_eq!(names(&known), [""; 0]);
        assert!(known.take(Event::InitDone, &reports));
        assert_eq!(names(&known), ["a", "b"]);
        // The next list leaves one out: it went unseen.
        known.take(Event::Init, &reports);
        known.take(Event::InitApply(object("b", None, "Running")), &reports);
        assert_eq!(names(&known), ["a", "b"], "until it is complete");
        assert!(known.take(Event::InitDone, &reports));
        assert_eq!(names(&known), ["b"]);
    }

    #[test]
    fn changes_that_matter_are_told() {
        let (reports, _teller) = Reports::channel();
        let mut known = Known::default();
        assert!(known.take(Event::Apply(object("a", None, "Pending")), &reports));
        assert!(!known.take(Event::Apply(object("a", None, "Pending")), &reports), "nothing that is read has changed");
        assert!(known.take(Event::Apply(object("a", None, "Failed")), &reports), "it has ended");
        assert!(!known.take(Event::Delete(object("a", None, "Failed")), &reports));
        known.take(Event::Apply(object("b", None, "Running")), &reports);
        assert!(known.take(Event::Delete(object("b", None, "Running")), &reports));
        assert_eq!(names(&known), [""; 0]);
    }

    #[tokio::test]
    async fn an_unreadable_record_is_told_once() {
        let (reports, mut teller) = Reports::channel();
        let mut known = Known::default();
        for event in [
            Event::Apply(object("a", Some("{"), "Pending")),
            Event::Apply(object("a", Some("{"), "Running")),
            Event::Init,
            Event::InitApply(object("a", Some("{"), "Running")),
            Event::InitDone,
        ] {
            known.take(event, &reports);
        }
        drop(reports);
        assert_eq!(teller.next().await.map(|report| report.reason()), Some("GPUAllocationUnreadable"));
        assert_eq!(teller.next().await, None);
    }

    #[tokio::test]
    async fn the_pods_of_this_node_are_asked_for() {
        let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [
            {"metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1"}}]});
        let (client, mut requests) = crate::fixtures::api::server(&list);
        let (sender, mut pods) = watch::channel(Arc::default());
        let (reports, _teller) = Reports::channel();
        let watching = tokio::spawn(async move { super::watch(client, "n1", sender, reports).await });
        pods.changed().await.unwrap();
        assert_eq!(pods.borrow()[0].name, "a");
        let (_, path, _) = requests.recv().await.unwrap();
        assert!(
            path.contains("fieldSelector=spec.nodeName%3Dn1%2Cstatus.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"),
            "{path}"
        );
        drop(pods);
        watching.await.unwrap();
    }
}
