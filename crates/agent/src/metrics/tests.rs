use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use gpu_scheduler_engine::model::{Mib, PodUid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::collect::NodeFacts;
use crate::fixtures::{card, mig_device};
use crate::host::GpuMode;
use crate::inventory::{Card, DeviceHealth, DeviceUuid, Inventory, Mig};
use crate::nvml::{Activity, Instance, Memory, Sample};
use crate::usage::{CardUse, Holder, KnownBy};

fn holder(pod: &str, gpu_instance: Option<u32>, used: u64) -> Holder {
    Holder {
        pod_uid: Some(PodUid::from(format!("uid-{pod}").as_str())),
        namespace: "team".to_owned(),
        pod: pod.to_owned(),
        container: Some("main".to_owned()),
        gpu_instance,
        granted: Some(Mib(8192)),
        used: Some(Mib(used)),
        by: KnownBy::Kubelet,
    }
}

fn memory(used: u64) -> Memory {
    Memory { total: Mib(81_920), free: Mib(1000), used: Mib(used), reserved: None }
}

fn round(card: Card, sample: Option<Sample>, holders: Vec<Holder>) -> Round {
    let uuid = card.uuid.clone();
    let inventory = Inventory { driver_version: "570.86.15".to_owned(), cuda_version: None, cards: vec![card] };
    Round {
        inventory: Arc::new(inventory),
        facts: Arc::new(NodeFacts { machine: None, mode: GpuMode::Compute, fabric: None, vgpu: false }),
        health: BTreeMap::new(),
        samples: sample.into_iter().map(|sample| (uuid.clone(), sample)).collect(),
        usage: BTreeMap::from([(uuid, CardUse { holders, foreign: Some(Mib(3)), shared: false })]),
        last_xids: BTreeMap::new(),
        failed_calls: BTreeMap::from([("nvmlDeviceGetPowerUsage", 2)]),
        took: Duration::from_millis(2),
    }
}

fn metrics(hostname_label: HostnameLabel) -> Metrics {
    Metrics::new(MetricsOptions { node: "n1".to_owned(), hostname_label })
}

/// The series of these names, as they are written.
fn series(round: Round, names: &[&str]) -> Vec<String> {
    let metrics = metrics(HostnameLabel::Capital);
    metrics.round(&Arc::new(round));
    let text = metrics.render();
    let named =
        |line: &&str| names.iter().any(|name| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
    text.lines().filter(named).map(str::to_owned).collect()
}

const CARD: &str =
    r#"gpu="0",UUID="GPU-0",pci_bus_id="00000000:00:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB""#;
const NODE: &str = r#"Hostname="n1",DCGM_FI_DRIVER_VERSION="570.86.15""#;

#[test]
fn a_card_of_one_container_has_its_pod() {
    let sample =
        Sample { temperature: Some(54), power_mw: Some(62_500), memory: Some(memory(7000)), ..Sample::default() };
    let names = [
        "DCGM_FI_DEV_GPU_TEMP",
        "DCGM_FI_DEV_POWER_USAGE",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_FB_RESERVED",
        "DCGM_FI_DEV_GPU_UTIL",
    ];
    let seen = series(round(card(0), Some(sample), vec![holder("a", None, 7000)]), &names);
    let labels = format!(r#"{CARD},{NODE},container="main",namespace="team",pod="a""#);
    let expected = [
        format!("DCGM_FI_DEV_GPU_TEMP{{{labels}}} 54"),
        format!("DCGM_FI_DEV_POWER_USAGE{{{labels}}} 62.5"),
        format!("DCGM_FI_DEV_FB_USED{{{labels}}} 7000"),
    ];
    assert_eq!(seen, expected, "what is unknown is left out");
}

#[test]
fn a_card_of_several_is_nobodys_and_each_has_its_part() {
    let sample = Sample { temperature: Some(54), ..Sample::default() };
    let holders = vec![holder("a", None, 10), holder("b", None, 20)];
    let names = [
        "DCGM_FI_DEV_GPU_TEMP",
        "gpu_scheduler_agent_container_memory_used_mib",
        "gpu_scheduler_agent_container_memory_granted_mib",
    ];
    let seen = series(round(card(0), Some(sample), holders), &names);
    let of = |pod: &str| format!(r#"{{{CARD},{NODE},container="main",namespace="team",pod="{pod}"}}"#);
    let expected = [
        format!("DCGM_FI_DEV_GPU_TEMP{{{CARD},{NODE}}} 54"),
        format!("gpu_scheduler_agent_container_memory_used_mib{} 10", of("a")),
        format!("gpu_scheduler_agent_container_memory_used_mib{} 20", of("b")),
        format!("gpu_scheduler_agent_container_memory_granted_mib{} 8192", of("a")),
        format!("gpu_scheduler_agent_container_memory_granted_mib{} 8192", of("b")),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_partitioned_card_measures_memory_by_instance() {
    let mut split = card(0);
    split.mig = Mig::Enabled(vec![mig_device(0, 1, 0), mig_device(0, 2, 0)]);
    let active = Activity { graphics_engine: Some(0.25), pcie_tx: Some(10.6), ..Activity::default() };
    let instance = |id, activity| Instance { gpu_instance: id, memory: Some(memory(u64::from(id) * 100)), activity };
    let sample = Sample {
        temperature: Some(40),
        memory: Some(memory(300)),
        instances: vec![instance(1, Some(active)), instance(2, None)],
        ..Sample::default()
    };
    let names =
        ["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PCIE_TX_BYTES"];
    let seen = series(round(split, Some(sample), vec![holder("a", Some(2), 200)]), &names);
    let on = |id: u32| format!(r#"{CARD},GPU_I_PROFILE="1g.10gb",GPU_I_ID="{id}",{NODE}"#);
    let expected = [
        format!("DCGM_FI_DEV_GPU_TEMP{{{CARD},{NODE}}} 40"),
        format!("DCGM_FI_DEV_FB_USED{{{}}} 100", on(1)),
        format!(r#"DCGM_FI_DEV_FB_USED{{{},container="main",namespace="team",pod="a"}} 200"#, on(2)),
        format!("DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{}}} 0.25", on(1)),
        format!("DCGM_FI_PROF_PCIE_TX_BYTES{{{}}} 11", on(1)),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn what_the_agent_says_of_the_node() {
    let mut round = round(card(0), None, Vec::new());
    round.last_xids.insert("GPU-0".into(), 79);
    round.health.insert(DeviceUuid::Gpu("GPU-0".into()), DeviceHealth::Unhealthy { reason: "GPU is lost".to_owned() });
    let names = [
        "DCGM_FI_DEV_XID_ERRORS",
        "DCGM_FI_DEV_FB_USED",
        "gpu_scheduler_agent_foreign_memory_mib",
        "gpu_scheduler_agent_device_healthy",
        "gpu_scheduler_agent_nvml_failures_total",
        "gpu_scheduler_agent_collection_duration_seconds",
    ];
    let expected = [
        "gpu_scheduler_agent_collection_duration_seconds 0.002".to_owned(),
        format!("DCGM_FI_DEV_XID_ERRORS{{{CARD},{NODE}}} 79"),
        format!("gpu_scheduler_agent_foreign_memory_mib{{{CARD},{NODE}}} 3"),
        format!("gpu_scheduler_agent_device_healthy{{{CARD},{NODE}}} 0"),
        r#"gpu_scheduler_agent_nvml_failures_total{call="nvmlDeviceGetPowerUsage"} 2"#.to_owned(),
    ];
    assert_eq!(series(round, &names), expected);
}

#[test]
fn counters_have_the_names_that_dcgm_gives_them() {
    let metrics = metrics(HostnameLabel::Small);
    let sample = Sample { energy_mj: Some(5), ..Sample::default() };
    metrics.round(&Arc::new(round(card(0), Some(sample), Vec::new())));
    let text = metrics.render();
    assert!(text.contains("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter\n"), "{text}");
    let small = NODE.replace("Hostname", "hostname");
    assert!(text.contains(&format!("\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{CARD},{small}}} 5\n")), "{text}");
    metrics.no_round();
    assert!(!metrics.render().contains("DCGM_FI_DEV"), "what is gone ends");
}

#[test]
fn every_metric_is_in_the_document() {
    let document = include_str!("../../../../docs/agent-metrics.md");
    let fields = fields::CARD.iter().map(|field| field.name);
    let fields = fields.chain(fields::MEMORY.iter().map(|field| field.name));
    let fields = fields.chain(fields::ACTIVITY.iter().map(|field| field.name));
    let metrics = metrics(HostnameLabel::Capital);
    metrics.round(&Arc::new(round(card(0), None, vec![holder("a", None, 1)])));
    let text = metrics.render();
    let own = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let missing: Vec<&str> = fields.chain(own).filter(|name| !document.contains(&format!("`{name}"))).collect();
    assert_eq!(missing, [""; 0]);
}

async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn pages() {
    let metrics = metrics(HostnameLabel::Capital);
    let sample = Sample { temperature: Some(54), ..Sample::default() };
    metrics.round(&Arc::new(round(card(0), Some(sample), Vec::new())));
    let readiness = Readiness::default();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let shutdown = async { drop(stopped.await) };
    let (address, task) = serve(listen, metrics, readiness.clone(), None, shutdown).await.unwrap();
    assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 500"));
    readiness.set(true);
    assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
    let page = get(address, "/metrics").await;
    assert!(
        page.contains("content-type: text/plain; version=0.0.4") && page.contains("DCGM_FI_DEV_GPU_TEMP{"),
        "{page}"
    );
    assert!(get(address, "/x").await.starts_with("HTTP/1.1 404"));
    drop(stop);
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn nobody_else_may_read_where_nobody_can_be_asked() {
    let listen: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let result =
        serve(listen, metrics(HostnameLabel::Capital), Readiness::default(), None, std::future::pending()).await;
    assert!(result.is_err_and(|error| error.to_string().contains("nobody says who may read")));
}
