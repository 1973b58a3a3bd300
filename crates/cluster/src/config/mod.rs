//! The configuration of `gpu-scheduler run`: one YAML file in the spirit of `kubescheduler.config.k8s.io/v1`.
//!
//! Reading it decides once what every part is: from then on all values are typed, and what is wrong has been said with
//! its place. `docs/configuration.md` explains each field.

mod election;
mod output;
mod plugins;
mod problem;
mod profile;
mod read;
mod suggest;
mod traces;
mod values;

pub use election::LeaderElection;
pub use output::{Journal, LogFormat, LogLevel, Logging};
pub use plugins::{
    DisabledPlugin, EnabledPlugin, Filter, PluginChoices, PluginRef, PluginSet, Point, PreFilter, Score,
    WeightedPlugin, Which,
};
pub use problem::{ConfigProblem, plain_words, read_yaml};
pub use profile::{PolicyName, ProfileSettings};
pub use read::ConfigError;
pub use traces::{CollectorAddress, Tracing};
pub use values::{BindAddress, Bounded, Memory, ObjectName, RetryAfter, SchedulerName, Span};

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use gpu_scheduler_engine::Config;
use serde::{Deserialize, Serialize};

/// Profiles that an engine takes.
const MAX_PROFILES: usize = 255;

/// The effective configuration: read, checked, with defaults filled in. Written out and read again it is the same.
///
/// ```
/// use gpu_scheduler_cluster::config::RunConfig;
/// let text = "apiVersion: gpu-scheduler.io/v1alpha1\nkind: SchedulerConfiguration\nprofiles: [{policy: fdg}]\n";
/// let problem = RunConfig::parse(text).unwrap_err().to_string();
/// assert!(problem.starts_with(r#"line 3, field profiles[0].policy: unknown policy "fdg""#), "{problem}");
/// assert!(problem.ends_with(r#"did you mean "fgd"?"#), "{problem}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunConfig {
    api_version: ApiVersion,
    kind: Kind,
    /// Which of several processes schedules.
    #[serde(default)]
    pub leader_election: LeaderElection,
    /// How pods are placed, by scheduler name.
    #[serde(default = "default_profiles")]
    pub profiles: Vec<ProfileSettings>,
    /// Memory that processes of no pod may use on a card that is still given whole.
    #[serde(default = "default_foreign_tolerance")]
    pub foreign_tolerance: Memory,
    /// How long a report's measurements count.
    #[serde(default = "default_report_lease")]
    pub report_lease: Span,
    /// When parked pods are tried again although nothing changed for them.
    #[serde(default = "default_retry_after")]
    pub retry_after: RetryAfter,
    /// Binds that may wait for the API server at a time.
    #[serde(default = "default_binds_in_flight")]
    pub binds_in_flight: Bounded<1, 1024>,
    /// Where health, metrics and questions are served.
    #[serde(default = "default_bind_address")]
    pub bind_address: BindAddress,
    /// The certificate that they are served with, and those that lead to its authority; with `tls_private_key_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_cert_file: Option<PathBuf>,
    /// Its key. With both files they are served over HTTPS, without over plain HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_private_key_file: Option<PathBuf>,
    /// The log.
    #[serde(default)]
    pub logging: Logging,
    /// Traces, if any are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Tracing>,
    /// The journal, if one is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<Journal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum ApiVersion {
    #[serde(rename = "gpu-scheduler.io/v1alpha1")]
    V1alpha1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    SchedulerConfiguration,
}

fn default_profiles() -> Vec<ProfileSettings> {
    vec![ProfileSettings::default()]
}
fn default_foreign_tolerance() -> Memory {
    Memory::mib(Config::default().foreign_tolerance.0)
}
fn default_report_lease() -> Span {
    Config::default().report_lease.into()
}
fn default_retry_after() -> RetryAfter {
    Config::default().retry_after.into()
}
fn default_binds_in_flight() -> Bounded<1, 1024> {
    const BINDS: Bounded<1, 1024> = Bounded::new(64).expect("64 is in the range");
    BINDS
}
fn default_bind_address() -> BindAddress {
    BindAddress(SocketAddr::from((Ipv4Addr::LOCALHOST, 10259)))
}

impl Default for RunConfig {
    /// The engine's defaults, under its own scheduler name; the lease is in `kube-system`.
    fn default() -> Self {
        let mut leader_election = LeaderElection::default();
        leader_election.settle(None);
        Self {
            api_version: ApiVersion::V1alpha1,
            kind: Kind::SchedulerConfiguration,
            leader_election,
            profiles: default_profiles(),
            foreign_tolerance: default_foreign_tolerance(),
            report_lease: default_report_lease(),
            retry_after: default_retry_after(),
            binds_in_flight: default_binds_in_flight(),
            bind_address: default_bind_address(),
            tls_cert_file: None,
            tls_private_key_file: None,
            logging: Logging::default(),
            tracing: None,
            journal: None,
        }
    }
}

impl RunConfig {
    /// For the engine. Each call makes a fresh one: an engine takes it whole, and a replay needs another.
    pub fn engine_config(&self) -> Config {
        Config {
            profiles: self.profiles.iter().map(ProfileSettings::engine_profile).collect(),
            foreign_tolerance: self.foreign_tolerance.as_mib(),
            report_lease: self.report_lease.millis(),
            retry_after: self.retry_after.millis(),
            ..Config::default()
        }
    }

    /// As JSON, for `/configz` and the header of a journal; [`RunConfig::parse`] reads it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a configuration is text, numbers and lists")
    }

    /// What no single field shows to be wrong.
    fn check(&self) -> Result<(), ConfigProblem> {
        let fail = |field: String, what: String| Err(ConfigProblem::of_field(field, what));
        if let Some((field, what)) = self.leader_election.problem() {
            return fail(format!("leaderElection.{field}"), what);
        }
        match self.profiles.len() {
            0 => return fail("profiles".into(), "the list is empty; write a profile, or leave the list out".into()),
            1..=MAX_PROFILES => {}
            n => return fail("profiles".into(), format!("{n} profiles are too many; write at most {MAX_PROFILES}")),
        }
        for (at, profile) in self.profiles.iter().enumerate() {
            if let Some((field, what)) = profile.problem() {
                return fail(format!("profiles[{at}].{field}"), what);
            }
            let name = &profile.scheduler_name;
            if let Some(first) = self.profiles[..at].iter().position(|other| other.scheduler_name == *name) {
                let what = format!("profiles[{first}] has the name {name} too; give each profile a name of its own");
                return fail(format!("profiles[{at}].schedulerName"), what);
            }
        }
        if self.report_lease == Span::from_secs(0) {
            return fail("reportLease".into(), "it is zero; write a duration such as 11m".into());
        }
        if self.retry_after == RetryAfter::After(Span::from_secs(0)) {
            return fail("retryAfter".into(), "it is zero; write a duration such as 5m, or never".into());
        }
        if let Some((field, what)) = self.tls_problem() {
            return fail(field.into(), what);
        }
        match self.journal.as_ref().and_then(Journal::problem) {
            Some((field, what)) => fail(format!("journal.{field}"), what),
            None => Ok(()),
        }
    }

    /// Both files of the certificate, or neither.
    fn tls_problem(&self) -> Option<(&'static str, String)> {
        let fields = [("tlsCertFile", &self.tls_cert_file), ("tlsPrivateKeyFile", &self.tls_private_key_file)];
        if let Some((field, _)) = fields.iter().find(|(_, file)| file.as_deref() == Some(Path::new(""))) {
            return Some((field, "it is empty; write a file, or leave both out".to_owned()));
        }
        match fields {
            [(set, Some(_)), (missing, None)] | [(missing, None), (set, Some(_))] => {
                Some((missing, format!("it is missing, and {set} is there; write both for HTTPS, or neither for HTTP")))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
