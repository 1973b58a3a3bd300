//! Nodes for tests.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::{
    Allocation, ContainerAllocation, DeviceGrant, GrantKind, Mib, Percent, PodUid, Timestamp,
};

use tokio::sync::mpsc;

use crate::inventory::{
    Card, CardIndex, ComputeCapability, GpuUuid, Inventory, Link, LinkPeer, Mig, MigDevice, MigProfile, MigUuid, Minor,
    PciBusId, Placement,
};
use crate::pods::{NodePod, PodContainer};

/// Card `n`: `GPU-<n>`, 80 GiB, of capability 8.0, no MIG, no links; cards from 4 on are on NUMA node 1.
pub fn card(n: u32) -> Card {
    Card {
        index: CardIndex(n),
        uuid: GpuUuid::from(format!("GPU-{n}").as_str()),
        name: "NVIDIA A100-SXM4-80GB".to_owned(),
        minor: Minor(n),
        pci: PciBusId::from(format!("00000000:{n:02x}:00.0").as_str()),
        numa_node: Some(n / 4),
        memory: Mib(81_920),
        capability: ComputeCapability { major: 8, minor: 0 },
        links: Vec::new(),
        mig: Mig::Disabled,
    }
}

/// Card `n`, partitioned into these profiles: `MIG-<n>-<i>`.
pub fn partitioned(n: u32, profiles: &[&str]) -> Card {
    let device = |(i, profile): (u32, &&str)| {
        let gi = profile.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with("c.");
        MigDevice {
            index: i,
            uuid: MigUuid::from(format!("MIG-{n}-{i}").as_str()),
            profile: MigProfile((*profile).into()),
            gpu_instance: i + 1,
            compute_instance: 0,
            placement: Placement { start: i, size: 1 },
            memory: Mib(9_728),
            multiprocessors: 14,
            slices: if gi { (2, 1) } else { (1, 1) },
            engines: [1, 0, 0, 0, 0],
        }
    };
    Card { mig: Mig::Enabled((0..).zip(profiles).map(device).collect()), ..card(n) }
}

/// Direct links between two cards, both ways.
pub fn linked(cards: &mut [Card], a: usize, b: usize, lanes: u32) {
    for (from, to) in [(a, b), (b, a)] {
        let peer = LinkPeer::Card(cards[to].uuid.clone());
        cards[from].links.push(Link { peer, lanes });
    }
}

/// A node of these cards.
pub fn node(cards: Vec<Card>) -> Inventory {
    Inventory { driver_version: "570.86.15".to_owned(), cuda_version: Some((12, 8)), cards }
}

/// A pod in flight, written as `name = container: resource*count>device,device …; …`.
///
/// `a = main: gpu*1>0` wants one card, and its record gives it card 0. `~` before a container makes it an init container. A
/// share is `main: gpu.shared*1>0=8192` (MiB), a MIG device `main: mig-1g.10gb*1>1/0` (card 1, device 0). Without any
/// `>` there is no record.
pub fn pod(text: &str) -> NodePod {
    let (name, containers) = text.split_once(" = ").expect("a name");
    let mut pod = NodePod {
        uid: PodUid::from(format!("uid-{name}").as_str()),
        namespace: "default".to_owned(),
        name: name.to_owned(),
        containers: Vec::new(),
        record: text.contains('>').then(Allocation::default),
        started_at: None,
    };
    for part in containers.split("; ") {
        let (container, wants) = part.split_once(": ").expect("a container");
        let name = container.trim_start_matches('~').to_owned();
        let mut devices = BTreeMap::new();
        for want in wants.split_whitespace() {
            let (resource, grants) = want.split_once('>').unwrap_or((want, ""));
            let (resource, count) = resource.split_once('*').expect("a count");
            devices.insert(format!("nvidia.com/{resource}"), count.parse().expect("a count"));
            if let (Some(record), false) = (&mut pod.record, grants.is_empty()) {
                let grants = grants.split(',').map(grant).collect();
                record.containers.push(ContainerAllocation {
                    name: name.clone(),
                    kind: Some(match resource {
                        "gpu.shared" => GrantKind::Share,
                        _ if resource.starts_with("mig-") => GrantKind::Mig,
                        _ => GrantKind::Whole,
                    }),
                    devices: grants,
                });
            }
        }
        pod.containers.push(PodContainer { name, init: container.starts_with('~'), devices, id: None });
    }
    pod
}

/// Such a pod that kubelet has admitted.
pub fn started(text: &str) -> NodePod {
    NodePod { started_at: Some(Timestamp(1)), ..pod(text) }
}

fn grant(text: &str) -> DeviceGrant {
    let (device, memory) = text.split_once('=').unwrap_or((text, "81920"));
    let (card, mig) = device.split_once('/').map_or((device, None), |(card, mig)| (card, Some(mig)));
    DeviceGrant {
        uuid: format!("GPU-{card}"),
        index: card.parse().expect("a card"),
        memory: Mib(memory.parse().expect("MiB")),
        compute: Percent(0),
        mig: mig.map(|mig| format!("MIG-{card}-{mig}")),
    }
}

/// A client of an API server that answers lists with `list` and objects that are made with themselves, and tells each
/// request: its method, its path and query, and its body. Watches stay silent.
pub fn api(list: &serde_json::Value) -> (kube::Client, mpsc::UnboundedReceiver<(String, String, String)>) {
    use kube::client::Body;
    let (sender, requests) = mpsc::unbounded_channel();
    let list = list.to_string();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (sender, list) = (sender.clone(), list.clone());
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect_bytes().await.expect("a body");
            let (method, path) = (parts.method.to_string(), parts.uri.to_string());
            let body = String::from_utf8_lossy(&bytes).into_owned();
            let answer = if method == "GET" { list } else { body.clone() };
            let watches = path.contains("watch=true");
            let _ = sender.send((method, path, body));
            if watches {
                std::future::pending::<()>().await;
            }
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(answer.into_bytes())))
        }
    });
    (kube::Client::new(service, "default"), requests)
}
