//! What must hold in the end: all is settled and nothing moves, and a scheduler that starts now agrees with the one that runs.

use std::collections::BTreeSet;

use gpu_scheduler_cluster::driver::{Driver, Effect, Turn};

use super::api::name;
use super::broken::Broken;
use super::clock::Instant;
use super::plan::{Kind, Moment};
use super::replica::driver;
use super::sim::{AFTERWARDS, Sim};
use super::watch::{Mark, Sight};
use crate::checker::Violation;
use crate::{invariants, restart};

/// For how long in the end nothing may be written.
const QUIET: Moment = 30_000;
/// Turns that a fresh scheduler may take.
const TURNS: usize = 20_000;

impl Sim {
    /// The first rule that does not hold in the end.
    pub fn verdict(&mut self) -> Option<Broken> {
        if let Some(violation) = self.book.violations(self.base.at(self.now)).into_iter().next() {
            return Some(Broken::Seen(violation));
        }
        let (at, what) = self.last_write.clone();
        if at > Instant(self.now.0.saturating_sub(QUIET)) {
            let calm = Instant(self.now.0 - AFTERWARDS);
            return Some(Broken::Restless { at, calm, what });
        }
        let leaders: Vec<&Driver> =
            self.replicas.iter().filter_map(|replica| replica.term.as_ref()).map(|term| &term.driver).collect();
        let [running] = leaders[..] else {
            return Some(Broken::NobodyLeads(format!("{} replicas lead in the end", leaders.len())));
        };
        if !running.synced() {
            return Some(Broken::NobodyLeads("the leader has not seen everything".to_owned()));
        }
        self.unsettled()
            .or_else(|| invariants::of_engine(running.engine()).map(Broken::Invariant))
            .or_else(|| self.differs(running))
            .or_else(|| self.forgotten(running))
    }

    fn unsettled(&self) -> Option<Broken> {
        let pods = self.api.all(Kind::Pods).map(|object| &object.value);
        let read = |value: &serde_json::Value| serde_json::from_value(value.clone()).expect("the model writes pods");
        let pod = pods.map(|pod| (name(pod), read(pod))).find(|(_, pod)| self.rules.is_unsettled(pod))?.0;
        Some(Broken::Seen(Violation::Unsettled { pod: pod.to_owned() }))
    }

    /// Nodes as the running scheduler sees them, against what one sees that lists everything now.
    fn differs(&self, running: &Driver) -> Option<Broken> {
        let fresh = self.fresh();
        self.api.all(Kind::Nodes).map(|node| name(&node.value)).find_map(|node| {
            if restart::guesses(running.engine(), node) {
                return None;
            }
            let (running, fresh) = (restart::sight(running.engine(), node), restart::sight(fresh.engine(), node));
            let text = |sight| format!("{sight:?}");
            (running != fresh).then(|| Broken::Differs {
                node: node.to_owned(),
                running: text(running),
                fresh: text(fresh),
            })
        })
    }

    /// Pods that a scheduler would bind, or make room for, that starts now.
    fn forgotten(&self, running: &Driver) -> Option<Broken> {
        let known: BTreeSet<String> = running.engine().state().pods().map(|pod| pod.uid.to_string()).collect();
        let there = self.api.list(Kind::Pods);
        let mut fresh = self.fresh();
        for _ in 0..TURNS {
            match fresh.poll(self.now.stamp()) {
                Turn::Rest => return None,
                Turn::Do(Effect::Bind(order)) => {
                    let known =
                        if known.contains(&*order.uid.0) { "" } else { ", which the running one does not know" };
                    return Some(Broken::Forgotten(format!(
                        "{} of {} pods waits although a scheduler that starts now binds it to {}{known}",
                        order.pod,
                        there.len(),
                        order.node
                    )));
                }
                Turn::Do(Effect::Evict { pod, preemptor, .. }) => {
                    let preemptor = preemptor.map(|(_, name)| name.to_string()).unwrap_or_default();
                    return Some(Broken::Forgotten(format!(
                        "{preemptor} waits although a scheduler that starts now evicts {pod} for it"
                    )));
                }
                Turn::Do(_) | Turn::Busy => {}
            }
        }
        Some(Broken::Circles { at: self.now, what: "a fresh scheduler does not come to rest" })
    }

    /// A scheduler that has listed everything and decided nothing.
    fn fresh(&self) -> Driver {
        let stamp = self.now.stamp();
        let mut fresh = driver(self.now);
        for kind in Kind::ALL {
            fresh.handle(stamp, Mark::Restarted.input(kind));
            for object in self.api.list(kind) {
                fresh.handle(stamp, Sight::Listed.input(&object.read));
            }
            fresh.handle(stamp, Mark::Synced.input(kind));
        }
        fresh
    }
}
