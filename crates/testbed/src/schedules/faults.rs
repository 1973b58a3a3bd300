//! What goes wrong at the moment.

use super::plan::{Answered, Asked, Fault, FaultPlan, Kind, Moment};
use super::sim::Sim;

impl Sim {
    /// Whether the API server is out of order.
    pub fn is_out(&self) -> bool {
        self.faults().any(|fault| fault.what == Fault::Outage)
    }

    /// How much longer a request takes.
    pub fn slowness(&self) -> Moment {
        let longer = |fault: &FaultPlan| match fault.what {
            Fault::Slow(longer) => longer,
            _ => 0,
        };
        self.faults().map(longer).max().unwrap_or(0)
    }

    /// How much later news of a kind come.
    pub fn lag(&self, kind: Kind) -> Moment {
        let longer = |fault: &FaultPlan| match fault.what {
            Fault::Lag(of, longer) if of == kind => longer,
            _ => 0,
        };
        self.faults().map(longer).max().unwrap_or(0)
    }

    /// Whether a node's kubelet does nothing.
    pub fn kubelet_hangs(&self, node: &str) -> bool {
        self.faults().any(|fault| matches!(&fault.what, Fault::KubeletHangs(of) if of == node))
    }

    /// Cards of a node that are sick.
    pub fn sick_cards(&self, node: &str) -> Vec<u32> {
        let card = |fault: &FaultPlan| match &fault.what {
            Fault::Sick(of, card) if of == node => Some(*card),
            _ => None,
        };
        self.faults().filter_map(card).collect()
    }

    /// Whether a node's report may not be written.
    pub fn is_unreported(&self, node: &str) -> bool {
        self.faults().any(|fault| matches!(&fault.what, Fault::Unreported(of) if of == node))
    }

    /// How a request is answered instead of as it should be.
    pub fn answer_to(&mut self, asked: Asked) -> Option<Answered> {
        let mut chance = self.chance.clone();
        let answer = self.faults().find_map(|fault| match fault.what {
            Fault::Answers { to, answer, percent } => {
                let meant = to == asked || (to == Asked::Everything && asked == Asked::Binds);
                (meant && chance.chance(percent)).then_some(answer)
            }
            _ => None,
        });
        self.chance = chance;
        answer
    }

    /// What goes wrong now.
    fn faults(&self) -> impl Iterator<Item = &FaultPlan> {
        let now = self.now.0;
        self.plan.faults.iter().filter(move |fault| fault.at <= now && now < fault.ends())
    }
}
