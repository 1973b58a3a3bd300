//! A cluster with one scheduler, which is asked one pod at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::answer::{Answer, Decision, Preempted};
use super::feature::Feature;
use super::generate::{Case, NAMESPACES, Placed, fixtures, key};
use super::preemption::started;
use super::rest::Rest;
use super::scores::{ARGS, ScoreLog, Scores};
use super::volume_binder::VolumeBinder;
use super::watch::PodWatch;
use crate::control_plane::{ControlPlane, ControlPlaneError, KubeScheduler, Options};
use crate::deploy;
use crate::scheduler::Scheduler;

/// Who decides on a bed.
#[derive(Debug, Clone)]
pub enum Contender {
    /// Kubernetes' own scheduler.
    KubeScheduler,
    /// `gpu-scheduler run`.
    GpuScheduler {
        /// The program.
        binary: PathBuf,
        /// Its configuration: the text of the file.
        config: String,
    },
}

/// A control plane and its scheduler, which is started anew for each case: it has seen all of a cluster before it
/// decides, and nothing is left of the cluster before.
pub(super) struct Bed {
    // Dropped first: it talks to what follows.
    running: Option<Scheduler>,
    binder: Option<VolumeBinder>,
    watch: PodWatch,
    cluster: ControlPlane,
    contender: Contender,
    rest: Rest,
    log: Option<ScoreLog>,
    folder: TempDir,
    /// Pods that are being deleted from the start, `NAMESPACE/NAME`: nobody's victims.
    spared: BTreeSet<String>,
}

impl Bed {
    pub(super) async fn start(contender: Contender) -> Result<Self, ControlPlaneError> {
        let options = Options {
            controller_manager: false,
            kwok: false,
            load_test: true,
            // Its memory of the last pod skips the scores that are read here, and changes no decision.
            feature_gates: [("OpportunisticBatching".to_owned(), false)].into(),
            // Nobody is there to take its finalizers away.
            api_server_args: vec!["--disable-admission-plugins=StorageObjectInUseProtection".to_owned()],
            ..Options::default()
        };
        let cluster = ControlPlane::start(options).await?;
        let rest = Rest::new(cluster.client());
        rest.create_all(&fixtures()).await?;
        let folder = tempfile::tempdir().map_err(ControlPlaneError::system("could not make a folder"))?;
        if let Contender::GpuScheduler { config, .. } = &contender {
            let path = folder.path().join("config.yaml");
            std::fs::write(path, config).map_err(ControlPlaneError::system("could not write a configuration"))?;
            deploy::install(&cluster).await?.write_kubeconfig(&folder.path().join("kubeconfig"))?;
        }
        let watch = PodWatch::start(cluster.client());
        let spared = BTreeSet::new();
        Ok(Self { running: None, binder: None, watch, cluster, contender, rest, log: None, folder, spared })
    }

    /// Makes the cluster of a case, and starts the scheduler on it.
    pub(super) async fn begin(&mut self, case: &Case) -> Result<(), ControlPlaneError> {
        self.rest.create_all(&case.objects).await?;
        let placed: Vec<Value> =
            case.placed.iter().enumerate().map(|(i, placed)| with_start(case, i, placed)).collect();
        self.rest.create_all(&placed).await?;
        self.spared.clear();
        for placed in case.placed.iter().filter(|placed| placed.terminating) {
            self.spared.insert(key(&placed.pod));
            self.rest.delete(&placed.pod, false).await?;
        }
        let rivals: Vec<Value> = case.rivals.iter().map(|wish| wish.pod.clone()).collect();
        self.rest.create_all(&rivals).await?;
        if case.features.contains(&Feature::LateBinding) {
            self.binder = Some(VolumeBinder::start(self.cluster.client()));
        }
        match &self.contender {
            Contender::KubeScheduler => {
                self.log = Some(ScoreLog::follow(&self.cluster.log("kube-scheduler")));
                let args = ARGS.map(str::to_owned).into();
                self.cluster.start_kube_scheduler(&KubeScheduler { args, ..KubeScheduler::default() }).await?;
            }
            Contender::GpuScheduler { binary, .. } => {
                let folder = self.folder.path();
                self.running = Some(Scheduler::start(
                    binary,
                    "scheduler",
                    &folder.join("kubeconfig"),
                    &folder.join("config.yaml"),
                    folder,
                ));
            }
        }
        Ok(())
    }

    /// Stops the scheduler and takes the cluster away.
    pub(super) async fn end(&mut self, case: &Case) -> Result<(), ControlPlaneError> {
        if let Some(log) = &mut self.log {
            log.check().map_err(ControlPlaneError::system("the log of kube-scheduler is not understood"))?;
        }
        self.check_rights();
        self.running = None;
        self.cluster.stop_kube_scheduler();
        self.binder = None;
        self.rest.clear(&case.objects, &NAMESPACES).await?;
        self.watch.tidy();
        Ok(())
    }

    /// The rights that `deploy/` gives are enough.
    fn check_rights(&self) {
        let log = self.running.as_ref().map(Scheduler::log).unwrap_or_default();
        let forbidden: Vec<&str> = log.lines().filter(|line| line.contains("is forbidden: User ")).collect();
        assert!(forbidden.is_empty(), "deploy/20-rbac.yaml lacks a right:\n{}", forbidden.join("\n"));
    }

    /// Creates a pod and waits for the decision.
    pub(super) async fn submit(&self, pod: &Value) -> Result<Answer, ControlPlaneError> {
        self.rest.create(pod).await?;
        self.answer(pod).await
    }

    /// Waits for the decision about a pod that is there.
    pub(super) async fn answer(&self, pod: &Value) -> Result<Answer, ControlPlaneError> {
        let name = key(pod);
        let decided = self.watch.until(|pods| {
            let pod = pods.values().find(|pod| pod.key == name && !pod.gone)?;
            let decision = pod.waits.clone().or_else(|| pod.node.clone().map(Decision::Bound))?;
            Some((decision, pod.nominated.clone()))
        });
        let (decision, nominated) = decided.await.unwrap_or((Decision::Silent, None));
        let preempted = match (&decision, nominated) {
            (Decision::Waits(_), Some(node)) => Some(self.preempted(&name, node).await?),
            _ => None,
        };
        Ok(Answer { decision, preempted, volumes: BTreeMap::new() })
    }

    /// Lets the victims of a pod go at once, as kubelets do after a while, until the pod is on its node.
    async fn preempted(&self, name: &str, node: String) -> Result<Preempted, ControlPlaneError> {
        let mut victims = BTreeSet::new();
        loop {
            let spared = &self.spared;
            let next = self.watch.until(|pods| {
                let going = |pod: &&super::watch::Seen| pod.deleting && !pod.gone && !spared.contains(&pod.key);
                let victim = pods.values().filter(going).find(|pod| !victims.contains(&pod.key));
                if let Some(victim) = victim {
                    return Some(Err(victim.key.clone()));
                }
                let pod = pods.values().find(|pod| pod.key == name && !pod.gone)?;
                pod.node.clone().map(Ok)
            });
            match next.await {
                Some(Err(victim)) => {
                    self.rest.delete(&pod_of(&victim), true).await?;
                    victims.insert(victim);
                }
                Some(Ok(after)) => return Ok(Preempted { node, victims, after: Decision::Bound(after) }),
                None => return Ok(Preempted { node, victims, after: Decision::Silent }),
            }
        }
    }

    /// The volumes of a pod's claims.
    pub(super) async fn volumes(&self, pod: &Value) -> Result<BTreeMap<String, String>, ControlPlaneError> {
        let mut volumes = BTreeMap::new();
        for volume in pod["spec"]["volumes"].as_array().into_iter().flatten() {
            let claim = &volume["persistentVolumeClaim"]["claimName"];
            let object = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"namespace": pod["metadata"]["namespace"], "name": claim},
            });
            let claim = claim.as_str().unwrap_or_default().to_owned();
            if let Some(found) = self.rest.get(&object).await? {
                let volume = found["spec"]["volumeName"].as_str().unwrap_or_default();
                // One that was made is called by a UID, and is the claim's own.
                volumes.insert(claim, if volume.starts_with("made-") { "made" } else { volume }.to_owned());
            }
        }
        Ok(volumes)
    }

    /// Makes the pod be on this node, or nowhere, whatever the scheduler decided.
    pub(super) async fn settle(
        &self,
        pod: &Value,
        is: Option<&str>,
        wanted: Option<&str>,
    ) -> Result<(), ControlPlaneError> {
        if is == wanted && wanted.is_some() {
            return Ok(());
        }
        self.rest.delete(pod, true).await?;
        if let Some(node) = wanted {
            let mut pod = pod.clone();
            pod["spec"]["nodeName"] = json!(node);
            self.rest.create(&pod).await?;
        }
        Ok(())
    }

    /// Deletes a pod at once.
    pub(super) async fn remove(&self, pod: &Value) -> Result<(), ControlPlaneError> {
        self.rest.delete(pod, true).await
    }

    /// Says when a pod began to run.
    pub(super) async fn run(&self, pod: &Value, number: usize) -> Result<(), ControlPlaneError> {
        let status = json!({"status": {"startTime": started(number)}});
        self.rest.patch(pod, "status", &status).await.map(drop)
    }

    /// What kube-scheduler thought of the nodes for a pod.
    pub(super) fn scores(&mut self, pod: &str) -> Result<Scores, ControlPlaneError> {
        match &mut self.log {
            Some(log) => log.of(pod).map_err(ControlPlaneError::system("could not read the log of kube-scheduler")),
            None => Ok(Scores::default()),
        }
    }
}

/// A placed pod runs since then, where that matters.
fn with_start(case: &Case, number: usize, placed: &Placed) -> Value {
    let mut pod = placed.pod.clone();
    if case.features.contains(&Feature::Preemption) {
        pod["status"]["startTime"] = json!(started(number));
    }
    pod
}

fn pod_of(key: &str) -> Value {
    let (namespace, name) = key.split_once('/').unwrap_or(("default", key));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}})
}
