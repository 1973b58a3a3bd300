//! A schedule: a cluster, what is asked of it, and what goes wrong when. A value that can be printed, played again and made
//! smaller.
//!
//! Each part has a name by its place (`n0` a node, `g0` a group, `p0` a pod, `f0` a fault), which it keeps when others are
//! left out: so a seed and the names of what was kept say everything.

use std::collections::BTreeSet;
use std::fmt;

/// Milliseconds after the beginning.
pub type Moment = u64;

/// A schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What it was drawn from, and what is drawn while it is played.
    pub seed: u64,
    /// How many replicas of the scheduler there are.
    pub replicas: usize,
    /// After how long without a change a watch sends a bookmark, milliseconds; 0: never.
    pub bookmarks: Moment,
    /// Nodes that are there from the beginning.
    pub nodes: Vec<NodePlan>,
    /// Pod groups that are there from the beginning.
    pub groups: Vec<GroupPlan>,
    /// Pods, each with the moment when it is created.
    pub pods: Vec<PodPlan>,
    /// What goes wrong.
    pub faults: Vec<FaultPlan>,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePlan {
    /// Its name.
    pub name: String,
    /// How many cards it has.
    pub cards: u32,
    /// Who tells of them.
    pub told: Told,
}

/// Who tells of a node's cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// The node object alone.
    ByLabels,
    /// An agent as well.
    ByAgent,
    /// An agent that hands devices out by what records say.
    Steered,
    /// An agent; all cards are cut into slices of one profile.
    Sliced,
}

/// A pod group of which so many pods start together, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlan {
    /// Its name.
    pub name: String,
    /// How many.
    pub min_count: u32,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPlan {
    /// Its name.
    pub name: String,
    /// When it is created.
    pub at: Moment,
    /// What its app containers need, one each.
    pub needs: Vec<Need>,
    /// What a container needs that runs before them.
    pub init: Option<Need>,
    /// Its priority.
    pub priority: i32,
    /// Its group.
    pub group: Option<String>,
    /// Whether another scheduler binds it, and says nothing of devices.
    pub foreign: bool,
}

/// What a container needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// CPU alone.
    Nothing,
    /// So many whole cards.
    Cards(u32),
    /// So many GiB, and percent of the compute, on each of so many cards.
    Share {
        /// GiB.
        memory: u32,
        /// Percent.
        compute: u32,
        /// Cards.
        cards: u32,
    },
    /// So many slices.
    Slices(u32),
}

/// Something that goes wrong, or that somebody else does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultPlan {
    /// Its name.
    pub name: String,
    /// When it begins.
    pub at: Moment,
    /// How long it lasts, where it lasts.
    pub lasts: Moment,
    /// What it is.
    pub what: Fault,
}

impl FaultPlan {
    /// When it has ended.
    pub fn ends(&self) -> Moment {
        self.at + self.lasts
    }
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// So many of a hundred requests are answered so.
    Answers {
        /// Which ones.
        to: Asked,
        /// The answer.
        answer: Answered,
        /// Of a hundred.
        percent: usize,
    },
    /// The API server answers nothing, and all watches break.
    Outage,
    /// Requests take this much longer on their way, milliseconds.
    Slow(Moment),
    /// News of a kind come this much later, milliseconds.
    Lag(Kind, Moment),
    /// The watches of a kind break.
    Cut(Kind),
    /// The API server forgets what it can no longer tell whoever watches: who comes back has to list anew.
    Compacted,
    /// The watches of a kind end because they are too far behind, although nothing was compacted.
    Expired(Kind),
    /// A replica is killed, and started again at the end.
    Killed(usize),
    /// Whoever leads is stopped, and goes on at the end.
    Frozen,
    /// Whoever leads is stopped as soon as a bind has passed its fence, and goes on at the end.
    FrozenAtBind,
    /// A pod is deleted by its user.
    Deleted(String),
    /// A pod is deleted, and one of its name is created at once.
    Replaced(String),
    /// A pod that runs comes to its end.
    Finished(String),
    /// A node takes no new pods for a while.
    Cordoned(String),
    /// A node is deleted, and comes again at the end.
    NodeGone(String),
    /// A node is deleted and comes again at the end; its pods are not cleared away meanwhile.
    NodeReplaced(String),
    /// A card is sick for a while.
    Sick(String, u32),
    /// A node's report is deleted, and written again at the end.
    Unreported(String),
    /// A node's kubelet admits nobody and stops nobody.
    KubeletHangs(String),
}

/// Which requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Binds.
    Binds,
    /// All that a term asks and writes.
    Everything,
    /// Reads and writes of the Lease.
    Lease,
}

/// How a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// Refused for now; it took no effect.
    TooManyRequests,
    /// A conflict, although nobody else wrote, as admission may say; it took no effect.
    Conflict,
    /// An error; it took no effect.
    Error,
    /// A timeout, before it took effect.
    TimeoutBefore,
    /// A timeout, although it took effect.
    TimeoutAfter,
    /// The connection breaks before it arrives.
    LostBefore,
    /// The connection breaks although it took effect.
    LostAfter,
    /// It took effect, and no answer ever comes.
    Silence,
}

/// A kind that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Nodes.
    Nodes,
    /// Pods.
    Pods,
    /// Agents' reports.
    Reports,
    /// Pod groups.
    Groups,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nodes, Self::Pods, Self::Reports, Self::Groups];

    /// Its place among them.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl Plan {
    /// When the last fault has ended and the last pod was created.
    pub fn calm(&self) -> Moment {
        let faults = self.faults.iter().map(FaultPlan::ends);
        faults.chain(self.pods.iter().map(|pod| pod.at)).max().unwrap_or(0)
    }

    /// Whether a leader may bind late, because it was stopped.
    pub fn freezes(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault.what, Fault::Frozen | Fault::FrozenAtBind))
    }

    /// Names of all parts.
    pub fn parts(&self) -> Vec<String> {
        let (nodes, groups) = (self.nodes.iter().map(|n| &n.name), self.groups.iter().map(|g| &g.name));
        let (pods, faults) = (self.pods.iter().map(|p| &p.name), self.faults.iter().map(|f| &f.name));
        faults.chain(pods).chain(groups).chain(nodes).cloned().collect()
    }

    /// With these parts alone.
    #[must_use]
    pub fn only(mut self, parts: &BTreeSet<String>) -> Self {
        self.nodes.retain(|n| parts.contains(&n.name));
        self.groups.retain(|g| parts.contains(&g.name));
        self.pods.retain(|p| parts.contains(&p.name));
        self.faults.retain(|f| parts.contains(&f.name));
        self
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {} replicas, bookmarks every {} ms", self.seed, self.replicas, self.bookmarks)?;
        for node in &self.nodes {
            writeln!(f, "  {}: {} cards, {:?}", node.name, node.cards, node.told)?;
        }
        for group in &self.groups {
            writeln!(f, "  {}: {} together", group.name, group.min_count)?;
        }
        for pod in &self.pods {
            write!(f, "  {} at {} ms: {:?}", pod.name, pod.at, pod.needs)?;
            if let Some(init) = pod.init {
                write!(f, ", before that {init:?}")?;
            }
            if pod.priority != 0 {
                write!(f, ", priority {}", pod.priority)?;
            }
            if let Some(group) = &pod.group {
                write!(f, ", of {group}")?;
            }
            writeln!(f, "{}", if pod.foreign { ", another scheduler's" } else { "" })?;
        }
        for fault in &self.faults {
            writeln!(f, "  {} from {} to {} ms: {:?}", fault.name, fault.at, fault.ends(), fault.what)?;
        }
        Ok(())
    }
}
