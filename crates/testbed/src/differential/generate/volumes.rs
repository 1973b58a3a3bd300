//! Claims of pods, and the volumes that go with them.

use serde_json::{Value, json};

use super::affinity;
use super::nodes::push;
use super::vocabulary::{AT_ONCE, DRIVER, FIXED, LATE, MADE, ZONE, ZONES};
use crate::differential::feature::Feature;
use crate::draw::Draw;

/// Makes claims, each with a number of its own.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    made: usize,
    /// Claims that one pod at a time may use: they are asked for again. Namespace and name.
    exclusive: Vec<(String, String)>,
    /// Whether a pod may ask for such a claim though another has it. Not those that are on their nodes from the start: of
    /// two there only one could run, and kube-scheduler, which counts a claim's users as one, evicts others in vain.
    pub(super) contended: bool,
    /// What exists before the pods that use it.
    pub(super) objects: Vec<Value>,
}

impl Volumes {
    /// Gives the pod a claim of the kind that the feature says.
    pub(super) fn claim(&mut self, draw: &mut Draw, pod: &mut Value, feature: Feature, nodes: usize) {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        match feature {
            Feature::BoundVolumes => {
                let affinity = affinity::of_volume(draw, nodes);
                self.bound(pod, &namespace, json!({"nodeAffinity": affinity}), json!({}));
            }
            Feature::VolumeZones => {
                let zone = if draw.chance(70) { draw.pick(&ZONES).to_owned() } else { ZONES[..2].join("__") };
                self.bound(pod, &namespace, json!({}), json!({ZONE: zone}));
            }
            Feature::VolumeLimits => {
                for _ in 0..draw.between(1, 2) {
                    let source = json!({"csi": {"driver": DRIVER, "volumeHandle": format!("handle-{}", self.made)}});
                    self.bound(pod, &namespace, source, json!({}));
                }
            }
            Feature::ReadWriteOncePod => self.exclusive(draw, pod, &namespace),
            Feature::BrokenClaims => self.broken(draw, pod, &namespace),
            _ => self.late(draw, pod, &namespace, nodes),
        }
    }

    fn name(&mut self) -> String {
        self.made += 1;
        format!("claim-{:03}", self.made)
    }

    /// A claim that is bound to a volume with these fields and labels.
    fn bound(&mut self, pod: &mut Value, namespace: &str, fields: Value, labels: Value) -> String {
        let name = self.name();
        let mut volume = volume(&name, FIXED, "1Gi", fields);
        volume["metadata"]["labels"] = labels;
        volume["spec"]["claimRef"] = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name,
        });
        volume["status"] = json!({"phase": "Bound"});
        let claim = bound_claim(namespace, &name, &name);
        self.objects.extend([volume, claim]);
        mount(pod, &name);
        name
    }

    fn exclusive(&mut self, draw: &mut Draw, pod: &mut Value, namespace: &str) {
        let again: Vec<&str> =
            self.exclusive.iter().filter(|(of, _)| of == namespace).map(|(_, name)| name.as_str()).collect();
        if self.contended && !again.is_empty() && draw.chance(60) {
            mount(pod, draw.pick(&again));
            return;
        }
        let name = self.bound(pod, namespace, json!({}), json!({}));
        for object in self.objects.iter_mut().rev().take(2) {
            object["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
        }
        self.exclusive.push((namespace.to_owned(), name));
    }

    fn broken(&mut self, draw: &mut Draw, pod: &mut Value, namespace: &str) {
        let name = self.name();
        match draw.below(3) {
            // Nobody has made it.
            0 => {}
            // Somebody else is to bind it, and does not.
            1 => self.objects.push(claim(namespace, &name, AT_ONCE, "1Gi")),
            // Its volume is gone.
            _ => self.objects.push(bound_claim(namespace, &name, "no-such-volume")),
        }
        mount(pod, &name);
    }

    /// Claims that wait for their pod. Sizes differ, so that one volume is the smallest that will do.
    fn late(&mut self, draw: &mut Draw, pod: &mut Value, namespace: &str, nodes: usize) {
        if draw.chance(30) {
            let name = self.name();
            self.objects.push(claim(namespace, &name, MADE, "1Gi"));
            mount(pod, &name);
            return;
        }
        for _ in 0..draw.between(1, 2) {
            let name = self.name();
            for choice in 0..draw.between(0, 4) {
                let affinity = affinity::of_volume(draw, nodes);
                let size = format!("{}Mi", 1000 + 20 * self.objects.len());
                let mut volume = volume(&format!("{name}-{choice}"), LATE, &size, json!({"nodeAffinity": affinity}));
                volume["status"] = json!({"phase": "Available"});
                self.objects.push(volume);
            }
            let size = draw.pick(&["500Mi", "1200Mi"]);
            self.objects.push(claim(namespace, &name, LATE, size));
            mount(pod, &name);
        }
    }
}

fn mount(pod: &mut Value, claim: &str) {
    let volume = json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    push(&mut pod["spec"]["volumes"], volume);
}

fn volume(name: &str, class: &str, size: &str, fields: Value) -> Value {
    let mut spec = json!({
        "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
        "persistentVolumeReclaimPolicy": "Retain",
    });
    if fields["csi"].is_null() {
        spec["hostPath"] = json!({"path": "/data"});
    }
    for (key, value) in fields.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
}

fn claim(namespace: &str, name: &str, class: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": size}},
        },
    })
}

fn bound_claim(namespace: &str, name: &str, volume: &str) -> Value {
    let mut claim = claim(namespace, name, FIXED, "1Gi");
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim["spec"]["volumeName"] = json!(volume);
    claim["status"] = json!({"phase": "Bound"});
    claim
}
