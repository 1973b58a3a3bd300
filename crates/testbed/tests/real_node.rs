//! What the testbed promises of its real nodes. They need root; `scripts/install-node-runtime` brings what they run.
//! `KUBERNETES_MINOR` chooses the minor.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should panic")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpu_scheduler_testbed::control_plane::wait::{until, until_gone};
use gpu_scheduler_testbed::control_plane::{ControlPlane, Options, User};
use gpu_scheduler_testbed::node::{ContainerDevice, RealNode, RealNodeOptions};
use gpu_scheduler_testbed::objects::PodObject;
use k8s_openapi::api::core::v1::{ContainerStatus, EnvVar, Node, Pod, SecurityContext};
use kube::api::{DeleteParams, LogParams};
use kube::{Api, ResourceExt};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

async fn cluster(nodes: &[&str]) -> ControlPlane {
    let users = nodes.iter().map(|node| User::node(node)).collect();
    ControlPlane::start(Options { kwok: false, users, ..Options::default() }).await.unwrap()
}

fn pods(cluster: &ControlPlane) -> Api<Pod> {
    Api::namespaced(cluster.client(), "default")
}

/// A pod that sleeps, with nothing but one process in it.
fn sleeper(name: &str, node: &str) -> Pod {
    PodObject::new(name).command(&["sleep", "100000"]).node(node).build()
}

/// How the only container is.
fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

fn runs(pod: &Pod) -> bool {
    container(pod).and_then(|status| status.state.as_ref()).is_some_and(|state| state.running.is_some())
}

async fn run(cluster: &ControlPlane, pod: Pod) -> Pod {
    let name = pod.name_any();
    cluster.add_pods([pod]).await.unwrap();
    until(&pods(cluster), &name, &format!("{name} to run"), runs).await.unwrap()
}

/// The first that a pod writes. Followed, so that the answer waits for the text.
async fn six_bytes(cluster: &ControlPlane, pod: &str) -> String {
    let params = LogParams { follow: true, limit_bytes: Some(6), ..LogParams::default() };
    pods(cluster).logs(pod, &params).await.unwrap()
}

/// What a process was started with, as the kernel keeps it.
fn environment(process: u32) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{process}/environ")).unwrap();
    let variables = text.split_terminator('\0').map(|variable| variable.split_once('=').unwrap());
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn a_ready_node_runs_pods_and_says_what_is_in_them() {
    let cluster = cluster(&["n1"]).await;
    let labels = [("nvidia.com/gpu.product".to_owned(), "Tesla-T4".to_owned())].into();
    let options = RealNodeOptions { labels, ..RealNodeOptions::new("n1") };
    let mut node = RealNode::start(&cluster, options).await.unwrap();
    let object = Api::<Node>::all(cluster.client()).get("n1").await.unwrap();
    assert_eq!(object.labels()["nvidia.com/gpu.product"], "Tesla-T4");
    let status = object.status.unwrap();
    let ready = status.conditions.unwrap().into_iter().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!((&*ready.status, ready.reason.as_deref()), ("True", Some("KubeletReady")));
    for socket in ["device-plugins/kubelet.sock", "pod-resources/kubelet.sock"] {
        UnixStream::connect(node.kubelet_dir().join(socket)).unwrap();
    }

    let mut pod = sleeper("a", "n1");
    let spec = &mut pod.spec.as_mut().unwrap().containers[0];
    spec.env = Some(vec![EnvVar { name: "GREETING".into(), value: Some("a = b".into()), ..EnvVar::default() }]);
    let pod = run(&cluster, pod).await;
    let a = node.container("default", "a", "main").await.unwrap();
    assert_eq!(container(&pod).unwrap().container_id, Some(format!("containerd://{}", a.id)));
    let mut env = a.env.clone();
    env.retain(|name, _| !name.starts_with("KUBERNETES_"));
    assert!(env.len() < a.env.len(), "{:?}", a.env);
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let expected = [("GREETING", "a = b"), ("HOSTNAME", machine.trim()), ("PATH", "/bin")];
    assert_eq!(env, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    // The same by another way, so that what is read is what the process got; runc adds one.
    let processes = a.processes().unwrap();
    assert_eq!(processes.len(), 1);
    let mut got = environment(processes[0]);
    assert_eq!(got.remove("HOME").as_deref(), Some("/"));
    assert_eq!(got, a.env);
    assert!(a.devices.is_empty(), "{:?}", a.devices);
    assert!(a.mounts.iter().any(|mount| mount.destination == "/etc/hosts" && !mount.read_only), "{:?}", a.mounts);

    let mut privileged = PodObject::new("b").command(&["sh", "-c", "echo hello; sleep 100000"]).node("n1").build();
    let spec = &mut privileged.spec.as_mut().unwrap().containers[0];
    spec.security_context = Some(SecurityContext { privileged: Some(true), ..SecurityContext::default() });
    run(&cluster, privileged).await;
    let b = node.container("default", "b", "main").await.unwrap();
    let full = b.devices.iter().find(|device| device.path == "/dev/full").unwrap();
    let [path, kind, access] = ["/dev/full", "c", "rwm"].map(str::to_owned);
    assert_eq!(*full, ContainerDevice { path, kind, major: 1, minor: 7, access });

    // By way of the API server, which must show the kubelet a certificate.
    assert_eq!(six_bytes(&cluster, "b").await, "hello\n");

    // The image's own command ends when it is asked to, long before its grace period.
    run(&cluster, PodObject::new("c").runs().node("n1").build()).await;
    assert_eq!(six_bytes(&cluster, "c").await, "ready\n");
    pods(&cluster).delete("c", &DeleteParams::default().grace_period(100_000)).await.unwrap();
    until_gone(&pods(&cluster), "c").await.unwrap();
    node.check().unwrap();
}

#[tokio::test]
async fn a_pod_outlives_its_kubelet() {
    let cluster = cluster(&["n1"]).await;
    let mut node = RealNode::start(&cluster, RealNodeOptions::new("n1")).await.unwrap();
    run(&cluster, sleeper("a", "n1")).await;
    let before = node.container("default", "a", "main").await.unwrap();
    let processes = before.processes().unwrap();

    let kubelet =
        |node: &RealNode| node.processes().into_iter().find(|(name, _)| *name == "kubelet").map(|(_, pid)| pid);
    let socket = node.kubelet_dir().join("device-plugins/kubelet.sock");
    let first = kubelet(&node).unwrap();
    node.kill_kubelet();
    assert!(kubelet(&node).is_none() && !Path::new(&format!("/proc/{first}")).exists());
    UnixStream::connect(&socket).unwrap_err();
    assert_eq!(before.processes().unwrap(), processes);

    node.start_kubelet().await.unwrap();
    UnixStream::connect(&socket).unwrap();
    let second = kubelet(&node).unwrap();
    node.restart_kubelet().await.unwrap();
    assert!(first != second && Some(second) != kubelet(&node));
    // One that is started later: the kubelet knows its pods again by then.
    run(&cluster, sleeper("b", "n1")).await;
    let pod = pods(&cluster).get("a").await.unwrap();
    assert!(runs(&pod));
    assert_eq!(container(&pod).unwrap().restart_count, 0);
    assert_eq!(node.container("default", "a", "main").await.unwrap(), before);
    assert_eq!(before.processes().unwrap(), processes);
}

/// What a node could leave on the machine.
#[derive(Debug, PartialEq)]
struct Machine {
    mounts: Vec<String>,
    settings: Vec<String>,
    folders: Vec<bool>,
}

impl Machine {
    fn now() -> Self {
        // Where they are, and for those of a folder what is mounted. Others may come and go: the machine is not ours alone.
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let of_a_node = |line: &&str| {
            ["gpu-scheduler-node-", " /var/lib/kubelet", " /run/containerd", " /run/netns"]
                .iter()
                .any(|part| line.contains(part))
        };
        let settings = [
            "vm/overcommit_memory",
            "vm/panic_on_oom",
            "kernel/panic",
            "kernel/panic_on_oops",
            "kernel/keys/root_maxkeys",
            "kernel/keys/root_maxbytes",
        ];
        let folders =
            ["/var/lib/kubelet", "/run/containerd", "/var/log/pods", "/var/log/containers", "/opt/containerd"];
        Self {
            mounts: mounts.lines().filter(of_a_node).map(str::to_owned).collect(),
            settings: settings.map(|name| fs::read_to_string(format!("/proc/sys/{name}")).unwrap()).into(),
            folders: folders.map(|folder| Path::new(folder).exists()).into(),
        }
    }
}

/// A node's control groups that are there.
fn groups(cgroup: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let hierarchies = fields.filter(|fields| fields[2].starts_with("cgroup"));
    let groups = hierarchies.map(|fields| Path::new(fields[1]).join(cgroup.trim_start_matches('/')));
    groups.filter(|group| group.exists()).collect()
}

#[tokio::test]
async fn two_nodes_stand_side_by_side_and_leave_nothing() {
    let machine = Machine::now();
    let cluster = cluster(&["n1", "n2"]).await;
    let start = |name| RealNode::start(&cluster, RealNodeOptions::new(name));
    let (one, other) = tokio::join!(start("n1"), start("n2"));
    let (one, other) = (one.unwrap(), other.unwrap());
    assert_ne!(one.kubelet_dir(), other.kubelet_dir());
    tokio::join!(run(&cluster, sleeper("a", "n1")), run(&cluster, sleeper("b", "n2")));
    let a = one.container("default", "a", "main").await.unwrap();
    let b = other.container("default", "b", "main").await.unwrap();
    one.container("default", "b", "main").await.unwrap_err();
    // Not even while they run.
    assert_eq!(Machine::now(), machine);
    assert!(!groups(&one.cgroup()).is_empty() && !groups(&other.cgroup()).is_empty());

    let mut processes: Vec<u32> = one.processes().into_iter().map(|(_, pid)| pid).collect();
    processes.extend(a.processes().unwrap());
    assert_eq!(processes.len(), 3);
    let (folder, cgroup) = (one.folder().to_owned(), one.cgroup());
    assert!(folder.exists());
    one.stop().unwrap();
    for pid in processes {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} still runs");
    }
    assert!(!folder.exists());
    assert_eq!(groups(&cgroup), [""; 0].map(PathBuf::from));
    assert!(a.processes().unwrap().is_empty());

    assert_eq!(b.processes().unwrap().len(), 1);
    run(&cluster, sleeper("c", "n2")).await;
    let (folder, cgroup) = (other.folder().to_owned(), other.cgroup());
    drop(other);
    assert!(!folder.exists() && groups(&cgroup).is_empty() && b.processes().unwrap().is_empty());
    assert_eq!(Machine::now(), machine);
}

/// What the next test starts, and kills.
#[tokio::test]
#[ignore = "it is the process that another test kills"]
async fn a_process_that_is_killed() {
    let cluster = cluster(&["n1"]).await;
    let node = RealNode::start(&cluster, RealNodeOptions::new("n1")).await.unwrap();
    run(&cluster, sleeper("a", "n1")).await;
    let processes = node.container("default", "a", "main").await.unwrap().processes().unwrap();
    println!("\nready {} {} {}", node.folder().display(), node.cgroup(), processes[0]);
    std::future::pending().await
}

/// The children of a process, by all its threads.
fn children(pid: u32) -> Vec<OwnedFd> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let lists = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
    let text = lists.collect::<Vec<_>>().join(" ");
    let pids = text.split_whitespace().map(|pid| Pid::from_raw(pid.parse().unwrap()).unwrap());
    pids.map(|pid| pidfd_open(pid, PidfdFlags::empty()).unwrap()).collect()
}

#[test]
fn a_node_goes_with_a_process_that_is_killed() {
    let machine = Machine::now();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_process_that_is_killed", "--ignored", "--nocapture"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let line = output.lines().map(Result::unwrap).find(|line| line.starts_with("ready ")).unwrap();
    let [_, folder, cgroup, process] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
    assert!(Path::new(folder).exists() && Path::new(&format!("/proc/{process}")).exists());

    let programs = children(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    for program in &programs {
        poll(&mut [PollFd::new(program, PollFlags::IN)], None).unwrap();
    }
    assert!(!Path::new(folder).exists());
    assert!(!Path::new(&format!("/proc/{process}")).exists());
    assert_eq!(groups(cgroup), [""; 0].map(PathBuf::from));
    assert_eq!(Machine::now(), machine);
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let cluster = cluster(&["n1"]).await;
    let error = RealNode::start(&cluster, RealNodeOptions::new("n2")).await.unwrap_err().to_string();
    assert!(error.contains("'system:node:n2'") && error.contains("Options::users"), "{error}");

    let kubelet_config = [("topologyManagerPolicy".to_owned(), "no-such-policy".into())].into_iter().collect();
    let options = RealNodeOptions { kubelet_config, ..RealNodeOptions::new("n1") };
    let error = RealNode::start(&cluster, options).await.unwrap_err().to_string();
    assert!(error.contains("kubelet ended by itself") && error.contains("no-such-policy"), "{error}");
}
