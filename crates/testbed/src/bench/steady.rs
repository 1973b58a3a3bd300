//! Pods that arrive at a steady rate.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::contender::{Running, Who};
use super::watch::Watch;
use super::{Bed, Workload, millis, sweep};
use crate::control_plane::ControlPlaneError;

/// What came of pods that arrived at a steady rate.
#[derive(Debug, Clone)]
pub struct Steady {
    /// Who bound them.
    pub who: Who,
    /// What they asked for.
    pub workload: Workload,
    /// Pods a second.
    pub rate: u32,
    /// From the answer to a pod's creation to the watch's sight of its node: half of them are faster.
    pub p50: Duration,
    /// All but a hundredth are faster.
    pub p99: Duration,
}

impl fmt::Display for Steady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "created to bound: p50 {:.1} ms, p99 {:.1} ms", millis(self.p50), millis(self.p99))
    }
}

pub(super) async fn measure(
    bed: &mut Bed<'_>,
    who: Who,
    workload: Workload,
    rate: u32,
) -> Result<Steady, ControlPlaneError> {
    let client = bed.cluster.client();
    let running = Running::start(bed, who).await?;
    // One before, so that the contender has seen everything when the others come.
    let first = Watch::start(client.clone());
    bed.cluster.add_pods([who.pod("first", workload).build()]).await?;
    first.bound(1).await?;
    drop(first);

    let watch = Watch::start(client.clone());
    watch.bound(1).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let mut ticks = interval(Duration::from_secs(1) / rate);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let count = rate * bed.settings.seconds;
    let mut creating = JoinSet::new();
    for n in 0..count {
        ticks.tick().await;
        let (pods, pod) = (pods.clone(), who.pod(&format!("p{n}"), workload).build());
        creating.spawn(async move {
            let created = pods.create(&PostParams::default(), &pod).await;
            (format!("p{n}"), Instant::now(), created)
        });
    }
    let mut answered = HashMap::new();
    while let Some(created) = creating.join_next().await {
        let (name, at, created) = created.expect("creating a pod does not panic");
        created.map_err(ControlPlaneError::request("could not create a pod".to_owned()))?;
        answered.insert(name, at);
    }
    watch.bound(count as usize + 1).await?;
    let latencies = watch.latencies(&answered);
    let of = |part: usize| latencies[(latencies.len() - 1) * part / 100];
    let measured = Steady { who, workload, rate, p50: of(50), p99: of(99) };
    if let Some(running) = running {
        running.stop(&mut bed.cluster);
    }
    drop(watch);
    sweep::sweep(&client).await?;
    Ok(measured)
}
