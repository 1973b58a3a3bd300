//! SIGTERM and SIGINT.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// Calls `asked` at the first SIGTERM or SIGINT. A second one ends the process at once.
///
/// # Errors
/// If they cannot be listened for.
pub fn wait(mut asked: impl FnMut()) -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        let mut times = 0;
        loop {
            tokio::select! {
                _ = terminate.recv() => times += 1,
                _ = interrupt.recv() => times += 1,
            }
            if times > 1 {
                std::process::exit(130);
            }
            asked();
        }
    })
}
