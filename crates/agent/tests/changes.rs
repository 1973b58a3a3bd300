//! A node changes while it is watched: cards get lost and come back, calls fail, parts are made, pods come and go.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

mod common;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use common::{TestNode, pod, unhealthy};
use gpu_scheduler_agent::checkpoint::Listed;
use gpu_scheduler_agent::config::Config;
use gpu_scheduler_agent::inventory::{GpuUuid, LinkPeer, Mig, Seen};
use gpu_scheduler_agent::labels::LabelOptions;
use gpu_scheduler_agent::metrics::{HostnameLabel, Metrics, MetricsOptions};
use gpu_scheduler_agent::nvml::{Library, XidEvent, XidInbox, XidWatcher};
use gpu_scheduler_agent::observe::{ObserveOptions, Observer};
use gpu_scheduler_agent::resources::{DeviceId, ResourceName};
use gpu_scheduler_agent::state::{Instance, status};
use gpu_scheduler_engine::model::Mib;
use gpu_scheduler_nvml_mock::describe::{
    Function, GpuInstance, Link, Megabytes, Mig as DescribedMig, NvmlError, Process, ProcessKind, Remote, Xid,
};
use gpu_scheduler_nvml_mock::{Gpu, Node};
use tokio::sync::watch;

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Two cards, one entry each, so that a test can change one of them.
fn two(model: &str) -> Node {
    let gpu = |uuid: &str| Gpu { uuid: Some(uuid.to_owned()), ..Gpu::of(model) };
    Node::with(vec![gpu(FIRST), gpu(SECOND)])
}

const FIRST: &str = "GPU-00000000-0000-0000-0000-000000000000";
const SECOND: &str = "GPU-11111111-1111-1111-1111-111111111111";

fn process(pid: u32, mib: u64, cgroup: Option<&str>) -> Process {
    Process { cgroup: cgroup.map(str::to_owned), ..Process::computing(pid, Megabytes(mib)) }
}

#[test]
fn a_lost_card_costs_itself_and_comes_back() {
    let mut node = TestNode::new(two("A100-SXM4-80GB"));
    let mut looking = node.looking();
    let before = looking.round(&[]);
    assert_eq!((before.samples.len(), unhealthy(&before)), (2, BTreeMap::new()));

    node.change(|node| node.gpus[0].lost = true);
    let lost = looking.round(&[]);
    assert_eq!(unhealthy(&lost), BTreeMap::from([(FIRST.to_owned(), "GPU is lost".to_owned())]));
    assert_eq!(lost.inventory, before.inventory, "it is still what it was");
    assert_eq!(lost.samples.keys().map(GpuUuid::as_str).collect::<Vec<_>>(), [SECOND]);
    let report = status(&lost, &Instance::new(true, None), &LabelOptions::default());
    assert_eq!((report.devices[0].health, report.devices[0].used_memory_mib), ("Unhealthy", None));
    assert_eq!(report.devices[1].health, "Healthy");
    assert_eq!(unhealthy(&looking.round(&[])).len(), 1);

    node.change(|node| node.gpus[0].lost = false);
    let back = looking.round(&[]);
    assert_eq!((back.samples.len(), unhealthy(&back)), (2, BTreeMap::new()));
    assert_eq!(back.failed_calls, BTreeMap::new(), "a lost card is no failed call");
}

#[test]
fn a_call_that_fails_costs_its_value() {
    let mut node = TestNode::new(two("A100-SXM4-80GB"));
    let mut looking = node.looking();
    looking.round(&[]);
    let fails = [
        ("nvmlDeviceGetPowerUsage", NvmlError::Unknown),
        ("nvmlDeviceGetTemperature", NvmlError::NotSupported),
        ("nvmlDeviceGetComputeRunningProcesses_v3", NvmlError::NoPermission),
    ];
    node.change(|node| {
        node.gpus[0].fail = fails.map(|(name, error)| (Function::named(name).unwrap(), error)).into();
        node.gpus[1].processes = vec![process(7, 100, None)];
    });
    let round = looking.round(&[]);
    let [first, second] = [FIRST, SECOND].map(|uuid| &round.samples[&GpuUuid::from(uuid)]);
    assert_eq!((first.power_mw, first.temperature, &first.processes), (None, None, &None));
    assert!(first.memory.is_some() && first.gpu_utilization.is_some(), "the rest is there");
    assert!(second.power_mw.is_some() && second.temperature.is_some());
    assert_eq!(unhealthy(&round), BTreeMap::new());
    assert_eq!(round.usage[&GpuUuid::from(FIRST)].foreign, None, "nobody knows who uses it");
    assert_eq!(round.usage[&GpuUuid::from(SECOND)].foreign, Some(Mib(100)));
    let counts = |looking: &mut common::Looking| looking.round(&[]).failed_calls;
    let failed = counts(&mut looking);
    let expected = [("nvmlDeviceGetComputeRunningProcesses_v3", 2), ("nvmlDeviceGetPowerUsage", 2)];
    assert_eq!(failed, BTreeMap::from(expected), "what is not supported is no failure");
    node.change(|node| node.gpus[0].fail.clear());
    assert!(looking.round(&[]).samples[&GpuUuid::from(FIRST)].power_mw.is_some());
}

#[test]
fn an_old_driver_says_memory_the_old_way() {
    let mut node = two("T4");
    node.fail = BTreeMap::from([(Function::named("nvmlDeviceGetMemoryInfo_v2").unwrap(), NvmlError::FunctionNotFound)]);
    let node = TestNode::new(node);
    let round = node.looking().round(&[]);
    assert_eq!(round.inventory.cards.len(), 2);
    let memory = round.samples[&GpuUuid::from(FIRST)].memory.unwrap();
    assert_eq!((memory.reserved, memory.total), (None, round.inventory.cards[0].memory));
}

#[test]
fn parts_that_are_made_are_seen_in_the_next_round() {
    let mut node = TestNode::new(two("A100-SXM4-80GB"));
    let mut looking = node.looking();
    let parts = |looking: &mut common::Looking| match &looking.round(&[]).inventory.cards[0].mig {
        Mig::Incapable => "incapable".to_owned(),
        Mig::Disabled => "disabled".to_owned(),
        Mig::Enabled(parts) => parts.iter().map(|part| &*part.profile.0).collect::<Vec<_>>().join(" "),
    };
    assert_eq!(parts(&mut looking), "disabled");
    node.change(|node| node.gpus[0].mig = DescribedMig { enabled: true, ..DescribedMig::default() });
    assert_eq!(parts(&mut looking), "");
    node.change(|node| node.gpus[0].mig.instances = vec![GpuInstance::of("3g.40gb"), GpuInstance::of("1g.10gb+me")]);
    assert_eq!(parts(&mut looking), "3g.40gb 1g.10gb+me");
    node.change(|node| node.gpus[0].mig = DescribedMig::default());
    assert_eq!(parts(&mut looking), "disabled");
}

#[test]
fn cards_that_come_and_go_are_seen() {
    let mut node = TestNode::new(two("A10"));
    let mut looking = node.looking();
    assert_eq!(looking.round(&[]).inventory.cards.len(), 2);
    let mut second = None;
    node.change(|node| second = node.gpus.pop());
    assert_eq!(looking.round(&[]).inventory.cards.len(), 1);
    node.change(|node| node.gpus.extend(second));
    assert_eq!(looking.round(&[]).inventory.cards.len(), 2);
}

#[test]
fn lanes_are_grouped_by_card() {
    let mut described = two("A100-SXM4-80GB");
    described.gpus[0].nvlink =
        vec![Link::to(Remote::Index(1), 4), Link { active: false, ..Link::to(Remote::Index(1), 2) }];
    described.gpus[1].nvlink = vec![Link::to(Remote::Gpu(FIRST.to_owned()), 4)];
    let node = TestNode::new(described);
    let inventory = node.looking().round(&[]).inventory;
    let links = |index: usize| inventory.cards[index].links.clone();
    let lanes = |uuid: &str| vec![gpu_scheduler_agent::inventory::Link { peer: LinkPeer::Card(uuid.into()), lanes: 4 }];
    assert_eq!((links(0), links(1)), (lanes(SECOND), lanes(FIRST)));
}

#[test]
fn nvlink_counters_become_rates() {
    let mut described = two("A100-SXM4-80GB");
    described.gpus[0].nvlink = vec![Link::to(Remote::Switch, 2)];
    let mut node = TestNode::new(described);
    let mut looking = node.looking();
    let rate = |looking: &mut common::Looking| looking.round(&[]).samples[&GpuUuid::from(FIRST)].nvlink_mb_per_second;
    assert_eq!(rate(&mut looking), Some(0), "the first look");
    // Two lanes, a million KiB each way, in ten seconds.
    node.change(|node| (node.gpus[0].nvlink[0].rx, node.gpus[0].nvlink[0].tx) = (1_000_000, 1_000_000));
    assert_eq!(rate(&mut looking), Some(400));
}

#[test]
fn who_holds_a_card_follows_its_processes() {
    let mut node = TestNode::new(two("A100-SXM4-80GB"));
    let mut looking = node.looking();
    let pods = [pod("a", ID, FIRST, 8192)];
    let cgroup = format!("/kubepods/burstable/pod11111111-2222-3333-4444-555555555555/{ID}");
    let seen = |looking: &mut common::Looking| {
        let usage = looking.round(&pods).usage[&GpuUuid::from(FIRST)].clone();
        (usage.holders[0].used.unwrap().0, usage.foreign.unwrap().0)
    };
    assert_eq!(seen(&mut looking), (0, 0));
    node.change(|node| {
        let drawing = Process { kind: ProcessKind::Graphics, ..process(101, 300, Some(&cgroup)) };
        let served = Process { kind: ProcessKind::Mps, ..process(103, 50, Some(&cgroup)) };
        let listed = [process(101, 300, Some(&cgroup)), drawing, process(102, 64, Some("/user.slice")), served];
        node.gpus[0].processes = listed.to_vec();
    });
    assert_eq!(seen(&mut looking), (350, 64), "one that both computes and draws counts once");
    // It ends, and the driver has not noticed yet.
    std::fs::remove_dir_all(node.procfs().join("101")).unwrap();
    assert_eq!(seen(&mut looking), (50, 364), "nobody explains it for this round");
    node.change(|node| node.gpus[0].processes.retain(|process| process.pid == 103));
    assert_eq!(seen(&mut looking), (50, 0));
}

#[test]
fn memory_that_the_driver_keeps_is_not_foreign() {
    let mut described = two("A100-SXM4-80GB");
    described.gpus[0].memory.reserved = Some(Megabytes(900));
    let round = TestNode::new(described).looking().round(&[]);
    assert_eq!(round.usage[&GpuUuid::from(FIRST)].foreign, Some(Mib(0)));
    assert_eq!(round.samples[&GpuUuid::from(FIRST)].memory.unwrap().reserved, Some(Mib(900)));
}

#[test]
fn activity_needs_hopper_and_a_second_look() {
    let mut described = two("H100-SXM5-80GB");
    described.gpus[1].model = "A100-SXM4-80GB".to_owned();
    // GPM's numbers 1, 5 and 20: graphics engine and tensor cores in percent, PCIe in MiB a second.
    let counters = BTreeMap::from([(1, 50.0), (5, 12.5), (20, 3.0)]);
    (described.gpus[0].gpm, described.gpus[1].gpm) = (counters.clone(), counters);
    let node = TestNode::new(described);
    let mut looking = node.looking();
    let first = looking.round(&[]);
    assert!(first.samples.values().all(|sample| sample.activity.is_none()));
    let second = looking.round(&[]);
    let activity = second.samples[&GpuUuid::from(FIRST)].activity.unwrap();
    assert_eq!(
        (activity.graphics_engine, activity.tensor, activity.pcie_tx),
        (Some(0.5), Some(0.125), Some(3_145_728.0))
    );
    assert_eq!(second.samples[&GpuUuid::from(SECOND)].activity, None);
    assert_eq!(second.failed_calls, BTreeMap::new());
}

#[tokio::test]
async fn an_xid_arrives_with_its_instance() {
    let mut described = two("A100-SXM4-80GB");
    described.gpus[0].mig =
        DescribedMig { enabled: true, instances: vec![GpuInstance::of("1g.10gb")], ..DescribedMig::default() };
    let mut node = TestNode::new(described);
    let library = Library::open(&node.options().nvml_path).unwrap();
    let mut inbox = XidInbox::new();
    let arrived = inbox.arrived();
    let watcher = XidWatcher::start(&library, [FIRST, SECOND].map(GpuUuid::from), inbox.sink());
    assert_eq!(watcher.cards().len(), 2);
    node.change(|node| {
        node.gpus[0].xids = vec![Xid { id: 1, xid: 94, gpu_instance: Some(7), compute_instance: Some(0) }];
    });
    arrived.notified().await;
    let card = Some(GpuUuid::from(FIRST));
    let expected = XidEvent { card, xid: 94, gpu_instance: Some(7), compute_instance: Some(0) };
    assert_eq!(inbox.take(), Some(expected));
    node.change(|node| node.gpus[1].xids = vec![Xid { id: 1, xid: 79, gpu_instance: None, compute_instance: None }]);
    arrived.notified().await;
    let expected = XidEvent { card: Some(GpuUuid::from(SECOND)), xid: 79, gpu_instance: None, compute_instance: None };
    assert_eq!((inbox.take(), inbox.take()), (Some(expected), None));
}

#[tokio::test]
async fn an_xid_marks_the_card_until_it_was_reset() {
    let mut described = two("A100-SXM4-80GB");
    described.gpus[0].energy = 5000;
    let mut node = TestNode::new(described);
    let mut looking = node.looking();
    let arrived = looking.collector.xid_arrived();
    looking.round(&[]);
    node.change(|node| node.gpus[0].xids.push(Xid { id: 1, xid: 43, gpu_instance: None, compute_instance: None }));
    arrived.notified().await;
    let ignored = looking.round(&[]);
    assert_eq!((unhealthy(&ignored), &ignored.last_xids), (BTreeMap::new(), &BTreeMap::from([(FIRST.into(), 43)])));
    node.change(|node| node.gpus[0].xids.push(Xid { id: 2, xid: 48, gpu_instance: None, compute_instance: None }));
    arrived.notified().await;
    assert_eq!(unhealthy(&looking.round(&[])), BTreeMap::from([(FIRST.to_owned(), "XID 48".to_owned())]));
    node.change(|node| node.gpus[0].energy = 3);
    assert_eq!(unhealthy(&looking.round(&[])), BTreeMap::new());
}

/// An observer of the node that waits so long for the driver, its metrics, and what it tells of the devices.
fn observer(node: &TestNode, patience: Duration) -> (Observer, Metrics, watch::Receiver<Arc<Seen>>) {
    observer_of(node, patience, watch::channel(Arc::default()).1)
}

/// The same, to which kubelet lists this.
fn observer_of(
    node: &TestNode,
    patience: Duration,
    listed: watch::Receiver<Arc<Vec<Listed>>>,
) -> (Observer, Metrics, watch::Receiver<Arc<Seen>>) {
    let metrics = Metrics::new(MetricsOptions { node: "n1".to_owned(), hostname_label: HostnameLabel::Capital });
    let (_, pods) = watch::channel(Arc::default());
    let (_, config) = watch::channel(Arc::new(Config::defaults()));
    let (seen, seeing) = watch::channel(Arc::default());
    let options = ObserveOptions {
        node: "n1".to_owned(),
        collect: node.options(),
        hands_out: true,
        topology_manager: None,
        interval: Duration::from_secs(10),
        patience,
    };
    (Observer::new(options, pods, listed, config, metrics.clone(), seen), metrics, seeing)
}

#[tokio::test]
async fn a_pod_that_kubelet_lists_has_its_labels_until_it_is_listed_no_more() {
    let node = TestNode::new(two("A10"));
    let item = |resource: &str, id: &str| Listed {
        namespace: "team".to_owned(),
        name: "a".to_owned(),
        container: "main".to_owned(),
        resource: ResourceName::nvidia(resource).unwrap(),
        ids: vec![DeviceId::parse(id).unwrap()],
    };
    let (kubelet, listed) = watch::channel(Arc::new(vec![item("gpu", FIRST)]));
    let (observer, metrics, _seeing) = observer_of(&node, Duration::from_secs(60), listed);
    let named = || {
        let text = metrics.render();
        let lines = text.lines().filter(|line| line.contains(r#"container="main",namespace="team",pod="a""#));
        let of = |name: &str| lines.clone().find(|line| line.starts_with(name)).map(str::to_owned);
        (of("DCGM_FI_DEV_FB_USED{"), of("gpu_scheduler_agent_container"))
    };
    let observer = observer.look().await;
    let (line, own) = named();
    assert!(line.unwrap().contains(FIRST));
    assert_eq!(own, None, "what it uses is not known without its pod");
    kubelet.send_replace(Arc::new(vec![item("gpu.shared", &format!("{SECOND}::7"))]));
    let observer = observer.look().await;
    assert!(named().0.unwrap().contains(SECOND));
    kubelet.send_replace(Arc::default());
    let _observer = observer.look().await;
    assert_eq!(named(), (None, None));
    assert!(metrics.render().contains("DCGM_FI_DEV_FB_USED{"));
}

#[tokio::test]
async fn a_driver_that_goes_away_leaves_the_cards_unhealthy() {
    let mut node = TestNode::new(two("A10"));
    let (observer, metrics, mut seeing) = observer(&node, Duration::from_secs(60));
    let desired = observer.desired();
    assert!(desired.borrow().is_none());
    let observer = observer.look().await;
    assert_eq!(seeing.borrow_and_update().inventory.cards.len(), 2);
    assert!(metrics.render().contains("DCGM_FI_DEV_GPU_TEMP{"));
    let count = Function::named("nvmlDeviceGetCount_v2").unwrap();
    node.change(|node| node.fail = BTreeMap::from([(count, NvmlError::DriverNotLoaded)]));
    let observer = observer.look().await;
    assert!(seeing.has_changed().unwrap());
    assert!(seeing.borrow_and_update().health.values().all(|health| format!("{health:?}").contains("lost")));
    let report = desired.borrow().clone().unwrap();
    assert_eq!((report.status.devices.len(), report.status.devices[0].health), (2, "Unhealthy"));
    assert!(report.labels.contains_key("nvidia.com/gpu.product"), "labels stay");
    assert!(!metrics.render().contains("DCGM_FI_DEV_GPU_TEMP{"), "what is unknown is left out");
    assert!(metrics.render().contains("gpu_scheduler_agent_collections_total{result=\"failed\"} 1"));
    node.change(|node| node.fail.clear());
    let observer = observer.look().await;
    assert_eq!(desired.borrow().as_ref().unwrap().status.devices[0].health, "Healthy");
    seeing.borrow_and_update();
    let _observer = observer.look().await;
    assert!(!seeing.has_changed().unwrap(), "nothing changed");
}

#[tokio::test]
async fn a_driver_that_hangs_leaves_the_cards_unhealthy_until_it_answers() {
    let node = TestNode::new(two("A10"));
    let (observer, _metrics, mut seeing) = observer(&node, Duration::from_millis(200));
    let desired = observer.desired();
    let observer = observer.look().await;
    assert!(observer.trouble().is_none());
    // Whoever reads the description waits for somebody who writes it: so does a call of the library.
    let file = node.description();
    let text = std::fs::read(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let observer = observer.look().await;
    let health = seeing.borrow_and_update().health.clone();
    assert!(
        health.len() == 2 && health.values().all(|health| format!("{health:?}").contains("has not answered")),
        "{health:?}"
    );
    assert_eq!(desired.borrow().as_ref().unwrap().status.devices[0].health, "Unhealthy");
    let observer = observer.look().await;
    assert!(observer.trouble().is_some(), "the same call still waits");
    // While this end is open nobody waits to open the other one; who comes after the file was replaced finds that.
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    let aside = file.with_extension("aside");
    std::fs::write(&aside, &text).unwrap();
    std::fs::rename(&aside, &file).unwrap();
    pipe.write_all(&text).unwrap();
    drop(pipe);
    let observer = observer.look().await.look().await;
    assert!(observer.trouble().is_none());
    assert!(seeing.borrow_and_update().health.values().all(|health| format!("{health:?}") == "Healthy"));
}

#[test]
fn placements_come_from_the_card() {
    let node = TestNode::new(two("A100-SXM4-80GB"));
    let library = Library::open(&node.options().nvml_path).unwrap();
    // The profile 3g.40gb has the id 9.
    let placements = library.possible_placements(&FIRST.into(), 9).unwrap();
    assert_eq!(
        placements.iter().map(|placement| (placement.start, placement.size)).collect::<Vec<_>>(),
        [(0, 4), (4, 4)]
    );
}
