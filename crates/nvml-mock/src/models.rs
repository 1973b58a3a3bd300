//! The models of cards that descriptions can name.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::describe::{Architecture, Brand, ComputeCapability, Megabytes};
use crate::mig::{self, Table};

/// What a model says about each card of it, as `data/models.csv` has it.
#[derive(Clone, Debug)]
pub struct Model {
    /// The name that descriptions use, such as `A100-SXM4-80GB`.
    pub model: String,
    /// The product's name, as NVML says it.
    pub name: String,
    /// The product line.
    pub brand: Brand,
    /// The chip's generation.
    pub architecture: Architecture,
    /// What CUDA calls the chip's abilities.
    pub capability: ComputeCapability,
    /// All of the card's memory, in MiB.
    pub memory: Megabytes,
    /// What the driver keeps of it, in MiB.
    pub reserved: Megabytes,
    /// The window into it over PCI, in MiB.
    pub bar1: Megabytes,
    /// Device and vendor, as in `0x20B210DE`.
    pub pci: u32,
    /// Device and vendor of the board.
    pub subsystem: u32,
    /// The power limit, in W.
    pub power: u32,
    /// The highest clock of the multiprocessors, in MHz.
    pub sm_clock: u32,
    /// The highest clock of the memory, in MHz.
    pub memory_clock: u32,
    /// How many NVLinks the board has.
    pub links: u32,
    /// The memory is stacked on the chip and has a thermometer.
    pub hbm: bool,
    /// The memory is a NUMA node of its own.
    pub coherent: bool,
    /// What MIG can make of the card.
    pub mig: Option<&'static Table>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Row {
    model: String,
    name: String,
    brand: Brand,
    architecture: Architecture,
    capability: ComputeCapability,
    memory: Megabytes,
    reserved: Megabytes,
    bar1: Megabytes,
    pci: String,
    subsystem: String,
    power: u32,
    sm_clock: u32,
    memory_clock: u32,
    links: u32,
    hbm: bool,
    coherent: bool,
    mig: Option<String>,
}

static MODELS: LazyLock<Vec<Model>> = LazyLock::new(|| {
    let mut reader =
        csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(include_str!("../data/models.csv").as_bytes());
    reader.deserialize().map(|row: Result<Row, _>| row.expect("the crate's own table is sound").into()).collect()
});

impl From<Row> for Model {
    fn from(row: Row) -> Self {
        let hex = |digits: &str| u32::from_str_radix(digits, 16).expect("the crate's own table has PCI ids");
        Self {
            pci: hex(&row.pci),
            subsystem: hex(&row.subsystem),
            mig: row.mig.map(|name| mig::table(&name).expect("every table of MIG that a model names is there")),
            model: row.model,
            name: row.name,
            brand: row.brand,
            architecture: row.architecture,
            capability: row.capability,
            memory: row.memory,
            reserved: row.reserved,
            bar1: row.bar1,
            power: row.power,
            sm_clock: row.sm_clock,
            memory_clock: row.memory_clock,
            links: row.links,
            hbm: row.hbm,
            coherent: row.coherent,
        }
    }
}

/// All models, in the order of the table.
pub fn all() -> &'static [Model] {
    &MODELS
}

/// The model of that name, whatever its case.
pub fn find(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.model.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_of_mig_belongs_to_a_model() {
        for table in mig::tables() {
            assert!(all().iter().any(|model| model.mig.is_some_and(|mig| mig.name == table.name)), "{}", table.name);
        }
    }

    /// How NVIDIA's tools work out the gigabytes of a profile's name: eighths of the card, rounded up, of its
    /// gigabytes, rounded up.
    #[test]
    fn the_memory_of_a_profile_gives_its_name() {
        for model in all() {
            for profile in model.mig.map(|table| table.profiles.as_slice()).unwrap_or_default() {
                let eighths = (8 * profile.memory.0).div_ceil(model.memory.0) as f64;
                let gigabytes = (eighths / 8.0 * model.memory.0.div_ceil(1024) as f64).round();
                let said = format!("{}g.{gigabytes}gb", profile.slices);
                assert!(profile.name.starts_with(&said), "{}: {} would be called {said}", model.model, profile.name);
            }
        }
    }
}
