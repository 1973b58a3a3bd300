//! The functions that NVML exports, group by group.
//!
//! Each asks the [driver](crate::driver) under its lock and never panics across the border. What they do with their pointers
//! is in [`pointer`](mod@pointer), the only file that follows one.

mod call;
mod core;
mod enumerate;
mod events;
mod gpm;
mod mig_read;
mod mig_write;
mod mode;
mod pointer;
mod processes;
mod telemetry;
mod topology;

/// The names of all functions that can be made to fail.
pub(crate) fn functions() -> impl Iterator<Item = &'static str> {
    [
        self::core::LIFE,
        self::core::FUNCTIONS,
        enumerate::FUNCTIONS,
        telemetry::FUNCTIONS,
        processes::FUNCTIONS,
        mode::FUNCTIONS,
        topology::FUNCTIONS,
        mig_read::FUNCTIONS,
        mig_write::FUNCTIONS,
        events::WAITING,
        events::FUNCTIONS,
        gpm::FUNCTIONS,
    ]
    .into_iter()
    .flatten()
    .copied()
}
