//! The `GPUNodeState` of the node, on the API server.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt};
use serde_json::json;

use super::MANAGER;
use super::document::Status;
use super::other::Others;

/// The object: made if it is not there, its status written only over the one that was last seen.
#[derive(Debug)]
pub(super) struct StateObject {
    api: Api<DynamicObject>,
    nodes: Api<Node>,
    node: String,
    /// The version that was last seen; `None` while nobody knows whether there is an object.
    version: Option<String>,
    others: Others,
}

/// Why the object was not written.
pub(super) enum Refused {
    /// The request failed.
    Failed(kube::Error),
    /// Others wrote between each of our reads and writes.
    Contended,
}

impl From<kube::Error> for Refused {
    fn from(error: kube::Error) -> Self {
        Self::Failed(error)
    }
}

fn resource() -> ApiResource {
    let kind = GroupVersionKind::gvk("gpu-scheduler.io", "v1alpha1", "GPUNodeState");
    ApiResource::from_gvk_with_plural(&kind, "gpunodestates")
}

impl StateObject {
    pub fn new(client: Client, node: &str) -> Self {
        let api = Api::all_with(client.clone(), &resource());
        Self { api, nodes: Api::all(client), node: node.to_owned(), version: None, others: Others::default() }
    }

    /// How many other agents were seen to write it.
    pub fn others(&self) -> usize {
        self.others.count()
    }

    /// Writes the status. The version goes with it, so that another agent's write between two of ours is noticed without a
    /// request more in all other cases.
    pub async fn write(&mut self, status: &Status) -> Result<(), Refused> {
        if self.version.is_none() {
            self.make(status).await?;
        }
        for _ in 0..2 {
            match self.apply_status(status).await {
                Ok(object) => {
                    self.version = object.resource_version();
                    self.others.wrote();
                    return Ok(());
                }
                Err(kube::Error::Api(answer)) if answer.code == 409 => self.look(status).await?,
                Err(error) => {
                    if matches!(&error, kube::Error::Api(answer) if answer.code == 404) {
                        self.version = None; // somebody deleted it
                    }
                    return Err(error.into());
                }
            }
        }
        Err(Refused::Contended)
    }

    /// Makes the object if it is not there. It belongs to the node: whoever deletes the node need not think of it.
    async fn make(&mut self, status: &Status) -> Result<(), kube::Error> {
        let node = self.nodes.get_metadata(&self.node).await?;
        let mut object = self.object();
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": node.metadata.uid}]);
        object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": MANAGER});
        let params = PatchParams::apply(MANAGER).force();
        let object = self.api.patch(&self.node, &params, &Patch::Apply(object)).await?;
        self.seen(&object, status);
        Ok(())
    }

    async fn look(&mut self, status: &Status) -> Result<(), kube::Error> {
        let object = self.api.get(&self.node).await?;
        self.seen(&object, status);
        Ok(())
    }

    async fn apply_status(&self, status: &Status) -> Result<DynamicObject, kube::Error> {
        let mut object = self.object();
        if let Some(version) = &self.version {
            object["metadata"]["resourceVersion"] = json!(version);
        }
        object["status"] = json!(status);
        self.api.patch_status(&self.node, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object)).await
    }

    fn object(&self) -> serde_json::Value {
        json!({"apiVersion": "gpu-scheduler.io/v1alpha1", "kind": "GPUNodeState", "metadata": {"name": self.node}})
    }

    fn seen(&mut self, object: &DynamicObject, ours: &Status) {
        self.version = object.resource_version();
        let agent = &object.data["status"]["agent"];
        let instance = agent["instance"].as_str();
        if self.others.found(&ours.agent.instance, instance) {
            tracing::warn!(
                node = self.node,
                other = instance,
                since = agent["startedAt"].as_str(),
                version = agent["version"].as_str(),
                "another agent reports for this node too, and both write in turn; end one of them: look for a second DaemonSet"
            );
        }
    }
}
