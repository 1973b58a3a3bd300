//! Progress bars on a terminal; nothing elsewhere.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use gpu_scheduler_sim::experiment::Progress;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// One bar a run that is going on, and below them one for all runs.
pub struct Bars {
    all: MultiProgress,
    style: ProgressStyle,
    total: ProgressBar,
    running: Mutex<BTreeMap<String, ProgressBar>>,
}

impl Bars {
    /// For so many runs.
    pub fn new(runs: usize) -> anyhow::Result<Self> {
        let template =
            |text: &str| ProgressStyle::with_template(text).context("the template of the progress bar is wrong");
        let all = MultiProgress::new();
        let style = template("{prefix:26} {bar:40} {percent:>3} %  {eta}")?;
        let total = all.add(ProgressBar::new(runs as u64).with_style(template("{pos} of {len} runs done  {elapsed}")?));
        // A single run has its own bar.
        if runs > 1 {
            total.tick();
        } else {
            all.remove(&total);
        }
        Ok(Self { all, style, total, running: Mutex::default() })
    }
}

impl Progress for Bars {
    fn start(&self, run: &str, steps: usize) -> Box<dyn FnMut(usize) + '_> {
        let bar = ProgressBar::new(steps as u64).with_style(self.style.clone()).with_prefix(run.to_owned());
        let bar = self.all.insert_from_back(1, bar);
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(run.to_owned(), bar.clone());
        let mut shown = 0;
        let stride = (steps / 200).max(1);
        Box::new(move |done| {
            if done >= shown + stride {
                shown = done;
                bar.set_position(done as u64);
            }
        })
    }

    fn done(&self, run: &str) {
        let bar = self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
        if let Some(bar) = bar {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
        self.total.inc(1);
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.total.finish_and_clear();
    }
}
