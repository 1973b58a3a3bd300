//! Volumes on their way: what is written, in which order, and when a bind follows.

use super::*;

fn class(provisioner: &str) -> Input {
    let class = json!({"metadata": {"name": "c"}, "provisioner": provisioner,
                       "volumeBindingMode": "WaitForFirstConsumer"});
    Input::Around(Around::StorageClasses(Change::Applied(seen(class))))
}

/// A claim; `more` is merged into annotations, and it has this volume.
fn claim(version: &str, annotations: Value, volume: &str) -> Input {
    let claim = json!({"metadata": {"name": "data", "namespace": "d", "uid": "u1", "resourceVersion": version,
                                    "annotations": annotations},
                       "spec": {"storageClassName": "c", "volumeName": volume,
                                "resources": {"requests": {"storage": "1Gi"}}}});
    Input::Around(Around::Claims(Change::Applied(seen(claim))))
}

fn unbound(version: &str) -> Input {
    claim(version, json!({}), "")
}

fn volume(version: &str, claim: Value, nodes: Value) -> Input {
    let volume = json!({"metadata": {"name": "v", "resourceVersion": version},
                        "spec": {"storageClassName": "c", "capacity": {"storage": "5Gi"}, "claimRef": claim,
                                 "nodeAffinity": nodes, "csi": {"driver": "x", "volumeHandle": "h"}},
                        "status": {"phase": "Available"}});
    Input::Around(Around::Volumes(Change::Applied(seen(volume))))
}

fn ours() -> Value {
    json!({"namespace": "d", "name": "data", "uid": "u1"})
}

fn using_data(name: &str) -> Seen<objects::Pod> {
    let mut pod = pod_json(name, "8Gi");
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    seen(pod)
}

/// A pod whose claim gets a volume that is there (static) or made for it.
fn bed(statically: bool) -> Bed {
    let mut bed = Bed::new(vec![node("n1", 1)], Vec::new());
    bed.take(class(if statically { "kubernetes.io/no-provisioner" } else { "x" }));
    bed.take(unbound("5"));
    if statically {
        bed.take(volume("7", Value::Null, Value::Null));
    }
    bed.apply(using_data("a"));
    bed
}

impl Bed {
    /// Its one effect, a write that binds a volume.
    fn write(&mut self) -> VolumeWrite {
        match self.effects().as_slice() {
            [Effect::WriteVolume(write)] => write.clone(),
            other => panic!("expected one write, got {other:?}"),
        }
    }
    fn written(&mut self, write: &VolumeWrite, answer: VolumeAnswer) {
        self.take(Input::VolumeAnswered { ticket: write.ticket, index: write.index, answer });
    }
    fn found(&mut self, write: &VolumeWrite, answer: VolumeRead) {
        self.take(Input::VolumeReadBack { ticket: write.ticket, index: write.index, answer });
    }
    /// Why the pod says that it failed.
    fn failure(&mut self) -> String {
        let said = self.effects().into_iter().find_map(|effect| match effect {
            Effect::Say { condition, .. } => Some(condition.message.to_string()),
            _ => None,
        });
        said.expect("the pod says why")
    }
}

#[test]
fn a_claim_is_written_onto_its_volume_and_the_bind_follows_when_it_is_bound() {
    let mut bed = bed(true);
    let write = bed.write();
    assert_eq!(write.version, "7");
    let Written::Claim { volume: name, claim: of, uid, claim_version, kept } = &write.what else { panic!("{write:?}") };
    assert_eq!(
        (&**name, of.to_string().as_str(), &**uid, claim_version.as_str(), *kept),
        ("v", "d/data", "u1", "5", false)
    );
    bed.written(&write, VolumeAnswer::Done);
    assert_eq!(bed.effects(), [], "the watch does not say it yet");
    bed.take(volume("8", ours(), Value::Null));
    assert_eq!(bed.effects(), [], "the claim is not bound yet");
    bed.take(claim("9", json!({"pv.kubernetes.io/bind-completed": "yes"}), "v"));
    assert_eq!(&*bed.bind().node, "n1");
    assert_eq!(bed.driver.volumes_in_flight(), 0);
}

#[test]
fn a_node_is_written_onto_a_claim_whose_volume_is_to_be_made() {
    let mut bed = bed(false);
    let write = bed.write();
    let Written::Node { node, .. } = &write.what else { panic!("{write:?}") };
    assert_eq!((&**node, write.version.as_str()), ("n1", "5"));
    bed.written(&write, VolumeAnswer::Done);
    let selected = json!({"volume.kubernetes.io/selected-node": "n1"});
    bed.take(claim("6", selected, ""));
    assert_eq!(bed.effects(), []);
    bed.take(volume("8", ours(), Value::Null));
    let bound = json!({"volume.kubernetes.io/selected-node": "n1", "pv.kubernetes.io/bind-completed": "yes"});
    bed.take(claim("9", bound, "v"));
    bed.bind();
}

#[test]
fn a_provisioner_that_gives_up_is_heard() {
    let mut bed = bed(false);
    let write = bed.write();
    bed.written(&write, VolumeAnswer::Done);
    bed.take(claim("6", json!({"volume.kubernetes.io/selected-node": "n1"}), ""));
    assert_eq!(bed.effects(), []);
    bed.take(claim("7", json!({}), ""));
    assert_eq!(bed.failure(), "provisioning failed for PVC \"data\"");
}

#[test]
fn a_reset_claim_reference_and_a_wrong_node_are_failures() {
    let elsewhere = json!({"required": {"nodeSelectorTerms":
        [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z9"]}]}]}});
    for (event, why) in [
        (volume("9", Value::Null, Value::Null), "ClaimRef got reset for pv \"v\""),
        (volume("9", ours(), elsewhere), "pv \"v\" node affinity doesn't match node \"n1\""),
    ] {
        let mut bed = bed(true);
        let write = bed.write();
        bed.written(&write, VolumeAnswer::Done);
        bed.take(volume("8", ours(), Value::Null));
        assert_eq!(bed.effects(), []);
        bed.take(event);
        assert_eq!(bed.failure(), why);
    }
}

#[test]
fn a_lost_reply_is_read_back() {
    let mut bed = bed(true);
    let write = bed.write();
    bed.written(&write, VolumeAnswer::Unknown("no answer".into()));
    assert_eq!(bed.effects(), [Effect::ReadVolume(write.clone())]);
    bed.found(&write, VolumeRead::Unknown("no answer either".into()));
    assert_eq!(bed.effects(), []);
    bed.pass(1_000);
    assert_eq!(bed.effects(), [Effect::ReadVolume(write.clone())]);
    bed.found(&write, VolumeRead::Written);
    bed.take(volume("8", ours(), Value::Null));
    bed.take(claim("9", json!({"pv.kubernetes.io/bind-completed": "yes"}), "v"));
    bed.bind();
}

#[test]
fn what_took_no_effect_is_written_again() {
    let mut bed = bed(true);
    let write = bed.write();
    bed.written(&write, VolumeAnswer::Conflict("modified".into()));
    assert_eq!(bed.effects(), [Effect::ReadVolume(write.clone())]);
    bed.found(&write, VolumeRead::NotWritten);
    // The watch catches up: the next write goes by the newer version.
    bed.take(volume("8", Value::Null, Value::Null));
    bed.pass(1_000);
    let again = bed.write();
    assert_eq!((again.version.as_str(), again.what), ("8", write.what));
}

#[test]
fn a_volume_that_somebody_else_claims_is_lost() {
    let mut bed = bed(true);
    let write = bed.write();
    bed.written(&write, VolumeAnswer::Conflict("modified".into()));
    bed.effects();
    bed.found(&write, VolumeRead::Other("the volume is claimed by d/other".into()));
    assert_eq!(bed.failure(), "the volume is claimed by d/other");
}

#[test]
fn claims_that_are_never_bound_end_the_wait() {
    let mut bed = bed(true);
    let write = bed.write();
    bed.written(&write, VolumeAnswer::Done);
    bed.take(volume("8", ours(), Value::Null));
    assert_eq!(bed.effects(), []);
    assert_eq!(bed.driver.next_wakeup(), Some(bed.now + gpu_scheduler_engine::model::Millis(600_000)));
    bed.pass(600_000);
    assert_eq!(bed.failure(), "binding volumes: not done within 600 s");
}

#[test]
fn nothing_is_awaited_for_a_pod_that_is_gone() {
    let mut bed = bed(true);
    bed.write();
    bed.take(Input::Pods(Change::Deleted(using_data("a"))));
    assert_eq!(bed.effects(), []);
    assert_eq!(bed.driver.volumes_in_flight(), 0);
}
