//! Leadership by a Lease of `coordination.k8s.io/v1`.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::election::{Election, Purpose, Record, Times, Wish};
use super::fence::Fence;
use super::tenure::{Lost, Tenure};
use crate::serve::Health;

/// Where the Lease is, and who asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// This candidate, different from all others: `<host>_<unique>`.
    pub identity: String,
}

/// One candidate.
#[derive(Debug)]
pub struct Elector {
    api: Api<Lease>,
    name: LeaseName,
    times: Times,
    election: Election,
    fence: Fence,
    health: Health,
}

impl Elector {
    /// A candidate that does not lead. `client` must not retry by itself: a retried renewal tells a wrong time.
    pub fn new(client: Client, name: LeaseName, times: Times, health: Health) -> Self {
        let api = Api::namespaced(client, &name.namespace);
        let election = Election::new(name.identity.clone(), times.lease);
        Self { api, name, times, election, fence: Fence::closed(), health }
    }

    /// The fence that is open while this candidate leads.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Waits until this candidate leads.
    pub async fn acquire(&mut self) -> Tenure {
        let mut told = String::new();
        loop {
            let sent = Instant::now();
            match self.attempt(Purpose::Acquire, self.times.to_acquire()).await {
                Ok(true) => {
                    let tenure = Tenure::begin(self.times, self.fence.clone(), sent);
                    self.health.set_leader(Some(sent));
                    info!(identity = self.name.identity, "leads now");
                    return tenure;
                }
                Ok(false) => {
                    if told != self.election.holder() {
                        self.election.holder().clone_into(&mut told);
                        info!(holder = told, "another replica leads; this one stands by");
                    }
                }
                Err(error) => {
                    warn!(%error, namespace = self.name.namespace, name = self.name.name, "cannot get the lease");
                }
            }
            sleep(self.times.retry).await;
        }
    }

    /// Renews until that fails for too long or somebody else has it. The fence is closed then.
    pub async fn hold(&mut self, mut tenure: Tenure) -> Lost {
        loop {
            sleep(tenure.pause(Instant::now())).await;
            let sent = Instant::now();
            let answer = self.attempt(Purpose::Renew, tenure.patience(sent)).await;
            if let Err(error) = &answer {
                warn!(%error, "cannot renew the lease");
            }
            let renewed = answer == Ok(true);
            if let Err(lost) = tenure.attempted(Instant::now(), sent, answer, self.election.holder()) {
                return lost;
            }
            if renewed {
                self.health.set_leader(Some(sent));
            }
        }
    }

    /// Gives the Lease back, so that another replica need not wait for its end.
    pub async fn release(&mut self) {
        self.fence.close();
        let give_back = async {
            let lease = self.api.get_opt(&self.name.name).await.map_err(|e| e.to_string())?;
            let Some(record) = lease.as_ref().map(record_of).filter(|r| r.holder == self.name.identity) else {
                return Ok(());
            };
            let mut lease = self.lease(Some(&record), record.transitions);
            if let Some(spec) = &mut lease.spec {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
            }
            let replaced = self.api.replace(&self.name.name, &PostParams::default(), &lease).await;
            replaced.map(drop).map_err(|e| e.to_string())
        };
        match timeout(self.times.retry, give_back).await {
            Ok(Ok(())) => info!("gave the lease back"),
            Ok(Err(error)) => warn!(%error, "cannot give the lease back; it ends by itself"),
            Err(_) => warn!("cannot give the lease back in time; it ends by itself"),
        }
    }

    /// One look, and one write if there is something to win. Whether this candidate leads.
    async fn attempt(&mut self, purpose: Purpose, limit: Duration) -> Result<bool, String> {
        match timeout(limit, self.look_and_write(purpose)).await {
            Ok(result) => result,
            Err(_) => Err(format!("no answer within {limit:?}")),
        }
    }

    async fn look_and_write(&mut self, purpose: Purpose) -> Result<bool, String> {
        let seen = self.api.get_opt(&self.name.name).await.map_err(|e| e.to_string())?;
        let Some(wish) = self.election.wish(Instant::now(), purpose, seen.as_ref().map(record_of)) else {
            return Ok(false);
        };
        let written = match wish {
            Wish::Create => self.api.create(&PostParams::default(), &self.lease(None, 0)).await,
            Wish::Take(record) => {
                let lease = self.lease(Some(&record), record.transitions.saturating_add(1));
                self.api.replace(&self.name.name, &PostParams::default(), &lease).await
            }
            Wish::Renew(record) => {
                let mut lease = self.lease(Some(&record), record.transitions);
                if let (Some(spec), Some(old)) = (&mut lease.spec, seen.and_then(|l| l.spec)) {
                    spec.acquire_time = old.acquire_time;
                }
                self.api.replace(&self.name.name, &PostParams::default(), &lease).await
            }
        };
        match written {
            Ok(lease) => {
                self.election.look(Instant::now(), Some(record_of(&lease)));
                Ok(true)
            }
            // A conflict too: somebody was faster, and the next look shows who.
            Err(error) => Err(error.to_string()),
        }
    }

    fn lease(&self, before: Option<&Record>, transitions: i32) -> Lease {
        let now = MicroTime(Timestamp::now());
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.name.clone()),
                namespace: Some(self.name.namespace.clone()),
                resource_version: before.map(|r| r.version.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.name.identity.clone()),
                lease_duration_seconds: Some(i32::try_from(self.times.lease.as_secs()).unwrap_or(i32::MAX)),
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                lease_transitions: Some(transitions),
                ..LeaseSpec::default()
            }),
        }
    }
}

fn record_of(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        lease: Duration::from_secs(seconds),
        renewed: spec.renew_time.map(|t| t.0.to_string()).unwrap_or_default(),
        transitions: spec.lease_transitions.unwrap_or(0),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}
