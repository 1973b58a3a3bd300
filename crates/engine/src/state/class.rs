//! Classes: pods with the same scheduling-relevant spec are the same question, answered once.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::collections::Lookup;
use crate::model::{
    ClassId, CompiledSelector, CompiledTerm, CompiledToleration, ContainerDemand, GpuRequest, GpuShape, HostPort,
    Models, PatternId, Pod, PodGroupName, RequestError, Symbol, Symbols, WorkloadKind,
};
use crate::state::kin::{KinId, Kins};
use crate::state::pod::Charge;
use crate::state::relations::Relations;
use crate::state::volumes::PodVolumes;

/// A host port that pods compete for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct PortKey {
    /// The port.
    pub port: u16,
    /// `TCP`, `UDP`, `SCTP`.
    pub protocol: Symbol,
    /// The address; `None` is every address (`0.0.0.0`).
    pub ip: Option<Symbol>,
}

impl PortKey {
    pub(super) fn new(port: &HostPort, symbols: &mut Symbols) -> Self {
        Self {
            port: port.port,
            protocol: symbols.intern(if port.protocol.is_empty() { "TCP" } else { &port.protocol }),
            ip: (!port.ip.is_empty() && port.ip != "0.0.0.0").then(|| symbols.intern(&port.ip)),
        }
    }

    /// Whether two pods cannot have these both on one node.
    pub fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip.is_none() || other.ip.is_none() || self.ip == other.ip)
    }
}

/// All that a decision depends on, of one pod. Two pods with equal specs are interchangeable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct ClassSpec {
    /// Which profile schedules it; `None` for pods of other schedulers.
    pub profile: Option<u8>,
    /// What it takes of a node.
    pub charge: Arc<Charge>,
    /// The only node that will do.
    pub required_node: Option<Symbol>,
    /// `nodeSelector` and required node affinity.
    pub selector: CompiledSelector,
    /// Preferred node affinity: weight and term.
    pub preferred: Vec<(i64, CompiledTerm)>,
    /// What selectors can tell of it.
    pub kin: KinId,
    /// What it wants of other pods.
    pub relations: Option<Arc<Relations>>,
    /// The controller whose pods had better be spread, for a pod that says nothing of spreading itself.
    pub controller: Option<(WorkloadKind, Symbol)>,
    /// Images that it needs, sorted, each as often as a container names it.
    pub images: Box<[Symbol]>,
    /// Node features that it cannot do without, sorted.
    pub node_features: Box<[Symbol]>,
    /// The group that it belongs to: whether a pod of a gang may start is not a matter of its own wishes alone.
    pub group: Option<PodGroupName>,
    /// Resource claims that it waits for.
    pub claims: bool,
    /// Its volumes.
    pub volumes: Option<Arc<PodVolumes>>,
    /// Tolerations.
    pub tolerations: Vec<CompiledToleration>,
    /// What it asks of GPUs.
    pub gpu: GpuRequest,
    /// `gpu.models`, interned.
    pub pattern: PatternId,
    /// The outline of `gpu`.
    pub shape: GpuShape,
    /// Whether every container with a share asks for its seat too.
    pub has_seats: bool,
    /// Why the GPU request makes no sense, if it does not.
    pub error: Option<RequestError>,
}

impl ClassSpec {
    pub(super) fn compile(
        pod: &Pod,
        profile: Option<u8>,
        symbols: &mut Symbols,
        models: &mut Models,
        kins: &mut Kins,
    ) -> Self {
        let demand = |c: &crate::model::Container| ContainerDemand {
            name: c.name.clone(),
            kind: c.kind,
            demands: c.gpu.clone(),
        };
        let gpu = GpuRequest {
            containers: pod.containers.iter().filter(|c| !c.gpu.is_empty()).map(demand).collect(),
            models: pod.models.clone(),
            uuids: pod.uuids.clone(),
        };
        let mut tolerations: Vec<_> = pod.tolerations.iter().map(|t| CompiledToleration::new(t, symbols)).collect();
        tolerations.sort_unstable();
        tolerations.dedup();
        let relations = Relations::compile(pod, symbols);
        let preferred = pod.preferred_affinity.iter().filter(|p| p.weight != 0);
        let mut spec = Self {
            profile,
            charge: Arc::new(Charge::of(pod, symbols)),
            required_node: pod.required_node.as_deref().map(|n| symbols.intern(n)),
            selector: CompiledSelector::new(&pod.node_selector, pod.required_affinity.as_ref(), symbols),
            preferred: preferred
                .filter_map(|p| Some((i64::from(p.weight), CompiledTerm::new(&p.term, symbols)?)))
                .collect(),
            kin: kins.acquire(&pod.namespace, &pod.labels, symbols),
            relations: relations.map(Arc::new),
            controller: controller(pod, &gpu, symbols),
            images: images(pod, symbols),
            node_features: pod.node_features.iter().map(|f| symbols.intern(f)).collect(),
            group: pod.group.clone(),
            claims: !pod.resource_claims.is_empty(),
            volumes: PodVolumes::of(pod).map(Arc::new),
            tolerations,
            pattern: models.pattern(&gpu.models),
            shape: gpu.shape(),
            has_seats: has_seats(pod),
            gpu,
            error: pod.request_error.clone(),
        };
        spec.preferred.sort();
        spec
    }
}

/// System-wide spreading is for pods that leave it open. Those that ask for a GPU do not: they are packed, since a card
/// that is left half empty on each node is what this scheduler is there to prevent.
fn controller(pod: &Pod, gpu: &GpuRequest, symbols: &mut Symbols) -> Option<(WorkloadKind, Symbol)> {
    let (kind, name) = pod.controller.as_ref()?;
    let kind = WorkloadKind::of_controller(kind)?;
    (pod.spread.is_empty() && gpu.is_none()).then(|| (kind, symbols.intern(name)))
}

/// As a node lists them: a name without tag or digest is that of `:latest`.
fn images(pod: &Pod, symbols: &mut Symbols) -> Box<[Symbol]> {
    let tagged = |image: &String| {
        let name = image.rsplit('/').next().unwrap_or(image);
        if name.contains(':') || image.contains('@') { image.clone() } else { format!("{image}:latest") }
    };
    let mut images: Vec<_> = pod.images.iter().map(|image| symbols.intern(&tagged(image))).collect();
    images.sort_unstable();
    images.into()
}

fn has_seats(pod: &Pod) -> bool {
    let is_share = |d: &crate::model::Demand| matches!(d, crate::model::Demand::Share { .. });
    pod.containers.iter().filter(|c| c.gpu.iter().any(is_share)).all(|c| {
        let cards = c.gpu.iter().map(|d| if let crate::model::Demand::Share { count, .. } = d { *count } else { 0 });
        let wanted = cards.map(i64::from).sum::<i64>();
        c.requests.get("nvidia.com/gpu.shared").is_some_and(|q| q.value() >= wanted)
    })
}

impl Class {
    /// What evaluating it on one node counts as, in steps: several containers take a search.
    pub fn effort(&self) -> u32 {
        match self.spec.gpu.containers.as_slice() {
            [] => 1,
            [one] if one.demands.len() == 1 => 1,
            several => {
                let demands: usize = several.iter().map(|c| c.demands.len()).sum();
                u32::try_from(demands).unwrap_or(u32::MAX).saturating_mul(16).min(512)
            }
        }
    }
}

/// A class.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Class {
    /// Its slot.
    pub id: ClassId,
    /// What its pods have in common.
    pub spec: ClassSpec,
}

#[derive(Debug, Default, Clone, serde::Serialize, serde::Deserialize)]
pub(super) struct ClassTable {
    classes: Vec<Option<(Arc<Class>, usize)>>,
    #[serde(skip)]
    by_spec: Lookup<ClassSpec, ClassId>,
    free: BTreeSet<usize>,
    dead: Vec<ClassId>,
    /// Classes whose pods others have to mind: those with pod affinity or anti-affinity.
    affine: BTreeSet<ClassId>,
}

impl ClassTable {
    /// The class of `spec`, counted once more; takes over the spec's count of its kin.
    pub fn acquire(&mut self, spec: ClassSpec, kins: &mut Kins) -> ClassId {
        if let Some(id) = self.by_spec.get(&spec) {
            if let Some((_, pods)) = &mut self.classes[id.index()] {
                *pods += 1;
            }
            kins.release(spec.kin);
            return *id;
        }
        let at = self.free.pop_first().unwrap_or(self.classes.len());
        let id = ClassId::from_index(at);
        let class = Some((Arc::new(Class { id, spec: spec.clone() }), 1));
        match self.classes.get_mut(at) {
            Some(slot) => *slot = class,
            None => self.classes.push(class),
        }
        if spec.relations.as_ref().is_some_and(|r| r.has_pod_affinity()) {
            self.affine.insert(id);
        }
        self.by_spec.insert(spec, id);
        id
    }

    /// Classes with pod affinity or anti-affinity.
    pub fn affine(&self) -> impl Iterator<Item = &Arc<Class>> {
        self.affine.iter().map(|id| self.get(*id))
    }

    /// One pod less. The last one frees the class, once [`ClassTable::take_dead`] has named it.
    pub fn release(&mut self, id: ClassId, kins: &mut Kins) {
        let Some((class, pods)) = &mut self.classes[id.index()] else { return };
        *pods -= 1;
        if *pods == 0 {
            self.by_spec.remove(&class.spec);
            self.affine.remove(&id);
            kins.release(class.spec.kin);
            self.classes[id.index()] = None;
            self.dead.push(id);
        }
    }

    /// Classes that died; their slots may be used again from now on.
    pub fn take_dead(&mut self) -> Vec<ClassId> {
        let dead = std::mem::take(&mut self.dead);
        self.free.extend(dead.iter().map(|id| id.index()));
        dead
    }

    /// After the table was read back.
    pub fn make_index(&mut self) {
        let live = self.classes.iter().flatten();
        self.by_spec = live.map(|(class, _)| (class.spec.clone(), class.id)).collect();
    }

    pub fn get(&self, id: ClassId) -> &Arc<Class> {
        let class = self.classes.get(id.index()).and_then(Option::as_ref);
        &class.expect("a class lives as long as a pod of it").0
    }
}
