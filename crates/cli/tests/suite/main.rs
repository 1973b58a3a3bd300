//! Kubernetes' own scheduling specs judge `gpu-scheduler run` as the cluster's `default-scheduler`, with the rights of
//! `deploy/`. `docs/conformance.md` says what is expected of each spec; whatever is otherwise fails.
//!
//! `KUBERNETES_MINOR` chooses the minor.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gpu_scheduler_testbed::control_plane::{ControlPlane, KubeScheduler};
use gpu_scheduler_testbed::deploy;
use gpu_scheduler_testbed::scheduler::{Scheduler, check_traces};
use gpu_scheduler_testbed::suite::{self, Selection, Suite, Table, Verdict};

/// The scheduler under test.
const BINARY: &str = env!("CARGO_BIN_EXE_gpu-scheduler");

/// The default policy, for pods that name no scheduler.
const CONFIG: &str = "apiVersion: gpu-scheduler.io/v1alpha1
kind: SchedulerConfiguration
leaderElection: {resourceNamespace: gpu-scheduler}
profiles: [{schedulerName: default-scheduler}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn specs_of_every_merge() {
    judge_ours("ci", Selection::Ci).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ten minutes, and up to five for each spec that cannot pass; `make matrix` runs it"]
async fn every_spec() {
    judge_ours("all", Selection::All).await;
}

/// The bed is right: what fails on it with another scheduler is that scheduler's fault.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ten minutes; `make matrix` runs it"]
async fn kubernetes_own_scheduler_passes_all_specs() {
    let suite = Suite::find(None).await.expect("the specs");
    let folder = Folder::fresh(&suite, "baseline");
    let mut cluster =
        ControlPlane::start(suite.options(Some(KubeScheduler::default()))).await.expect("a control plane");
    suite::furnish(&cluster).await.expect("nodes");
    suite::settle(&cluster).await.expect("the scheduler schedules");
    let table = Table::of(suite.minor()).all_pass();
    let report = suite.run(&mut cluster, &table, Selection::All, &folder.0).await.expect("a run");
    folder.conclude(&Verdict::of(&table, Selection::All, &report));
}

async fn judge_ours(name: &str, selection: Selection) {
    let suite = Suite::find(None).await.expect("the specs");
    let folder = Folder::fresh(&suite, name);
    let mut cluster = ControlPlane::start(suite.options(None)).await.expect("a control plane");
    suite::furnish(&cluster).await.expect("nodes");
    let access = deploy::install(&cluster).await.expect("the manifests of deploy/");
    let (kubeconfig, config) = (cluster.folder().join("scheduler.kubeconfig"), folder.0.join("config.yaml"));
    access.write_kubeconfig(&kubeconfig).expect("a kubeconfig");
    fs::write(&config, CONFIG).expect("a configuration");
    let scheduler = Scheduler::start(Path::new(BINARY), "scheduler", &kubeconfig, &config, &folder.0);
    suite::settle(&cluster).await.expect("the scheduler schedules");
    let table = Table::of(suite.minor());
    let report = tokio::select! {
        report = suite.run(&mut cluster, &table, selection, &folder.0) => report.expect("a run"),
        () = scheduler.ended() => panic!("the scheduler ended in the middle of the run"),
    };
    assert!(scheduler.stop(), "it ends well when asked to");
    folder.conclude(&Verdict::of(&table, selection, &report));
}

/// Where a run leaves what it wrote; removed when all was as expected.
struct Folder(PathBuf);

impl Folder {
    fn fresh(suite: &Suite, name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("suite-{}-{name}", suite.minor()));
        // Of a run that failed.
        if path.exists() {
            fs::remove_dir_all(&path).expect("it can be removed");
        }
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn conclude(self, verdict: &Verdict) {
        // Not by print: people are to see it of a test that passes, too.
        write!(io::stderr(), "\n{verdict}").expect("standard error can be written");
        assert!(
            verdict.differences.is_empty(),
            "not as docs/conformance.md says, see above; logs are in {}",
            self.0.display()
        );
        check_traces(Path::new(BINARY), &self.0);
        fs::remove_dir_all(self.0).expect("it can be removed");
    }
}
