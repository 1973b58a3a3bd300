//! All servers: one for each resource that is offered, registered with the kubelet that runs now.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::register::{KubeletRun, register};
use super::server::Running;
use crate::folder::{Folder, FolderError};
use crate::handout::Desk;
use crate::resources::ResourceName;

/// How long a change in the folder may go unnoticed where the kernel does not tell of it.
const ANYWAY: Duration = Duration::from_secs(10);
/// The first pause after something failed; it doubles with each failure in a row.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Where plugins and kubelet meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// kubelet's folder for device plugins: sockets of plugins lie in it, for kubelet looks for them there.
    pub folder: PathBuf,
    /// kubelet's own socket, mostly in the same folder.
    pub kubelet: PathBuf,
}

/// Serves what is offered until `stop` ends.
///
/// # Errors
/// If the folder cannot be watched.
pub async fn serve(desk: Arc<Desk>, places: &Places, stop: impl Future<Output = ()>) -> Result<(), FolderError> {
    let folder = Folder::watch(&places.folder, ANYWAY)?;
    let beside = places.kubelet.parent().filter(|parent| *parent != places.folder);
    let beside = beside.map(|parent| Folder::watch(parent, ANYWAY)).transpose()?;
    let mut stand = desk.stand();
    let mut fleet = Fleet { desk, places, servers: BTreeMap::new(), failures: 0 };
    tokio::pin!(stop);
    loop {
        stand.borrow_and_update();
        let again = fleet.bring_up().await;
        let pause = async {
            match again {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let near = async {
            match &beside {
                Some(folder) => folder.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = &mut stop => break,
            changed = stand.changed() => if changed.is_err() { break },
            () = folder.changed() => {}
            () = near => {}
            () = pause => {}
        }
    }
    fleet.stop_all().await;
    Ok(())
}

struct Server {
    running: Running,
    /// The run of kubelet's that knows it.
    known_to: Option<KubeletRun>,
}

struct Fleet<'a> {
    desk: Arc<Desk>,
    places: &'a Places,
    servers: BTreeMap<ResourceName, Server>,
    /// How often in a row something failed.
    failures: u32,
}

impl Fleet<'_> {
    /// Ends servers of resources that are no longer offered, starts those that are missing, and registers whatever
    /// kubelet does not know. What failed is due again at the time that is returned.
    async fn bring_up(&mut self) -> Option<Instant> {
        let names: Vec<ResourceName> = {
            let stand = self.desk.stand();
            let stand = stand.borrow();
            stand.offer.resources.iter().map(|resource| resource.name.clone()).collect()
        };
        let gone: Vec<_> = self.servers.keys().filter(|name| !names.contains(name)).cloned().collect();
        for name in gone {
            if let Some(server) = self.servers.remove(&name) {
                info!(resource = %name, "the resource is no longer offered");
                server.running.stop().await;
            }
        }
        let mut failed = false;
        for name in names {
            failed |= !self.bring_up_one(name).await;
        }
        if !failed {
            self.failures = 0;
            return None;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        Some(Instant::now() + pause)
    }

    /// True if the resource is served and kubelet knows, or has yet to start.
    async fn bring_up_one(&mut self, name: ResourceName) -> bool {
        // kubelet empties the folder when it starts, which leaves servers on sockets that nobody finds.
        if self.servers.get(&name).is_some_and(|server| !server.running.is_reachable())
            && let Some(server) = self.servers.remove(&name)
        {
            server.running.stop().await;
        }
        let endpoint = format!("nvidia-{}.sock", name.short());
        if !self.servers.contains_key(&name) {
            let socket = self.places.folder.join(&endpoint);
            match Running::start(Arc::clone(&self.desk), name.clone(), socket.clone()) {
                Ok(running) => drop(self.servers.insert(name.clone(), Server { running, known_to: None })),
                Err(error) => {
                    warn!(%error, socket = %socket.display(), "a device plugin cannot listen; it is tried again");
                    return false;
                }
            }
        }
        let Some(run) = KubeletRun::of(&self.places.kubelet) else { return true };
        let Some(server) = self.servers.get_mut(&name) else { return true };
        if server.known_to == Some(run) {
            return true;
        }
        match register(&self.places.kubelet, &name, &endpoint).await {
            Ok(()) => {
                info!(resource = %name, "registered with kubelet");
                server.known_to = Some(run);
                true
            }
            Err(error) => {
                warn!("{error}");
                false
            }
        }
    }

    async fn stop_all(&mut self) {
        let servers = std::mem::take(&mut self.servers);
        futures::future::join_all(servers.into_values().map(|server| server.running.stop())).await;
    }
}

/// kubelet's socket in its folder, where nothing else is said.
pub fn kubelet_socket(folder: &Path) -> PathBuf {
    folder.join("kubelet.sock")
}
