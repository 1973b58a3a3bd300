//! Calls that change a card.

use std::fs::File;

use super::Driver;
use crate::describe::NvmlError;
use crate::machine::{Card, Written};

impl Driver {
    /// Changes a card and writes down what is different. Processes that change cards of one node take turns.
    ///
    /// Whatever the change needs to know it must read from the card that it is given, which is as it is now.
    pub fn change<T>(
        &mut self,
        uuid: &str,
        change: impl FnOnce(&mut Card) -> Result<T, NvmlError>,
    ) -> Result<T, NvmlError> {
        let node = self.node.as_mut().ok_or(NvmlError::Uninitialized)?;
        let refused = |what: &str, error: &dyn std::fmt::Display| {
            eprintln!("nvml-mock: {what}: {error}");
            NvmlError::OperatingSystem
        };
        let folder = File::open(node.source.folder()).map_err(|error| refused("the description's folder", &error))?;
        folder.lock().map_err(|error| refused("the description's folder", &error))?;
        if let Some(machine) = node.source.read() {
            node.machine = machine;
        }
        let mut card = node.machine.card(uuid).ok_or(NvmlError::GpuIsLost)?.clone();
        let before = (card.described_mig(), card.compute_mode);
        let result = change(&mut card)?;
        let after = (card.described_mig(), card.compute_mode);
        if before != after {
            let file = node.source.file();
            let mut written = Written::read(file).map_err(|error| refused("the state", &error))?;
            let entry = written.cards.entry(uuid.to_owned()).or_default();
            if before.0 != after.0 {
                entry.mig = Some(after.0);
            }
            if before.1 != after.1 {
                entry.compute_mode = Some(after.1);
            }
            written.write(file).map_err(|error| refused("the state", &error))?;
            if let Some(machine) = node.source.read() {
                node.machine = machine;
            }
        }
        Ok(result)
    }
}
