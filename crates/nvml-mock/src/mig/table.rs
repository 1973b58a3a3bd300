//! The profiles of each model, from `data/mig-profiles.csv`.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::describe::Megabytes;

/// The profiles of the cards that are divided alike.
#[derive(Clone, Debug)]
pub struct Table {
    /// The name that the models refer to it by, such as `A100-80GB`.
    pub name: String,
    /// The profiles, in the order of the file.
    pub profiles: Vec<Profile>,
}

/// One way to cut a GPU instance out of a card.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name, such as `1g.10gb+me`.
    pub name: String,
    /// The number that a profile is asked for by: one of `NVML_GPU_INSTANCE_PROFILE_*`.
    pub number: u32,
    /// The number that an instance is created by. Mind that it differs from [`number`](Self::number).
    pub id: u32,
    /// How many compute slices it has.
    pub slices: u32,
    /// How many units of the memory axis it takes.
    pub size: u32,
    /// How many units the memory axis has.
    pub axis: u32,
    /// The units where it can begin, ascending.
    pub starts: Vec<u32>,
    /// How many of it a card can have at once.
    pub instances: u32,
    /// Its memory, in MiB.
    pub memory: Megabytes,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// Its other engines.
    pub engines: Engines,
}

/// Engines beside the multiprocessors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Engines {
    /// Copy engines.
    pub copy: u32,
    /// Video decoders.
    pub decoder: u32,
    /// Video encoders.
    pub encoder: u32,
    /// JPEG decoders.
    pub jpeg: u32,
    /// Optical flow accelerators.
    pub ofa: u32,
}

/// One way to cut a compute instance out of a GPU instance. Its id and the number that it is asked for by are the same:
/// one of `NVML_COMPUTE_INSTANCE_PROFILE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputeProfile {
    /// Both its numbers.
    pub id: u32,
    /// How many compute slices it has.
    pub slices: u32,
}

/// All there are, in the order of NVML's numbers.
const COMPUTE_PROFILES: [ComputeProfile; 5] = [
    ComputeProfile { id: 0, slices: 1 },
    ComputeProfile { id: 1, slices: 2 },
    ComputeProfile { id: 2, slices: 3 },
    ComputeProfile { id: 3, slices: 4 },
    ComputeProfile { id: 4, slices: 7 },
];

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Row {
    table: String,
    profile: String,
    #[serde(rename = "enum")]
    number: u32,
    id: u32,
    slices: u32,
    size: u32,
    axis: u32,
    starts: String,
    instances: u32,
    memory: Megabytes,
    multiprocessors: u32,
    copy: u32,
    decoder: u32,
    encoder: u32,
    jpeg: u32,
    ofa: u32,
    #[serde(rename = "assumed")]
    _assumed: String,
}

static TABLES: LazyLock<Vec<Table>> = LazyLock::new(|| {
    let file = include_str!("../../data/mig-profiles.csv");
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(file.as_bytes());
    let mut tables: Vec<Table> = Vec::new();
    for row in reader.deserialize() {
        let row: Row = row.expect("the crate's own table is sound");
        let index = tables.iter().position(|table| table.name == row.table).unwrap_or_else(|| {
            tables.push(Table { name: row.table.clone(), profiles: Vec::new() });
            tables.len() - 1
        });
        tables[index].profiles.push(row.into());
    }
    tables
});

impl From<Row> for Profile {
    fn from(row: Row) -> Self {
        let start = |unit: &str| unit.parse().expect("the crate's own table has starts");
        Self {
            starts: row.starts.split(' ').map(start).collect(),
            name: row.profile,
            number: row.number,
            id: row.id,
            slices: row.slices,
            size: row.size,
            axis: row.axis,
            instances: row.instances,
            memory: row.memory,
            multiprocessors: row.multiprocessors,
            engines: Engines {
                copy: row.copy,
                decoder: row.decoder,
                encoder: row.encoder,
                jpeg: row.jpeg,
                ofa: row.ofa,
            },
        }
    }
}

/// All tables, in the order of the file.
pub fn tables() -> &'static [Table] {
    &TABLES
}

/// The table of that name.
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

impl Table {
    /// The profile of that name, with or without the `MIG ` that NVIDIA's tools put before it.
    pub fn by_name(&self, name: &str) -> Option<&Profile> {
        let name = name.strip_prefix("MIG ").unwrap_or(name);
        self.profiles.iter().find(|profile| profile.name == name)
    }

    /// The profile that instances are created by with this id.
    pub fn by_id(&self, id: u32) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.id == id)
    }

    /// The profile that is asked for by this number.
    pub fn by_number(&self, number: u32) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.number == number)
    }

    /// How many MIG devices a card can have: one for each slice of the largest profile.
    pub fn most_devices(&self) -> u32 {
        self.profiles.iter().map(|profile| profile.slices).max().unwrap_or(0)
    }
}

impl Profile {
    /// The starts in the order in which the driver tries them: the upper half of the card first, for the largest profiles
    /// begin in the lower one.
    pub fn preferred_starts(&self) -> impl Iterator<Item = u32> {
        let half = self.axis / 2;
        let (lower, upper): (Vec<u32>, Vec<u32>) = self.starts.iter().partition(|start| **start < half);
        upper.into_iter().chain(lower)
    }

    /// The id that an instance gets at a start. A card is a binary tree, and its nodes are numbered from the root, each
    /// row from the upper half of the card, as in most listings of real cards that are published.
    pub fn instance_id(&self, start: u32) -> u32 {
        let row = self.axis / self.size;
        row - 1 + (start + self.axis / 2) % self.axis / self.size
    }

    /// The ways to cut it further.
    pub fn compute_profiles(&self) -> impl Iterator<Item = ComputeProfile> + use<> {
        let slices = self.slices;
        // Three of four is no cut that the driver offers.
        COMPUTE_PROFILES
            .into_iter()
            .filter(move |profile| profile.slices <= slices && (slices, profile.slices) != (4, 3))
    }

    /// The compute profile with this id, or number.
    pub fn compute_profile(&self, id: u32) -> Option<ComputeProfile> {
        self.compute_profiles().find(|profile| profile.id == id)
    }

    /// The multiprocessors of a compute instance: its part of them, or all.
    pub fn compute_multiprocessors(&self, profile: ComputeProfile) -> u32 {
        self.multiprocessors * profile.slices / self.slices
    }
}

impl ComputeProfile {
    /// Where it can begin in a GPU instance of so many slices.
    pub fn starts(self, slices: u32) -> impl Iterator<Item = u32> {
        // Three slices take the place of four, as on the card itself.
        let step = if self.slices == 3 { 4 } else { self.slices };
        (0..slices).step_by(step as usize).filter(move |start| start + self.slices <= slices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifteen_models_have_a_hundred_and_six_profiles() {
        assert_eq!(tables().len(), 15);
        assert_eq!(tables().iter().map(|table| table.profiles.len()).sum::<usize>(), 106);
    }

    #[test]
    fn the_numbers_of_a_table_are_its_own() {
        for table in tables() {
            for profile in &table.profiles {
                assert_eq!(table.by_id(profile.id).map(|found| &found.name), Some(&profile.name), "{}", table.name);
                assert_eq!(
                    table.by_number(profile.number).map(|found| &found.name),
                    Some(&profile.name),
                    "{}",
                    table.name
                );
                assert!(profile.starts.iter().all(|start| start + profile.size <= profile.axis), "{}", profile.name);
            }
        }
    }

    #[test]
    fn instances_have_the_ids_that_are_published() {
        let table = table("A100-40GB").unwrap();
        let cases = [
            ("1g.5gb", [(4, 7), (5, 8), (6, 9), (0, 11), (1, 12), (2, 13), (3, 14)].as_slice()),
            ("2g.10gb", &[(4, 3), (0, 5), (2, 6)]),
            ("3g.20gb", &[(4, 1), (0, 2)]),
            ("4g.20gb", &[(0, 2)]),
            ("7g.40gb", &[(0, 0)]),
        ];
        for (name, ids) in cases {
            let profile = table.by_name(name).unwrap();
            let found: Vec<_> = profile.preferred_starts().map(|start| (start, profile.instance_id(start))).collect();
            assert_eq!(found, ids, "{name}");
        }
    }

    #[test]
    fn compute_profiles_are_those_of_the_user_guide() {
        let table = table("A100-40GB").unwrap();
        let cases = [
            ("1g.5gb", [(1, 1)].as_slice()),
            ("2g.10gb", &[(1, 2), (2, 1)]),
            ("3g.20gb", &[(1, 3), (2, 1), (3, 1)]),
            ("4g.20gb", &[(1, 4), (2, 2), (4, 1)]),
        ];
        for (name, expected) in cases {
            let profile = table.by_name(name).unwrap();
            let found: Vec<_> =
                profile.compute_profiles().map(|each| (each.slices, each.starts(profile.slices).count())).collect();
            assert_eq!(found, expected, "{name}");
        }
    }
}
