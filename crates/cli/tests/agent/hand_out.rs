//! Which devices a container gets: those of the record, in its environment and in kubelet's books.

use std::collections::BTreeSet;

use gpu_scheduler_testbed::control_plane::wait::until;
use gpu_scheduler_testbed::node::RealNodeOptions;
use gpu_scheduler_testbed::objects::PodObject;
use gpu_scheduler_testbed::usage::get;
use k8s_openapi::api::core::v1::Container;
use kube::api::DynamicObject;

use super::bed::{Bed, NODE, share, shipped, visible, whole};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_cards_and_shares() {
    let mut bed = Bed::start("8xA100-80GB-SXM").await;
    bed.offers("nvidia.com/gpu", 8).await;
    bed.offers("nvidia.com/gpu.shared", 8 * 48).await;

    bed.create([whole("first", 1), PodObject::new("none").runs().build()]).await;
    bed.runs("first").await;
    let first = bed.devices("first", "main").await;
    assert_eq!(first.len(), 1);
    bed.runs("none").await;
    let none = bed.node.container("default", "none", "main").await.unwrap();
    assert_eq!(visible(&none), [""; 0], "a container without an allocation sees no card");

    bed.create([share("a", "8Gi"), share("b", "12Gi")]).await;
    bed.runs("a").await;
    bed.runs("b").await;
    let (a, b) = (bed.devices("a", "main").await, bed.devices("b", "main").await);
    assert_eq!((a.len(), &a), (1, &b), "two shares are on one card");
    assert_ne!(a, first);

    // Bound past the scheduler, so without a record: it gets what is free, and that is told.
    let foreign = PodObject::new("foreign").scheduler("default-scheduler").gpus(1).node(NODE).runs().build();
    bed.create([foreign]).await;
    bed.runs("foreign").await;
    let sees = visible(&bed.node.container("default", "foreign", "main").await.unwrap());
    let told = bed.told("foreign", "GPUAllocationUnrecorded").await;
    assert!(told.contains("past the scheduler") && told.contains(&sees[0]), "{told}");
    assert_eq!((sees.len(), &sees), (1, &bed.booked("foreign", "main").await));
    assert!(sees != a && sees != first, "{sees:?}");
    nobody_recorded_it_and_it_is_named(&bed, "foreign", &sees[0]).await;

    for pod in ["first", "a", "b"] {
        bed.delete(pod).await;
    }
    bed.create([whole("all", 8)]).await;
    bed.runs("all").await;
    let all = bed.devices("all", "main").await;
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 8);
    bed.delete("all").await;

    // Churn: who comes for two freed cards gets exactly those.
    let pods = ["p0", "p1", "p2", "p3"];
    bed.create(pods.map(|name| whole(name, 2))).await;
    for pod in pods {
        bed.runs(pod).await;
    }
    let freed: BTreeSet<_> = bed.devices("p1", "main").await.into_iter().collect();
    bed.create([whole("next", 2)]).await;
    bed.delete("p1").await;
    bed.runs("next").await;
    assert_eq!(bed.devices("next", "main").await.into_iter().collect::<BTreeSet<_>>(), freed);
    bed.nothing_is_given_twice("nvidia.com/gpu").await;
    for pod in ["p0", "p2", "p3", "next"] {
        bed.delete(pod).await;
    }

    // A pinned card is the one that the container sees.
    let pin = freed.first().unwrap();
    let pinned = PodObject::new("pinned").gpus(1).annotation("gpu-scheduler/uuid", pin).runs().build();
    bed.create([pinned]).await;
    bed.runs("pinned").await;
    assert_eq!(&bed.devices("pinned", "main").await, std::slice::from_ref(pin));
    bed.delete("pinned").await;

    init_containers(&bed).await;
    bed.check().await;
}

/// A pod without a record and without a process on its card has its labels and is reported, by kubelet's word alone, until it
/// is gone. It is deleted here.
async fn nobody_recorded_it_and_it_is_named(bed: &Bed, pod: &str, uuid: &str) {
    let holds = |state: &DynamicObject| {
        let devices = state.data["status"]["devices"].as_array().unwrap();
        let card = devices.iter().find(|device| device["uuid"] == uuid).unwrap();
        card["holders"].as_array().unwrap().iter().find(|holder| holder["pod"] == pod).cloned()
    };
    let state = until(&bed.states(), NODE, "its card to be reported", |state| holds(state).is_some()).await.unwrap();
    let holder = holds(&state).unwrap();
    assert_eq!((&holder["container"], &holder["usedMiB"]), (&"main".into(), &0.into()));
    assert!(holder.get("grantedMiB").is_none(), "no record grants it: {holder}");
    // What was reported was measured in the same round.
    let address = bed.agent.as_ref().unwrap().address();
    let metrics = get(address, "/metrics").1;
    let card = format!("UUID=\"{uuid}\"");
    let own = format!("container=\"main\",namespace=\"default\",pod=\"{pod}\"");
    let named = metrics.lines().filter(|line| line.starts_with("DCGM_FI_DEV_") && line.contains(&own));
    assert!(named.clone().count() > 1 && named.clone().all(|line| line.contains(&card)), "{metrics}");
    bed.delete(pod).await;
    until(&bed.states(), NODE, "nobody to hold its card", |state| holds(state).is_none()).await.unwrap();
    let metrics = get(address, "/metrics").1;
    assert!(!metrics.contains(&format!("pod=\"{pod}\"")), "its series end: {metrics}");
}

/// App containers get cards out of their init containers' set. Which of them is kubelet's to say: it asks nobody where it
/// uses again what an init container had.
async fn init_containers(bed: &Bed) {
    let mut pod = whole("phases", 1);
    let spec = pod.spec.as_mut().unwrap();
    let with = |name: &str, cards: u32, command: Option<Vec<String>>| {
        let other = PodObject::new("x").gpus(cards).runs().build().spec.unwrap().containers.remove(0);
        Container { name: name.to_owned(), command, ..other }
    };
    spec.init_containers = Some(vec![with("prepare", 3, Some(vec!["true".to_owned()]))]);
    spec.containers.push(with("side", 1, None));
    bed.create([pod]).await;
    bed.runs("phases").await;
    let prepare: BTreeSet<_> = bed.recorded("phases", "prepare").await.into_iter().collect();
    let mut apps = BTreeSet::new();
    for container in ["main", "side"] {
        let sees = visible(&bed.node.container("default", "phases", container).await.unwrap());
        assert_eq!(sees, bed.booked("phases", container).await);
        apps.extend(sees);
    }
    assert!(prepare.len() == 3 && apps.len() == 2 && apps.is_subset(&prepare), "{prepare:?} {apps:?}");
    let sees = visible(&bed.node.container("default", "phases", "prepare").await.unwrap());
    assert_eq!(sees.into_iter().collect::<BTreeSet<_>>(), prepare);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mig_devices() {
    let mut bed = Bed::without_agent(shipped("A100-mixed-mig"), RealNodeOptions::new(NODE)).await;
    bed.start_agent(&["--mig-strategy", "mixed"]).await;
    bed.offers("nvidia.com/gpu", 1).await;
    bed.offers("nvidia.com/mig-1g.5gb", 7).await;
    bed.offers("nvidia.com/mig-2g.10gb", 1).await;
    let slice = |name: &str, profile: &str| {
        PodObject::new(name).limit(&format!("nvidia.com/mig-{profile}"), "1").runs().build()
    };
    bed.create([slice("small", "1g.5gb"), slice("other", "1g.5gb"), slice("large", "2g.10gb"), whole("card", 1)]).await;
    let mut seen = BTreeSet::new();
    for (pod, kind) in [("small", "MIG-"), ("other", "MIG-"), ("large", "MIG-"), ("card", "GPU-")] {
        bed.runs(pod).await;
        let devices = bed.devices(pod, "main").await;
        assert!(devices.len() == 1 && devices[0].starts_with(kind), "{pod}: {devices:?}");
        assert!(seen.insert(devices), "{seen:?}");
    }
    bed.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_shares() {
    let mut bed = Bed::start("8xA100-80GB-SXM").await;
    // The whole of a card between two: bound one after the other, neither refused.
    bed.create([whole("seven", 7), share("third", "24Gi"), share("rest", "56Gi")]).await;
    for pod in ["seven", "third", "rest"] {
        bed.runs(pod).await;
        bed.devices(pod, "main").await;
    }
    for pod in ["seven", "third", "rest"] {
        bed.delete(pod).await;
    }
    let names: Vec<String> = (0..40).map(|n| format!("s{n}")).collect();
    let begun = std::time::Instant::now();
    bed.create(names.iter().enumerate().map(|(n, name)| share(name, ["4Gi", "8Gi", "16Gi"][n % 3]))).await;
    for name in &names {
        bed.runs(name).await;
    }
    println!("40 shares run after {:.1} s", begun.elapsed().as_secs_f64());
    for name in &names {
        bed.devices(name, "main").await;
    }
    bed.check().await;
}
