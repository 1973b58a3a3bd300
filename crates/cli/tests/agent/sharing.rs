//! Cards that several containers have: below a stand-in for MPS, and in turns; and the ways in which a container is told.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use gpu_scheduler_nvml_mock::{Gpu, Node};
use gpu_scheduler_testbed::node::RealNodeOptions;
use gpu_scheduler_testbed::objects::PodObject;
use k8s_openapi::api::core::v1::Pod;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

use super::bed::{Bed, NODE, visible, whole};

/// Stands in for the control daemon: runs until it is told to quit, and answers that it is well.
const MPS: &str = r#"#!/bin/sh
pipe="$CUDA_MPS_PIPE_DIRECTORY/control"
if [ "$1" = -f ]; then
    rm -f "$pipe" && mkfifo "$pipe"
    read -r how < "$pipe"
    rm -f "$pipe"
    exit
fi
read -r command
[ -p "$pipe" ] || exit 1
case "$command" in
    quit) echo quit > "$pipe" ;;
    *) echo 100.0 ;;
esac
"#;

fn two_cards() -> Node {
    Node::with((0..2).map(|_| Gpu::of("A10")).collect())
}

/// Bound past every scheduler.
fn bound(name: &str, cards: u32) -> Pod {
    PodObject::new(name).scheduler("nobody").gpus(cards).node(NODE).runs().build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shares_below_mps_are_told_their_own_limits() {
    let mut bed = Bed::without_agent(two_cards(), RealNodeOptions::new(NODE)).await;
    let (program, root) = (bed.folder.path().join("mps-control"), bed.folder.path().join("mps"));
    fs::write(&program, MPS).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let flags = ["--mps-for-shares", "--mps-control", program.to_str().unwrap()];
    bed.run_agent(&flags, &[("MPS_ROOT", root.to_str().unwrap())]);
    bed.offers("nvidia.com/gpu.shared", 2 * 48).await;
    bed.create([
        PodObject::new("a").share("8Gi", 30).runs().build(),
        PodObject::new("b").share("4Gi", 20).runs().build(),
    ])
    .await;
    let mut cards = BTreeSet::new();
    for (pod, memory, threads) in [("a", "0=8192M", "30"), ("b", "0=4096M", "20")] {
        bed.runs(pod).await;
        cards.extend(bed.devices(pod, "main").await);
        let container = bed.node.container("default", pod, "main").await.unwrap();
        let told = |name: &str| container.env.get(name).map(String::as_str);
        assert_eq!(told("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), Some(memory), "{pod}");
        assert_eq!(told("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), Some(threads), "{pod}");
        let pipes = root.join("nvidia.com/gpu.shared/pipe");
        assert_eq!(told("CUDA_MPS_PIPE_DIRECTORY"), pipes.to_str(), "{pod}");
        let from =
            |to: &str| container.mounts.iter().rev().find(|mount| mount.destination == to).map(|it| it.source.clone());
        assert_eq!(from("/dev/shm").as_deref(), root.join("shm").to_str());
        assert_eq!(from(pipes.to_str().unwrap()).as_deref(), pipes.to_str());
    }
    assert_eq!(cards.len(), 1, "unequal shares of one card");
    // A whole card has nothing to do with it.
    bed.create([whole("whole", 1)]).await;
    bed.runs("whole").await;
    let container = bed.node.container("default", "whole", "main").await.unwrap();
    assert!(!container.env.keys().any(|name| name.starts_with("CUDA_MPS")), "{:?}", container.env);
    assert!(bed.agent.take().unwrap().stop().await);
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_and_other_ways_to_tell() {
    let mut bed = Bed::without_agent(two_cards(), RealNodeOptions::new(NODE)).await;
    // The files of a ConfigMap, of which the node's label names one.
    let files = bed.folder.path().join("config");
    fs::create_dir(&files).unwrap();
    let turns = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n";
    let mounts = "version: v1\nflags: {plugin: {deviceListStrategy: volume-mounts, passDeviceSpecs: true}}\n";
    fs::write(files.join("turns"), turns).unwrap();
    fs::write(files.join("mounts"), mounts).unwrap();
    // Device files of the cards, as the driver makes them.
    let dev = bed.folder.path().join("root/dev");
    fs::create_dir_all(&dev).unwrap();
    for (name, minor) in [("nvidiactl", 255), ("nvidia0", 0), ("nvidia1", 1)] {
        mknodat(CWD, dev.join(name), FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(195, minor))
            .unwrap();
    }
    let root = bed.folder.path().join("root");
    let flags = ["--config-dir", files.to_str().unwrap(), "--default-config", "turns"];
    bed.run_agent(&flags, &[("NVIDIA_DEV_ROOT", root.to_str().unwrap())]);
    bed.offers("nvidia.com/gpu", 8).await;
    let mut names = Vec::new();
    for n in 0..4 {
        let name = format!("t{n}");
        bed.create([bound(&name, 2)]).await;
        bed.runs(&name).await;
        let sees = visible(&bed.node.container("default", &name, "main").await.unwrap());
        assert_eq!(sees.iter().collect::<BTreeSet<_>>().len(), 2, "two turns are on two cards: {sees:?}");
        names.push(name);
    }
    for name in names {
        bed.delete(&name).await;
    }

    bed.label("nvidia.com/device-plugin.config", "mounts").await;
    bed.offers("nvidia.com/gpu", 2).await;
    bed.create([whole("one", 1)]).await;
    bed.runs("one").await;
    let recorded = bed.recorded("one", "main").await;
    let container = bed.node.container("default", "one", "main").await.unwrap();
    assert_eq!(visible(&container), ["/var/run/nvidia-container-devices"]);
    let told: Vec<_> = container
        .mounts
        .iter()
        .filter_map(|it| it.destination.strip_prefix("/var/run/nvidia-container-devices/"))
        .collect();
    assert_eq!(told, recorded);
    let devices: Vec<_> = container.devices.iter().map(|it| (it.path.as_str(), it.major, it.access.as_str())).collect();
    let own = devices.iter().filter(|(path, ..)| path.starts_with("/dev/nvidia") && *path != "/dev/nvidiactl").count();
    assert!(devices.contains(&("/dev/nvidiactl", 195, "rw")) && own == 1 && devices.len() == 2, "{devices:?}");
    bed.check().await;
}
