use gpu_scheduler_engine::model::{ContainerKind, Demand, HostPort, Quantity, RequestError};
use serde_json::json;

use super::*;

fn read(object: serde_json::Value) -> (PodFact, Vec<String>) {
    let object: objects::Pod = serde_json::from_value(object).expect("a pod object");
    let mut findings = Vec::new();
    let fact = read_pod(object, &mut findings);
    (fact, findings.into_iter().map(|f| f.field).collect())
}

fn live(object: serde_json::Value) -> Pod {
    match read(object) {
        (PodFact::Live(pod), findings) => {
            assert_eq!(findings, Vec::<String>::new());
            *pod
        }
        (PodFact::Finished(pod), _) => panic!("{pod:?} is finished"),
    }
}

#[test]
fn defaults_of_a_bare_manifest() {
    let pod = live(json!({"metadata": {"name": "p", "labels": null}, "spec": {"containers": null}, "status": null}));
    let mut expected = Pod::new("default/p", "default", "p");
    expected.scheduler = "default-scheduler".into();
    assert_eq!(pod, expected);
}

#[test]
fn the_whole_spec() {
    let pod = live(json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"a": "b"},
            "creationTimestamp": "1970-01-01T00:00:02Z", "deletionTimestamp": "1970-01-01T00:00:03Z"},
        "spec": {
            "schedulerName": "gpu-scheduler", "priority": 7, "nodeSelector": {"disk": "ssd"},
            "overhead": {"cpu": "10m"}, "schedulingGates": [{"name": "gate"}],
            "initContainers": [
                {"name": "i", "resources": {"requests": {"cpu": 1}}},
                {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": 2}}}],
            "containers": [{"name": "c", "resources": {
                "requests": {"cpu": "500m", "nvidia.com/gpu.shared": 1},
                "limits": {"cpu": "2", "memory": "1Gi", "gpu-scheduler/memory": "8Gi", "nvidia.com/gpu.shared": 1}},
                "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081, "hostIP": "10.0.0.1", "protocol": "UDP"}]}]
        }
    }));
    assert_eq!((&*pod.uid.0, pod.created_at, pod.terminating), ("u", Timestamp(2000), true));
    assert_eq!((pod.scheduler.as_str(), pod.priority), ("gpu-scheduler", 7));
    assert_eq!((pod.labels["a"].as_str(), pod.node_selector["disk"].as_str()), ("b", "ssd"));
    assert_eq!((pod.gates, pod.overhead["cpu"]), (vec!["gate".to_owned()], Quantity::millis(10)));
    let kinds: Vec<_> = pod.containers.iter().map(|c| (c.name.as_str(), c.kind)).collect();
    assert_eq!(kinds, [("i", ContainerKind::Init), ("s", ContainerKind::Sidecar), ("c", ContainerKind::App)]);
    let container = &pod.containers[2];
    let requests: Vec<_> = container.requests.iter().map(|(name, q)| (name.as_str(), q.milli_value())).collect();
    assert_eq!(requests, [("cpu", 500), ("memory", 1_073_741_824_000), ("nvidia.com/gpu.shared", 1000)]);
    assert!(matches!(container.gpu.as_slice(), [Demand::Share { .. }]));
    assert_eq!(container.ports, [HostPort { ip: "10.0.0.1".into(), protocol: "UDP".into(), port: 8081 }]);
    assert_eq!(pod.assignment, None);
}

#[test]
fn gpu_names_stay_requests() {
    let limits = json!({"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": 2});
    let pod = live(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"limits": limits}}]}}));
    let names: Vec<_> = pod.containers[0].requests.keys().map(String::as_str).collect();
    assert_eq!(names, ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]);
}

#[test]
fn host_network_makes_container_ports_host_ports() {
    let (fact, findings) = read(json!({"metadata": {"name": "p"}, "spec": {"hostNetwork": true, "containers": [
        {"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 90}, {"hostPort": 70000}]}]}}));
    let PodFact::Live(pod) = fact else { panic!("it lives") };
    let ports: Vec<_> = pod.containers[0].ports.iter().map(|p| p.port).collect();
    assert_eq!((ports, findings), (vec![80, 90], vec!["spec.containers[0].ports[2].hostPort".to_owned()]));
}

#[test]
fn finished_pods() {
    for (phase, finished) in
        [("Succeeded", true), ("Failed", true), ("Running", false), ("Pending", false), ("Unknown", false)]
    {
        let (fact, _) = read(json!({"metadata": {"name": "p", "uid": "u"}, "status": {"phase": phase}}));
        assert_eq!(matches!(fact, PodFact::Finished(_)), finished, "{phase}");
        assert_eq!(matches!(Event::from(fact), Event::PodDeleted { uid } if uid == "u".into()), finished, "{phase}");
    }
}

#[test]
fn amounts_that_cannot_be_read_keep_a_pod_from_being_placed() {
    let resources = json!({"requests": {"cpu": "lots", "memory": "-1"}, "limits": {"cpu": "2"}});
    let (fact, findings) =
        read(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}]}}));
    let PodFact::Live(pod) = fact else { panic!("it lives") };
    assert_eq!(findings, ["spec.containers[0].resources.requests.cpu", "spec.containers[0].resources.requests.memory"]);
    let Some(RequestError::Value { place, value, .. }) = pod.request_error else { panic!("no error") };
    assert_eq!((place.as_str(), value.as_str()), ("spec.containers[0].resources.requests.cpu", "lots"));
}

#[test]
fn what_kubelet_says_counts_beside_the_spec() {
    let pod = live(json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n",
        "resources": {"requests": {"cpu": 4}},
        "initContainers": [{"name": "c"}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": 1}}}, {"name": "d"}]},
      "status": {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        "allocatedResources": {"cpu": 5}, "resources": {"requests": {"cpu": 6}},
        "containerStatuses": [{"name": "d", "resources": {}}, {"name": "c", "allocatedResources": {"cpu": 2},
            "resources": {"requests": {"cpu": 3}}}]}}));
    let cpu = |list: &Option<_>| list.as_ref().map(|l: &gpu_scheduler_engine::model::ResourceList| l["cpu"].value());
    let of: Vec<_> = pod.containers.iter().map(|c| (cpu(&c.allocated), cpu(&c.actuated))).collect();
    assert_eq!(of, [(None, None), (Some(2), Some(3)), (None, None)]);
    assert_eq!((cpu(&pod.pod_level.allocated), cpu(&pod.pod_level.actuated)), (Some(5), Some(6)));
    assert!(pod.resize_infeasible);
}

#[test]
fn pod_level_limits_stand_in_only_where_nobody_asks() {
    let pod = live(json!({"metadata": {"name": "p"}, "spec": {
        "resources": {"requests": {"hugepages-2Mi": "2Mi"}, "limits": {"cpu": 4, "memory": "1Gi", "hugepages-2Mi": "4Mi"}},
        "containers": [{"resources": {"requests": {"cpu": 1}}}]}}));
    let level: Vec<_> = pod.pod_level.requests.iter().map(|(name, q)| (name.as_str(), q.value())).collect();
    assert_eq!(level, [("hugepages-2Mi", 2 << 20), ("memory", 1 << 30)]);
}

#[test]
fn the_record_of_a_bound_pod() {
    let record = r#"{"v":1,"containers":[{"name":"c","kind":"whole","devices":[{"uuid":"GPU-1","index":0,"memoryMiB":81920,"computePercent":100}]}]}"#;
    let object = |node: &str, record: &str| json!({"metadata": {"name": "p", "annotations": {"gpu-scheduler/allocation": record}}, "spec": {"nodeName": node}});
    let bound = live(object("n", record)).assignment.expect("bound");
    assert_eq!(bound.node, "n");
    assert_eq!(bound.allocation.expect("a record").containers[0].devices[0].uuid, "GPU-1");
    assert_eq!(live(object("", record)).assignment, None);
    for broken in ["", "{", r#"{"v":9}"#] {
        let (fact, findings) = read(object("n", broken));
        let PodFact::Live(pod) = fact else { panic!("it lives") };
        assert_eq!(pod.assignment, Some(Assignment { node: "n".into(), allocation: None }));
        assert_eq!(findings, ["metadata.annotations.gpu-scheduler/allocation"], "{broken}");
    }
}

#[test]
fn the_native_error_comes_first() {
    let limits = json!({"gpu-scheduler/compute": 30, "cpu": "x"});
    let (fact, _) =
        read(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"limits": limits}}]}}));
    let PodFact::Live(pod) = fact else { panic!("it lives") };
    assert!(matches!(pod.request_error, Some(RequestError::MemoryMissing { .. })));
}
