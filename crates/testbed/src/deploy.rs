//! The manifests of `deploy/` on a control plane, so that tests run with the rights that users give, not an administrator's.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::{Duration, Instant, sleep};

use crate::control_plane::wait::{PATIENCE, until};
use crate::control_plane::{Access, ControlPlane, ControlPlaneError};
use crate::objects::PodObject;

/// The namespace that they make. The scheduler's lease is in it: outside of a pod, `leaderElection.resourceNamespace`
/// must say so.
pub const NAMESPACE: &str = "gpu-scheduler";
/// The scheduler's service account in it.
pub const ACCOUNT: &str = "gpu-scheduler";
/// The agents' service account, and the namespace that it is in.
pub const AGENT: &str = "gpu-scheduler-agent";
/// The policy that keeps others from writing [`RECORD`], and its binding.
pub const POLICY: &str = "gpu-scheduler-allocation";
/// The policy that refuses requests that make no sense.
pub const REQUESTS_POLICY: &str = "gpu-scheduler-requests";
/// The policy that keeps an agent to its node.
pub const OWN_NODE_POLICY: &str = "gpu-scheduler-agent-own-node";
/// The resource that kubelet counts for a share.
pub const SEATS: &str = "nvidia.com/gpu.shared";
/// The annotation that the policy is about.
pub const RECORD: &str = "gpu-scheduler/allocation";

/// Who owns the applied fields.
const MANAGER: &str = "gpu-scheduler-testbed";
/// Between two looks whether the policy is in force.
const PAUSE: Duration = Duration::from_millis(20);

/// All objects of `deploy/`, in the order in which `kubectl apply -f deploy/` takes them.
///
/// # Errors
///
/// A file cannot be read, or is no YAML of Kubernetes objects.
pub fn manifests() -> Result<Vec<DynamicObject>, ControlPlaneError> {
    manifests_in("deploy")
}

/// All objects of `deploy/agent/`: what comes to a cluster with the node agent.
///
/// # Errors
///
/// As [`manifests`].
pub fn agent_manifests() -> Result<Vec<DynamicObject>, ControlPlaneError> {
    manifests_in("deploy/agent")
}

fn manifests_in(folder: &str) -> Result<Vec<DynamicObject>, ControlPlaneError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let failed = |path: &Path| {
        let what = format!("could not read {}", path.display());
        move |source| ControlPlaneError::System { what, source }
    };
    let entries: io::Result<Vec<_>> = fs::read_dir(&folder).and_then(Iterator::collect);
    let mut paths: Vec<_> = entries.map_err(failed(&folder))?.into_iter().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    let mut objects = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(failed(&path))?;
        let read: Vec<DynamicObject> = serde_saphyr::from_multiple(&text)
            .map_err(|error| failed(&path)(io::Error::new(io::ErrorKind::InvalidData, error.to_string())))?;
        objects.extend(read);
    }
    Ok(objects)
}

/// Applies all of `deploy/` but the Deployment, which is no more than an image that tests do not have, and waits until
/// its kinds are served and its policy is in force. Returns the access of the scheduler's service account.
///
/// # Errors
///
/// The API server refuses an object, or the policy does not come into force.
pub async fn install(cluster: &ControlPlane) -> Result<Access, ControlPlaneError> {
    let mut objects = manifests()?;
    objects.retain(|object| kind_of(object) != "Deployment");
    let client = cluster.client();
    apply(&client, &objects).await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for object in objects.iter().filter(|object| kind_of(object) == "CustomResourceDefinition") {
        let name = object.name_any();
        until(&definitions, &name, &format!("{name} to be served"), is_served).await?;
    }
    until_enforced(client).await?;
    cluster.access_for_service_account(NAMESPACE, ACCOUNT).await
}

/// Applies all of `deploy/agent/` but the DaemonSet, which is no more than an image that tests do not have, and waits until
/// its policies are in force. [`ControlPlane::access_on_node`] gives the access of an agent.
///
/// # Errors
///
/// As [`install_agent_policies`].
pub async fn install_agent(cluster: &ControlPlane) -> Result<(), ControlPlaneError> {
    let mut objects = agent_manifests()?;
    objects.retain(|object| !kind_of(object).contains("AdmissionPolicy") && kind_of(object) != "DaemonSet");
    apply(&cluster.client(), &objects).await?;
    install_agent_policies(cluster).await?;
    // The token is of no node, so what it may write about is none.
    let agent = cluster.access_for_service_account(AGENT, AGENT).await?.client().await?;
    let state = DynamicObject::new("is-the-policy-in-force", &node_state());
    let states = node_states(agent);
    until_answered(&states, &state, &format!("the policy {OWN_NODE_POLICY}"), is_refused_by(OWN_NODE_POLICY)).await
}

/// The reports of agents.
#[must_use]
pub fn node_states(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &node_state())
}

fn node_state() -> ApiResource {
    let kind = GroupVersionKind::gvk("gpu-scheduler.io", "v1alpha1", "GPUNodeState");
    ApiResource::from_gvk_with_plural(&kind, "gpunodestates")
}

/// Applies the policies of `deploy/agent/`, and waits until they are in force.
///
/// # Errors
///
/// The API server refuses one, or they do not come into force.
pub async fn install_agent_policies(cluster: &ControlPlane) -> Result<(), ControlPlaneError> {
    let mut objects = agent_manifests()?;
    objects.retain(|object| kind_of(object).contains("AdmissionPolicy"));
    let client = cluster.client();
    apply(&client, &objects).await?;
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let lonely = PodObject::new("are-the-policies-in-force").limit("gpu-scheduler/gpus", "1").build();
    until_answered(&pods, &lonely, "the policy of requests", is_refused_by(REQUESTS_POLICY)).await?;
    let share = PodObject::new("are-the-policies-in-force").limit("gpu-scheduler/memory", "1Gi").build();
    until_answered(&pods, &share, "the policy of seats", |answer| {
        let limits = |pod: &Pod| pod.spec.as_ref()?.containers[0].resources.as_ref()?.limits.clone();
        answer.as_ref().is_ok_and(|pod| limits(pod).is_some_and(|limits| limits.contains_key(SEATS)))
    })
    .await
}

/// Applies objects, one after the other, by server-side apply.
///
/// # Errors
///
/// The API server does not know a kind, or refuses an object.
pub async fn apply(client: &Client, objects: &[DynamicObject]) -> Result<(), ControlPlaneError> {
    let mut kinds = BTreeMap::new();
    for object in objects {
        let what = || format!("could not apply {} {}", kind_of(object), object.name_any());
        let failed = |source| ControlPlaneError::Request { what: what(), source: Box::new(source) };
        let types = object.types.clone().unwrap_or_default();
        let key = (types.api_version.clone(), types.kind.clone());
        if !kinds.contains_key(&key) {
            let kind = GroupVersionKind::try_from(&types).expect("manifests of ours say GROUP/VERSION");
            kinds.insert(key.clone(), pinned_kind(client, &kind).await.map_err(failed)?);
        }
        let (resource, capabilities) = &kinds[&key];
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), resource),
            Scope::Namespaced => {
                Api::namespaced_with(client.clone(), object.namespace().as_deref().unwrap_or("default"), resource)
            }
        };
        let params = PatchParams::apply(MANAGER).force();
        api.patch(&object.name_any(), &params, &Patch::Apply(object)).await.map_err(failed)?;
    }
    Ok(())
}

fn kind_of(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| &types.kind)
}

fn is_served(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|c| c.type_ == "Established").any(|c| c.status == "True")
}

/// Waits until the API server refuses what the policy refuses. It looks for new policies once a second, and no status
/// says that it has seen one: only a request shows it, and a dry run changes nothing.
async fn until_enforced(client: Client) -> Result<(), ControlPlaneError> {
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let pod = PodObject::new("is-the-policy-in-force").annotation(RECORD, "{}").build();
    until_answered(&pods, &pod, &format!("the policy {POLICY}"), is_refused_by(POLICY)).await
}

/// Whether this policy is why an object was refused.
fn is_refused_by<K>(policy: &str) -> impl Fn(&kube::Result<K>) -> bool {
    move |answer| matches!(answer, Err(kube::Error::Api(status)) if status.message.contains(policy))
}

/// Asks, without creating the object, until the answer is as it is to be.
async fn until_answered<K: Clone + std::fmt::Debug + DeserializeOwned + Serialize>(
    api: &Api<K>,
    object: &K,
    what: &str,
    wanted: impl Fn(&kube::Result<K>) -> bool,
) -> Result<(), ControlPlaneError> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = api.create(&params, object).await;
        if wanted(&answer) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let last = match answer {
                Err(error) => format!("; the last answer was {error}"),
                Ok(_) => "; it was accepted as it is".to_owned(),
            };
            return Err(ControlPlaneError::Waited { what: format!("{what} to be in force"), patience: PATIENCE, last });
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_comes_before_what_is_in_it() {
        let objects = manifests().unwrap();
        assert_eq!((kind_of(&objects[0]), &*objects[0].name_any()), ("Namespace", NAMESPACE));
        for object in &objects {
            assert!(object.namespace().is_none_or(|namespace| namespace == NAMESPACE), "{}", object.name_any());
        }
    }

    #[test]
    fn the_policy_lets_the_account_write() {
        let policy = manifests().unwrap().into_iter().find(|m| m.name_any() == POLICY).unwrap();
        let writers = &policy.data["spec"]["variables"][0];
        assert_eq!(writers["name"], "writers");
        assert_eq!(writers["expression"], format!("['system:serviceaccount:{NAMESPACE}:{ACCOUNT}']"));
    }

    #[test]
    fn the_image_is_built_by_our_compiler() {
        let ours = include_str!("../../../rust-toolchain.toml");
        let channel = ours.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap().trim_matches('"');
        let image = include_str!("../../../deploy/Dockerfile");
        assert!(image.contains(&format!("FROM rust:{channel}-")), "deploy/Dockerfile is not built by {channel}");
    }

    #[test]
    fn the_lines_for_https_fit_together() {
        let text = include_str!("../../../deploy/50-scheduler.yaml").replace("#https ", "");
        let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(&text).unwrap();
        let pod = &objects[0].data["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        for probe in ["readinessProbe", "livenessProbe"] {
            assert_eq!(container[probe]["httpGet"]["scheme"], "HTTPS", "{probe}");
        }
        let of_tls = |list: &serde_json::Value| list.as_array().unwrap().iter().find(|e| e["name"] == "tls").cloned();
        let volume = of_tls(&pod["volumes"]).unwrap();
        assert_eq!(volume["secret"]["secretName"], "gpu-scheduler-tls");
        let folder = of_tls(&container["volumeMounts"]).unwrap()["mountPath"].as_str().unwrap().to_owned();
        let config = include_str!("../../../deploy/40-config.yaml");
        for line in ["tlsCertFile: FOLDER/tls.crt", "tlsPrivateKeyFile: FOLDER/tls.key"] {
            let line = format!("    #https {}\n", line.replace("FOLDER", &folder));
            assert!(config.contains(&line), "{line}");
        }
    }
    #[test]
    fn the_lines_of_the_agent_that_are_left_out_fit_in() {
        let text = include_str!("../../../deploy/agent/40-agent.yaml");
        for (mark, arguments) in [
            ("#mps ", &["--mps-for-shares"][..]),
            ("#mig ", &["--mig-strategy=mixed", "--partition"]),
            ("#numa ", &["--kubelet-config=/host/kubelet-config.yaml"]),
        ] {
            let objects: Vec<DynamicObject> = serde_saphyr::from_multiple(&text.replace(mark, "")).unwrap();
            let pod = &objects[0].data["spec"]["template"]["spec"];
            let container = &pod["containers"][0];
            let list = |value: &serde_json::Value| value.as_array().unwrap().clone();
            for argument in arguments {
                assert!(list(&container["args"]).contains(&(*argument).into()), "{argument}");
            }
            let volumes: Vec<_> = list(&pod["volumes"]).into_iter().map(|volume| volume["name"].clone()).collect();
            let mounts: Vec<_> = list(&container["volumeMounts"]).into_iter().map(|it| it["name"].clone()).collect();
            assert_eq!(mounts, volumes, "{mark}");
        }
        let numa: Vec<DynamicObject> = serde_saphyr::from_multiple(&text.replace("#numa ", "")).unwrap();
        let pod = &numa[0].data["spec"]["template"]["spec"];
        let named = |list: &serde_json::Value| {
            list.as_array().unwrap().iter().find(|it| it["name"] == "kubelet-config").unwrap().clone()
        };
        let mount = named(&pod["containers"][0]["volumeMounts"]);
        assert_eq!((&mount["mountPath"], &mount["readOnly"]), (&"/host/kubelet-config.yaml".into(), &true.into()));
        assert_eq!(named(&pod["volumes"])["hostPath"]["type"], "File");
    }
}
