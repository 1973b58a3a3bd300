//! Which victims break a disruption budget.

use std::sync::Arc;

use crate::model::{DisruptionBudget, PodId};
use crate::state::State;

/// What is left of the budgets that concern the victims of one node.
pub(super) struct Budgets<'a> {
    state: &'a State,
    left: Vec<(&'a Arc<DisruptionBudget>, i32)>,
}

impl<'a> Budgets<'a> {
    pub fn new(state: &'a State) -> Self {
        Self { state, left: state.budgets().map(|b| (b, b.disruptions_allowed)).collect() }
    }

    /// Takes a victim off the budgets that cover it; whether one of them had nothing left. Victims come in order of
    /// importance.
    pub fn violates(&mut self, victim: PodId) -> bool {
        let Some(pod) = self.state.pod(victim) else { return false };
        let mut violates = false;
        for (budget, left) in &mut self.left {
            // One that is counted as disrupted already costs nothing more.
            if budget.covers(&pod.name.namespace, &pod.labels) && !budget.disrupted.contains(&*pod.name.name) {
                *left -= 1;
                violates |= *left < 0;
            }
        }
        violates
    }
}
