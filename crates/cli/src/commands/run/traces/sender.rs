//! Says when spans cannot be sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gpu_scheduler_cluster::config::CollectorAddress;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tracing::{info, warn};

/// An exporter that is listened to: one line when it begins to fail and one when it works again, however many batches
/// are lost in between.
#[derive(Debug)]
pub struct Sender<E> {
    exporter: E,
    endpoint: CollectorAddress,
    failing: AtomicBool,
}

impl<E> Sender<E> {
    /// Sends by this exporter, which goes to this address.
    pub fn new(exporter: E, endpoint: CollectorAddress) -> Self {
        Self { exporter, endpoint, failing: AtomicBool::new(false) }
    }
}

impl<E: SpanExporter> SpanExporter for Sender<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.exporter.export(batch).await;
        let failed_before = self.failing.swap(result.is_err(), Ordering::Relaxed);
        match &result {
            Err(error) if !failed_before => {
                warn!(endpoint = %self.endpoint, %error, "traces cannot be sent, and are lost until they can be");
            }
            Ok(()) if failed_before => info!(endpoint = %self.endpoint, "traces are sent again"),
            _ => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use futures::FutureExt;
    use opentelemetry_sdk::error::OTelSdkError;

    use super::*;

    /// Fails as often as it is told to.
    #[derive(Debug)]
    struct Flaky(Mutex<Vec<bool>>);

    impl SpanExporter for Flaky {
        async fn export(&self, _: Vec<SpanData>) -> OTelSdkResult {
            match self.0.lock().unwrap().pop() {
                Some(true) => Err(OTelSdkError::InternalFailure("nobody is there".to_owned())),
                _ => Ok(()),
            }
        }
    }

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(text)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failure_and_its_end_are_told_once_each() {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let fails = [false, true, true, true, false, false, true];
        let sender =
            Sender::new(Flaky(Mutex::new(fails.iter().rev().copied().collect())), "localhost:4317".parse().unwrap());
        tracing::subscriber::with_default(log, || {
            for failed in fails {
                assert_eq!(sender.export(Vec::new()).now_or_never().unwrap().is_err(), failed);
            }
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let told: Vec<bool> = text.lines().map(|line| line.contains("cannot be sent")).collect();
        assert_eq!(told, [true, false, true], "{text}");
        assert!(text.contains("nobody is there") && text.contains("localhost:4317"), "{text}");
    }
}
