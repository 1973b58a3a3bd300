//! Objects as they are written, to and from an API server.

use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use kube::Client;
use serde_json::{Value, json};

use crate::control_plane::ControlPlaneError;

/// Requests under way at once.
const AT_ONCE: usize = 16;

/// Kind, plural, and whether it lies in a namespace.
const KINDS: [(&str, &str, bool); 11] = [
    ("Pod", "pods", true),
    ("PersistentVolumeClaim", "persistentvolumeclaims", true),
    ("Service", "services", true),
    ("PodDisruptionBudget", "poddisruptionbudgets", true),
    ("PersistentVolume", "persistentvolumes", false),
    ("Node", "nodes", false),
    ("CSINode", "csinodes", false),
    ("StorageClass", "storageclasses", false),
    ("PriorityClass", "priorityclasses", false),
    ("RuntimeClass", "runtimeclasses", false),
    ("Namespace", "namespaces", false),
];

/// A client of objects.
#[derive(Clone)]
pub(super) struct Rest(Client);

impl Rest {
    pub(super) fn new(client: Client) -> Self {
        Self(client)
    }

    /// Creates an object; the status that is stated becomes its status.
    pub(super) async fn create(&self, object: &Value) -> Result<Value, ControlPlaneError> {
        let request = Request::post(collection(object)).header("content-type", "application/json");
        let created = self.send("create", object, request, object).await?;
        // A node keeps it at its creation.
        if object["status"].is_null() || object["kind"] == "Node" {
            return Ok(created);
        }
        self.patch(object, "status", &json!({"status": object["status"]})).await
    }

    /// An object as it is now.
    pub(super) async fn get(&self, object: &Value) -> Result<Option<Value>, ControlPlaneError> {
        match self.send("get", object, Request::get(path(object)), &Value::Null).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates objects, several at a time.
    pub(super) async fn create_all(&self, objects: &[Value]) -> Result<(), ControlPlaneError> {
        stream::iter(objects)
            .map(|object| async { self.create(object).await.map(drop) })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await
    }

    /// Changes an object, or a part of it such as `status`.
    pub(super) async fn patch(&self, object: &Value, part: &str, patch: &Value) -> Result<Value, ControlPlaneError> {
        let path = format!("{}/{part}", path(object));
        let request = Request::patch(path.trim_end_matches('/')).header("content-type", "application/merge-patch+json");
        self.send("change", object, request, patch).await
    }

    /// Deletes an object; at once, or as its owner says. One that is gone already is fine.
    pub(super) async fn delete(&self, object: &Value, at_once: bool) -> Result<(), ControlPlaneError> {
        let request = Request::delete(path(object)).header("content-type", "application/json");
        let options = if at_once { json!({"gracePeriodSeconds": 0}) } else { json!({}) };
        match self.send("delete", object, request, &options).await {
            Err(error) if is_missing(&error) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Deletes all objects of the kinds of `objects`, and all pods, in these namespaces.
    pub(super) async fn clear(&self, objects: &[Value], namespaces: &[&str]) -> Result<(), ControlPlaneError> {
        let mut collections: Vec<String> =
            namespaces.iter().map(|namespace| format!("/api/v1/namespaces/{namespace}/pods")).collect();
        for object in objects {
            for namespace in namespaces {
                let mut object = object.clone();
                object["metadata"]["namespace"] = json!(namespace);
                collections.push(collection(&object));
            }
        }
        // Pods first: they come first.
        let mut seen = std::collections::BTreeSet::new();
        collections.retain(|path| seen.insert(path.clone()));
        let options = json!({"gracePeriodSeconds": 0}).to_string().into_bytes();
        for path in collections {
            let what = format!("could not clear {path}");
            let request = Request::delete(path).header("content-type", "application/json");
            let request = request.body(options.clone()).expect("our paths are well formed");
            self.0.request::<Value>(request).await.map_err(ControlPlaneError::request(what))?;
        }
        Ok(())
    }

    async fn send(
        &self,
        verb: &str,
        object: &Value,
        request: http::request::Builder,
        body: &Value,
    ) -> Result<Value, ControlPlaneError> {
        let what = || format!("could not {verb} {} of this object:\n{object:#}", path(object));
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = request.body(body).expect("our paths are well formed");
        self.0
            .request::<Value>(request)
            .await
            .map_err(|source| ControlPlaneError::Request { what: what(), source: Box::new(source) })
    }
}

fn is_missing(error: &ControlPlaneError) -> bool {
    let ControlPlaneError::Request { source, .. } = error else { return false };
    matches!(&**source, kube::Error::Api(status) if status.code == 404)
}

fn collection(object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default();
    let found = KINDS.iter().find(|(name, _, _)| *name == kind);
    let (_, plural, namespaced) = found.expect("objects are of the kinds above");
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let root = if version.contains('/') { "/apis" } else { "/api" };
    match object["metadata"]["namespace"].as_str() {
        namespace if *namespaced => format!("{root}/{version}/namespaces/{}/{plural}", namespace.unwrap_or("default")),
        _ => format!("{root}/{version}/{plural}"),
    }
}

fn path(object: &Value) -> String {
    format!("{}/{}", collection(object), object["metadata"]["name"].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_paths() {
        for (object, expected) in [
            (json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}), "/api/v1/nodes/n"),
            (
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "b"}}),
                "/api/v1/namespaces/b/pods/a",
            ),
            (
                json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}}),
                "/apis/policy/v1/namespaces/default/poddisruptionbudgets/a",
            ),
        ] {
            assert_eq!(path(&object), expected);
        }
    }
}
