//! How the node's kubelet aligns devices to NUMA nodes: as its own configuration file says, or the command line.

use std::path::{Path, PathBuf};

use gpu_scheduler_cluster::config::{ConfigError as FileError, ConfigProblem, plain_words, read_yaml};
use gpu_scheduler_cluster::objects::nullable;
use gpu_scheduler_engine::model::{TopologyManager, TopologyManagerPolicy, TopologyManagerScope, TopologySetting};
use serde::Deserialize;
use thiserror::Error;

/// The kind of kubelet's configuration file.
const KIND: &str = "KubeletConfiguration";

/// What is said of the node's kubelet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KubeletSource {
    /// Its configuration file, YAML or JSON.
    pub file: Option<PathBuf>,
    /// Its policy, whatever the file says.
    pub policy: Option<TopologyManagerPolicy>,
    /// Its scope, whatever the file says.
    pub scope: Option<TopologyManagerScope>,
}

/// kubelet's configuration file does not tell.
#[derive(Debug, Error)]
#[error(
    "{0}; name kubelet's configuration file with --kubelet-config, or say what it does with --topology-manager-policy"
)]
pub struct KubeletConfigError(#[from] FileError);

/// The fields of kubelet's file that are read; the rest is kubelet's business.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct KubeletConfiguration {
    kind: Option<String>,
    #[serde(deserialize_with = "nullable")]
    topology_manager_policy: String,
    #[serde(deserialize_with = "nullable")]
    topology_manager_scope: String,
}

impl KubeletSource {
    /// What is known; `None` where nothing is said. The file is read once: kubelet reads it at its own start, too.
    ///
    /// # Errors
    /// If the file cannot be read, or is none of kubelet's.
    pub fn read(&self) -> Result<Option<TopologyManager>, KubeletConfigError> {
        let from_file = self.file.as_deref().map(from_file).transpose()?;
        if from_file.is_none() && self.policy.is_none() && self.scope.is_none() {
            return Ok(None);
        }
        let base = from_file.unwrap_or_default();
        let (policy, scope) = (self.policy.unwrap_or(base.policy), self.scope.unwrap_or(base.scope));
        Ok(Some(TopologyManager { policy, scope }))
    }
}

fn from_file(path: &Path) -> Result<TopologyManager, FileError> {
    let text = std::fs::read_to_string(path).map_err(|source| FileError::Io { path: path.to_owned(), source })?;
    parse(&text).map_err(|problem| FileError::Content(ConfigProblem { file: Some(path.to_owned()), ..problem }))
}

/// A field that is missing or empty has kubelet's default.
fn parse(text: &str) -> Result<TopologyManager, ConfigProblem> {
    let file: KubeletConfiguration = read_yaml(text, plain_words)?;
    let wrong = |field: &str, what: String| ConfigProblem { file: None, line: None, field: field.to_owned(), what };
    if file.kind.as_deref() != Some(KIND) {
        let found = file.kind.map_or_else(|| "none".to_owned(), |kind| format!("{kind:?}"));
        return Err(wrong("kind", format!("it should be {KIND}, and is {found}")));
    }
    TopologyManager::named(&file.topology_manager_policy, &file.topology_manager_scope).map_err(|(setting, unknown)| {
        let field = match setting {
            TopologySetting::Policy => "topologyManagerPolicy",
            TopologySetting::Scope => "topologyManagerScope",
        };
        wrong(field, unknown.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use TopologyManagerPolicy::{BestEffort, None as NoPolicy, Restricted, SingleNumaNode};
    use TopologyManagerScope::{Container, Pod};

    const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

    #[test]
    fn what_kubelets_file_says() {
        for (text, policy, scope) in [
            ("", NoPolicy, Container),
            ("topologyManagerPolicy: null\n", NoPolicy, Container),
            ("topologyManagerPolicy: \"\"\ntopologyManagerScope: \"\"\n", NoPolicy, Container),
            ("maxPods: 250\ntopologyManagerPolicy: single-numa-node\n", SingleNumaNode, Container),
            ("topologyManagerPolicy: restricted\ntopologyManagerScope: pod\n", Restricted, Pod),
            (
                "topologyManagerPolicyOptions: {prefer-closest-numa-nodes: \"true\"}\ntopologyManagerPolicy: best-effort\n",
                BestEffort,
                Container,
            ),
        ] {
            assert_eq!(parse(&format!("{HEAD}{text}")).unwrap(), TopologyManager { policy, scope }, "{text}");
        }
        let json = r#"{"kind": "KubeletConfiguration", "topologyManagerPolicy": "restricted"}"#;
        assert_eq!(parse(json).unwrap(), TopologyManager { policy: Restricted, scope: Container });
    }

    #[test]
    fn what_is_wrong_is_said_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        for (text, expected) in [
            (
                "kind: KubeletConfiguration\ntopologyManagerPolicy: strict\n",
                "topologyManagerPolicy: \"strict\" is not known; write none,",
            ),
            (
                "kind: KubeletConfiguration\ntopologyManagerScope: node\n",
                "topologyManagerScope: \"node\" is not known; write container, pod",
            ),
            ("kind: KubeletConfiguration\ntopologyManagerPolicy: [none]\n", "topologyManagerPolicy"),
            ("kind: SchedulerConfiguration\n", "it should be KubeletConfiguration, and is \"SchedulerConfiguration\""),
            ("maxPods: 3\n", "it should be KubeletConfiguration, and is none"),
            ("kind: [\n", "line"),
        ] {
            std::fs::write(&path, text).unwrap();
            let source = KubeletSource { file: Some(path.clone()), ..KubeletSource::default() };
            let error = source.read().unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("config.yaml"), "{text}: {error}");
        }
        let nowhere = KubeletSource { file: Some("/nowhere.yaml".into()), ..KubeletSource::default() };
        let error = nowhere.read().unwrap_err().to_string();
        assert!(error.contains("/nowhere.yaml") && error.contains("--topology-manager-policy"), "{error}");
    }

    #[test]
    fn the_command_line_counts_before_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, format!("{HEAD}topologyManagerPolicy: restricted\ntopologyManagerScope: pod\n")).unwrap();
        let file = Some(path);
        let known = |policy, scope| Some(TopologyManager { policy, scope });
        for (file, policy, scope, expected) in [
            (None, None, None, None),
            (file.clone(), None, None, known(Restricted, Pod)),
            (file.clone(), Some(NoPolicy), None, known(NoPolicy, Pod)),
            (file, None, Some(Container), known(Restricted, Container)),
            (None, Some(SingleNumaNode), None, known(SingleNumaNode, Container)),
            (None, None, Some(Pod), known(NoPolicy, Pod)),
        ] {
            let source = KubeletSource { file, policy, scope };
            assert_eq!(source.read().unwrap(), expected, "{source:?}");
        }
    }
}
