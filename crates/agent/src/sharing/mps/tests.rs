use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gpu_scheduler_engine::model::{Mib, Percent};
use tokio::sync::watch;

use super::supervise::plans;
use super::*;
use crate::allocate::{Give, Granted};
use crate::config::{Config, Layer};
use crate::container::DeviceNodes;
use crate::fixtures::{card, node};
use crate::handout::Stand;
use crate::inventory::Seen;
use crate::resources::{DeviceId, Hold, ResourceName, SeatRules, offer};

/// A stand-in for both programs: the daemon waits at a pipe for its end, a command is noted.
const STAND_IN: &str = r#"#!/bin/sh
pipe="$CUDA_MPS_PIPE_DIRECTORY/control"
if [ "$1" = -f ]; then
    echo "start $CUDA_VISIBLE_DEVICES" >> "$NOTES"
    rm -f "$pipe" && mkfifo "$pipe"
    read -r how < "$pipe"
    rm -f "$pipe"
    [ "$how" = quit ]
    exit
fi
if [ "$1" = -i ]; then echo "smi $*" >> "$NOTES"; exit; fi
read -r command
[ -p "$pipe" ] || { echo "no daemon" >&2; exit 1; }
case "$command" in
    get_*) echo 100.0 ;;
    quit) echo quit >> "$NOTES"; echo quit > "$pipe" ;;
    *) echo "$command" >> "$NOTES" ;;
esac
"#;

fn stand(text: &str, root: &Path, seats: SeatRules) -> Stand {
    let mut config = Layer::parse(text).unwrap().0.settle().unwrap().config;
    config.mps_root = root.to_owned();
    let inventory = node(vec![card(0), card(1)]);
    let offer = offer(&inventory, &config, seats).unwrap();
    Stand {
        seen: Arc::new(Seen { inventory, health: BTreeMap::new() }),
        config: Arc::new(config),
        offer,
        nodes: DeviceNodes::default(),
        shares_by_mps: seats.by_mps,
        daemons: BTreeSet::new(),
    }
}

const REPLICAS: &str = "sharing: {mps: {resources: [{name: gpu, replicas: 3}]}}";
const BY_MPS: SeatRules = SeatRules { per_card: 4, by_mps: true };
const RECORD_ONLY: SeatRules = SeatRules { per_card: 4, by_mps: false };

#[test]
fn which_daemons_are_needed() {
    let root = Path::new("/mps");
    let replicas = plans(&stand(REPLICAS, root, RECORD_ONLY));
    let plan = &replicas[&ResourceName::gpu()];
    let cards: Vec<_> = plan.cards.iter().map(|uuid| uuid.as_str()).collect();
    assert_eq!(cards, ["GPU-0", "GPU-1"]);
    let (memory, threads) = plan.limits.as_ref().expect("equal parts");
    assert_eq!(memory.iter().map(|(card, mib)| (card.0, *mib)).collect::<Vec<_>>(), [(0, 27_306), (1, 27_306)]);
    assert_eq!(*threads, 33);
    let shares = plans(&stand("", root, BY_MPS));
    assert_eq!(shares.keys().map(ResourceName::as_str).collect::<Vec<_>>(), ["nvidia.com/gpu.shared"]);
    assert!(shares.values().all(|plan| plan.limits.is_none()));
    assert!(plans(&stand("", root, RECORD_ONLY)).is_empty());
    let slicing = "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 3}]}}";
    assert!(plans(&stand(slicing, root, BY_MPS)).is_empty());
}

#[test]
fn a_container_is_told_its_own_limits() {
    let granted = |card: u32, memory: u64, compute: u32| Granted {
        id: DeviceId::parse(&format!("GPU-{card}::1")).unwrap(),
        card: format!("GPU-{card}").as_str().into(),
        memory: Mib(memory),
        compute: Percent(compute),
    };
    let give = |hold, devices| Give {
        to: None,
        resource: ResourceName::gpu().shared().unwrap(),
        hold,
        devices,
        reports: vec![],
    };
    let shares = stand("", Path::new("/mps"), BY_MPS);
    let two = access(&shares, &give(Hold::Share, vec![granted(1, 512, 0), granted(0, 4096, 30)])).expect("by MPS");
    assert_eq!(two.memory.as_deref(), Some("0=4096M,1=512M"), "in NVML's order");
    assert_eq!(two.threads, Some(30));
    assert_eq!(two.pipes, Path::new("/mps/nvidia.com/gpu.shared/pipe"));
    assert_eq!(two.shm, Path::new("/mps/shm"));
    let free = access(&shares, &give(Hold::Share, vec![granted(0, 4096, 0)])).expect("by MPS");
    assert_eq!(free.threads, None, "it takes what is left");
    assert_eq!(access(&shares, &give(Hold::Whole, vec![granted(0, 1, 100)])), None);
    let record_only = stand("", Path::new("/mps"), RECORD_ONLY);
    assert_eq!(access(&record_only, &give(Hold::Share, vec![granted(0, 1, 0)])), None);
    let replicas = stand(REPLICAS, Path::new("/mps"), RECORD_ONLY);
    let one = access(&replicas, &give(Hold::Replica { of: 3 }, vec![granted(0, 1, 0)])).expect("by MPS");
    assert_eq!((one.memory, one.threads), (None, None), "the server has the limits");
}

/// A folder with the stand-in, which notes what it was told.
fn programs() -> (tempfile::TempDir, MpsOptions) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("stand-in");
    let notes = folder.path().join("notes");
    fs::write(&program, STAND_IN.replace("$NOTES", &notes.display().to_string())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let options = MpsOptions {
        control: program.clone(),
        smi: program,
        first_pause: Duration::from_millis(1),
        ..MpsOptions::default()
    };
    (folder, options)
}

fn notes(folder: &Path) -> Vec<String> {
    fs::read_to_string(folder.join("notes")).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_daemon_is_started_with_its_limits_and_ended() {
    let (folder, options) = programs();
    let (_stands, stand) = watch::channel(Arc::new(stand(REPLICAS, folder.path(), RECORD_ONLY)));
    let (running, mut daemons) = watch::channel(BTreeSet::new());
    let (open, end) = watch::channel(());
    let supervising = tokio::spawn(supervise(options, stand, running, end));
    daemons.wait_for(|running| running.contains(&ResourceName::gpu())).await.unwrap();
    drop(open);
    supervising.await.unwrap();
    assert_eq!(
        notes(folder.path()),
        [
            "smi -i GPU-0 -c EXCLUSIVE_PROCESS",
            "smi -i GPU-1 -c EXCLUSIVE_PROCESS",
            "start GPU-0,GPU-1",
            "set_default_device_pinned_mem_limit 0 27306M",
            "set_default_device_pinned_mem_limit 1 27306M",
            "set_default_active_thread_percentage 33",
            "quit",
            "smi -i GPU-0 -c DEFAULT",
            "smi -i GPU-1 -c DEFAULT",
        ]
    );
}

#[tokio::test]
async fn a_daemon_that_dies_is_told_and_started_again() {
    let (folder, options) = programs();
    let (stands, stand_now) = watch::channel(Arc::new(stand("", folder.path(), BY_MPS)));
    let (running, mut daemons) = watch::channel(BTreeSet::new());
    let (_open, end) = watch::channel(());
    let supervising = tokio::spawn(supervise(options, stand_now, running, end));
    daemons.wait_for(|running| !running.is_empty()).await.unwrap();
    let pipe = folder.path().join("nvidia.com/gpu.shared/pipe/control");
    fs::write(pipe, "die\n").unwrap();
    daemons.wait_for(BTreeSet::is_empty).await.unwrap();
    daemons.wait_for(|running| !running.is_empty()).await.unwrap();
    // Nothing is shared by MPS any more.
    stands.send_replace(Arc::new(stand("", folder.path(), RECORD_ONLY)));
    daemons.wait_for(BTreeSet::is_empty).await.unwrap();
    drop(stands);
    supervising.await.unwrap();
    assert_eq!(notes(folder.path()), ["start GPU-0,GPU-1", "start GPU-0,GPU-1", "quit"]);
}

#[test]
fn a_resource_whose_daemon_does_not_run_is_not_healthy() {
    let mut stand = stand(REPLICAS, Path::new("/mps"), RECORD_ONLY);
    let resource = stand.offer.resources[0].clone();
    assert!(!stand.is_healthy(&resource, &resource.units[0]));
    stand.daemons.insert(resource.name.clone());
    assert!(stand.is_healthy(&resource, &resource.units[0]));
    stand.config = Arc::new(Config::defaults());
    stand.daemons.clear();
    assert!(stand.is_healthy(&resource, &resource.units[0]));
}
