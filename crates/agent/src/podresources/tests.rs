//! kubelet's list over real sockets.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::watch;

use super::*;
use crate::fixtures::kubelet::Kubelet;
use crate::pods::NodePod;

/// Folders of a kubelet.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("pod-resources.sock")
    }

    async fn kubelet(&self) -> Kubelet {
        Kubelet::start(self.folder.path(), &self.socket()).await
    }
}

/// `pod/container resource id,id`.
fn shown(listed: &[Listed]) -> Vec<String> {
    let one = |item: &Listed| {
        let ids: Vec<String> = item.ids.iter().map(ToString::to_string).collect();
        format!("{}/{} {} {}", item.name, item.container, item.resource, ids.join(","))
    };
    listed.iter().map(one).collect()
}

#[tokio::test]
async fn ids_of_nvidias_plugin_and_ours_are_read_and_others_left_out() {
    let place = Place::new();
    let kubelet = place.kubelet().await;
    for (pod, resource, ids) in [
        ("whole", "nvidia.com/gpu", &["GPU-0", "GPU-1"][..]),
        ("replica", "nvidia.com/gpu", &["GPU-2::0"]),
        ("seat", "nvidia.com/gpu.shared", &["GPU-3::12", "GPU-3::13"]),
        ("slice", "nvidia.com/mig-1g.10gb", &["MIG-5"]),
        ("odd", "nvidia.com/gpu", &["nvidia0", "GPU-4::x", "GPU-", ""]),
        ("other", "amd.com/gpu", &["GPU-6"]),
        ("virtual", "nvidia.com/GRID_A10", &["GPU-7"]),
    ] {
        kubelet.lists(pod, "main", resource, ids);
    }
    // By NUMA node, so one container's devices stand there twice.
    kubelet.lists("whole", "main", "nvidia.com/gpu", &["GPU-8"]);
    let expected = [
        "whole/main nvidia.com/gpu GPU-0,GPU-1,GPU-8",
        "replica/main nvidia.com/gpu GPU-2::0",
        "seat/main nvidia.com/gpu.shared GPU-3::12,GPU-3::13",
        "slice/main nvidia.com/mig-1g.10gb MIG-5",
    ];
    let mut lister = Lister::new(&place.socket());
    assert_eq!(shown(&lister.list().await.unwrap()), expected);
    assert_eq!(shown(&lister.list().await.unwrap()), expected, "on the same connection");
    kubelet.stop().await;
}

#[tokio::test]
async fn a_kubelet_that_is_away_or_hangs_is_an_error_that_says_where() {
    let place = Place::new();
    let mut lister = Lister::new(&place.socket());
    let away = lister.list().await.unwrap_err().to_string();
    assert!(away.contains("pod-resources.sock") && away.contains("see that the folder is mounted"), "{away}");
    // It listens, and never takes a call.
    let silent = UnixListener::bind(place.socket()).unwrap();
    lister.answer = Duration::from_millis(50);
    let hangs = lister.list().await.unwrap_err().to_string();
    assert!(hangs.contains("does not answer"), "{hangs}");
    drop(silent);
    lister.answer = ANSWER;
    let kubelet = place.kubelet().await;
    assert_eq!(shown(&lister.list().await.unwrap()), [""; 0], "it is there again");
    kubelet.stop().await;
}

/// What follows a kubelet, and the pods that it knows.
fn following(place: &Place, pace: Pace) -> (Following, watch::Sender<Arc<Vec<NodePod>>>) {
    let (sender, pods) = watch::channel(Arc::default());
    (Following::start(place.socket(), pace, pods), sender)
}

/// Waits until the list is this.
async fn becomes(following: &Following, expected: &[&str]) {
    following.newest().wait_for(|listed| shown(listed) == expected).await.unwrap();
}

const LONG: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn the_list_follows_the_pods_of_the_node() {
    let place = Place::new();
    let kubelet = place.kubelet().await;
    kubelet.lists("a", "main", "nvidia.com/gpu", &["GPU-0"]);
    let pace = Pace { every: LONG, gap: Duration::ZERO, kept: LONG };
    let (following, pods) = following(&place, pace);
    becomes(&following, &["a/main nvidia.com/gpu GPU-0"]).await;
    kubelet.lists_nothing();
    // Whoever has ended has nothing, and nobody waits an hour to see it.
    pods.send_replace(Arc::default());
    becomes(&following, &[]).await;
    kubelet.stop().await;
}

#[tokio::test]
async fn a_list_is_kept_while_kubelet_is_away_and_dropped_after_a_while() {
    let place = Place::new();
    let kubelet = place.kubelet().await;
    kubelet.lists("a", "main", "nvidia.com/gpu", &["GPU-0"]);
    let short = Duration::from_millis(1);
    let (kept, _pods) = following(&place, Pace { every: short, gap: Duration::ZERO, kept: LONG });
    let (dropped, _pods) = following(&place, Pace { every: short, gap: Duration::ZERO, kept: Duration::ZERO });
    becomes(&kept, &["a/main nvidia.com/gpu GPU-0"]).await;
    becomes(&dropped, &["a/main nvidia.com/gpu GPU-0"]).await;
    kubelet.stop().await;
    becomes(&dropped, &[]).await;
    assert_eq!(
        shown(&kept.newest().borrow()),
        ["a/main nvidia.com/gpu GPU-0"],
        "a kubelet that restarts changes nothing"
    );
    // It is back, on a socket of the same name.
    let kubelet = place.kubelet().await;
    kubelet.lists("b", "main", "nvidia.com/gpu", &["GPU-1"]);
    becomes(&kept, &["b/main nvidia.com/gpu GPU-1"]).await;
    becomes(&dropped, &["b/main nvidia.com/gpu GPU-1"]).await;
    kubelet.stop().await;
}
