//! Volumes whose labels name their zones.

use crate::framework::{CyclePlugin, CycleState, PluginName, Reason, Verdict, VolumeReason};
use crate::model::{BindingMode, Symbol, Symbols};
use crate::state::{Class, NodeFacts, NodeState, PodVolumes, State};

/// Labels of volumes and nodes, each with the label of a node that says it where the node lacks the first.
const KEYS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// `VolumeZone`.
#[derive(Debug, Clone, Copy)]
pub struct VolumeZone;

impl CyclePlugin for VolumeZone {
    fn name(&self) -> PluginName {
        "VolumeZone"
    }
    fn begin<'a>(&self, state: &'a State, class: &'a Class) -> Option<Box<dyn CycleState + 'a>> {
        let volumes = class.spec.volumes.as_deref()?;
        let (zones, trouble) = match zones(state, volumes) {
            Ok(zones) if zones.is_empty() => return None,
            Ok(zones) => (zones, None),
            Err(trouble) => (Vec::new(), Some(trouble)),
        };
        let symbols = state.symbols();
        let keys = KEYS.map(|(key, _)| symbols.get(key));
        Some(Box::new(Zones { symbols, keys, zones, trouble }))
    }
}

/// One label of a volume: the node's label that has to say the same, or that one's newer name, and the values.
struct Zone<'a> {
    keys: [Option<Symbol>; 2],
    values: Vec<&'a str>,
}

struct Zones<'a> {
    symbols: &'a Symbols,
    keys: [Option<Symbol>; 4],
    zones: Vec<Zone<'a>>,
    trouble: Option<VolumeReason>,
}

impl CycleState for Zones<'_> {
    fn pre_filter(&self) -> Option<Reason> {
        self.trouble.clone().map(Reason::Volume)
    }
    fn filter(&self, _node: &NodeState, facts: &NodeFacts) -> Verdict {
        let value = |key: Option<Symbol>| facts.label(key?);
        if self.keys.iter().all(|key| value(*key).is_none()) {
            return Verdict::Pass;
        }
        let holds = |zone: &Zone<'_>| {
            let there = zone.keys.iter().find_map(|key| value(*key));
            there.is_some_and(|there| zone.values.contains(&&**self.symbols.resolve(there)))
        };
        if self.zones.iter().all(holds) {
            Verdict::Pass
        } else {
            Verdict::unresolvable(Reason::Volume(VolumeReason::Zone))
        }
    }
}

/// The zones of all claims that have a volume.
fn zones<'a>(state: &'a State, volumes: &PodVolumes) -> Result<Vec<Zone<'a>>, VolumeReason> {
    let known = state.volumes();
    let mut zones = Vec::new();
    for claim in volumes.claims.iter().filter(|c| c.made_for.is_none()) {
        let name = || claim.name.name.clone();
        let claim = known.claim(&claim.name).ok_or_else(|| VolumeReason::ClaimNotFound(name()))?;
        let Some(volume) = &claim.volume else {
            if claim.class.is_empty() {
                return Err(VolumeReason::NoClass);
            }
            let class = known.class(&claim.class).ok_or_else(|| VolumeReason::ClassNotFound(claim.class.clone()))?;
            match class.facts.binding {
                None => return Err(VolumeReason::ModeUnset(claim.class.clone())),
                Some(BindingMode::WaitForFirstConsumer) => continue,
                Some(BindingMode::Immediate) => return Err(VolumeReason::NoVolumeName),
            }
        };
        let volume = known.volume(volume).ok_or_else(|| VolumeReason::VolumeNotFound(volume.clone()))?;
        for (key, newer) in KEYS {
            let Some(value) = volume.facts.labels.get(key) else { continue };
            let values: Vec<&str> = value.split("__").map(str::trim).collect();
            // One without a name makes the label meaningless.
            if !values.contains(&"") {
                zones.push(Zone { keys: [key, newer].map(|key| state.symbols().get(key)), values });
            }
        }
    }
    Ok(zones)
}
