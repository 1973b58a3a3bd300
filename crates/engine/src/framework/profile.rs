//! A profile: which plugins run, in which order, and how their scores become one cost.

use smallvec::SmallVec;

use crate::framework::{
    ChoiceError, CyclePlugin, Cyclic, Disabled, ExtensionPoint, Filter, Permit, PluginName, PostBind, PostFilter,
    PreBind, PreEnqueue, PreFilter, Reason, Reserve, Score, Selection,
};
use crate::model::Cost;
use crate::plugins::{cyclic, filters, is_required, names, pre_filters, scores};
use crate::state::{Class, GroupId, State};

/// Kubernetes' preference points in milli-GPU: what a point of affinity is worth in fragmented GPU.
const PREFERENCE_WEIGHT: Cost = Cost::milli(10);

/// What a share takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ShareMode {
    /// What it asks for.
    #[default]
    Shares,
    /// A whole card, as in a cluster that only counts cards.
    WholeCards,
}

/// A scoring plugin with its weight.
#[derive(Debug)]
pub(crate) struct Scorer {
    pub plugin: Box<dyn Score>,
    pub weight: i64,
}

/// What the PreFilter plugins said together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreFiltered {
    /// Which nodes are worth a look.
    pub selection: Selection,
    /// Who narrowed it.
    pub plugins: SmallVec<[PluginName; 2]>,
}

/// Plugins by extension point, in order. Built by adding to an empty one.
#[derive(Debug, Default)]
pub struct Profile {
    pre_enqueues: Vec<Box<dyn PreEnqueue>>,
    pre_filters: Vec<Box<dyn PreFilter>>,
    filters: Vec<Box<dyn Filter>>,
    post_filters: Vec<Box<dyn PostFilter>>,
    cyclic: Vec<Cyclic>,
    scorers: Vec<Scorer>,
    reserves: Vec<Box<dyn Reserve>>,
    permits: Vec<Box<dyn Permit>>,
    pre_binds: Vec<Box<dyn PreBind>>,
    post_binds: Vec<Box<dyn PostBind>>,
    preference_weight: Option<Cost>,
    weighs_cards: bool,
    tie_within: Cost,
    share_mode: ShareMode,
}

macro_rules! extension_point {
    ($(#[$doc:meta])* $with:ident, $get:ident: $trait:ident) => {
        $(#[$doc])*
        #[must_use]
        pub fn $with(mut self, plugin: impl $trait + 'static) -> Self {
            self.$get.push(Box::new(plugin));
            self
        }
        pub(crate) fn $get(&self) -> &[Box<dyn $trait>] {
            &self.$get
        }
    };
}

impl Profile {
    extension_point! {
        /// Adds a PreEnqueue plugin.
        with_pre_enqueue, pre_enqueues: PreEnqueue
    }
    extension_point! {
        /// Adds a PreFilter plugin.
        with_pre_filter, pre_filters: PreFilter
    }
    extension_point! {
        /// Adds a Filter plugin; the first one that says no is the reason.
        with_filter, filters: Filter
    }
    extension_point! {
        /// Adds a PostFilter plugin.
        with_post_filter, post_filters: PostFilter
    }
    extension_point! {
        /// Adds a Reserve plugin.
        with_reserve, reserves: Reserve
    }
    extension_point! {
        /// Adds a Permit plugin.
        with_permit, permits: Permit
    }
    extension_point! {
        /// Adds a PreBind plugin.
        with_pre_bind, pre_binds: PreBind
    }
    extension_point! {
        /// Adds a PostBind plugin.
        with_post_bind, post_binds: PostBind
    }

    /// Adds a scoring plugin.
    #[must_use]
    pub fn with_score(mut self, plugin: impl Score + 'static, weight: i64) -> Self {
        self.scorers.push(Scorer { plugin: Box::new(plugin), weight });
        self
    }

    /// Adds a plugin that looks at the whole cluster; with a weight it scores too.
    #[must_use]
    pub fn with_cyclic(mut self, plugin: impl CyclePlugin + 'static, filters: bool, weight: Option<i64>) -> Self {
        self.cyclic.push(Cyclic { plugin: Box::new(plugin), filters, weight });
        self
    }

    fn cyclic_named(&mut self, point: ExtensionPoint, name: &str) -> Option<&mut Cyclic> {
        let plugin = cyclic(point).into_iter().find(|p| p.name() == name)?;
        let at = self.cyclic.iter().position(|c| c.plugin.name() == name).unwrap_or_else(|| {
            self.cyclic.push(Cyclic { plugin, filters: false, weight: None });
            self.cyclic.len() - 1
        });
        self.cyclic.get_mut(at)
    }

    /// Adds the plugin of this name; one that is there already keeps its place and takes the weight, which counts for
    /// Score alone. The cost stays one sum, whatever is added.
    ///
    /// # Errors
    /// If the point has no plugin of that name.
    pub fn enabling(mut self, point: ExtensionPoint, name: &str, weight: i64) -> Result<Self, ChoiceError> {
        if let Some(cyclic) = self.cyclic_named(point, name) {
            match point {
                ExtensionPoint::Score => cyclic.weight = Some(weight),
                _ => cyclic.filters = true,
            }
            return Ok(self);
        }
        match point {
            ExtensionPoint::PreFilter => {
                let plugin =
                    pre_filters().into_iter().find(|p| p.name() == name).ok_or_else(|| unknown(point, name))?;
                if self.pre_filters.iter().all(|p| p.name() != name) {
                    self.pre_filters.push(plugin);
                }
            }
            ExtensionPoint::Filter => {
                let plugin = filters().into_iter().find(|p| p.name() == name).ok_or_else(|| unknown(point, name))?;
                if self.filters.iter().all(|p| p.name() != name) {
                    self.filters.push(plugin);
                }
            }
            ExtensionPoint::Score => {
                let plugin = scores().into_iter().find(|p| p.name() == name).ok_or_else(|| unknown(point, name))?;
                match self.scorers.iter_mut().find(|s| s.plugin.name() == name) {
                    Some(known) => known.weight = weight,
                    None => self.scorers.push(Scorer { plugin, weight }),
                }
            }
        }
        Ok(self)
    }

    /// Takes plugins out. One that is not in the profile is no error, one that does not exist is.
    ///
    /// # Errors
    /// If the point has no plugin of that name, or must keep it.
    pub fn disabling(mut self, point: ExtensionPoint, which: Disabled<'_>) -> Result<Self, ChoiceError> {
        if let Disabled::Named(name) = which {
            if !names(point).contains(&name) {
                return Err(unknown(point, name));
            }
            if is_required(point, name) {
                return Err(ChoiceError::Required { point, name: name.to_owned() });
            }
        }
        let stays = |name: PluginName| match which {
            Disabled::All => is_required(point, name),
            Disabled::Named(gone) => name != gone,
        };
        match point {
            ExtensionPoint::PreFilter => self.pre_filters.retain(|p| stays(p.name())),
            ExtensionPoint::Filter => self.filters.retain(|p| stays(p.name())),
            ExtensionPoint::Score => self.scorers.retain(|s| stays(s.plugin.name())),
        }
        for cyclic in self.cyclic.iter_mut().filter(|c| !stays(c.plugin.name())) {
            match point {
                ExtensionPoint::PreFilter => {}
                ExtensionPoint::Filter => cyclic.filters = false,
                ExtensionPoint::Score => cyclic.weight = None,
            }
        }
        self.cyclic.retain(|c| c.filters || c.weight.is_some());
        Ok(self)
    }

    /// The names of the plugins at a point, in the order in which they are asked; with their weights at Score, else 1.
    pub fn plugins(&self, point: ExtensionPoint) -> Vec<(PluginName, i64)> {
        match point {
            ExtensionPoint::PreFilter => self.pre_filters.iter().map(|p| (p.name(), 1)).collect(),
            ExtensionPoint::Filter => {
                let late = self.cyclic.iter().filter(|c| c.filters).map(|c| c.plugin.name());
                self.filters.iter().map(|p| p.name()).chain(late).map(|name| (name, 1)).collect()
            }
            ExtensionPoint::Score => {
                let late = self.cyclic.iter().filter_map(|c| Some((c.plugin.name(), c.weight?)));
                self.scorers.iter().map(|s| (s.plugin.name(), s.weight)).chain(late).collect()
            }
        }
    }

    /// What a preference point is worth.
    pub fn preference_weight(&self) -> Cost {
        self.preference_weight.unwrap_or(PREFERENCE_WEIGHT)
    }

    /// Sets what a preference point is worth.
    #[must_use]
    pub fn with_preference_weight(mut self, weight: Cost) -> Self {
        self.preference_weight = Some(weight);
        self
    }

    /// Lets the scores choose the card of a share too; otherwise it is the one with the smallest remainder.
    #[must_use]
    pub fn weighing_cards(mut self) -> Self {
        self.weighs_cards = true;
        self
    }

    /// Lets costs within this much tie, so that the first node wins, as far as pods come and go
    /// ([`Learned::turnover`](crate::prices::Learned::turnover)): first fit keeps the last nodes free for large requests.
    #[must_use]
    pub fn tying_within(mut self, cost: Cost) -> Self {
        self.tie_within = cost;
        self
    }

    /// Sets what a share takes.
    #[must_use]
    pub fn with_share_mode(mut self, mode: ShareMode) -> Self {
        self.share_mode = mode;
        self
    }

    /// What a share takes.
    pub fn share_mode(&self) -> ShareMode {
        self.share_mode
    }

    pub(crate) fn cyclic(&self) -> &[Cyclic] {
        &self.cyclic
    }
    pub(crate) fn scorers(&self) -> &[Scorer] {
        &self.scorers
    }
    /// Whether any plugin reads prices.
    pub(crate) fn wants_prices(&self) -> bool {
        self.scorers.iter().any(|s| s.plugin.wants_prices())
    }
    /// Whether any plugin's cost differs from decision to decision.
    pub(crate) fn varies(&self) -> bool {
        self.scorers.iter().any(|s| s.plugin.varies())
    }
    /// What all nodes of a group cost alike.
    pub(crate) fn group_cost(&self, state: &State, class: &Class, group: Option<GroupId>) -> Cost {
        let Some(group) = group else { return Cost(0) };
        let pricing = self.scorers.iter().filter(|s| s.plugin.prices_groups());
        pricing.fold(Cost(0), |sum, s| sum + Cost(s.plugin.group_cost(state, class, group)).times(s.weight))
    }
    /// The cost, rounded down to the steps within which costs tie.
    pub(crate) fn coarse(&self, state: &State, cost: Cost) -> Cost {
        let step = self.tie_within.0 / 1000 * (state.prices().learned().turnover() / 1000);
        if step > 0 { Cost(cost.0.div_euclid(step).saturating_mul(step)) } else { cost }
    }
    pub(crate) fn weighs_cards(&self) -> bool {
        self.weighs_cards
    }

    /// What `points` (0 to 100) of a plugin of this weight are worth.
    pub(crate) fn points(&self, points: i64, weight: i64) -> Cost {
        self.preference_weight().times(points.saturating_mul(weight))
    }

    /// Runs the PreFilter plugins: sets are intersected, the first refusal ends it.
    pub fn pre_filter(&self, state: &State, class: &Class) -> PreFiltered {
        let mut all = PreFiltered { selection: Selection::All, plugins: SmallVec::new() };
        for plugin in self.pre_filters() {
            let names = match plugin.pre_filter(state, class) {
                Selection::All => continue,
                Selection::Only(names) => names,
                Selection::Reject(reason) => {
                    let plugins = SmallVec::from_iter([plugin.name()]);
                    return PreFiltered { selection: Selection::Reject(reason), plugins };
                }
            };
            all.plugins.push(plugin.name());
            match &mut all.selection {
                Selection::Only(known) => known.retain(|n| names.binary_search(n).is_ok()),
                selection => *selection = Selection::Only(names),
            }
        }
        if all.selection == Selection::Only(Vec::new()) {
            all.selection = Selection::Reject(Reason::NoneLeft { plugins: all.plugins.clone() });
        }
        all
    }

    /// Changes whenever filters may answer differently although neither class nor node changed.
    pub(crate) fn verdict_epoch(&self, state: &State) -> u64 {
        let pre_filters = self.pre_filters.iter().fold(0, |sum, p| sum + p.epoch(state));
        self.filters.iter().fold(pre_filters, |sum, f| sum + f.epoch(state))
    }

    /// Changes whenever equal placements may score differently.
    pub(crate) fn epoch(&self, state: &State) -> u64 {
        // Epochs only grow, so a sum changes whenever one of them does.
        self.scorers.iter().fold(0, |sum, s| sum + s.plugin.epoch(state))
    }
}

fn unknown(point: ExtensionPoint, name: &str) -> ChoiceError {
    ChoiceError::Unknown { point, name: name.to_owned(), known: names(point) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    fn plugins(profile: &Profile, point: ExtensionPoint) -> String {
        let named = |(name, weight): (PluginName, i64)| format!("{name}={weight}");
        profile.plugins(point).into_iter().map(named).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_enabled_plugin_keeps_its_place_or_comes_last() {
        let score = ExtensionPoint::Score;
        let profile = Policy::Fgd.profile().enabling(score, "NodeAffinity", 7).unwrap();
        let profile = profile.enabling(score, "BestFit", 2).unwrap();
        assert_eq!(
            plugins(&profile, score),
            "TaintToleration=3 NodeAffinity=7 FGD=1 BestFit=2 VolumeBinding=1 PodTopologySpread=2 InterPodAffinity=2 \
             ImageLocality=1"
        );
    }

    #[test]
    fn disabling_all_keeps_what_must_stay() {
        for (point, left) in
            [(ExtensionPoint::PreFilter, "GpuFit=1"), (ExtensionPoint::Filter, "GpuFit=1"), (ExtensionPoint::Score, "")]
        {
            let profile = Policy::ShadowPrice.profile().disabling(point, Disabled::All).unwrap();
            assert_eq!(plugins(&profile, point), left);
        }
        let profile = Policy::Spread.profile().disabling(ExtensionPoint::Filter, Disabled::Named("NodePorts")).unwrap();
        assert!(!plugins(&profile, ExtensionPoint::Filter).contains("NodePorts"));
        assert!(plugins(&profile, ExtensionPoint::Filter).contains("NodeName"));
    }

    #[test]
    fn what_is_not_there_or_must_stay_is_refused() {
        let filter = ExtensionPoint::Filter;
        let error = Policy::Fgd.profile().enabling(filter, "FGD", 1).unwrap_err();
        assert!(error.to_string().starts_with("there is no filter plugin \"FGD\"; known are NodeName, "), "{error}");
        let error = Policy::Fgd.profile().disabling(filter, Disabled::Named("GpuFit")).unwrap_err();
        assert_eq!(error, ChoiceError::Required { point: filter, name: "GpuFit".into() });
        assert!(Policy::Fgd.profile().disabling(filter, Disabled::Named("GPUFit")).is_err());
    }

    #[test]
    fn every_plugin_of_every_policy_can_be_chosen_with_the_weight_it_has() {
        for policy in Policy::ALL {
            let profile = policy.profile();
            for point in [ExtensionPoint::PreFilter, ExtensionPoint::Filter, ExtensionPoint::Score] {
                for (name, weight) in profile.plugins(point) {
                    assert!(names(point).contains(&name), "{name} of {policy}");
                    assert!(point != ExtensionPoint::Score || weight == crate::plugins::default_weight(name), "{name}");
                }
            }
        }
    }

    #[test]
    fn a_preference_point_is_worth_what_is_set() {
        assert_eq!(Policy::Fgd.profile().preference_weight(), Cost::milli(10));
        assert_eq!(Policy::Fgd.profile().with_preference_weight(Cost::milli(3)).points(100, 2), Cost::milli(600));
    }
}
