//! What containers and their pod ask of a node.

use serde_json::{Value, json};

use super::nodes::push;
use super::vocabulary::{IMAGE_NAMES, RUNTIMES, WIDGET};
use crate::draw::Draw;

/// Requests of a container; now and then none, or an explicit zero.
pub(super) fn requests(draw: &mut Draw) -> Value {
    let mut requests = json!({});
    if draw.chance(85) {
        let amounts = ["0", "50m", "100m", "130m", "250m", "500m", "700m", "1", "1500m", "3"];
        requests["cpu"] = json!(draw.pick(&amounts));
    }
    if draw.chance(80) {
        let amounts = ["0", "64Mi", "128Mi", "200Mi", "333M", "512Mi", "1Gi", "2Gi", "1500000k"];
        requests["memory"] = json!(draw.pick(&amounts));
    }
    if draw.chance(15) {
        requests["ephemeral-storage"] = json!(draw.pick(&["100Mi", "3Gi", "10Gi"]));
    }
    json!({"requests": requests})
}

/// Requests that leave room for others.
fn small(draw: &mut Draw) -> Value {
    json!({"requests": {"cpu": draw.pick(&["10m", "50m"]), "memory": draw.pick(&["16Mi", "32Mi"])}})
}

/// [`Feature::ExtendedResources`](crate::differential::Feature::ExtendedResources).
pub(super) fn extended(draw: &mut Draw, pod: &mut Value) {
    let resources = &mut pod["spec"]["containers"][0]["resources"];
    if draw.chance(70) {
        let amount = json!(draw.between(1, 3).to_string());
        resources["requests"][WIDGET] = amount.clone();
        resources["limits"][WIDGET] = amount;
    } else {
        let amount = json!(draw.pick(&["32Mi", "64Mi"]));
        resources["requests"]["hugepages-2Mi"] = amount.clone();
        resources["limits"]["hugepages-2Mi"] = amount;
        // Huge pages are refused without one of these.
        resources["requests"]["cpu"] = json!("10m");
    }
}

/// Init containers that end before the next begins.
pub(super) fn init_containers(draw: &mut Draw, pod: &mut Value) {
    for _ in 0..draw.between(1, 2) {
        let resources = requests(draw);
        add_init(draw, pod, json!({"resources": resources}));
    }
}

/// Init containers that go on beside those that follow.
pub(super) fn sidecars(draw: &mut Draw, pod: &mut Value) {
    for _ in 0..draw.between(1, 2) {
        let resources = if draw.chance(50) { small(draw) } else { requests(draw) };
        add_init(draw, pod, json!({"resources": resources, "restartPolicy": "Always"}));
    }
}

/// Adds an init container before or after those that are there: what it asks for adds up by its place.
fn add_init(draw: &mut Draw, pod: &mut Value, mut container: Value) {
    let list = &mut pod["spec"]["initContainers"];
    let count = list.as_array().map_or(0, Vec::len);
    container["name"] = json!(format!("init-{count}"));
    container["image"] = json!("example.com/init:1");
    push(list, container);
    if let Value::Array(items) = list
        && draw.chance(50)
    {
        items.rotate_right(1);
    }
}

/// A second app container.
pub(super) fn second_container(draw: &mut Draw, pod: &mut Value) {
    let container = json!({"name": "second", "image": "example.com/init:1", "resources": requests(draw)});
    push(&mut pod["spec"]["containers"], container);
}

/// Requests of the pod as a whole. The API server wants them to cover what containers ask for, which is why that
/// becomes little.
pub(super) fn pod_level(draw: &mut Draw, pod: &mut Value) {
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let kept = container["resources"].take();
            // Some ask for nothing at all: what they count as depends on what the pod says. Huge pages want company.
            let bare = kept["requests"]["hugepages-2Mi"].is_null() && draw.chance(30);
            container["resources"] = if bare { json!({}) } else { small(draw) };
            for part in ["requests", "limits"] {
                for name in [WIDGET, "hugepages-2Mi"] {
                    if !kept[part][name].is_null() {
                        container["resources"][part][name] = kept[part][name].clone();
                    }
                }
            }
        }
    }
    let mut requests = json!({});
    if draw.chance(80) {
        requests["cpu"] = json!(draw.pick(&["400m", "1", "2500m"]));
    }
    if requests["cpu"].is_null() || draw.chance(60) {
        requests["memory"] = json!(draw.pick(&["300Mi", "1Gi", "2Gi"]));
    }
    pod["spec"]["resources"] = json!({"requests": requests});
}

/// The status of a pod on its node whose containers were resized, or are about to be: they count by what they are to
/// have, what was set aside for them and what is in force.
pub(super) fn resized(draw: &mut Draw, pod: &Value) -> Value {
    let mut status = json!({});
    for (list, statuses) in [("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            let mut entry = json!({
                "name": container["name"], "image": "", "imageID": "", "ready": true, "restartCount": 0,
            });
            if draw.chance(60) {
                entry["allocatedResources"] = requests(draw)["requests"].clone();
            }
            if draw.chance(60) {
                entry["resources"] = requests(draw);
            }
            push(&mut status[statuses], entry);
        }
    }
    if draw.chance(40) {
        let reason = draw.pick(&["Infeasible", "Deferred"]);
        status["conditions"] = json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
    }
    status
}

/// What the runtime class adds.
pub(super) fn overhead(draw: &mut Draw, pod: &mut Value) {
    pod["spec"]["runtimeClassName"] = json!(draw.pick(&RUNTIMES));
}

/// Host ports in a container of any kind: those of a plain init container count for nothing.
pub(super) fn host_ports(draw: &mut Draw, pod: &mut Value) {
    let host_network = draw.chance(20);
    let mut ports = Vec::new();
    let count = draw.between(1, 2);
    for port in draw.some(&[8080, 8081, 9090], count) {
        let mut entry = json!({"containerPort": port, "hostPort": port, "protocol": draw.pick(&["TCP", "TCP", "UDP"])});
        if !host_network && draw.chance(40) {
            entry["hostIP"] = json!(draw.pick(&["127.0.0.1", "10.0.0.1", "0.0.0.0"]));
        }
        ports.push(entry);
    }
    if host_network {
        pod["spec"]["hostNetwork"] = json!(true);
    }
    let init = pod["spec"]["initContainers"].as_array().map_or(0, Vec::len);
    let container = if init > 0 && draw.chance(40) {
        &mut pod["spec"]["initContainers"][draw.below(init)]
    } else {
        &mut pod["spec"]["containers"][0]
    };
    container["ports"] = ports.into();
}

/// Images that nodes may have.
pub(super) fn images(draw: &mut Draw, pod: &mut Value) {
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            container["image"] = json!(draw.pick(&IMAGE_NAMES));
        }
    }
}
