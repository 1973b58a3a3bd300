//! kubelet's list, followed: the newest one is at hand, and nobody who reads it waits for kubelet.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use super::Lister;
use crate::checkpoint::Listed;
use crate::pods::NodePod;

/// How often kubelet is asked, and how long its word counts.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// How long after one answer the next is asked for, if nothing happens.
    pub every: Duration,
    /// How long at least, if the node's pods change: a burst of them is one question.
    pub gap: Duration,
    /// How long a list counts that kubelet does not renew.
    pub kept: Duration,
}

impl Pace {
    /// As often as the node is looked at, every ten seconds at least, and a minute of trust.
    ///
    /// A kubelet that is restarted is back within seconds, and gives nothing to anybody until then: its last list stays
    /// true. After a minute it is likelier that it runs and cannot be reached, and may have given a device to another pod.
    pub fn usual(every: Duration) -> Self {
        let every = every.min(Duration::from_secs(10));
        Self { every, gap: Duration::from_millis(250), kept: Duration::from_secs(60) }
    }
}

/// kubelet's list, followed for as long as this lives.
#[derive(Debug)]
pub struct Following {
    newest: watch::Receiver<Arc<Vec<Listed>>>,
    /// What asks; it ends with this.
    _asking: JoinSet<()>,
}

impl Following {
    /// Asks the kubelet on this socket at the pace, and when the node's pods change: then devices were given or are free.
    pub fn start(socket: PathBuf, pace: Pace, pods: watch::Receiver<Arc<Vec<NodePod>>>) -> Self {
        let (sender, newest) = watch::channel(Arc::default());
        let mut asking = JoinSet::new();
        asking.spawn(async move { follow(Lister::new(&socket), pace, pods, sender).await });
        Self { newest, _asking: asking }
    }

    /// What kubelet lists; empty as long as it has not said anything that counts.
    pub fn newest(&self) -> watch::Receiver<Arc<Vec<Listed>>> {
        self.newest.clone()
    }
}

async fn follow(
    mut lister: Lister,
    pace: Pace,
    mut pods: watch::Receiver<Arc<Vec<NodePod>>>,
    newest: watch::Sender<Arc<Vec<Listed>>>,
) {
    let mut trust = Trust::new(Instant::now());
    loop {
        match lister.list().await {
            Ok(listed) => {
                if trust.answered(Instant::now()) {
                    info!("kubelet lists again which pod has which device");
                }
                replace(&newest, listed);
            }
            Err(problem) if trust.failed(Instant::now(), pace.kept) => {
                warn!("{problem}; until then series name the pods of the scheduler's records and of processes");
                replace(&newest, Vec::new());
            }
            Err(problem) => debug!("{problem}"),
        }
        sleep(pace.gap).await;
        tokio::select! {
            () = sleep(pace.every.saturating_sub(pace.gap)) => {}
            Ok(()) = pods.changed() => {}
        }
    }
}

fn replace(newest: &watch::Sender<Arc<Vec<Listed>>>, listed: Vec<Listed>) {
    newest.send_if_modified(|known| {
        let changed = **known != listed;
        if changed {
            *known = Arc::new(listed);
        }
        changed
    });
}

/// Whether the last answer still counts.
#[derive(Debug)]
struct Trust {
    /// When kubelet answered last, or was asked first.
    since: Instant,
    lost: bool,
}

impl Trust {
    fn new(now: Instant) -> Self {
        Self { since: now, lost: false }
    }

    /// kubelet has answered; true if its word did not count before.
    fn answered(&mut self, now: Instant) -> bool {
        self.since = now;
        std::mem::take(&mut self.lost)
    }

    /// kubelet has not answered; true if its last word counts no longer from now on.
    fn failed(&mut self, now: Instant, kept: Duration) -> bool {
        let lost = now.duration_since(self.since) >= kept;
        lost && !std::mem::replace(&mut self.lost, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_counts_for_a_while_after_the_last_answer() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let kept = Duration::from_secs(60);
        let mut trust = Trust::new(begun);
        for (second, answers, changes) in [
            (0, true, false),
            (10, false, false),
            (59, false, false),
            (60, false, true),
            (70, false, false),
            (80, true, true),
            (90, true, false),
            (149, false, false),
            (150, false, true),
        ] {
            let changed = if answers { trust.answered(at(second)) } else { trust.failed(at(second), kept) };
            assert_eq!(changed, changes, "after {second} s");
        }
        assert!(!Trust::new(begun).failed(begun, kept), "a kubelet that is late is waited for");
    }
}
