//! All that an engine knows, as a value that can be written down and gone on from.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::contract::Action;
use crate::engine::binding::Bindings;
use crate::engine::wakeup::{Leases, WakeCursor};
use crate::engine::{Config, Engine, Preemptions};
use crate::framework::ClassCaches;
use crate::model::{Mib, PodId, PodUid};
use crate::preemption::Search;
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
    search: Option<(PodUid, Search)>,
    preemptions: Preemptions,
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
        // Named one by one, so that whoever adds a field says whether it is part of a snapshot: it is, unless the
        // configuration says it or it is worked out again.
        let Self {
            state,
            profiles,
            queue,
            caches: _,
            bindings,
            outbox,
            wake,
            leases,
            late,
            search,
            preemptions,
            report_lease: _,
            retry_after: _,
            reuse_evaluations: _,
            evaluated_for,
            steps_per_poll: _,
            steps: _, // a poll begins with all of them
            decisions,
            #[cfg(feature = "planted-bugs")]
                forgets_failures: _,
        } = self;
        Snapshot {
            profiles: profiles.iter().map(|(scheduler, _)| scheduler.clone()).collect(),
            state: state.clone(),
            queue: queue.clone(),
            bindings: bindings.clone(),
            outbox: outbox.clone(),
            wake: wake.clone(),
            leases: leases.clone(),
            late: late.clone(),
            search: search.clone(),
            preemptions: preemptions.clone(),
            evaluated_for: *evaluated_for,
            decisions: *decisions,
        }
    }

    /// An engine that goes on from a snapshot. A declared [`Config::mix`] counts for nothing: the snapshot has it.
    ///
    /// # Panics
    /// As [`Engine::new`].
    pub fn restore(config: Config, snapshot: Snapshot) -> Result<Self, RestoreError> {
        let engine = Self::new(Config { mix: None, ..config });
        let Snapshot {
            profiles,
            mut state,
            queue,
            bindings,
            outbox,
            wake,
            leases,
            late,
            search,
            preemptions,
            evaluated_for,
            decisions,
        } = snapshot;
        let configured: Vec<String> = engine.profiles.iter().map(|(scheduler, _)| scheduler.clone()).collect();
        if profiles != configured {
            return Err(RestoreError::Profiles { snapshot: profiles, config: configured });
        }
        let ((tolerance, priced), (config, wanted)) = (state.settings(), engine.state.settings());
        if tolerance != config {
            return Err(RestoreError::ForeignTolerance { snapshot: tolerance, config });
        }
        if priced != wanted {
            return Err(RestoreError::Prices);
        }
        state.make_index();
        Ok(Self {
            state,
            queue,
            bindings,
            outbox,
            wake,
            leases,
            late,
            search,
            preemptions,
            evaluated_for,
            decisions,
            ..engine
        })
    }

    /// Forgets kept evaluations. No decision changes by it, but a search starts over, so the polls that it takes do:
    /// whoever takes a snapshot drops them first, and then both engines start alike. Each class that is asked about
    /// is evaluated on all nodes once more: `O(classes * nodes)` steps, spread over the polls that need them.
    pub fn drop_caches(&mut self) {
        self.caches = ClassCaches::default();
    }
}
