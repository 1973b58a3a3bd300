use std::collections::{BTreeMap, BTreeSet};

use gpu_scheduler_engine::model::{
    CardSpec, Container, ContainerKind, Demand, DeviceReport, DeviceStatus, Mib, Node, Percent, Pod, Quantity,
    ResourceList, ShareMemory, Timestamp,
};
use gpu_scheduler_engine::{Config, Engine, Event, Step};

use super::*;

const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");
const SECOND: Duration = Duration::from_secs(1);

/// Everything said once, with every value of every label.
fn exercised() -> Metrics {
    let metrics = Metrics::new();
    for result in AttemptResult::ALL {
        metrics.attempt("gpu-scheduler", *result, SECOND);
    }
    metrics.bound(1, SECOND);
    metrics.pending(PendingPods { active: 1, backoff: 2, unschedulable: 3, gated: 4 });
    for queue in QueueName::ALL {
        for event in QueueEvent::ALL {
            metrics.queue_incoming(*queue, *event, 1);
        }
    }
    metrics.preemption_attempts(7);
    metrics.preempted(3, 2);
    metrics.decision(SECOND);
    metrics.binds_in_flight(5);
    for result in BindResult::ALL {
        metrics.bind_finished(*result);
    }
    for kind in WriteKind::ALL {
        for result in WriteResult::ALL {
            metrics.api_write(*kind, *result);
        }
    }
    for watched in Watched::ALL {
        metrics.watch_restarted(*watched);
        metrics.malformed(*watched);
    }
    metrics.cards(vec![ModelUse { model: "A100".into(), cards: 8, ..ModelUse::default() }]);
    metrics.cache_size(1, 2, 3);
    metrics.leader("gpu-scheduler", true);
    metrics
}

/// The families with their types, under the names that a query uses.
fn families(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
        .collect()
}

#[test]
fn every_family_is_documented_and_nothing_else_is() {
    let rendered = families(&exercised().render());
    let rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix("| `")?.split(['`', '{']).next());
    let documented: BTreeSet<String> = rows.map(str::to_owned).collect();
    assert_eq!(rendered, documented);
}

#[test]
fn every_label_value_is_documented() {
    let metrics = exercised().render();
    let values =
        metrics.lines().filter(|line| !line.starts_with('#')).flat_map(|line| line.split('"').skip(1).step_by(2));
    let own = |value: &&str| !["gpu-scheduler", "A100", "+Inf"].contains(value) && value.parse::<f64>().is_err();
    for value in values.filter(own).filter(|value| *value != env!("CARGO_PKG_VERSION")) {
        assert!(DOCUMENT.contains(&format!("`{value}`")), "{value}");
    }
}

#[test]
fn names_are_those_of_kube_scheduler() {
    let text = exercised().render();
    for line in [
        r#"scheduler_schedule_attempts_total{result="unschedulable",profile="gpu-scheduler"} 1"#,
        r#"scheduler_scheduling_attempt_duration_seconds_count{result="error",profile="gpu-scheduler"} 1"#,
        r#"scheduler_pending_pods{queue="backoff"} 2"#,
        "scheduler_pod_scheduling_attempts_sum 1.0",
        r#"scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"} 1"#,
        r#"scheduler_queue_incoming_pods_total{queue="active",event="UnscheduledPodAdd"} 1"#,
        "scheduler_scheduling_algorithm_duration_seconds_count 1",
        "scheduler_preemption_attempts_total 7",
        "scheduler_preemption_victims_sum 6.0",
        r#"scheduler_cache_size{type="assumed_pods"} 3"#,
        r#"leader_election_master_status{name="gpu-scheduler"} 1"#,
        r#"gpu_scheduler_gpus{model="A100"} 8"#,
        "gpu_scheduler_binds_in_flight 5",
        r#"gpu_scheduler_api_writes_total{kind="binding",result="conflict"} 1"#,
    ] {
        assert!(text.lines().any(|have| have == line), "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n") && !text.contains("_total_total"));
}

#[test]
fn buckets_are_those_of_kube_scheduler() {
    let text = exercised().render();
    let bounds = |family: &str| -> Vec<f64> {
        let lines = text.lines().filter(|line| line.starts_with(&format!("{family}_bucket")));
        let bound = |line: &str| line.split("le=\"").nth(1)?.split('"').next()?.parse::<f64>().ok();
        let mut bounds: Vec<f64> = lines.filter_map(bound).filter(|bound| bound.is_finite()).collect();
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        bounds
    };
    for (family, first, count) in [
        ("scheduler_scheduling_attempt_duration_seconds", 0.001, 15),
        ("scheduler_scheduling_algorithm_duration_seconds", 0.001, 15),
        ("scheduler_pod_scheduling_sli_duration_seconds", 0.01, 20),
        ("scheduler_pod_scheduling_attempts", 1.0, 5),
        ("scheduler_preemption_victims", 1.0, 7),
    ] {
        let bounds = bounds(family);
        assert_eq!((bounds[0], bounds.len()), (first, count), "{family}");
        assert!(bounds.windows(2).all(|pair| pair[1] / pair[0] > 1.99 && pair[1] / pair[0] < 2.01), "{family}");
    }
}

#[test]
fn many_attempts_share_one_series() {
    let metrics = Metrics::new();
    for attempts in [14, 15, 16, 4000] {
        metrics.bound(attempts, SECOND);
    }
    let text = metrics.render();
    for (attempts, count) in [("14", 1), ("15+", 3)] {
        let line = format!("scheduler_pod_scheduling_sli_duration_seconds_count{{attempts=\"{attempts}\"}} {count}");
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn a_model_that_is_gone_ends_its_series() {
    let metrics = Metrics::new();
    let model = |name: &str| ModelUse { model: name.to_owned(), cards: 1, ..ModelUse::default() };
    metrics.cards(vec![model("A100"), model("T4")]);
    assert!(metrics.render().contains(r#"gpu_scheduler_gpus{model="T4"} 1"#));
    metrics.cards(vec![model("A100")]);
    let text = metrics.render();
    assert!(text.contains(r#"{model="A100"}"#) && !text.contains("T4"), "{text}");
}

#[test]
fn a_name_with_quotes_stays_one_label() {
    let metrics = Metrics::new();
    metrics.cards(vec![ModelUse { model: "a\"b\\c\nd".into(), cards: 1, ..ModelUse::default() }]);
    assert!(metrics.render().contains(r#"gpu_scheduler_gpus{model="a\"b\\c\nd"} 1"#));
}

fn card(node: &str, index: u32, model: &str) -> CardSpec {
    CardSpec::new(format!("GPU-{node}-{index}"), index, model, Some(Mib(40_000)))
}

fn node(name: &str, cards: Vec<CardSpec>) -> Event {
    let mut node = Node { name: name.into(), cards, ..Node::default() };
    for (resource, amount) in [("cpu", 64), ("pods", 110), ("nvidia.com/gpu", 4)] {
        node.allocatable.insert(resource.into(), Quantity::units(amount));
    }
    Event::NodeApplied(Box::new(node))
}

fn pod(name: &str, demand: Demand) -> Event {
    let mut pod = Pod::new(name, "default", name);
    pod.scheduler = "gpu-scheduler".into();
    let mut container = Container::new("main", ContainerKind::App, ResourceList::new());
    container.gpu = vec![demand];
    pod.containers = vec![container];
    Event::PodApplied(Box::new(pod))
}

fn share(memory: u64) -> Demand {
    Demand::Share { memory: ShareMemory::Mib(Mib(memory)), compute: Percent(0), count: 1 }
}

/// An engine that has taken these facts and come to rest.
fn rested(events: impl IntoIterator<Item = Event>) -> Engine {
    let mut engine = Engine::new(Config::default());
    for event in events {
        engine.handle(Timestamp(0), event);
        while engine.poll(Timestamp(0)) != Step::Rest {}
    }
    engine
}

fn by_model(engine: &Engine) -> BTreeMap<String, ModelUse> {
    per_model(engine.state()).into_iter().map(|sums| (sums.model.clone(), sums)).collect()
}

#[test]
fn cards_are_summed_by_model() {
    let engine = rested([
        node("a", vec![card("a", 0, "A100"), card("a", 1, "A100")]),
        node("b", vec![card("b", 0, "T4")]),
        pod("whole", Demand::Cards { count: 2 }),
        pod("share", share(10_000)),
    ]);
    let sums = by_model(&engine);
    let expected = ModelUse {
        model: "A100".into(),
        cards: 2,
        allocated_milli: 2000,
        memory_total: Mib(80_000),
        memory_allocated: Mib(80_000),
        ..ModelUse::default()
    };
    assert_eq!(sums["A100"], expected);
    let t4 = &sums["T4"];
    assert_eq!((t4.cards, t4.allocated_milli, t4.free_milli), (1, 250, 750));
    assert_eq!((t4.memory_total, t4.memory_allocated), (Mib(40_000), Mib(10_000)));
}

#[test]
fn what_the_mix_cannot_use_is_fragmented() {
    // Half of a card is left on each node, and only whole cards are asked for after that.
    let nodes = ["a", "b"].map(|name| node(name, vec![card(name, 0, "T4")]));
    let mut engine = rested(nodes);
    for event in [pod("s1", share(20_000)), pod("s2", share(30_000))] {
        engine.handle(Timestamp(0), event);
        while engine.poll(Timestamp(0)) != Step::Rest {}
    }
    assert_eq!(by_model(&engine)["T4"].free_milli, 750);
    for n in 0..60 {
        engine.handle(Timestamp(0), pod(&format!("w{n}"), Demand::Cards { count: 1 }));
        while engine.poll(Timestamp(0)) != Step::Rest {}
    }
    assert_eq!(by_model(&engine)["T4"].fragmented_milli, 750, "{:?}", by_model(&engine));
}

#[test]
fn foreign_memory_and_gone_cards_count() {
    let device = DeviceStatus { card: card("a", 0, "T4"), used: Mib(5000), foreign: Mib(5000), holders: Vec::new() };
    let report = DeviceReport {
        node: "a".into(),
        updated_at: Timestamp(0),
        steered: false,
        topology_manager: None,
        devices: vec![device],
    };
    let mut engine = rested([
        node("a", vec![card("a", 0, "T4")]),
        pod("p", share(10_000)),
        Event::DevicesReported(Box::new(report)),
    ]);
    let sums = by_model(&engine);
    assert_eq!((sums["T4"].foreign_memory, sums["T4"].overcommitted), (Mib(5000), 0));
    engine.handle(Timestamp(0), Event::DeviceReportDeleted { node: "a".into() });
    engine.handle(Timestamp(0), node("a", Vec::new()));
    // The model's name went with the card; what is held still shows.
    let sums = per_model(engine.state());
    let [gone] = &sums[..] else { panic!("{sums:?}") };
    assert_eq!((gone.model.as_str(), gone.cards, gone.free_milli, gone.overcommitted), ("unknown", 0, 0, 1));
    assert!(gone.allocated_milli > 0, "{gone:?}");
}
