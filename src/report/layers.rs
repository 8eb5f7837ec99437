//! What the layers of an image have, and how much of it a user of one GPU could leave out.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::table::{Table, TableCell, percent};
use crate::gpu::{BundleKey, GpuSet, TargetId};
use crate::image::LayerUsage;

/// The most characters of a command in a table.
const COMMAND: usize = 48;

/// A layer of an image. Sizes are in bytes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LayerSummary {
    /// What it has.
    #[serde(flatten)]
    pub usage: LayerUsage,
    /// The size of device code and databases.
    pub device_size: u64,
    /// How much of that each GPU needs.
    pub users: BTreeMap<String, u64>,
}

impl LayerSummary {
    /// The summary of a layer for users of these GPUs.
    pub(crate) fn of(usage: LayerUsage, gpus: &[TargetId]) -> Self {
        let keys = |gpu: &TargetId| GpuSet::new([gpu.clone()]).map_or_else(BTreeSet::<BundleKey>::new, |it| it.keys());
        let users = gpus.iter().map(|gpu| (gpu.to_string(), usage.size_of(&keys(gpu)))).collect();
        Self { device_size: usage.device_size(), users, usage }
    }

    /// How much a user of any one GPU could leave out at least.
    pub(crate) fn unneeded_size(&self) -> u64 {
        self.device_size.saturating_sub(self.users.values().copied().max().unwrap_or(self.device_size))
    }

    /// Its command on one line, shortened.
    pub(crate) fn short_command(&self) -> String {
        let command = self.usage.created_by.split_whitespace().collect::<Vec<_>>().join(" ");
        match command.char_indices().nth(COMMAND) {
            Some((end, _)) => format!("{}…", command.get(..end).unwrap_or_default()),
            None => command,
        }
    }

    /// The layers as a table.
    pub(crate) fn table(layers: &[Self]) -> Table {
        let columns =
            "layer # | blob # | files # | hidden # | device code # | one GPU can do without # | of it # | created by";
        let some = |bytes: u64| TableCell::size(Some(bytes)).unless_zero();
        Table::of("Layers", columns, layers.iter().enumerate(), |(number, layer)| {
            let unneeded = layer.unneeded_size();
            [
                TableCell::number(number),
                TableCell::size(Some(layer.usage.blob_size)),
                TableCell::size(Some(layer.usage.size)),
                some(layer.usage.hidden_size),
                some(layer.device_size),
                some(unneeded),
                if unneeded == 0 { String::new() } else { percent(unneeded, layer.usage.size) }.into(),
                layer.short_command().into(),
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_gpu_needs_is_its_own_code_and_that_of_its_family() {
        let key = |name: &str| name.parse::<BundleKey>().unwrap();
        let device = BTreeMap::from([
            (BTreeSet::from([key("gfx1100")]), 10),
            (BTreeSet::from([key("gfx942"), key("gfx90a")]), 20),
            (BTreeSet::from([key("gfx11")]), 5),
        ]);
        let usage = LayerUsage { size: 100, device, ..LayerUsage::default() };
        let gpus = ["gfx1100", "gfx1101", "gfx942", "gfx1030"].map(|gpu| gpu.parse().unwrap());
        let layer = LayerSummary::of(usage.clone(), &gpus);
        let expected = [("gfx1030", 0), ("gfx1100", 15), ("gfx1101", 5), ("gfx942", 20)];
        assert_eq!(layer.users, expected.map(|(gpu, size)| (gpu.to_owned(), size)).into());
        assert_eq!((layer.device_size, layer.unneeded_size()), (35, 15));
        assert_eq!(LayerSummary::of(usage, &[]).unneeded_size(), 0);
    }

    #[test]
    fn commands_take_one_line() {
        let usage = LayerUsage { created_by: format!("RUN  a\n\t&& {}", "é".repeat(60)), ..LayerUsage::default() };
        let command = LayerSummary::of(usage, &[]).short_command();
        assert_eq!(command, format!("RUN a && {}…", "é".repeat(39)));
    }
}
