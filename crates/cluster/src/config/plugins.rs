//! Which plugins a profile adds to its policy's or takes out, as Kubernetes' configuration writes it.

use std::fmt;
use std::marker::PhantomData;

use gpu_scheduler_engine::framework::{Disabled, ExtensionPoint, Profile};
use gpu_scheduler_engine::plugins;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::suggest::did_you_mean;
use super::values::Bounded;

/// Says at which point a name must be a plugin's, so that a wrong one is found where it is written.
pub trait Point: fmt::Debug + Clone + Copy + PartialEq + Eq {
    /// The point.
    const POINT: ExtensionPoint;
}

macro_rules! points {
    ($($(#[$doc:meta])* $name:ident),+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {}
        impl Point for $name {
            const POINT: ExtensionPoint = ExtensionPoint::$name;
        }
    )+};
}
points!(
    /// Before any node.
    PreFilter,
    /// Node by node.
    Filter,
    /// Among the nodes that will do.
    Score
);

/// The name of a plugin that the engine has at this point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PluginRef<P>(&'static str, PhantomData<P>);

impl<P: Point> PluginRef<P> {
    /// The plugin of this name.
    ///
    /// # Errors
    /// If the engine has none of that name at this point; the text says which there are.
    pub fn new(name: &str) -> Result<Self, String> {
        let known = plugins::names(P::POINT);
        match known.iter().find(|plugin| **plugin == name) {
            Some(plugin) => Ok(Self(plugin, PhantomData)),
            None => Err(format!(
                "there is no {} plugin {name:?}; write one of {}{}",
                P::POINT.name(),
                known.join(", "),
                did_you_mean(name, known.iter().copied())
            )),
        }
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        self.0
    }
}

impl<P> Serialize for PluginRef<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de, P: Point> Deserialize<'de> for PluginRef<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// A plugin to add.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, bound = "P: Point")]
pub struct EnabledPlugin<P> {
    /// Its name.
    pub name: PluginRef<P>,
}

/// A Score plugin to add, or to weigh otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WeightedPlugin {
    /// Its name.
    pub name: PluginRef<Score>,
    /// How often it counts; unset: as the policies have it, which is 1 but for Kubernetes' own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<Bounded<1, 1000>>,
}

/// What to take out: one plugin, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<P> {
    /// All that may be (`*`).
    All,
    /// This one.
    Plugin(PluginRef<P>),
}

impl<P> Serialize for Which<P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("*"),
            Self::Plugin(plugin) => plugin.serialize(serializer),
        }
    }
}

impl<'de, P: Point> Deserialize<'de> for Which<P> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if name == "*" {
            return Ok(Self::All);
        }
        let plugin = PluginRef::new(&name).map_err(de::Error::custom)?;
        // The engine knows what must stay; asking it here gives the error its place.
        let refused = Profile::default().disabling(P::POINT, Disabled::Named(plugin.name()));
        refused.map(|_| Self::Plugin(plugin)).map_err(de::Error::custom)
    }
}

/// A plugin to take out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, bound = "P: Point")]
pub struct DisabledPlugin<P> {
    /// Its name, or `*`.
    pub name: Which<P>,
}

/// What to change at one point. First `disabled` is taken out of the policy's list, then `enabled` is added: a plugin
/// that is still there keeps its place, others come last, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    default,
    bound(serialize = "E: Serialize, P: Point", deserialize = "E: Deserialize<'de>, P: Point")
)]
pub struct PluginSet<E, P> {
    /// To add.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<E>,
    /// To take out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<DisabledPlugin<P>>,
}

impl<E, P> Default for PluginSet<E, P> {
    fn default() -> Self {
        Self { enabled: Vec::new(), disabled: Vec::new() }
    }
}

impl<E, P> PluginSet<E, P> {
    fn is_empty(&self) -> bool {
        self.enabled.is_empty() && self.disabled.is_empty()
    }
}

/// A plugin to add, with its weight.
pub trait Entry {
    /// Its name and weight.
    fn choice(&self) -> (&'static str, i64);
}

impl<P: Point> Entry for EnabledPlugin<P> {
    fn choice(&self) -> (&'static str, i64) {
        (self.name.name(), 1)
    }
}

impl Entry for WeightedPlugin {
    fn choice(&self) -> (&'static str, i64) {
        let name = self.name.name();
        (name, self.weight.map_or_else(|| plugins::default_weight(name), |weight| i64::from(weight.get())))
    }
}

impl<E: Entry, P: Point> PluginSet<E, P> {
    fn apply(&self, profile: Profile) -> Profile {
        let checked = "names are checked when they are read";
        let left = self.disabled.iter().fold(profile, |profile, plugin| {
            let which = match plugin.name {
                Which::All => Disabled::All,
                Which::Plugin(plugin) => Disabled::Named(plugin.name()),
            };
            profile.disabling(P::POINT, which).expect(checked)
        });
        self.enabled
            .iter()
            .map(Entry::choice)
            .fold(left, |profile, (name, weight)| profile.enabling(P::POINT, name, weight).expect(checked))
    }

    /// Position and name of a plugin that is enabled a second time.
    fn repeated(&self) -> Option<(usize, &'static str)> {
        let names: Vec<&str> = self.enabled.iter().map(|entry| entry.choice().0).collect();
        (1..names.len()).find(|at| names[..*at].contains(&names[*at])).map(|at| (at, self.enabled[at].choice().0))
    }
}

/// What a profile changes of its policy's plugins.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PluginChoices {
    /// Before any node.
    #[serde(skip_serializing_if = "PluginSet::is_empty")]
    pub pre_filter: PluginSet<EnabledPlugin<PreFilter>, PreFilter>,
    /// Node by node.
    #[serde(skip_serializing_if = "PluginSet::is_empty")]
    pub filter: PluginSet<EnabledPlugin<Filter>, Filter>,
    /// Among the nodes that will do.
    #[serde(skip_serializing_if = "PluginSet::is_empty")]
    pub score: PluginSet<WeightedPlugin, Score>,
}

impl PluginChoices {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The profile with these changes.
    pub(super) fn apply(&self, profile: Profile) -> Profile {
        self.score.apply(self.filter.apply(self.pre_filter.apply(profile)))
    }

    /// Where a plugin is enabled twice, below `plugins`, and its name.
    pub(super) fn repeated(&self) -> Option<(String, &'static str)> {
        [
            (ExtensionPoint::PreFilter, self.pre_filter.repeated()),
            (ExtensionPoint::Filter, self.filter.repeated()),
            (ExtensionPoint::Score, self.score.repeated()),
        ]
        .into_iter()
        .find_map(|(point, found)| found.map(|(at, name)| (format!("{}.enabled[{at}].name", point.name()), name)))
    }
}
