//! `pod` and `update`: how a pod is written.

use std::collections::BTreeMap;

use gpu_scheduler_engine::model::{
    Container, ContainerKind, Demand, HostPort, LabelSelector, Mib, MilliGpu, ModelPattern, NodeSelector,
    NodeSelectorTerm, Operator, Percent, Pod, PodAffinityTerm, PodGroupName, PreferredTerm, Quantity, Requirement,
    ResourceList, ShareMemory, Timestamp, Toleration, TolerationOperator, TopologySpreadConstraint,
    WeightedPodAffinityTerm, WhenUnsatisfiable,
};

use crate::builders::{SCHEDULER, SEAT, ask};
use crate::node_syntax::{Child, Wrong, effect_of};
use crate::words::{Args, duration, list, mib, pairs, parse};

pub(crate) const POD_KEYS: &str = "priority= created= scheduler= model= uuid= node-selector= node-name= require= \
     prefer= tolerate= gate= labels= preempt= group= together= apart= spread=";
const CONTAINER_KEYS: &str =
    "gpus= memory= compute= cards= seats= mig-PROFILE= seat cpu= memory-request= port= request.NAME=";

/// A pod as its `pod` command says; UID and time of creation come when it is submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewPod {
    pub pod: Pod,
    pub created: Option<Timestamp>,
}

/// A `pod` command with its container lines.
pub(crate) fn pod(line: usize, mut args: Args, children: Vec<Child>) -> Result<NewPod, Wrong> {
    let here = |what: String| (line, what);
    let mut read = || -> Result<NewPod, String> {
        let name = args.next("the pod's name")?;
        let namespace = args.take("ns")?.unwrap_or_else(|| "default".to_owned());
        let mut pod = Pod::new("", &namespace, &name);
        pod.scheduler = SCHEDULER.to_owned();
        let created = args.take("created")?.map(|t| duration(&t)).transpose()?.map(Timestamp);
        pod_keys(&mut args, &mut pod)?;
        Ok(NewPod { pod, created })
    };
    let mut new = read().map_err(here)?;
    if children.is_empty() {
        let mut main = Container::new("main", ContainerKind::App, ResourceList::new());
        container_keys(&mut args, &mut main).map_err(here)?;
        new.pod.containers.push(main);
        args.finish(&format!("ns= {POD_KEYS} {CONTAINER_KEYS}")).map_err(here)?;
    } else {
        args.finish(&format!("ns= {POD_KEYS} (requests stand in the container lines)")).map_err(here)?;
    }
    for (line, verb, args) in children {
        new.pod.containers.push(container(&verb, args).map_err(|what| (line, what))?);
    }
    // Kubernetes lists init containers and sidecars, in their order, before the app containers.
    new.pod.containers.sort_by_key(|c| c.kind == ContainerKind::App);
    Ok(new)
}

fn container(verb: &str, mut args: Args) -> Result<Container, String> {
    let kind = match verb {
        "container" => ContainerKind::App,
        "init" => ContainerKind::Init,
        "sidecar" => ContainerKind::Sidecar,
        _ => return Err(format!("{verb:?} does not belong below a pod; known are container, init, sidecar")),
    };
    let mut container = Container::new(args.next("the container's name")?, kind, ResourceList::new());
    container_keys(&mut args, &mut container)?;
    args.finish(CONTAINER_KEYS)?;
    Ok(container)
}

fn container_keys(args: &mut Args, container: &mut Container) -> Result<(), String> {
    for (key, resource) in [("cpu", "cpu"), ("memory-request", "memory")] {
        if let Some(amount) = args.parse::<Quantity>(key, "a quantity such as 500m or 16Gi")? {
            container.requests.insert(resource.to_owned(), amount);
        }
    }
    for (resource, amount) in args.take_prefixed("request.") {
        container.requests.insert(resource.clone(), parse(&resource, &amount, "a quantity")?);
    }
    for port in args.take_all("port") {
        let (protocol, port) = port.split_once('/').unwrap_or(("", &port));
        let port = parse("port", port, "a port such as 8080 or UDP/53")?;
        container.ports.push(HostPort { ip: String::new(), protocol: protocol.to_owned(), port });
    }
    if let Some(count) = args.parse("gpus", "a number of cards")? {
        ask(container, Demand::Cards { count });
    }
    if let Some(count) = args.parse("seats", "a number of cards")? {
        ask(container, Demand::Seats { count });
    }
    for (profile, count) in args.take_prefixed("mig-") {
        ask(container, Demand::Slices { profile, count: parse("mig", &count, "a number of slices")? });
    }
    if let Some(memory) = args.take("memory")? {
        let memory = share_memory(&memory)?;
        let compute = Percent(args.parse("compute", "percent of a card")?.unwrap_or(0));
        let count = args.parse("cards", "a number of cards")?.unwrap_or(1);
        ask(container, Demand::Share { memory, compute, count });
        if args.flag("seat") {
            container.requests.insert(SEAT.to_owned(), Quantity::units(i64::from(count)));
        }
    }
    Ok(())
}

fn share_memory(text: &str) -> Result<ShareMemory, String> {
    Ok(match text.strip_suffix('%') {
        Some(percent) => {
            let percent: u32 = parse("memory", percent, "an amount such as 8Gi, or percent such as 50%")?;
            ShareMemory::Fraction(MilliGpu(percent.saturating_mul(10)))
        }
        None => ShareMemory::Mib(Mib(mib(text)?)),
    })
}

/// Keys that a pod has as a whole; each replaces what was there.
pub(crate) fn pod_keys(args: &mut Args, pod: &mut Pod) -> Result<(), String> {
    pod.priority = args.parse("priority", "an integer")?.unwrap_or(pod.priority);
    pod.scheduler = args.take("scheduler")?.unwrap_or(std::mem::take(&mut pod.scheduler));
    if let Some(model) = args.take("model")? {
        pod.models = ModelPattern::parse(&model);
    }
    if let Some(uuids) = args.take("uuid")? {
        pod.uuids = list(&uuids).map(str::to_owned).collect();
    }
    if let Some(gates) = args.take("gate")? {
        pod.gates = list(&gates).map(str::to_owned).collect();
    }
    if let Some(labels) = args.take("labels")? {
        pod.labels = pairs(&labels)?.into_iter().collect();
    }
    if let Some(selector) = args.take("node-selector")? {
        pod.node_selector = pairs(&selector)?.into_iter().collect();
    }
    if let Some(tolerations) = args.take("tolerate")? {
        pod.tolerations = list(&tolerations).map(toleration).collect::<Result<_, _>>()?;
    }
    match args.take("preempt")?.as_deref() {
        None => {}
        Some("never") => pod.preempts = false,
        Some("lower") => pod.preempts = true,
        Some(other) => return Err(format!("preempt={other} is not never or lower")),
    }
    if let Some(name) = args.take("group")? {
        pod.group = Some(PodGroupName { namespace: pod.namespace.clone(), name: name.as_str().into() });
    }
    relations(args, pod)?;
    let names = args.take("node-name")?;
    let required = args.take_all("require");
    if names.is_some() || !required.is_empty() {
        pod.required_affinity = Some(required_affinity(names.as_deref(), &required)?);
    }
    let preferred = args.take_all("prefer");
    if !preferred.is_empty() {
        pod.preferred_affinity = preferred.iter().map(|text| preference(text)).collect::<Result<_, _>>()?;
    }
    Ok(())
}

/// What the pod wants of others: `together=` and `apart=` are required affinity and anti-affinity, `KEY:LABELS`, with
/// `?WEIGHT` behind it where it is only preferred; `spread=KEY:SKEW:LABELS`, with `?` behind it where it may be broken.
fn relations(args: &mut Args, pod: &mut Pod) -> Result<(), String> {
    for (word, apart) in [("together", false), ("apart", true)] {
        for text in args.take_all(word) {
            let (text, weight) = match text.split_once('?') {
                Some((text, weight)) => (text, Some(weight.parse().map_err(|_| format!("{weight} is no weight"))?)),
                None => (text.as_str(), None),
            };
            let (key, labels) = text.split_once(':').ok_or_else(|| format!("{word}={text} is not KEY:LABELS"))?;
            let selector = LabelSelector::of_labels(&pairs(labels)?.into_iter().collect::<BTreeMap<_, _>>());
            let term = PodAffinityTerm {
                selector: Some(selector),
                topology_key: key.to_owned(),
                ..PodAffinityTerm::default()
            };
            let side = if apart { &mut pod.pod_anti_affinity } else { &mut pod.pod_affinity };
            match weight {
                Some(weight) => side.preferred.push(WeightedPodAffinityTerm { weight, term }),
                None => side.required.push(term),
            }
        }
    }
    for text in args.take_all("spread") {
        let (text, soft) = text.strip_suffix('?').map_or((text.as_str(), false), |text| (text, true));
        let wrong = || format!("spread={text} is not KEY:SKEW:LABELS");
        let (key, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (skew, labels) = rest.split_once(':').ok_or_else(wrong)?;
        let selector = LabelSelector::of_labels(&pairs(labels)?.into_iter().collect::<BTreeMap<_, _>>());
        pod.spread.push(TopologySpreadConstraint {
            max_skew: skew.parse().map_err(|_| wrong())?,
            topology_key: key.to_owned(),
            when_unsatisfiable: if soft { WhenUnsatisfiable::ScheduleAnyway } else { WhenUnsatisfiable::DoNotSchedule },
            selector: Some(selector),
            ..TopologySpreadConstraint::default()
        });
    }
    Ok(())
}

/// One term for each node name, or one without; all `require=` hold in each.
fn required_affinity(names: Option<&str>, required: &[String]) -> Result<NodeSelector, String> {
    let expressions: Vec<Requirement> = required.iter().map(|text| requirement(text)).collect::<Result<_, _>>()?;
    let field = |name: &str| {
        let (operator, name) = name.strip_prefix('!').map_or((Operator::In, name), |n| (Operator::NotIn, n));
        Requirement { key: "metadata.name".to_owned(), operator, values: vec![name.to_owned()] }
    };
    let term = |fields| NodeSelectorTerm { expressions: expressions.clone(), fields };
    let terms = match names {
        Some(names) => list(names).map(|name| term(vec![field(name)])).collect(),
        None => vec![term(Vec::new())],
    };
    Ok(NodeSelector { terms })
}

/// `zone in a,b`, `zone notin a`, `disk exists`, `disk absent`, `cores gt 4`, `cores lt 4`.
fn requirement(text: &str) -> Result<Requirement, String> {
    let wrong = || format!("{text:?} is no requirement; write \"KEY in A,B\", or notin, exists, absent, gt, lt");
    let words: Vec<&str> = text.split_whitespace().collect();
    let (key, operator, values) = match words.as_slice() {
        [key, "exists"] => (key, Operator::Exists, ""),
        [key, "absent"] => (key, Operator::DoesNotExist, ""),
        [key, "in", values] => (key, Operator::In, *values),
        [key, "notin", values] => (key, Operator::NotIn, *values),
        [key, "gt", value] => (key, Operator::Gt, *value),
        [key, "lt", value] => (key, Operator::Lt, *value),
        _ => return Err(wrong()),
    };
    Ok(Requirement { key: (*key).to_owned(), operator, values: list(values).map(str::to_owned).collect() })
}

/// `50 zone in a`.
fn preference(text: &str) -> Result<PreferredTerm, String> {
    let (weight, rest) = text.split_once(' ').ok_or("prefer= wants a weight, then a requirement: \"50 zone in a\"")?;
    let term = NodeSelectorTerm { expressions: vec![requirement(rest)?], fields: Vec::new() };
    Ok(PreferredTerm { weight: parse("prefer", weight, "a weight from 1 to 100")?, term })
}

/// `*`, `key`, `key=value`, each with `:Effect` or without.
fn toleration(text: &str) -> Result<Toleration, String> {
    let (rest, effect) = match text.rsplit_once(':') {
        Some((rest, effect)) => (rest, Some(effect_of(effect)?)),
        None => (text, None),
    };
    let (key, value) = rest.split_once('=').map_or((rest, None), |(k, v)| (k, Some(v)));
    let key = if key == "*" { "" } else { key };
    let operator = if value.is_some() { TolerationOperator::Equal } else { TolerationOperator::Exists };
    Ok(Toleration { key: key.to_owned(), operator, value: value.unwrap_or_default().to_owned(), effect })
}
