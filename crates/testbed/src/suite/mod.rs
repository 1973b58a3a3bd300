//! Kubernetes' own end-to-end scheduling specs as a judge of whoever schedules here as `default-scheduler`.
//!
//! A [`Suite`] is the program of a minor's specs; [`furnish`] makes a control plane into a cluster that they can run on,
//! without kubelets; a [`Table`] says what is expected of each spec, and a [`Verdict`] what came of it. The table is in
//! `docs/conformance.md`.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use gpu_scheduler_testbed::control_plane::{ControlPlane, ControlPlaneError, KubeScheduler};
//! use gpu_scheduler_testbed::suite::{self, Selection, Suite, Table, Verdict};
//!
//! # async fn example() -> Result<(), ControlPlaneError> {
//! let suite = Suite::find(None).await?;
//! let mut cluster = ControlPlane::start(suite.options(Some(KubeScheduler::default()))).await?;
//! suite::furnish(&cluster).await?;
//! suite::settle(&cluster).await?;
//! // Kubernetes' own scheduler passes all.
//! let table = Table::of(suite.minor()).all_pass();
//! let report = suite.run(&mut cluster, &table, Selection::All, Path::new("target/suite")).await?;
//! let verdict = Verdict::of(&table, Selection::All, &report);
//! assert!(verdict.differences.is_empty(), "{verdict}");
//! # Ok(())
//! # }
//! ```

mod bed;
mod program;
mod report;
mod table;
mod verdict;

pub use bed::{furnish, settle};
pub use program::Suite;
pub use report::Report;
pub use table::{Expected, Row, Selection, Table};
pub use verdict::Verdict;
