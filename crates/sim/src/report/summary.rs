//! Mean and spread over the runs of one policy.

/// Of one quantity over several runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    /// How many runs.
    pub runs: usize,
    /// Mean.
    pub mean: f64,
    /// Sample standard deviation; 0 for one run.
    pub sd: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

impl Summary {
    /// Of these values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len() as f64;
        if values.is_empty() {
            return Self::default();
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let sd = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        let (min, max) = values.iter().fold((values[0], values[0]), |(a, b), v| (a.min(*v), b.max(*v)));
        Self { runs: values.len(), mean, sd, min, max }
    }

    /// `95.12`, or `95.12 ± 0.03` over several runs.
    pub fn text(&self, decimals: usize) -> String {
        if self.runs > 1 {
            format!("{:.decimals$} ± {:.decimals$}", self.mean, self.sd)
        } else {
            format!("{:.decimals$}", self.mean)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_spread() {
        let of = Summary::of([1.0, 2.0, 3.0, 4.0]);
        assert_eq!((of.mean, of.min, of.max), (2.5, 1.0, 4.0));
        assert!((of.sd - 1.290_99).abs() < 1e-4);
        assert_eq!(of.text(2), "2.50 ± 1.29");
        assert_eq!(Summary::of([7.0]).text(1), "7.0");
        assert_eq!(Summary::of([]).runs, 0);
    }
}
