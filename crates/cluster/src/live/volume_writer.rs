//! The writes that bind volumes, and what is needed to be sure of them.

use gpu_scheduler_engine::model::ClaimName;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::writer::Writer;
use crate::driver::{VolumeAnswer, VolumeRead, VolumeWrite, Written};
use crate::exchange::{Answer, Call, NoAnswer, says_nothing};
use crate::objects;
use crate::storage::{BOUND_BY_CONTROLLER, SELECTED_NODE};

const MERGE: &str = "application/merge-patch+json";

impl Writer {
    /// Writes a claim onto its volume, or a node onto a claim. The version is the precondition.
    pub async fn write_volume(&self, order: &VolumeWrite) -> VolumeAnswer {
        let mut patch = match &order.what {
            Written::Claim { claim, uid, claim_version, kept, .. } => {
                let mut patch = json!({"metadata": {}, "spec": {"claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": &*claim.namespace,
                    "name": &*claim.name,
                    "uid": &**uid,
                    "resourceVersion": claim_version,
                }}});
                if !kept {
                    patch["metadata"]["annotations"] = json!({ (BOUND_BY_CONTROLLER): "yes" });
                }
                patch
            }
            Written::Node { node, .. } => json!({"metadata": {"annotations": { (SELECTED_NODE): &**node }}}),
        };
        patch["metadata"]["resourceVersion"] = order.version.as_str().into();
        let call = Call { method: Method::PATCH, path: path(&order.what), content: MERGE, body: patch };
        match self.send(&call).await {
            Ok(answer) if answer.code.is_success() => VolumeAnswer::Done,
            Ok(answer) if answer.code == StatusCode::CONFLICT => VolumeAnswer::Conflict(answer.why()),
            Ok(answer) if says_nothing(answer.code) => VolumeAnswer::Unknown(answer.why()),
            Ok(answer) => VolumeAnswer::Refused(answer.why()),
            Err(NoAnswer::Deposed) => VolumeAnswer::Deposed,
            Err(NoAnswer::Unknown(why)) => VolumeAnswer::Unknown(why),
        }
    }

    /// What the object says now, by a consistent read.
    pub async fn read_volume(&self, order: &VolumeWrite) -> VolumeRead {
        let answer = match self.send(&Call::get(path(&order.what))).await {
            Ok(answer) => answer,
            Err(error) => return VolumeRead::Unknown(error.to_string()),
        };
        match (answer.code, &order.what) {
            (StatusCode::NOT_FOUND, _) => VolumeRead::Other(answer.why()),
            (StatusCode::OK, Written::Claim { claim, uid, .. }) => claimed_by(&answer, claim, uid),
            (StatusCode::OK, Written::Node { node, .. }) => selected(&answer, node),
            _ => VolumeRead::Unknown(answer.why()),
        }
    }
}

fn path(what: &Written) -> String {
    match what {
        Written::Claim { volume, .. } => format!("/api/v1/persistentvolumes/{volume}"),
        Written::Node { claim, .. } => {
            format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}", claim.namespace, claim.name)
        }
    }
}

fn read<'a, T: Deserialize<'a>>(answer: &'a Answer) -> Result<T, VolumeRead> {
    serde_json::from_slice(&answer.body).map_err(|error| VolumeRead::Unknown(error.to_string()))
}

fn claimed_by(answer: &Answer, claim: &ClaimName, uid: &str) -> VolumeRead {
    let volume: objects::PersistentVolume = match read(answer) {
        Ok(volume) => volume,
        Err(unknown) => return unknown,
    };
    match volume.spec.claim_ref {
        None => VolumeRead::NotWritten,
        Some(r) if *r.namespace != *claim.namespace || *r.name != *claim.name => {
            VolumeRead::Other(format!("the volume is claimed by {}/{}", r.namespace, r.name))
        }
        Some(r) if r.uid == uid => VolumeRead::Written,
        Some(r) if r.uid.is_empty() => VolumeRead::NotWritten,
        Some(_) => VolumeRead::Other(format!("the volume is claimed by another claim of the name {claim}")),
    }
}

fn selected(answer: &Answer, node: &str) -> VolumeRead {
    let claim: objects::PersistentVolumeClaim = match read(answer) {
        Ok(claim) => claim,
        Err(unknown) => return unknown,
    };
    match claim.metadata.annotations.get(SELECTED_NODE) {
        None => VolumeRead::NotWritten,
        Some(there) if there == node => VolumeRead::Written,
        Some(there) => VolumeRead::Other(format!("the claim's volume is made for node {there}")),
    }
}
