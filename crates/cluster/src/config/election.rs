//! Which of several processes schedules.

use serde::{Deserialize, Serialize};

use super::values::{ObjectName, Span};

/// The leader election, as Kubernetes' components have it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct LeaderElection {
    /// Whether there is one. Without, this process must be the only one.
    pub leader_elect: bool,
    /// How long others wait after the last renewal before they take over.
    pub lease_duration: Span,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Span,
    /// How long it waits between tries.
    pub retry_period: Span,
    /// The lease's name.
    pub resource_name: ObjectName,
    /// Its namespace. Unset while the file is read; the process' own fills it in.
    pub(super) resource_namespace: Option<ObjectName>,
}

/// The namespace of the lease where nothing says another.
pub(super) const FALLBACK_NAMESPACE: &str = "kube-system";

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            leader_elect: true,
            lease_duration: Span::from_secs(15),
            renew_deadline: Span::from_secs(10),
            retry_period: Span::from_secs(2),
            resource_name: name("gpu-scheduler"),
            resource_namespace: None,
        }
    }
}

fn name(name: &str) -> ObjectName {
    name.parse().expect("a name of our own is a name")
}

impl LeaderElection {
    /// The namespace of the lease.
    pub fn resource_namespace(&self) -> &str {
        self.resource_namespace.as_ref().map_or(FALLBACK_NAMESPACE, ObjectName::as_str)
    }

    /// Fills in the namespace, where the file says none.
    pub(super) fn settle(&mut self, own_namespace: Option<ObjectName>) {
        let known = self.resource_namespace.take().or(own_namespace);
        self.resource_namespace = Some(known.unwrap_or_else(|| name(FALLBACK_NAMESPACE)));
    }

    /// What no single field shows to be wrong: the field, and what is wrong with it. The rules are those of client-go:
    /// a leader must have given up before others take over, and have tried more than once by then.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        let Self { lease_duration: lease, renew_deadline: renew, retry_period: retry, .. } = self;
        if *retry == Span::from_secs(0) {
            return Some(("retryPeriod", "it is zero; write a duration such as 2s".to_owned()));
        }
        // client-go waits up to 1.2 periods.
        if renew.millis().0 <= retry.millis().0.saturating_mul(6) / 5 {
            let what = format!("{renew} is not more than 1.2 times the retryPeriod {retry}; write a longer one");
            return Some(("renewDeadline", what));
        }
        if lease.millis().0 % 1000 != 0 {
            return Some((
                "leaseDuration",
                format!("{lease} is no whole number of seconds, as a Lease has it; write one"),
            ));
        }
        (lease <= renew).then(|| {
            let what = format!("{lease} is not longer than the renewDeadline {renew}; write a longer one");
            ("leaseDuration", what)
        })
    }
}
