//! What the API server makes of requests about pods.

use gpu_scheduler_cluster::exchange::Call;
use serde_json::{Map, Value, json};

use super::{ApiServer, is_terminating, node_of, status, uid};
use crate::schedules::clock::{Instant, rfc3339};
use crate::schedules::plan::Kind;

impl ApiServer {
    /// Carries a request out, and answers it.
    pub fn call(&mut self, now: Instant, call: &Call) -> (u16, Value) {
        let path: Vec<&str> = call.path.trim_start_matches('/').split('/').collect();
        match (call.method.as_str(), &path[..]) {
            ("GET", ["api", "v1", "namespaces", _, "pods", pod]) => self.read_pod(pod),
            ("POST", ["api", "v1", "namespaces", _, "pods", pod, "binding"]) => self.bind(pod, &call.body),
            ("PATCH", ["api", "v1", "namespaces", _, "pods", pod, "status"]) => self.patch_status(pod, &call.body),
            ("DELETE", ["api", "v1", "namespaces", _, "pods", pod]) => {
                let wanted = call.body["preconditions"]["uid"].as_str();
                self.delete_under(now, pod, wanted)
            }
            _ => status(404, "the server could not find the requested resource"),
        }
    }

    fn pod(&self, pod: &str) -> Result<&Value, (u16, Value)> {
        let found = self.get(Kind::Pods, pod).map(|object| &object.value);
        found.ok_or_else(|| status(404, &format!("pods {pod:?} not found")))
    }

    fn read_pod(&self, pod: &str) -> (u16, Value) {
        match self.pod(pod) {
            Ok(pod) => (200, json!({"metadata": pod["metadata"], "spec": pod["spec"]})),
            Err(refusal) => refusal,
        }
    }

    fn bind(&mut self, pod: &str, binding: &Value) -> (u16, Value) {
        let found = match self.pod(pod) {
            Ok(found) => found,
            Err(refusal) => return refusal,
        };
        if let Err(refusal) = under_uid(found, binding["metadata"]["uid"].as_str()) {
            return refusal;
        }
        if is_terminating(found) {
            return status(409, &format!("pod {pod} is being deleted, cannot be assigned to a host"));
        }
        if let Some(node) = node_of(found) {
            return status(409, &format!("pod {pod} is already assigned to node {node:?}"));
        }
        let Some(node) = binding["target"]["name"].as_str().filter(|node| !node.is_empty()) else {
            return status(422, "target.name: Required value");
        };
        self.change(Kind::Pods, pod, |value| {
            value["spec"]["nodeName"] = node.into();
            if let Some(annotations) = binding["metadata"]["annotations"].as_object() {
                for (key, text) in annotations {
                    value["metadata"]["annotations"][key] = text.clone();
                }
            }
            merge_condition(value, &json!({"type": "PodScheduled", "status": "True"}));
        });
        (201, json!({"kind": "Status", "status": "Success"}))
    }

    /// A strategic merge: conditions by their type, null takes a field away.
    fn patch_status(&mut self, pod: &str, patch: &Value) -> (u16, Value) {
        let found = match self.pod(pod) {
            Ok(found) => found,
            Err(refusal) => return refusal,
        };
        if let Err(refusal) = under_uid(found, patch["metadata"]["uid"].as_str()) {
            return refusal;
        }
        self.change(Kind::Pods, pod, |value| {
            for condition in patch["status"]["conditions"].as_array().into_iter().flatten() {
                merge_condition(value, condition);
            }
            match patch["status"].get("nominatedNodeName") {
                Some(Value::Null) => drop(value["status"].as_object_mut().map(|s| s.remove("nominatedNodeName"))),
                Some(node) => value["status"]["nominatedNodeName"] = node.clone(),
                None => {}
            }
        });
        (200, json!({}))
    }

    fn delete_under(&mut self, now: Instant, pod: &str, wanted: Option<&str>) -> (u16, Value) {
        let found = match self.pod(pod) {
            Ok(found) => found,
            Err(refusal) => return refusal,
        };
        if let Err(refusal) = under_uid(found, wanted) {
            return refusal;
        }
        delete(self, now, pod);
        (200, json!({}))
    }
}

/// Deletes a pod: at once where no kubelet has to stop it, else it is marked, and goes when its kubelet says so.
pub fn delete(api: &mut ApiServer, now: Instant, pod: &str) {
    let Some(object) = api.get(Kind::Pods, pod) else { return };
    let ended = matches!(object.value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if node_of(&object.value).is_none() || ended {
        return api.remove(Kind::Pods, pod);
    }
    if !is_terminating(&object.value) {
        api.change(Kind::Pods, pod, |value| value["metadata"]["deletionTimestamp"] = rfc3339(now).into());
    }
}

fn under_uid(pod: &Value, wanted: Option<&str>) -> Result<(), (u16, Value)> {
    match wanted {
        Some(wanted) if wanted != uid(pod) => {
            let there = uid(pod);
            Err(status(
                409,
                &format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {there}"),
            ))
        }
        _ => Ok(()),
    }
}

fn merge_condition(pod: &mut Value, condition: &Value) {
    let status = pod["status"].as_object_mut().expect("a pod has a status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    let conditions = conditions.as_array_mut().expect("conditions are a list");
    match conditions.iter_mut().find(|c| c["type"] == condition["type"]) {
        Some(before) => {
            // What a bind says is another condition; a patch leaves alone what it does not name.
            if before["status"] != condition["status"] {
                *before = json!({});
            }
            let (before, condition) = (before.as_object_mut(), condition.as_object());
            let (Some(before), Some(condition)) = (before, condition) else { return };
            merge_fields(before, condition);
        }
        None => conditions.push(condition.clone()),
    }
}

fn merge_fields(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        into.insert(key.clone(), value.clone());
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::schedules::objects;
    use crate::schedules::plan::{Need, PodPlan};

    const NOW: Instant = Instant(0);

    fn api() -> ApiServer {
        let plan = PodPlan {
            name: "a".to_owned(),
            at: 0,
            needs: vec![Need::Cards(1)],
            init: None,
            priority: 0,
            group: None,
            foreign: false,
        };
        let mut api = ApiServer::default();
        api.put(Kind::Pods, "a", objects::pod(&plan, "u", NOW));
        api
    }

    fn call(method: Method, rest: &str, body: Value) -> Call {
        Call { method, path: format!("/api/v1/namespaces/default/pods/{rest}"), content: "application/json", body }
    }

    fn bind(uid: &str, node: &str) -> Call {
        call(Method::POST, "a/binding", json!({"metadata": {"uid": uid}, "target": {"name": node}}))
    }

    #[test]
    fn a_pod_is_bound_once_and_under_its_uid() {
        let mut api = api();
        assert_eq!(api.call(NOW, &bind("v", "n1")).0, 409, "it is another pod");
        assert_eq!(api.call(NOW, &bind("u", "n1")).0, 201);
        assert_eq!(api.call(NOW, &bind("u", "n1")).0, 409, "even to the same node");
        assert_eq!(node_of(&api.get(Kind::Pods, "a").expect("it is there").value), Some("n1"));
        assert_eq!(api.call(NOW, &call(Method::GET, "b", Value::Null)).0, 404);
    }

    #[test]
    fn a_bound_pod_waits_for_its_kubelet_and_another_goes_at_once() {
        let delete = |uid: &str| call(Method::DELETE, "a", json!({"preconditions": {"uid": uid}}));
        let mut fresh = api();
        assert_eq!(fresh.call(NOW, &delete("v")).0, 409);
        assert_eq!((fresh.call(NOW, &delete("u")).0, fresh.list(Kind::Pods).len()), (200, 0));
        let mut running = api();
        running.call(NOW, &bind("u", "n1"));
        running.call(NOW, &delete("u"));
        assert!(is_terminating(&running.get(Kind::Pods, "a").expect("it is there").value));
        let mut going = api();
        going.change(Kind::Pods, "a", |pod| pod["metadata"]["deletionTimestamp"] = "now".into());
        assert_eq!(going.call(NOW, &bind("u", "n1")).0, 409, "it is on its way out");
    }

    #[test]
    fn who_watches_from_before_what_is_remembered_has_to_list() {
        let mut api = api();
        let from = api.version();
        api.call(NOW, &bind("u", "n1"));
        assert_eq!(api.news(Kind::Pods, from, api.version()).map(<[_]>::len), Some(1));
        assert_eq!(api.news(Kind::Pods, from, from).map(<[_]>::len), Some(0), "not there yet");
        api.compact();
        assert!(api.news(Kind::Pods, from, api.version()).is_none());
        assert_eq!(api.news(Kind::Pods, api.version(), api.version()).map(<[_]>::len), Some(0));
    }

    #[test]
    fn a_pod_that_came_to_its_end_leaves_the_selection() {
        let mut api = api();
        let from = api.version();
        api.change(Kind::Pods, "a", |pod| pod["status"]["phase"] = "Succeeded".into());
        api.change(Kind::Pods, "a", |pod| pod["metadata"]["labels"] = json!({"k": "v"}));
        let news = api.news(Kind::Pods, from, api.version()).expect("it is remembered");
        assert_eq!(news.iter().map(|n| n.gone).collect::<Vec<_>>(), [true], "and says so once");
        assert!(api.list(Kind::Pods).is_empty());
    }
}
