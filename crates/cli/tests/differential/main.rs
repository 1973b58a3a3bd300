//! Random clusters and pods, given to Kubernetes' own scheduler and to ours: where do they differ?
//!
//! `DIFFERENTIAL_SEED`, `DIFFERENTIAL_PLACEMENTS` and `DIFFERENTIAL_FEATURES` say what to compare; a disagreement prints the
//! cluster, the pod, both answers and how to get it again.

use gpu_scheduler_testbed::control_plane::minor;
use gpu_scheduler_testbed::differential::{Contender, Feature, Settings, run};
use tokio::sync::Mutex;

/// Each comparison is two control planes, on machines with two cores.
static ALONE: Mutex<()> = Mutex::const_new(());

async fn compare(subject: Contender, placements: usize, minor: &str) {
    let _alone = ALONE.lock().await;
    let features = Feature::of_minor(minor);
    let settings = Settings { seed: 1, placements, features, most: 5 }.from_environment().expect("settings");
    let report = run(subject, &settings).await.expect("both schedulers can be asked");
    for disagreement in &report.disagreements {
        eprintln!("{disagreement}");
    }
    println!("seeds from {}: {report}", settings.seed);
    assert!(report.disagreements.is_empty(), "{} disagreements, see above", report.disagreements.len());
    // The last cluster's pods may be more than were wanted.
    assert!(report.placements >= settings.placements, "only {} placements", report.placements);
}

/// What agrees with itself measures others: the clusters are the same, and the log is understood.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_scheduler_decides_as_itself() {
    compare(Contender::KubeScheduler, 150, &minor().await.expect("a minor")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gpu_scheduler_decides_as_kube_scheduler() {
    let binary = env!("CARGO_BIN_EXE_gpu-scheduler").into();
    let minor = minor().await.expect("a minor");
    let mut config = include_str!("profile.yaml").to_owned();
    if minor == "1.36" {
        // By the size of volumes nodes are scored since 1.37 (gate StorageCapacityScoring).
        config.push_str("  plugins: {score: {disabled: [{name: VolumeBinding}]}}\n");
    }
    compare(Contender::GpuScheduler { binary, config }, 300, &minor).await;
}
