//! Pods as a user writes them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;

use crate::builders::{GPU, SCHEDULER};
use crate::node::IMAGE;

/// Makes a [`Pod`] with one container, for our scheduler unless told otherwise.
#[derive(Debug, Clone)]
pub struct PodObject {
    metadata: ObjectMeta,
    scheduler: String,
    priority_class: Option<String>,
    tolerations: Vec<Toleration>,
    requests: BTreeMap<String, Quantity>,
    limits: BTreeMap<String, Quantity>,
    node: Option<String>,
    runs: bool,
    command: Vec<String>,
}

impl PodObject {
    /// A pod that asks for nothing.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            scheduler: SCHEDULER.to_owned(),
            priority_class: None,
            tolerations: Vec::new(),
            requests: BTreeMap::new(),
            limits: BTreeMap::new(),
            node: None,
            runs: false,
            command: Vec::new(),
        }
    }

    /// Another namespace than `default`.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.metadata.namespace = Some(namespace.to_owned());
        self
    }

    /// Whole cards.
    #[must_use]
    pub fn gpus(self, count: u32) -> Self {
        self.limit(GPU, &count.to_string())
    }

    /// A share of a card: memory such as `8Gi`, and compute in percent of the card.
    #[must_use]
    pub fn share(self, memory: &str, compute: u32) -> Self {
        self.limit("gpu-scheduler/memory", memory).limit("gpu-scheduler/compute", &compute.to_string())
    }

    /// The share on several distinct cards.
    #[must_use]
    pub fn share_gpus(self, count: u32) -> Self {
        self.limit("gpu-scheduler/gpus", &count.to_string())
    }

    /// A limit; for resources of a device, the API server makes it the request too.
    #[must_use]
    pub fn limit(mut self, resource: &str, amount: &str) -> Self {
        self.limits.insert(resource.to_owned(), Quantity(amount.to_owned()));
        self
    }

    /// A request without a limit, for `cpu` and `memory`.
    #[must_use]
    pub fn request(mut self, resource: &str, amount: &str) -> Self {
        self.requests.insert(resource.to_owned(), Quantity(amount.to_owned()));
        self
    }

    /// Who binds it: `default-scheduler` is Kubernetes' own.
    #[must_use]
    pub fn scheduler(mut self, name: &str) -> Self {
        self.scheduler = name.to_owned();
        self
    }

    /// Bound from the start, past every scheduler.
    #[must_use]
    pub fn node(mut self, name: &str) -> Self {
        self.node = Some(name.to_owned());
        self
    }

    /// Can run on a [`RealNode`](crate::node::RealNode): its image is there, and it shares the machine's network. It runs
    /// until it is deleted, and is restarted when it ends.
    #[must_use]
    pub fn runs(mut self) -> Self {
        self.runs = true;
        self
    }

    /// [`runs`](Self::runs), with a command in the place of the image's own: it has a shell and a few tools.
    #[must_use]
    pub fn command(mut self, command: &[&str]) -> Self {
        self.command = command.iter().map(|&word| word.to_owned()).collect();
        self.runs()
    }

    /// The name of a priority class, which must exist.
    #[must_use]
    pub fn priority_class(mut self, name: &str) -> Self {
        self.priority_class = Some(name.to_owned());
        self
    }

    /// Tolerates a taint whatever its value.
    #[must_use]
    pub fn tolerates(mut self, key: &str) -> Self {
        let toleration =
            Toleration { key: Some(key.to_owned()), operator: Some("Exists".to_owned()), ..Toleration::default() };
        self.tolerations.push(toleration);
        self
    }

    /// Adds or changes a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.metadata.labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds or changes an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// The object.
    #[must_use]
    pub fn build(self) -> Pod {
        let filled = |map: BTreeMap<_, _>| (!map.is_empty()).then_some(map);
        let container = Container {
            name: "main".to_owned(),
            // Never pulled: simulated nodes run nothing, and a real one has its image.
            image: Some(if self.runs { IMAGE } else { "pause" }.to_owned()),
            command: (!self.command.is_empty()).then_some(self.command),
            resources: Some(ResourceRequirements {
                limits: filled(self.limits),
                requests: filled(self.requests),
                ..ResourceRequirements::default()
            }),
            ..Container::default()
        };
        let spec = PodSpec {
            containers: vec![container],
            scheduler_name: Some(self.scheduler),
            node_name: self.node,
            host_network: self.runs.then_some(true),
            priority_class_name: self.priority_class,
            tolerations: (!self.tolerations.is_empty()).then_some(self.tolerations),
            ..PodSpec::default()
        };
        Pod { metadata: self.metadata, spec: Some(spec), status: None }
    }
}

/// Node of a pod.
#[must_use]
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Why a pod waits.
#[must_use]
pub fn waiting(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?.message.clone()
}
