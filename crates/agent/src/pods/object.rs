//! A pod as the API server has it, as far as it is read, and what it comes to.

use std::collections::BTreeMap;

use gpu_scheduler_cluster::allocation::{self, ANNOTATION};
use gpu_scheduler_cluster::objects::Quantities;
use gpu_scheduler_cluster::parse_timestamp;
use gpu_scheduler_engine::model::{PodUid, Quantity, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};

use super::{NodePod, PodContainer};

/// Resources that are read begin with this.
const NVIDIA: &str = "nvidia.com/";

/// A pod, as far as it is read.
#[derive(Debug, Clone, Default, Deserialize, Resource)]
#[resource(inherit = Pod)]
#[serde(default)]
pub(super) struct SlimPod {
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(deserialize_with = "nullable")]
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "nullable")]
    containers: Vec<Container>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    name: String,
    restart_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    resources: Resources,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Resources {
    #[serde(deserialize_with = "nullable")]
    limits: Quantities,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    start_time: Option<String>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "nullable")]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "nullable")]
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    last_transition_time: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    #[serde(rename = "containerID")]
    container_id: Option<String>,
}

/// `null` is the type's default.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// When a pod was bound, as well as can be told: by its condition `PodScheduled`, in whole seconds, then by when it was
/// made, then by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BoundAt {
    scheduled: Option<Timestamp>,
    created: Option<Timestamp>,
    namespace: String,
    name: String,
}

/// What an object comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadPod {
    pub at: BoundAt,
    pub pod: NodePod,
    /// What is wrong with its record.
    pub unreadable: Option<String>,
}

/// Reads a pod; `None` if it has ended, or is none.
pub(super) fn read(object: &SlimPod) -> Option<ReadPod> {
    let (metadata, status) = (&object.metadata, &object.status);
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let uid = PodUid::from(metadata.uid.as_deref()?);
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let name = metadata.name.clone().unwrap_or_default();
    let text = metadata.annotations.as_ref().and_then(|annotations| annotations.get(ANNOTATION));
    let (record, unreadable) = match text.map(|text| allocation::parse(text)) {
        None => (None, None),
        Some(Ok(record)) => (Some(record), None),
        Some(Err(error)) => (None, Some(error.to_string())),
    };
    let moment = |text: &Option<String>| text.as_deref().and_then(|text| parse_timestamp(text).ok());
    let scheduled = status.conditions.iter().find(|condition| condition.kind == "PodScheduled");
    let created = metadata.creation_timestamp.as_ref().map(|time| time.0.as_millisecond());
    let at = BoundAt {
        scheduled: scheduled.and_then(|condition| moment(&condition.last_transition_time)),
        created: created.map(|millis| Timestamp(u64::try_from(millis).unwrap_or(0))),
        namespace: namespace.clone(),
        name: name.clone(),
    };
    let pod = NodePod {
        uid,
        namespace,
        name,
        containers: containers(object),
        record,
        started_at: moment(&status.start_time),
    };
    Some(ReadPod { at, pod, unreadable })
}

fn containers(object: &SlimPod) -> Vec<PodContainer> {
    let (spec, status) = (&object.spec, &object.status);
    let init = spec.init_containers.iter().map(|it| (it, &status.init_container_statuses, true));
    let app = spec.containers.iter().map(|it| (it, &status.container_statuses, false));
    init.chain(app)
        .map(|(container, statuses, init)| PodContainer {
            name: container.name.clone(),
            init: init && container.restart_policy.as_deref() != Some("Always"),
            devices: devices(&container.resources.limits),
            id: statuses.iter().find(|status| status.name == container.name).and_then(id),
        })
        .collect()
}

fn devices(limits: &Quantities) -> BTreeMap<String, u32> {
    let nvidia = limits.iter().filter(|(name, _)| name.starts_with(NVIDIA));
    // The API server takes whole numbers only.
    let counted = nvidia.filter_map(|(name, count)| {
        let count = u32::try_from(count.0.parse::<Quantity>().ok()?.value()).ok()?;
        (count > 0).then(|| (name.clone(), count))
    });
    counted.collect()
}

/// `containerd://4f…` is `4f…`.
fn id(status: &ContainerStatus) -> Option<String> {
    let id = status.container_id.as_deref()?;
    let id = id.split_once("://").map_or(id, |(_, id)| id);
    (!id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slim(json: serde_json::Value) -> SlimPod {
        serde_json::from_value(json).expect("a pod")
    }

    #[test]
    fn a_pod_is_read() {
        let record = r#"{"v":1,"containers":[{"name":"main","kind":"whole","devices":[]}]}"#;
        let object = slim(json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "creationTimestamp": "2026-11-29T10:00:00Z",
                "annotations": {"gpu-scheduler/allocation": record}},
            "spec": {
                "nodeName": "n1",
                "initContainers": [
                    {"name": "init", "resources": {"limits": {"nvidia.com/gpu": 2, "cpu": "1"}}},
                    {"name": "side", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": "1"}}},
                ],
                "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "1"}}},
                    {"name": "plain", "resources": null}],
            },
            "status": {"phase": "Pending", "startTime": null,
                "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-29T10:00:05Z"}],
                "containerStatuses": [{"name": "main", "containerID": "containerd://4f"}, {"name": "plain", "containerID": ""}]},
        }));
        let ReadPod { at, pod, unreadable } = read(&object).expect("it lives");
        assert_eq!(unreadable, None);
        assert_eq!((pod.uid.to_string().as_str(), pod.namespace.as_str(), pod.name.as_str()), ("u", "n", "a"));
        assert!(pod.in_flight() && pod.record.is_some());
        let containers: Vec<_> =
            pod.containers.iter().map(|it| (it.name.as_str(), it.init, it.id.as_deref())).collect();
        assert_eq!(
            containers,
            [("init", true, None), ("side", false, None), ("main", false, Some("4f")), ("plain", false, None)]
        );
        let counts: Vec<_> =
            pod.containers.iter().map(|it| it.devices.clone().into_iter().collect::<Vec<_>>()).collect();
        assert_eq!(
            counts,
            [
                vec![("nvidia.com/gpu".to_owned(), 2)],
                vec![("nvidia.com/gpu".to_owned(), 1)],
                vec![("nvidia.com/mig-1g.10gb".to_owned(), 1)],
                vec![],
            ]
        );
        assert_eq!(at.scheduled, Some(Timestamp(1_795_946_405_000)));
        assert_eq!(at.created, Some(Timestamp(1_795_946_400_000)));
    }

    #[test]
    fn what_is_no_pod_of_this_node() {
        for phase in ["Succeeded", "Failed"] {
            assert_eq!(read(&slim(json!({"metadata": {"uid": "u"}, "status": {"phase": phase}}))), None);
        }
        assert_eq!(read(&slim(json!({"metadata": {"name": "a"}}))), None, "without a UID it is nobody");
    }

    #[test]
    fn a_record_that_cannot_be_read_is_none_and_said() {
        let object = slim(json!({"metadata": {"uid": "u", "annotations": {"gpu-scheduler/allocation": "{"}},
            "status": {"startTime": "2026-11-29T10:00:00Z"}}));
        let read = read(&object).expect("it lives");
        assert_eq!(read.pod.record, None);
        assert!(read.unreadable.expect("said").contains("not an allocation record"));
        assert_eq!(read.pod.started_at, Some(Timestamp(1_795_946_400_000)));
    }

    #[test]
    fn pods_stand_in_the_order_in_which_they_were_bound() {
        let bound = |name: &str, scheduled: &str, created: &str| {
            let object = slim(json!({
                "metadata": {"uid": name, "name": name, "creationTimestamp": format!("2026-11-29T10:00:0{created}Z")},
                "status": {"conditions": [{"type": "PodScheduled", "lastTransitionTime": format!("2026-11-29T10:01:0{scheduled}Z")}]},
            }));
            read(&object).expect("it lives").at
        };
        let mut order = [bound("a", "3", "1"), bound("b", "2", "3"), bound("d", "2", "2"), bound("c", "2", "2")];
        order.sort();
        assert_eq!(order.map(|at| at.name), ["c", "d", "b", "a"]);
    }
}
