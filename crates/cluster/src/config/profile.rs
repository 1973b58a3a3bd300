//! A profile of the configuration: a policy under a scheduler name, with changes.

use gpu_scheduler_engine::framework::Profile;
use gpu_scheduler_engine::model::Cost;
use gpu_scheduler_engine::{Config, Policy, ProfileConfig};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::plugins::PluginChoices;
use super::suggest::did_you_mean;
use super::values::{Bounded, SchedulerName};

/// How pods of one scheduler name are placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProfileSettings {
    /// `spec.schedulerName` of its pods.
    pub scheduler_name: SchedulerName,
    /// What it finds good.
    pub policy: PolicyName,
    /// The seed of the policy `random`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// What a point of Kubernetes' preferences (0 to 100, affinity and the like) is worth, in milli-GPU.
    pub preference_weight: Bounded<0, 1000>,
    /// Changes to the policy's plugins.
    #[serde(skip_serializing_if = "PluginChoices::is_empty")]
    pub plugins: PluginChoices,
}

impl Default for ProfileSettings {
    /// As [`Config::default`] has it.
    fn default() -> Self {
        let scheduler = Config::default().profiles.into_iter().next().map(|p| p.scheduler).unwrap_or_default();
        Self {
            scheduler_name: scheduler.parse().expect("the engine's own name is a name"),
            policy: PolicyName(Policy::ShadowPrice),
            seed: None,
            preference_weight: default_weight(),
            plugins: PluginChoices::default(),
        }
    }
}

/// The engine's own, in milli-GPU.
fn default_weight() -> Bounded<0, 1000> {
    let milli = Profile::default().preference_weight().0 / Cost::milli(1).0;
    u32::try_from(milli).ok().and_then(Bounded::new).expect("the engine's own weight is in the range")
}

impl ProfileSettings {
    /// For the engine; made anew at each call, because profiles cannot be copied.
    pub fn engine_profile(&self) -> ProfileConfig {
        let policy = self.policy.0.seeded(self.seed.unwrap_or_default());
        let mut profile = self.plugins.apply(policy.profile());
        if self.preference_weight != default_weight() {
            profile = profile.with_preference_weight(Cost::milli(i64::from(self.preference_weight.get())));
        }
        ProfileConfig { scheduler: self.scheduler_name.to_string(), profile }
    }

    /// What no single field shows to be wrong: the field, below the profile, and what is wrong with it.
    pub(super) fn problem(&self) -> Option<(String, String)> {
        if self.seed.is_some() && !matches!(self.policy.0, Policy::Random { .. }) {
            let what = format!("the policy {} has no seed; leave it out, or write policy: random", self.policy.0);
            return Some(("seed".to_owned(), what));
        }
        let (field, name) = self.plugins.repeated()?;
        Some((format!("plugins.{field}"), format!("{name} is enabled twice; leave one out")))
    }
}

/// A policy by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyName(pub Policy);

impl Serialize for PolicyName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for PolicyName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map(Self).map_err(|error| {
            de::Error::custom(format_args!("{error}{}", did_you_mean(&name, Policy::ALL.map(Policy::name))))
        })
    }
}
