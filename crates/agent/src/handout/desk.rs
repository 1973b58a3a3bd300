//! The desk: kubelet's calls answered, the books kept.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpu_scheduler_engine::model::{Millis, Timestamp};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use super::hands::Hands;
use super::stand::Stand;
use super::{HandoutError, Options};
use crate::allocate::{Ask, Give, Outcome, Patience, Preference, Refusal, View, decide, prefer};
use crate::checkpoint::{Checkpoint, Entry, Holder, Listed, reconcile};
use crate::container::response;
use crate::kubelet::deviceplugin::ContainerAllocateResponse;
use crate::podresources;
use crate::pods::NodePod;
use crate::report::{Report, Reports};
use crate::resources::{DeviceId, Resource, ResourceName};
use crate::sharing::mps;

/// How often kubelet's list is looked at while a call waits: it may say that something ended.
const LOOK: Duration = Duration::from_millis(250);

/// Answers kubelet's calls.
pub struct Desk {
    stand: watch::Receiver<Arc<Stand>>,
    pods: watch::Receiver<Arc<Vec<NodePod>>>,
    /// Never looked at: it has changed as soon as the pods were listed once.
    listed: watch::Receiver<Arc<Vec<NodePod>>>,
    books: Mutex<Books>,
    hands: Hands,
    reports: Reports,
    pod_resources: PathBuf,
    /// Whether kubelet's list was seen since the start. Before, what was given without a record may be unknown.
    compared: AtomicBool,
    /// Whether it was said that there is none.
    complained: AtomicBool,
    /// What each of the two calls may wait: kubelet makes both for one container.
    patience: Duration,
    grace: Millis,
}

struct Books {
    checkpoint: Arc<Checkpoint>,
    entries: Vec<Entry>,
}

impl Desk {
    /// Opens the books. How things stand is told through the sender.
    pub(super) fn open(
        options: &Options,
        pods: watch::Receiver<Arc<Vec<NodePod>>>,
        hands: Hands,
        reports: Reports,
    ) -> Result<(Self, watch::Sender<Arc<Stand>>), HandoutError> {
        let loaded = Checkpoint::open(&options.checkpoint)?;
        if let Some(broken) = &loaded.broken {
            error!("{broken}; what was handed out is taken from kubelet's list and the pods' records");
        }
        info!(handed_out = loaded.entries.len(), "the books are open");
        hands.entries.send_replace(Arc::new(loaded.entries.clone()));
        let (stands, stand) = watch::channel(Arc::new(Stand::empty()));
        let desk = Self {
            stand,
            listed: pods.clone(),
            pods,
            books: Mutex::new(Books { checkpoint: Arc::new(loaded.checkpoint), entries: loaded.entries }),
            hands,
            reports,
            pod_resources: options.pod_resources.clone(),
            compared: AtomicBool::new(false),
            complained: AtomicBool::new(false),
            patience: options.patience / 2,
            grace: Millis(u64::try_from(options.grace.as_millis()).unwrap_or(u64::MAX)),
        };
        Ok((desk, stands))
    }

    /// How things stand.
    pub fn stand(&self) -> watch::Receiver<Arc<Stand>> {
        self.stand.clone()
    }

    /// The node's pods.
    pub fn pods(&self) -> watch::Receiver<Arc<Vec<NodePod>>> {
        self.pods.clone()
    }

    /// What is handed out now.
    pub async fn entries(&self) -> Vec<Entry> {
        self.books.lock().await.entries.clone()
    }

    fn synced(&self) -> bool {
        // Without anybody who could send more, what is there is all.
        self.listed.has_changed().unwrap_or(true)
    }

    /// Which of the available ids kubelet had best give: as many as it needs.
    pub async fn prefer(&self, name: &ResourceName, available: &[String], must: &[String], size: usize) -> Vec<String> {
        let parse = |ids: &[String]| ids.iter().filter_map(|id| DeviceId::parse(id)).collect::<Vec<_>>();
        let (available, must) = (parse(available), parse(must));
        debug!(resource = %name, size, "kubelet asks which devices it had best give");
        self.compare_once().await;
        let mut waiting = Waiting::new(self);
        loop {
            let patience = waiting.patience();
            let (stand, pods) = (Arc::clone(&self.stand.borrow()), waiting.pods());
            let Some(resource) = find(&stand, name) else { return Vec::new() };
            let preference = {
                let books = self.books.lock().await;
                let ask = Ask { resource, available: &available, must: &must, size };
                prefer(&self.view(&stand, &pods, &books.entries), &ask, patience)
            };
            match preference {
                Preference::Ids(ids) => return ids.iter().map(ToString::to_string).collect(),
                Preference::Wait => waiting.wait(self).await,
            }
        }
    }

    /// Gives these ids to whoever asks.
    ///
    /// # Errors
    /// [`Refusal`] if they are not to be had, or a card would be overcommitted.
    pub async fn allocate(&self, name: &ResourceName, ids: &[String]) -> Result<ContainerAllocateResponse, Refusal> {
        debug!(resource = %name, ?ids, "kubelet gives devices");
        self.compare_once().await;
        let mut waiting = Waiting::new(self);
        loop {
            // Nobody changes cards between the look at them and the entry in the books.
            let turn = self.hands.turn.lock().await;
            let patience = waiting.patience();
            let (stand, pods) = (Arc::clone(&self.stand.borrow()), waiting.pods());
            let Some(resource) = find(&stand, name) else { return Err(Refusal::NoSuchResource(name.clone())) };
            let outcome = {
                let mut books = self.books.lock().await;
                let outcome = decide(&self.view(&stand, &pods, &books.entries), resource, ids, patience);
                if let Outcome::Give(give) = &outcome {
                    books.enter(give.entry(now()));
                    self.hands.entries.send_replace(Arc::new(books.entries.clone()));
                    books.save().await;
                    debug!(resource = %name, "entered in the books");
                }
                outcome
            };
            drop(turn);
            match outcome {
                Outcome::Give(give) => return Ok(self.hand_over(&stand, give)),
                Outcome::Wait => waiting.wait(self).await,
                Outcome::Refuse { why, to } => {
                    self.reports.tell(Report::Refused { to, resource: name.clone(), why: why.clone() });
                    return Err(why);
                }
            }
        }
    }

    fn hand_over(&self, stand: &Stand, give: Give) -> ContainerAllocateResponse {
        let to = give.to.as_ref().map_or("a container that nobody has named yet".to_owned(), Holder::to_string);
        info!(resource = %give.resource, devices = ?give.uuids(), "handed out to {to}");
        give.reports.iter().cloned().for_each(|report| self.reports.tell(report));
        let access = mps::access(stand, &give);
        response(&stand.config, &stand.seen.inventory, &stand.nodes, &give, access.as_ref())
    }

    /// As [`reconcile`](Self::reconcile), unless that was done since the start.
    async fn compare_once(&self) {
        if !self.compared.load(Ordering::Acquire) {
            self.reconcile().await;
        }
    }

    /// Brings the books up to what kubelet lists and which pods live.
    pub async fn reconcile(&self) {
        match podresources::list(&self.pod_resources).await {
            Ok(listed) => {
                self.reconcile_with(&listed).await;
                self.compared.store(true, Ordering::Release);
                if self.synced() {
                    self.hands.known.send_replace(true);
                }
            }
            Err(problem) if !self.compared.load(Ordering::Acquire) && !self.complained.swap(true, Ordering::AcqRel) => {
                warn!("{problem}");
            }
            Err(problem) => debug!("{problem}"),
        }
    }

    async fn reconcile_with(&self, listed: &[Listed]) {
        let (stand, pods) = (Arc::clone(&self.stand.borrow()), Arc::clone(&self.pods.borrow()));
        let mut books = self.books.lock().await;
        let reconciled = reconcile(&self.view(&stand, &pods, &books.entries), Some(listed), now(), self.grace);
        if reconciled.entries != books.entries {
            books.entries = reconciled.entries;
            self.hands.entries.send_replace(Arc::new(books.entries.clone()));
            books.save().await;
        }
        drop(books);
        reconciled.reports.into_iter().for_each(|report| self.reports.tell(report));
    }

    fn view<'a>(&self, stand: &'a Stand, pods: &'a [NodePod], entries: &'a [Entry]) -> View<'a> {
        View {
            pods,
            synced: self.synced(),
            entries,
            offer: &stand.offer,
            seen: &stand.seen,
            policy: stand.config.policy,
            one_only: stand.config.sharing.replication().is_some_and(|replication| replication.one_only),
        }
    }
}

impl Books {
    /// Enters what was given. What it takes the place of is what the same container had, and what is in the books under
    /// the same ids of a pod that has gone; what an init container leaves to its pod stays.
    fn enter(&mut self, entry: Entry) {
        let ids: Vec<DeviceId> = entry.devices.iter().map(|device| device.id.clone()).collect();
        let uid = |entry: &Entry| entry.holder.as_ref().and_then(|holder| holder.uid.clone());
        let container = |entry: &Entry| entry.holder.as_ref().map(|holder| holder.container.clone());
        let mine = uid(&entry);
        self.entries.retain(|old| {
            let same_pod = mine.is_some() && uid(old) == mine;
            let replaced = if same_pod { container(old) == container(&entry) } else { old.overlaps(&ids) };
            old.resource != entry.resource || !replaced
        });
        self.entries.push(entry);
    }

    /// Writes the checkpoint. A disk that takes nothing keeps no pod from starting: what is lost with this process is then
    /// taken from kubelet's list.
    async fn save(&self) {
        let (checkpoint, entries) = (Arc::clone(&self.checkpoint), self.entries.clone());
        match tokio::task::spawn_blocking(move || checkpoint.save(&entries)).await {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => error!("{problem}"),
            Err(problem) => warn!(%problem, "the checkpoint was not written"),
        }
    }
}

fn find<'a>(stand: &'a Stand, name: &ResourceName) -> Option<&'a Resource> {
    stand.offer.resources.iter().find(|resource| resource.name == *name)
}

fn now() -> Timestamp {
    Timestamp(u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0))
}

/// The wait of one call for something that explains it.
struct Waiting {
    until: Instant,
    pods: watch::Receiver<Arc<Vec<NodePod>>>,
}

impl Waiting {
    fn new(desk: &Desk) -> Self {
        Self { until: Instant::now() + desk.patience, pods: desk.pods.clone() }
    }

    fn patience(&self) -> Patience {
        if Instant::now() < self.until { Patience::Left } else { Patience::Over }
    }

    fn pods(&mut self) -> Arc<Vec<NodePod>> {
        Arc::clone(&self.pods.borrow_and_update())
    }

    /// Until the pods change, or it is time to look at kubelet's list or to answer.
    async fn wait(&mut self, desk: &Desk) {
        let look = (Instant::now() + LOOK).min(self.until);
        desk.reconcile().await;
        tokio::select! {
            Ok(()) = self.pods.changed() => {}
            () = tokio::time::sleep_until(look) => {}
        }
    }
}
