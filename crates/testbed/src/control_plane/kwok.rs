//! kwok: keeps simulated nodes ready and makes bound pods on them run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::error::write;
use super::etcd::plain_client;
use super::ports::Port;
use super::probe::until_ready;
use super::process::Program;
use super::{ControlPlaneError, Setup};
use crate::objects::SIMULATED;

/// What simulated nodes do otherwise than by kwok's own stages, to be like kubelets.
const LIKE_KUBELETS: &str = include_str!("kubelets.yaml");

/// The running kwok.
#[derive(Debug)]
pub(super) struct Kwok {
    pub(super) program: Program,
    _port: Port,
}

impl Kwok {
    pub(super) async fn start(setup: &Setup<'_>, kubeconfig: &Path) -> Result<Self, ControlPlaneError> {
        let port = Port::claim()?;
        let (key, value) = SIMULATED;
        let args = [
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--config={}", stages(setup)?.display()),
            // Real nodes beside simulated ones are none of its business.
            "--manage-all-nodes=false".to_owned(),
            format!("--manage-nodes-with-annotation-selector={key}={value}"),
            "--node-ip=127.0.0.1".to_owned(),
            format!("--server-address=127.0.0.1:{}", port.number()),
            // The heartbeat; a node is given up after 50 s without.
            "--node-lease-duration-seconds=40".to_owned(),
        ];
        let mut program = Program::start("kwok", &setup.binaries.kwok(), args, setup.folder.path())?;
        let client = plain_client(&format!("http://127.0.0.1:{}", port.number()))?;
        until_ready(&mut program, &client, "/healthz").await?;
        Ok(Self { program, _port: port })
    }
}

/// The file of stages: kwok's own, and with nodes like kubelets ours in the place of those with the same name.
fn stages(setup: &Setup<'_>) -> Result<PathBuf, ControlPlaneError> {
    let own = setup.binaries.kwok_stages();
    if !setup.options.like_kubelets {
        return Ok(own);
    }
    let text = fs::read_to_string(&own)
        .map_err(ControlPlaneError::system(format!("could not read kwok's stages {}", own.display())))?;
    let path = setup.folder.path().join("stages.yaml");
    write(&path, &joined(&text, LIKE_KUBELETS))?;
    Ok(path)
}

fn joined(own: &str, ours: &str) -> String {
    let mut stages = BTreeMap::new();
    for text in [own, ours] {
        let read: Vec<Value> = serde_saphyr::from_multiple(text).expect("stages are YAML");
        stages.extend(read.into_iter().map(|stage| (stage["metadata"]["name"].to_string(), stage)));
    }
    // JSON is YAML.
    stages.into_values().map(|stage| format!("---\n{stage}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_of_ours_takes_the_place_of_its_namesake() {
        let stage = |name: &str, kind: &str| {
            format!("---\nmetadata: {{name: {name}}}\nspec: {{resourceRef: {{kind: {kind}}}}}\n")
        };
        let own = stage("a", "Node") + &stage("b", "Node");
        let read: Vec<Value> = serde_saphyr::from_multiple(&joined(&own, &stage("b", "Pod"))).unwrap();
        let kinds: Vec<_> = read.iter().map(|stage| stage["spec"]["resourceRef"]["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["Node", "Pod"]);
    }

    #[test]
    fn ours_are_stages_with_names() {
        let read: Vec<Value> = serde_saphyr::from_multiple(LIKE_KUBELETS).unwrap();
        for stage in &read {
            assert!(stage["kind"] == "Stage" && stage["metadata"]["name"].is_string(), "{stage}");
        }
        assert!(read.iter().any(|stage| stage["metadata"]["name"] == "pod-delete"), "else pods still go at once");
    }
}
