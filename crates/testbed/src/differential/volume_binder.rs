//! Plays Kubernetes' binder of volumes and a provisioner: it finishes what a scheduler has decided, and decides nothing.

use futures::{StreamExt, stream::select};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::task::JoinHandle;

use super::generate::{DRIVER, HOSTNAME};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A running binder; it ends when this is dropped.
pub(super) struct VolumeBinder(JoinHandle<()>);

impl VolumeBinder {
    pub(super) fn start(client: Client) -> Self {
        Self(tokio::spawn(follow(client)))
    }
}

impl Drop for VolumeBinder {
    fn drop(&mut self) {
        self.0.abort();
    }
}

enum Seen {
    Volume(Box<PersistentVolume>),
    Claim(Box<PersistentVolumeClaim>),
}

async fn follow(client: Client) {
    let config = watcher::Config::default;
    let volumes = watcher(Api::<PersistentVolume>::all(client.clone()), config()).default_backoff().applied_objects();
    let claims =
        watcher(Api::<PersistentVolumeClaim>::all(client.clone()), config()).default_backoff().applied_objects();
    let volumes = volumes.map(|volume| volume.map(|volume| Seen::Volume(Box::new(volume))));
    let claims = claims.map(|claim| claim.map(|claim| Seen::Claim(Box::new(claim))));
    let mut seen = Box::pin(select(volumes, claims));
    while let Some(seen) = seen.next().await {
        let done = match seen {
            Ok(Seen::Volume(volume)) => bind(&client, &volume).await,
            Ok(Seen::Claim(claim)) => provision(&client, &claim).await,
            // The watch goes on by itself.
            Err(_) => Ok(()),
        };
        // A pod that never gets its volume says so: its scheduler waits in vain, and the step is silent.
        if let Err(error) = done {
            eprintln!("the binder of volumes: {error}");
        }
    }
}

/// Binds the claim that a volume was given to.
async fn bind(client: &Client, volume: &PersistentVolume) -> Result<(), kube::Error> {
    let Some(of) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else { return Ok(()) };
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), of.namespace.as_deref().unwrap_or_default());
    let name = of.name.as_deref().unwrap_or_default();
    let Some(claim) = claims.get_opt(name).await? else { return Ok(()) };
    if claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_some()) {
        return Ok(());
    }
    let volumes = Api::<PersistentVolume>::all(client.clone());
    let phase = Patch::Merge(json!({"status": {"phase": "Bound"}}));
    volumes.patch_status(&volume.name_any(), &PatchParams::default(), &phase).await?;
    let yes = json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"});
    let bound = json!({"metadata": {"annotations": yes}, "spec": {"volumeName": volume.name_any()}});
    claims.patch(name, &PatchParams::default(), &Patch::Merge(bound)).await?;
    claims.patch_status(name, &PatchParams::default(), &phase).await?;
    Ok(())
}

/// Makes the volume of a claim for which a scheduler has chosen a node.
async fn provision(client: &Client, claim: &PersistentVolumeClaim) -> Result<(), kube::Error> {
    let Some(node) = claim.annotations().get(SELECTED_NODE) else { return Ok(()) };
    let Some(spec) = claim.spec.as_ref().filter(|spec| spec.volume_name.is_none()) else { return Ok(()) };
    let name = format!("made-{}", claim.uid().unwrap_or_default());
    let volumes = Api::<PersistentVolume>::all(client.clone());
    if volumes.get_opt(&name).await?.is_some() {
        return Ok(());
    }
    let on_node = json!({"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [node]}]});
    let volume = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": spec.access_modes, "storageClassName": spec.storage_class_name,
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(),
                "name": claim.name_any(), "uid": claim.uid(),
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [on_node]}},
        },
    }));
    // Seen again as a volume, and bound then.
    volumes.create(&PostParams::default(), &volume.expect("it is a volume")).await.map(drop)
}
