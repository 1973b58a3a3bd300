//! The commands of a scenario.

use std::collections::BTreeMap;

use gpu_scheduler_engine::Event;
use gpu_scheduler_engine::model::{DisruptionBudget, LabelSelector, Node, Pod, PodGroup, PodGroupName};

use crate::node_syntax::{self, Child, Report, Wrong};
use crate::pod_syntax::{self, NewPod, POD_KEYS, pod_keys};
use crate::words::{Args, duration, pairs};

/// One command. Pods are named `a` (namespace `default`) or `ns/a`, here always with their namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Node(Box<Node>),
    DeleteNode(String),
    Report(Report),
    Unreport(String),
    Pod(Box<NewPod>),
    /// Changes keys of a pod that is there.
    Update(String, Args),
    /// Somebody bound a pod to a node, with the text of a record or without one.
    Bound(String, String, Option<String>),
    /// The watch shows our own bind before its answer comes.
    Echo(String),
    Terminate(String),
    Delete(String),
    /// The pod ended; its object stays.
    Finish(String),
    HoldBinds,
    ReleaseBinds,
    Confirm(String),
    FailBind(String, String),
    /// From now on every bind of the pod is refused.
    Refuse(String, String),
    Accept(String),
    /// As soon as the engine asks for a bind of the pod, before it is polled again.
    OnBind(String, Box<Command>),
    /// A pod group or a disruption budget appears, changes or goes.
    Around(Box<Event>),
    Advance(u64),
    Settle,
    Show(Option<String>),
    Explain(String),
}

const COMMANDS: &str = "node, delete-node, report, unreport, pod, update, bound, echo, terminate, delete, finish, \
     hold-binds, release-binds, confirm, fail-bind, refuse, accept, on-bind, pod-group, delete-pod-group, budget, advance, settle, show, explain";

/// Reads a command with the indented lines below it.
pub(crate) fn parse(line: usize, verb: &str, mut args: Args, children: Vec<Child>) -> Result<Command, Wrong> {
    match verb {
        "node" => return node_syntax::node(line, args, children).map(|n| Command::Node(Box::new(n))),
        "report" => return node_syntax::report(line, args, children).map(Command::Report),
        "pod" => return pod_syntax::pod(line, args, children).map(|p| Command::Pod(Box::new(p))),
        _ => {}
    }
    if let Some((line, ..)) = children.first() {
        return Err((*line, format!("{verb} takes no indented lines")));
    }
    let command = simple(verb, &mut args).and_then(|c| args.finish("nothing more").map(|()| c));
    command.map_err(|what| (line, what))
}

fn simple(verb: &str, args: &mut Args) -> Result<Command, String> {
    Ok(match verb {
        "delete-node" => Command::DeleteNode(args.next("the node's name")?),
        "unreport" => Command::Unreport(args.next("the node's name")?),
        "update" => update(args)?,
        "bound" => {
            let (pod, node) = (pod_name(args)?, args.next("the node's name")?);
            Command::Bound(pod, node, args.next_if_any().filter(|record| record != "none"))
        }
        "echo" => Command::Echo(pod_name(args)?),
        "terminate" => Command::Terminate(pod_name(args)?),
        "delete" => Command::Delete(pod_name(args)?),
        "finish" => Command::Finish(pod_name(args)?),
        "hold-binds" => Command::HoldBinds,
        "release-binds" => Command::ReleaseBinds,
        "confirm" => Command::Confirm(pod_name(args)?),
        "fail-bind" => Command::FailBind(pod_name(args)?, args.next("why it failed")?),
        "refuse" => Command::Refuse(pod_name(args)?, args.next("why it is refused")?),
        "accept" => Command::Accept(pod_name(args)?),
        "on-bind" => {
            let (pod, verb) = (pod_name(args)?, args.next("the command to carry out")?);
            let mut rest = args.rest();
            let then = simple(&verb, &mut rest)?;
            rest.finish("nothing more")?;
            Command::OnBind(pod, Box::new(then))
        }
        "pod-group" => Command::Around(Box::new(pod_group(args)?)),
        "delete-pod-group" => {
            let name =
                PodGroupName { namespace: "default".into(), name: args.next("the group's name")?.as_str().into() };
            Command::Around(Box::new(Event::PodGroupDeleted(name)))
        }
        "budget" => Command::Around(Box::new(budget(args)?)),
        "advance" => Command::Advance(duration(&args.next("how long")?)?),
        "settle" => Command::Settle,
        "show" => Command::Show(args.next_if_any()),
        "explain" => Command::Explain(pod_name(args)?),
        _ => return Err(format!("unknown command {verb:?}; known are {COMMANDS}")),
    })
}

/// `pod-group NAME [min=N] [disrupted-as-one] [priority=N]`.
fn pod_group(args: &mut Args) -> Result<Event, String> {
    let name = PodGroupName { namespace: "default".into(), name: args.next("the group's name")?.as_str().into() };
    Ok(Event::PodGroupApplied(Box::new(PodGroup {
        name,
        min_count: args.parse("min", "a number of pods")?,
        disrupted_as_one: args.flag("disrupted-as-one"),
        priority: args.parse("priority", "an integer")?.unwrap_or(0),
    })))
}

/// `budget NAME labels=k=v allowed=N`.
fn budget(args: &mut Args) -> Result<Event, String> {
    let name = args.next("the budget's name")?;
    let labels: BTreeMap<String, String> = pairs(&args.take("labels")?.unwrap_or_default())?.into_iter().collect();
    Ok(Event::DisruptionBudgetApplied(Box::new(DisruptionBudget {
        namespace: "default".into(),
        name: name.as_str().into(),
        selector: Some(LabelSelector::of_labels(&labels)),
        disruptions_allowed: args.parse("allowed", "a number of pods")?.unwrap_or(0),
        disrupted: [].into(),
    })))
}

fn update(args: &mut Args) -> Result<Command, String> {
    let pod = pod_name(args)?;
    let changes = args.rest();
    // Tried on nothing now, so that a mistake is reported with its line.
    let mut trial = changes.clone();
    pod_keys(&mut trial, &mut Pod::new("", "", ""))?;
    trial.finish(POD_KEYS)?;
    Ok(Command::Update(pod, changes))
}

fn pod_name(args: &mut Args) -> Result<String, String> {
    Ok(full_name(&args.next("the pod's name")?))
}

/// A pod's name with its namespace.
pub(crate) fn full_name(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("default/{name}") }
}
