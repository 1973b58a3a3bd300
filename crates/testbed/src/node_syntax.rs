//! `node` and `report`: how a node and what its agent says are written.

use gpu_scheduler_engine::model::{
    CardSpec, Effect, Health, Mib, Node, Partition, Partitioning, Quantity, Taint, TopologyManager,
    TopologyManagerScope,
};

use crate::builders::NodeBuilder;
use crate::words::{Args, duration, list, mib, pairs, parse};

const NODE_KEYS: &str =
    "cpu= memory= pods= gpus= model= gpu-memory= seats= numa-nodes= labels= taints= cordoned allocatable.NAME=";
const CARD_KEYS: &str =
    "uuid= model= memory= seats= mig= numa= unhealthy= gone, and in a report used= foreign= holder=POD:MEMORY";
const MODEL: &str = "NVIDIA-A100-SXM4-80GB";

/// An indented line with the number of its line.
pub(crate) type Child = (usize, String, Args);
/// What is wrong in which line.
pub(crate) type Wrong = (usize, String);

/// What a `card` line says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CardLine {
    pub index: u32,
    uuid: Option<String>,
    model: Option<String>,
    memory: Option<Option<Mib>>,
    partitioning: Option<Partitioning>,
    numa: Option<u32>,
    unhealthy: Option<String>,
    pub gone: bool,
    pub used: Mib,
    pub foreign: Mib,
    /// Pods by name, with the memory that they use.
    pub holders: Vec<(String, Mib)>,
}

impl CardLine {
    fn read(args: &mut Args) -> Result<Self, String> {
        let index = args.next("the card's index")?;
        let mut line = Self { index: parse("card", &index, "an index such as 0")?, ..Self::default() };
        line.uuid = args.take("uuid")?;
        line.model = args.take("model")?;
        line.memory = args.take("memory")?.map(|text| memory(&text)).transpose()?;
        line.numa = args.parse("numa", "a NUMA node such as 0")?;
        line.unhealthy = args.take("unhealthy")?;
        line.gone = args.flag("gone");
        if let Some(seats) = args.parse("seats", "a number of at least 2")? {
            line.partitioning = Some(Partitioning::TimeSliced { seats });
        }
        if let Some(slices) = args.take("mig")? {
            let slices = list(&slices).map(partition).collect::<Result<_, _>>()?;
            line.partitioning = Some(Partitioning::Mig(slices));
        }
        let amount = |text: Option<String>| text.map_or(Ok(Mib(0)), |t| mib(&t).map(Mib));
        line.foreign = amount(args.take("foreign")?)?;
        for holder in args.take_all("holder") {
            let (pod, used) = holder.rsplit_once(':').ok_or("holder= wants POD:MEMORY")?;
            line.holders.push((pod.to_owned(), Mib(mib(used)?)));
        }
        let explained = line.holders.iter().fold(line.foreign, |sum, (_, used)| sum.saturating_add(*used));
        line.used = args.take("used")?.map_or(Ok(explained), |t| mib(&t).map(Mib))?;
        Ok(line)
    }

    /// Changes a card as the line says.
    pub fn apply(&self, card: &mut CardSpec) {
        let set = |to: &mut String, from: &Option<String>| to.clone_from(from.as_ref().unwrap_or(&to.clone()));
        set(&mut card.uuid, &self.uuid);
        set(&mut card.model, &self.model);
        card.memory = self.memory.unwrap_or(card.memory);
        card.numa = self.numa.or(card.numa);
        if let Some(partitioning) = &self.partitioning {
            card.partitioning = partitioning.clone();
        }
        if let Some(why) = &self.unhealthy {
            card.health = Health::Unhealthy(why.clone());
        }
    }
}

fn memory(text: &str) -> Result<Option<Mib>, String> {
    if text == "unknown" { Ok(None) } else { mib(text).map(|m| Some(Mib(m))) }
}

/// `1g.10gb@MIG-a`, or `1g.10gb@MIG-a@4` with its start.
fn partition(text: &str) -> Result<Partition, String> {
    let mut parts = text.split('@');
    let (Some(profile), Some(uuid)) = (parts.next(), parts.next()) else {
        return Err(format!("{text:?} is no MIG slice; write PROFILE@UUID such as 1g.10gb@MIG-a"));
    };
    let start = parts.next().map(|s| parse("mig", s, "a start after the second @")).transpose()?;
    Ok(Partition { profile: profile.to_owned(), uuid: uuid.to_owned(), start })
}

fn card_lines(children: Vec<Child>) -> Result<Vec<CardLine>, Wrong> {
    let read = |(line, verb, mut args): Child| {
        if verb != "card" {
            return Err((line, format!("{verb:?} does not belong below a node; write card INDEX …")));
        }
        let card = CardLine::read(&mut args).and_then(|card| args.finish(CARD_KEYS).map(|()| card));
        card.map_err(|what| (line, what))
    };
    children.into_iter().map(read).collect()
}

/// A `node` command with its `card` lines.
pub(crate) fn node(line: usize, mut args: Args, children: Vec<Child>) -> Result<Node, Wrong> {
    let cards = card_lines(children)?;
    let builder = node_keys(&mut args, &cards).and_then(|node| args.finish(NODE_KEYS).map(|()| node));
    builder.map_err(|what| (line, what))
}

fn node_keys(args: &mut Args, lines: &[CardLine]) -> Result<Node, String> {
    let name = args.next("the node's name")?;
    let mut builder = NodeBuilder::new(&name);
    for resource in ["cpu", "memory", "pods"] {
        if let Some(amount) = args.parse::<Quantity>(resource, "a quantity such as 64 or 256Gi")? {
            builder = builder.allocatable(resource, amount);
        }
    }
    let model = args.take("model")?.unwrap_or_else(|| MODEL.to_owned());
    let card_memory = args.take("gpu-memory")?.map_or(Ok(Some(Mib(81920))), |t| memory(&t))?;
    let count = args.parse("gpus", "a number")?.unwrap_or(0);
    builder = builder.gpus(count, &model, card_memory.map(|m| m.0));
    if let Some(seats) = args.parse::<u32>("seats", "a number of at least 2")? {
        for index in 0..count {
            builder = builder.card(index, |card| card.partitioning = Partitioning::TimeSliced { seats });
        }
    }
    if let Some(nodes) = args.parse::<u32>("numa-nodes", "a number of at least 1")? {
        for index in 0..count {
            builder = builder.card(index, |card| card.numa = (index * nodes).checked_div(count));
        }
    }
    for line in lines {
        if line.index >= count || line.gone || !line.holders.is_empty() || line.foreign > Mib(0) {
            return Err(format!("card {}: a node has cards 0 to gpus-1; use and loss belong in a report", line.index));
        }
        builder = builder.card(line.index, |card| line.apply(card));
    }
    for (key, value) in pairs(&args.take("labels")?.unwrap_or_default())? {
        builder = builder.label(&key, &value);
    }
    for text in list(&args.take("taints")?.unwrap_or_default()) {
        builder = builder.taint(taint(text)?);
    }
    if args.flag("cordoned") {
        builder = builder.cordoned();
    }
    for (resource, amount) in args.take_prefixed("allocatable.") {
        builder = builder.allocatable(&resource, parse(&resource, &amount, "a quantity")?);
    }
    Ok(builder.build())
}

/// `key=value:NoSchedule` or `key:NoSchedule`.
fn taint(text: &str) -> Result<Taint, String> {
    let (rest, effect) =
        text.rsplit_once(':').ok_or_else(|| format!("taint {text:?} has no effect; write key=value:NoSchedule"))?;
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect_of(effect)? })
}

/// An effect by its Kubernetes name.
pub(crate) fn effect_of(text: &str) -> Result<Effect, String> {
    Ok(match text {
        "NoSchedule" => Effect::NoSchedule,
        "PreferNoSchedule" => Effect::PreferNoSchedule,
        "NoExecute" => Effect::NoExecute,
        _ => return Err(format!("{text:?} is no effect; known are NoSchedule, PreferNoSchedule, NoExecute")),
    })
}

/// A `report` command: the node's cards as the agent sees them, and what differs from "all idle".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Report {
    pub node: String,
    /// How old it is, in milliseconds.
    pub age: u64,
    /// How the node's kubelet aligns devices, by the agent's word.
    pub topology_manager: Option<TopologyManager>,
    /// Cards of a node that is not known yet.
    pub cards: Vec<CardSpec>,
    pub lines: Vec<CardLine>,
}

/// A `report` command with its `card` lines.
pub(crate) fn report(line: usize, mut args: Args, children: Vec<Child>) -> Result<Report, Wrong> {
    let lines = card_lines(children)?;
    let keys = |args: &mut Args| -> Result<Report, String> {
        let age = args.take("age")?.map_or(Ok(0), |t| duration(&t))?;
        let topology_manager = args.take("topology-manager")?.map(|text| topology_manager(&text)).transpose()?;
        let described = node_keys(args, &[])?;
        Ok(Report { node: described.name, age, topology_manager, cards: described.cards, lines })
    };
    let report = keys(&mut args)
        .and_then(|r| args.finish("age= topology-manager= gpus= model= gpu-memory= numa-nodes=").map(|()| r));
    report.map_err(|what| (line, what))
}

/// `single-numa-node`, or `restricted/pod` with its scope.
fn topology_manager(text: &str) -> Result<TopologyManager, String> {
    let (policy, scope) = text.split_once('/').unwrap_or((text, TopologyManagerScope::default().as_str()));
    let wrong = |what: gpu_scheduler_engine::model::UnknownName| format!("topology-manager: {what}");
    Ok(TopologyManager { policy: policy.parse().map_err(wrong)?, scope: scope.parse().map_err(wrong)? })
}
