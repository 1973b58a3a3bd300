use std::fs;
use std::path::PathBuf;

use gpu_scheduler_engine::model::{Mib, Percent};

use super::*;
use crate::allocate::{Give, Granted};
use crate::config::{Config, Layer};
use crate::fixtures::{card, node, partitioned};
use crate::kubelet::deviceplugin::ContainerAllocateResponse;
use crate::resources::{DeviceId, Hold, ResourceName};

fn config(text: &str) -> Config {
    Layer::parse(text).unwrap().0.settle().unwrap().config
}

fn inventory() -> Inventory {
    node(vec![card(0), card(1), partitioned(2, &["1g.10gb", "1g.10gb"])])
}

fn give(ids: &[&str]) -> Give {
    let granted = |id: &&str| Granted {
        id: DeviceId::parse(id).unwrap(),
        card: "GPU-0".into(),
        memory: Mib(1),
        compute: Percent(0),
    };
    let devices = ids.iter().map(granted).collect();
    Give { to: None, resource: ResourceName::gpu(), hold: Hold::Whole, devices, reports: vec![] }
}

/// A host with some nodes.
fn host() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("dev")).unwrap();
    for name in ["nvidiactl", "nvidia-uvm"] {
        fs::write(root.path().join("dev").join(name), "").unwrap();
    }
    for (at, minor) in [("gi2", 30), ("gi2/ci0", 31)] {
        let folder = root.path().join("proc/driver/nvidia/capabilities/gpu2/mig").join(at);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("access"), format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\n")).unwrap();
    }
    root
}

fn answer(text: &str, ids: &[&str]) -> ContainerAllocateResponse {
    let (config, root) = (config(text), host());
    let nodes = DeviceNodes::find(root.path(), &root.path().join("proc"), &config, &inventory());
    response(&config, &inventory(), &nodes, &give(ids), None)
}

fn list(text: &str) -> String {
    format!("flags: {{plugin: {{deviceListStrategy: {text}}}}}")
}

#[test]
fn the_variable_names_each_device_once() {
    for (text, ids, expected) in [
        ("", &["GPU-1", "GPU-0"][..], "GPU-1,GPU-0"),
        ("", &["GPU-0::0", "GPU-0::3", "GPU-1::0"], "GPU-0,GPU-1"),
        ("", &["MIG-2-1"], "MIG-2-1"),
        ("flags: {plugin: {deviceIDStrategy: index}}", &["GPU-1", "MIG-2-1::0"], "1,2:1"),
    ] {
        let answer = answer(text, ids);
        assert_eq!(answer.envs.get("NVIDIA_VISIBLE_DEVICES").map(String::as_str), Some(expected));
        assert_eq!((answer.mounts.len(), answer.devices.len(), answer.annotations.len()), (0, 0, 0));
    }
}

#[test]
fn mounts_name_devices() {
    let answer = answer(&list("[envvar, volume-mounts]"), &["GPU-1::0", "GPU-0::0"]);
    assert_eq!(answer.envs["NVIDIA_VISIBLE_DEVICES"], "/var/run/nvidia-container-devices");
    let mounts: Vec<_> = answer.mounts.iter().map(|it| (it.host_path.as_str(), it.container_path.as_str())).collect();
    assert_eq!(
        mounts,
        [
            ("/dev/null", "/var/run/nvidia-container-devices/GPU-1"),
            ("/dev/null", "/var/run/nvidia-container-devices/GPU-0"),
        ]
    );
}

#[test]
fn cdi_names_devices() {
    let cri = answer(&list("cdi-cri"), &["GPU-1", "GPU-0"]);
    let names: Vec<_> = cri.cdi_devices.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["k8s.device-plugin.nvidia.com/gpu=GPU-1", "k8s.device-plugin.nvidia.com/gpu=GPU-0"]);
    assert!(cri.envs.is_empty());
    let annotations = answer(&list("cdi-annotations"), &["GPU-1", "GPU-0"]).annotations;
    let (key, value) = annotations.iter().next().expect("one");
    assert!(
        key.starts_with("cdi.k8s.io/nvidia-device-plugin_")
            && key.len() == "cdi.k8s.io/nvidia-device-plugin_".len() + 36
    );
    assert_eq!(value, "k8s.device-plugin.nvidia.com/gpu=GPU-1,k8s.device-plugin.nvidia.com/gpu=GPU-0");
}

#[test]
fn device_nodes_are_handed_over_where_that_is_asked_for() {
    let nodes = |text: &str, ids: &[&str]| -> Vec<String> {
        answer(text, ids).devices.into_iter().map(|it| format!("{} {}", it.host_path, it.permissions)).collect()
    };
    let asked = "flags: {plugin: {passDeviceSpecs: true}}";
    assert_eq!(nodes(asked, &["GPU-1::0", "GPU-1::1"]), ["/dev/nvidiactl rw", "/dev/nvidia-uvm rw", "/dev/nvidia1 rw"]);
    assert_eq!(
        nodes(asked, &["MIG-2-1"])[2..],
        ["/dev/nvidia2 rw", "/dev/nvidia-caps/nvidia-cap30 rw", "/dev/nvidia-caps/nvidia-cap31 rw",]
    );
    let cdi = "flags: {plugin: {passDeviceSpecs: true, deviceListStrategy: cdi-cri}}";
    assert!(nodes(cdi, &["GPU-1"]).is_empty());
}

#[test]
fn extras_are_named() {
    let text = "flags: {gdsEnabled: true, mofedEnabled: true}\nimex: {channelIDs: [0]}";
    let envs = answer(text, &["GPU-0"]).envs;
    assert_eq!(envs["NVIDIA_GDS"], "enabled");
    assert_eq!(envs["NVIDIA_MOFED"], "enabled");
    assert_eq!(envs["NVIDIA_IMEX_CHANNELS"], "0");
    assert!(!envs.contains_key("NVIDIA_GDRCOPY"));
}

#[test]
fn mps_is_reached_by_its_pipes_and_its_memory() {
    let config = Config::defaults();
    let mps = MpsAccess {
        pipes: PathBuf::from("/run/nvidia/mps/nvidia.com/gpu.shared/pipe"),
        shm: PathBuf::from("/run/nvidia/mps/shm"),
        memory: Some("0=8192M".into()),
        threads: Some(30),
    };
    let answer = response(&config, &inventory(), &DeviceNodes::default(), &give(&["GPU-0::1"]), Some(&mps));
    assert_eq!(answer.envs["CUDA_MPS_PIPE_DIRECTORY"], "/run/nvidia/mps/nvidia.com/gpu.shared/pipe");
    assert_eq!(answer.envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"], "0=8192M");
    assert_eq!(answer.envs["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"], "30");
    let mounts: Vec<_> = answer.mounts.iter().map(|it| (it.container_path.as_str(), it.read_only)).collect();
    assert_eq!(mounts, [("/run/nvidia/mps/nvidia.com/gpu.shared/pipe", false), ("/dev/shm", false)]);
}

#[test]
fn the_specification_names_what_answers_name() {
    let (config, root) = (config("flags: {nvidiaDevRoot: /run/driver}"), host());
    fs::create_dir_all(root.path().join("run/driver/dev")).unwrap();
    fs::write(root.path().join("run/driver/dev/nvidiactl"), "").unwrap();
    let nodes = DeviceNodes::find(root.path(), &root.path().join("proc"), &config, &inventory());
    let spec = spec(&config, &inventory(), &nodes);
    assert_eq!(Vec::from_iter(cdi::names(&spec)), ["GPU-0", "GPU-1", "GPU-2", "MIG-2-0", "MIG-2-1"]);
    assert_eq!(spec["containerEdits"]["env"][0], "NVIDIA_VISIBLE_DEVICES=void");
    let control = &spec["containerEdits"]["deviceNodes"];
    assert_eq!(control.to_string(), r#"[{"hostPath":"/run/driver/dev/nvidiactl","path":"/dev/nvidiactl"}]"#);
    let path = write_spec(&root.path().join("cdi"), &spec).unwrap();
    let read: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(read, spec);
}
