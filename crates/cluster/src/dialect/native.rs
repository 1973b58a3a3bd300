//! The product's own way of asking, together with NVIDIA's resource names.

use gpu_scheduler_engine::model::{Demand, Mib, ModelPattern, Percent, Quantity, RequestError, ShareMemory};

use super::{Dialect, GpuAsk};
use crate::objects::{Container, Pod};

/// Prefix of resources that are only asked, never offered by a node.
const OWN: &str = "gpu-scheduler/";
const MEMORY: &str = "gpu-scheduler/memory";
const COMPUTE: &str = "gpu-scheduler/compute";
const COUNT: &str = "gpu-scheduler/gpus";
const CARDS: &str = "nvidia.com/gpu";
const SEATS: &str = "nvidia.com/gpu.shared";
const SLICES: &str = "nvidia.com/mig-";
const MODEL_ANNOTATION: &str = "gpu-scheduler/model";
const UUID_ANNOTATION: &str = "gpu-scheduler/uuid";

const MIB: u64 = 1024 * 1024;

/// `nvidia.com/gpu`, `nvidia.com/mig-…`, `nvidia.com/gpu.shared` and `gpu-scheduler/…`.
#[derive(Debug, Clone, Copy)]
pub struct Native;

impl Dialect for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn speaks(&self, _pod: &Pod) -> bool {
        true
    }

    fn is_only_asked(&self, name: &str) -> bool {
        name.starts_with(OWN)
    }

    fn read(&self, pod: &Pod) -> GpuAsk {
        let mut ask = GpuAsk::default();
        for container in pod.spec.init_containers.iter().chain(&pod.spec.containers) {
            let demands = demands(container).unwrap_or_else(|error| {
                ask.error.get_or_insert(error);
                Vec::new()
            });
            ask.demands.push(demands);
        }
        let annotation = |name| pod.metadata.annotations.get(name).map(String::as_str).unwrap_or_default();
        ask.models = ModelPattern::parse(annotation(MODEL_ANNOTATION));
        for uuid in annotation(UUID_ANNOTATION).split(',').map(str::trim).filter(|uuid| !uuid.is_empty()) {
            if !ask.uuids.iter().any(|known| known == uuid) {
                ask.uuids.push(uuid.to_owned());
            }
        }
        ask
    }
}

/// What `container` asks: cards, a share, seats, slices by profile, in this order.
fn demands(container: &Container) -> Result<Vec<Demand>, RequestError> {
    let mut demands = Vec::new();
    let cards = count(container, CARDS)?.unwrap_or(0);
    if cards > 0 {
        demands.push(Demand::Cards { count: cards });
    }
    let shares_asked = container.resources.device(MEMORY).is_some();
    let share = share(container)?;
    if let Some(share) = share {
        if cards > 0 {
            return Err(RequestError::WholeAndShare { container: container.name.clone() });
        }
        demands.push(share);
    }
    // Next to a share, the seat is the resource that kubelet counts, not a wish of its own.
    let seats = count(container, SEATS)?.unwrap_or(0);
    if seats > 0 && !shares_asked {
        demands.push(Demand::Seats { count: seats });
    }
    for (profile, name) in profiles(container) {
        let slices = count(container, name)?.unwrap_or(0);
        if slices > 0 {
            demands.push(Demand::Slices { profile: profile.to_owned(), count: slices });
        }
    }
    Ok(demands)
}

/// The MIG profiles that stand in a container's resources, with the resource's name, sorted. Seats on
/// time-sliced slices (`….shared`) are plain resources: the engine's books have no such thing.
fn profiles(container: &Container) -> Vec<(&str, &str)> {
    let resources = &container.resources;
    let mut profiles: Vec<(&str, &str)> = resources
        .limits
        .keys()
        .chain(resources.requests.keys())
        .filter_map(|name| Some((name.strip_prefix(SLICES)?, name.as_str())))
        .filter(|(profile, _)| !profile.ends_with(".shared"))
        .collect();
    profiles.sort_unstable();
    profiles.dedup();
    profiles
}

/// The share that `container` asks, if any.
fn share(container: &Container) -> Result<Option<Demand>, RequestError> {
    let compute = whole(container, COMPUTE, 1..=100, "write whole percent of one card, from 1 to 100")?;
    let gpus = count(container, COUNT)?;
    let Some(memory) = container.resources.device(MEMORY) else {
        let alone = if compute.is_some() { Some(COMPUTE) } else { gpus.filter(|n| *n > 0).map(|_| COUNT) };
        return match alone {
            Some(resource) => {
                Err(RequestError::MemoryMissing { container: container.name.clone(), resource: resource.to_owned() })
            }
            None => Ok(None),
        };
    };
    let bytes = memory.0.parse::<Quantity>().ok().and_then(|q| u64::try_from(q.value()).ok()).filter(|b| *b > 0);
    let Some(bytes) = bytes else {
        return Err(invalid(container, MEMORY, &memory.0, "write bytes per card, more than 0, such as 8Gi"));
    };
    let count = gpus.unwrap_or(1);
    Ok((count > 0).then(|| Demand::Share {
        memory: ShareMemory::Mib(Mib(bytes.div_ceil(MIB))),
        compute: Percent(compute.unwrap_or(0)),
        count,
    }))
}

/// A number of devices; 0 asks for nothing.
fn count(container: &Container, name: &str) -> Result<Option<u32>, RequestError> {
    whole(container, name, 0..=u32::MAX, "write a whole number, such as 1")
}

/// A whole number within `range`; `None` where the resource is not named.
fn whole(
    container: &Container,
    name: &str,
    range: std::ops::RangeInclusive<u32>,
    expected: &str,
) -> Result<Option<u32>, RequestError> {
    let Some(raw) = container.resources.device(name) else { return Ok(None) };
    let amount = raw.0.parse::<Quantity>().ok();
    // Equal to its own rounding: nothing was behind the decimal point.
    let number = amount.filter(|q| Quantity::units(q.value()) == *q).and_then(|q| u32::try_from(q.value()).ok());
    match number.filter(|n| range.contains(n)) {
        Some(number) => Ok(Some(number)),
        None => Err(invalid(container, name, &raw.0, expected)),
    }
}

fn invalid(container: &Container, name: &str, value: &str, expected: &str) -> RequestError {
    RequestError::Value {
        place: format!("container {:?}, resource {name}", container.name),
        value: value.to_owned(),
        expected: expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(limits: &str) -> Container {
        serde_json::from_str(&format!(r#"{{"name":"c","resources":{{"limits":{limits}}}}}"#)).expect("a container")
    }

    fn share(mib: u64, compute: u32, count: u32) -> Demand {
        Demand::Share { memory: ShareMemory::Mib(Mib(mib)), compute: Percent(compute), count }
    }

    fn slices(profile: &str, count: u32) -> Demand {
        Demand::Slices { profile: profile.into(), count }
    }

    #[test]
    fn what_containers_ask() {
        for (limits, expected) in [
            (r#"{"cpu":"1"}"#, vec![]),
            (r#"{"nvidia.com/gpu":2}"#, vec![Demand::Cards { count: 2 }]),
            (r#"{"nvidia.com/gpu":"2k"}"#, vec![Demand::Cards { count: 2000 }]),
            (r#"{"nvidia.com/gpu":"0"}"#, vec![]),
            (r#"{"gpu-scheduler/memory":"8Gi"}"#, vec![share(8192, 0, 1)]),
            (r#"{"gpu-scheduler/memory":"1"}"#, vec![share(1, 0, 1)]),
            (r#"{"gpu-scheduler/memory":1048577}"#, vec![share(2, 0, 1)]),
            (
                r#"{"gpu-scheduler/memory":"1Gi","gpu-scheduler/compute":"30","gpu-scheduler/gpus":2}"#,
                vec![share(1024, 30, 2)],
            ),
            (r#"{"gpu-scheduler/memory":"1Gi","gpu-scheduler/gpus":0}"#, vec![]),
            (r#"{"gpu-scheduler/gpus":0}"#, vec![]),
            (r#"{"gpu-scheduler/memory":"1Gi","nvidia.com/gpu":0}"#, vec![share(1024, 0, 1)]),
            (r#"{"gpu-scheduler/memory":"1Gi","nvidia.com/gpu.shared":1}"#, vec![share(1024, 0, 1)]),
            (r#"{"nvidia.com/gpu.shared":1}"#, vec![Demand::Seats { count: 1 }]),
            (
                r#"{"nvidia.com/mig-3g.40gb":1,"nvidia.com/mig-1g.10gb.me":2,"nvidia.com/mig-2g.20gb":0}"#,
                vec![slices("1g.10gb.me", 2), slices("3g.40gb", 1)],
            ),
            (r#"{"nvidia.com/mig-1g.10gb.shared":1}"#, vec![]),
            (
                r#"{"nvidia.com/gpu":1,"nvidia.com/mig-1g.10gb":1}"#,
                vec![Demand::Cards { count: 1 }, slices("1g.10gb", 1)],
            ),
        ] {
            assert_eq!(demands(&container(limits)), Ok(expected), "{limits}");
        }
    }

    #[test]
    fn requests_count_where_limits_are_missing() {
        let text = r#"{"name":"c","resources":{"requests":{"nvidia.com/gpu":1,"nvidia.com/mig-1g.5gb":2},
            "limits":{"nvidia.com/mig-1g.5gb":2}}}"#;
        let container = serde_json::from_str(text).expect("a container");
        assert_eq!(demands(&container), Ok(vec![Demand::Cards { count: 1 }, slices("1g.5gb", 2)]));
    }

    #[test]
    fn what_makes_no_sense() {
        for (limits, expected) in [
            (r#"{"gpu-scheduler/compute":30}"#, "asks for gpu-scheduler/compute without gpu-scheduler/memory"),
            (r#"{"gpu-scheduler/gpus":2}"#, "asks for gpu-scheduler/gpus without gpu-scheduler/memory"),
            (r#"{"gpu-scheduler/memory":"1Gi","nvidia.com/gpu":1}"#, "both nvidia.com/gpu and a share"),
            (r#"{"gpu-scheduler/memory":0}"#, r#"resource gpu-scheduler/memory: "0" is not valid"#),
            (r#"{"gpu-scheduler/memory":"-1Gi"}"#, r#""-1Gi" is not valid"#),
            (r#"{"gpu-scheduler/memory":"lots"}"#, r#""lots" is not valid; write bytes per card"#),
            (r#"{"gpu-scheduler/memory":"1Gi","gpu-scheduler/compute":0}"#, r#""0" is not valid; write whole percent"#),
            (r#"{"gpu-scheduler/memory":"1Gi","gpu-scheduler/compute":101}"#, r#""101" is not valid"#),
            (r#"{"gpu-scheduler/memory":"1Gi","gpu-scheduler/compute":"0.5"}"#, r#""0.5" is not valid"#),
            (r#"{"gpu-scheduler/memory":"1Gi","gpu-scheduler/gpus":-1}"#, r#""-1" is not valid"#),
            (r#"{"nvidia.com/gpu":"500m"}"#, r#"resource nvidia.com/gpu: "500m" is not valid; write a whole number"#),
            (r#"{"nvidia.com/gpu":"5G"}"#, r#""5G" is not valid"#),
            (r#"{"nvidia.com/mig-1g.5gb":"x"}"#, r#"resource nvidia.com/mig-1g.5gb: "x" is not valid"#),
        ] {
            let error = demands(&container(limits)).expect_err(limits).to_string();
            assert!(error.contains(expected), "{limits}: {error}");
        }
    }

    #[test]
    fn annotations_and_the_first_error() {
        let pod: Pod = serde_json::from_str(
            r#"{"metadata":{"annotations":{"gpu-scheduler/model":"A100*,!*40GB","gpu-scheduler/uuid":" GPU-1, GPU-2,,GPU-1"}},
            "spec":{"initContainers":[{"name":"i","resources":{"limits":{"nvidia.com/gpu":"x"}}}],
            "containers":[{"name":"a","resources":{"limits":{"nvidia.com/gpu":1}}},
            {"name":"b","resources":{"limits":{"gpu-scheduler/gpus":1}}}]}}"#,
        )
        .expect("a pod");
        let ask = Native.read(&pod);
        assert_eq!(ask.models, ModelPattern::parse("A100*,!*40GB"));
        assert_eq!(ask.uuids, ["GPU-1", "GPU-2"]);
        assert_eq!(ask.demands, [vec![], vec![Demand::Cards { count: 1 }], vec![]]);
        assert!(matches!(ask.error, Some(RequestError::Value { place, .. }) if place.contains("\"i\"")));
    }
}
