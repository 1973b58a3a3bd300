//! All that an engine knows, as a value that can be written down and gone on from.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::contract::Action;
use crate::engine::binding::Bindings;
use crate::engine::wakeup::{Leases, WakeCursor};
use crate::engine::{Config, Engine};
use crate::framework::ClassCaches;
use crate::model::{Mib, PodId};
use crate::queue::Queue;
use crate::state::State;

/// All that an engine knows, between two calls. With the same [`Config`] an engine restored from it gives the same
/// actions at the same polls for the same further events, if the one it was taken of had its caches dropped
/// ([`Engine::drop_caches`]).
///
/// Its form belongs to one version of the engine: what another version wrote may not be readable.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Snapshot {
    /// Scheduler names, in order: a class names its profile by its place here.
    profiles: Vec<String>,
    state: State,
    queue: Queue,
    bindings: Bindings,
    outbox: VecDeque<Action>,
    wake: WakeCursor,
    leases: Leases,
    late: BTreeSet<PodId>,
    evaluated_for: Option<PodId>,
    decisions: u64,
}

/// Why an engine cannot go on from a snapshot: it was taken under another configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// Other profiles, or in another order.
    #[error("the snapshot is of the profiles {snapshot:?}, and the configuration has {config:?}")]
    Profiles {
        /// In the snapshot.
        snapshot: Vec<String>,
        /// In the configuration.
        config: Vec<String>,
    },
    /// Another tolerance, which is part of every card's room.
    #[error("the snapshot is of a foreign tolerance of {snapshot}, and the configuration has {config}")]
    ForeignTolerance {
        /// In the snapshot.
        snapshot: Mib,
        /// In the configuration.
        config: Mib,
    },
    /// A policy that reads prices needs them learnt from the first arrival on.
    #[error("the policies differ from the snapshot's: one of the two learns prices, the other does not")]
    Prices,
}

impl Engine {
    /// All that the engine knows. `O(nodes + pods)`: a copy, so that it can be written down elsewhere while the engine
    /// goes on.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            profiles: self.profiles.iter().map(|(scheduler, _)| scheduler.clone()).collect(),
            state: self.state.clone(),
            queue: self.queue.clone(),
            bindings: self.bindings.clone(),
            outbox: self.outbox.clone(),
            wake: self.wake.clone(),
            leases: self.leases.clone(),
            late: self.late.clone(),
            evaluated_for: self.evaluated_for,
            decisions: self.decisions,
        }
    }

    /// An engine that goes on from a snapshot. A declared [`Config::mix`] counts for nothing: the snapshot has it.
    ///
    /// # Panics
    /// As [`Engine::new`].
    pub fn restore(config: Config, snapshot: Snapshot) -> Result<Self, RestoreError> {
        let mut engine = Self::new(Config { mix: None, ..config });
        let profiles: Vec<String> = engine.profiles.iter().map(|(scheduler, _)| scheduler.clone()).collect();
        if profiles != snapshot.profiles {
            return Err(RestoreError::Profiles { snapshot: snapshot.profiles, config: profiles });
        }
        let ((tolerance, prices), (config, wanted)) = (snapshot.state.settings(), engine.state.settings());
        if tolerance != config {
            return Err(RestoreError::ForeignTolerance { snapshot: tolerance, config });
        }
        if prices != wanted {
            return Err(RestoreError::Prices);
        }
        engine.state = snapshot.state;
        engine.state.make_index();
        engine.queue = snapshot.queue;
        engine.bindings = snapshot.bindings;
        engine.outbox = snapshot.outbox;
        engine.wake = snapshot.wake;
        engine.leases = snapshot.leases;
        engine.late = snapshot.late;
        engine.evaluated_for = snapshot.evaluated_for;
        engine.decisions = snapshot.decisions;
        Ok(engine)
    }

    /// Forgets kept evaluations. No decision changes by it, but a search starts over, so the polls that it takes do:
    /// whoever takes a snapshot drops them first, and then both engines start alike. Each class that is asked about
    /// is evaluated on all nodes once more: `O(classes * nodes)` steps, spread over the polls that need them.
    pub fn drop_caches(&mut self) {
        self.caches = ClassCaches::default();
    }
}
