//! What to compare, and how much.

use std::env;

use super::feature::{Feature, Features};

/// The seed of the first case.
const SEED: &str = "DIFFERENTIAL_SEED";
/// How many pods to ask about.
const PLACEMENTS: &str = "DIFFERENTIAL_PLACEMENTS";
/// Features by name, with commas between them.
const FEATURES: &str = "DIFFERENTIAL_FEATURES";

/// What to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The seed of the first case; the next has the next.
    pub seed: u64,
    /// So many pods are asked about.
    pub placements: usize,
    /// What clusters and pods may have.
    pub features: Features,
    /// Disagreements after which it ends.
    pub most: usize,
}

impl Settings {
    /// With what the environment says instead, if anything.
    ///
    /// # Errors
    ///
    /// What it says is not a number, or no feature.
    pub fn from_environment(self) -> Result<Self, String> {
        self.overruled(|name| env::var(name).ok().filter(|text| !text.trim().is_empty()))
    }

    fn overruled(mut self, said: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str, default: u64| {
            said(name)
                .map_or(Ok(default), |text| text.trim().parse().map_err(|error| format!("{name}={text}: {error}")))
        };
        self.seed = number(SEED, self.seed)?;
        self.placements = usize::try_from(number(PLACEMENTS, self.placements as u64)?).unwrap_or(usize::MAX);
        if let Some(names) = said(FEATURES) {
            let features: Result<_, _> = names.split(',').map(|name| name.trim().parse::<Feature>()).collect();
            self.features = features.map_err(|error| format!("{FEATURES}: {error}"))?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_overrules() {
        let settings = Settings { seed: 1, placements: 10, features: Feature::ALL.into(), most: 5 };
        let with = |name: &'static str, value: &'static str| {
            settings.clone().overruled(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(with("HOME", "x").unwrap(), settings);
        assert_eq!(with(SEED, "7").unwrap().seed, 7);
        assert_eq!(
            with(FEATURES, "taints, host-ports").unwrap().features,
            [Feature::Taints, Feature::HostPorts].into()
        );
        assert!(with(PLACEMENTS, "many").unwrap_err().starts_with("DIFFERENTIAL_PLACEMENTS=many: "));
    }
}
