//! What an engine is made with.

use crate::framework::{Policy, Profile};
use crate::model::{Mib, Millis};
use crate::state::DeclaredPod;

/// The scheduler name that pods address us by.
const SCHEDULER: &str = "gpu-scheduler";

/// A profile under the name that pods call it by.
#[derive(Debug)]
pub struct ProfileConfig {
    /// `spec.schedulerName` of its pods.
    pub scheduler: String,
    /// The profile.
    pub profile: Profile,
}

/// Settings of an engine.
#[derive(Debug)]
pub struct Config {
    /// Profiles by scheduler name, at most 255.
    pub profiles: Vec<ProfileConfig>,
    /// Memory that processes of no pod may use on a card that is still given whole.
    pub foreign_tolerance: Mib,
    /// How long a report's measurements count.
    pub report_lease: Millis,
    /// After how long a parked pod is tried again although nothing changed for it, so that its message is not
    /// older than that. Wake-ups are exact: without it no pod waits longer.
    pub retry_after: Option<Millis>,
    /// Whether evaluations are kept by class until a node changes. Off, every decision looks at every node: the
    /// same decisions, for comparison.
    pub reuse_evaluations: bool,
    /// Steps of one poll.
    pub steps_per_poll: u32,
    /// The mix of requests, if it is known; otherwise it is learnt.
    pub mix: Option<Vec<DeclaredPod>>,
}

impl Config {
    /// One profile with this policy, under the name `gpu-scheduler`.
    pub fn with_policy(policy: Policy) -> Self {
        Self::with_profile(policy.profile())
    }

    /// One profile, under the name `gpu-scheduler`.
    pub fn with_profile(profile: Profile) -> Self {
        Self {
            profiles: vec![ProfileConfig { scheduler: SCHEDULER.into(), profile }],
            foreign_tolerance: Mib(1024),
            report_lease: Millis::from_secs(11 * 60),
            retry_after: Some(Millis::from_secs(5 * 60)),
            reuse_evaluations: true,
            steps_per_poll: 2048,
            mix: None,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::with_policy(Policy::ShadowPrice)
    }
}
