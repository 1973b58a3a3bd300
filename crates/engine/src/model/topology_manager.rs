//! kubelet's topology manager, by its own names: what a node says of how it aligns devices to NUMA nodes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// `topologyManagerPolicy` and `topologyManagerScope` of a node's kubelet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct TopologyManager {
    /// How strictly.
    pub policy: TopologyManagerPolicy,
    /// For what at a time.
    pub scope: TopologyManagerScope,
}

impl TopologyManager {
    /// Whether it has a say in which devices a container gets.
    pub fn aligns(self) -> bool {
        self.policy != TopologyManagerPolicy::None
    }
}

impl fmt::Display for TopologyManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy {}, scope {}", self.policy, self.scope)
    }
}

/// `topologyManagerPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyManagerPolicy {
    /// Nothing is aligned.
    #[default]
    None,
    /// Aligned as well as can be, and never refused.
    BestEffort,
    /// Refused where it needs more NUMA nodes than it would on an idle machine.
    Restricted,
    /// Refused where one NUMA node does not do.
    SingleNumaNode,
}

impl TopologyManagerPolicy {
    const ALL: [Self; 4] = [Self::None, Self::BestEffort, Self::Restricted, Self::SingleNumaNode];

    /// As kubelet spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::BestEffort => "best-effort",
            Self::Restricted => "restricted",
            Self::SingleNumaNode => "single-numa-node",
        }
    }
}

/// `topologyManagerScope`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyManagerScope {
    /// Container by container.
    #[default]
    Container,
    /// The pod as a whole.
    Pod,
}

impl TopologyManagerScope {
    const ALL: [Self; 2] = [Self::Container, Self::Pod];

    /// As kubelet spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Pod => "pod",
        }
    }
}

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologySetting {
    /// `topologyManagerPolicy`.
    Policy,
    /// `topologyManagerScope`.
    Scope,
}

/// A name that kubelet does not know.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{value:?} is not known; write {known}")]
pub struct UnknownName {
    value: String,
    known: String,
}

fn read<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, UnknownName> {
    all.iter().copied().find(|it| name(*it) == text).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|it| name(*it)).collect();
        UnknownName { value: text.to_owned(), known: names.join(", ") }
    })
}

impl TopologyManager {
    /// Policy and scope as kubelet spells them; what is empty has kubelet's default.
    ///
    /// # Errors
    /// Which of the two is not known, and its name.
    pub fn named(policy: &str, scope: &str) -> Result<Self, (TopologySetting, UnknownName)> {
        fn or_default<T: FromStr + Default>(text: &str) -> Result<T, T::Err> {
            if text.is_empty() { Ok(T::default()) } else { text.parse() }
        }
        Ok(Self {
            policy: or_default(policy).map_err(|unknown| (TopologySetting::Policy, unknown))?,
            scope: or_default(scope).map_err(|unknown| (TopologySetting::Scope, unknown))?,
        })
    }
}

impl FromStr for TopologyManagerPolicy {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read(text, &Self::ALL, Self::as_str)
    }
}

impl FromStr for TopologyManagerScope {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read(text, &Self::ALL, Self::as_str)
    }
}

impl fmt::Display for TopologyManagerPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for TopologyManagerScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kubelets() {
        for policy in TopologyManagerPolicy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
            assert_eq!(serde_json::to_value(policy).unwrap(), policy.as_str());
        }
        for scope in TopologyManagerScope::ALL {
            assert_eq!(scope.to_string().parse(), Ok(scope));
        }
        let unknown = "strict".parse::<TopologyManagerPolicy>().unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "\"strict\" is not known; write none, best-effort, restricted, single-numa-node"
        );
    }
}
