//! What each layer of an image has: bytes that every user needs, device code by part, and files that later layers hide.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use serde_json::Value;

use super::device_parts::DeviceParts;
use super::layer::LayerMemberKind;
use super::layered::LayeredImage;
use super::{Image, ImageError};
use crate::gpu::BundleKey;
use crate::source::{EntryPath, Input};
use crate::split::{Destination, Plan};

/// What a layer has. Sizes are in bytes.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct LayerUsage {
    /// The digest of its blob.
    pub(crate) digest: String,
    /// The command that made it, as the image says.
    pub(crate) created_by: String,
    /// Bytes of its blob.
    pub(crate) blob_size: u64,
    /// Bytes of its files.
    pub(crate) size: u64,
    /// Bytes of files that later layers hide.
    pub(crate) hidden_size: u64,
    /// Device code and databases by the parts that need them.
    #[serde(skip)]
    pub(crate) device: BTreeMap<BTreeSet<BundleKey>, u64>,
}

impl LayerUsage {
    /// Bytes of device code and databases.
    pub(crate) fn device_size(&self) -> u64 {
        self.device.values().sum()
    }

    /// Those of them that an installation of these parts needs.
    pub(crate) fn size_of(&self, keys: &BTreeSet<BundleKey>) -> u64 {
        self.device.iter().filter(|(parts, _)| !parts.is_disjoint(keys)).map(|(_, size)| size).sum()
    }
}

impl LayeredImage {
    /// What each layer has. `input` is the root file system with its plan, and `parts` are its device parts.
    pub(crate) fn usage(&self, input: &Input, plan: &Plan, parts: &DeviceParts) -> Result<Vec<LayerUsage>, ImageError> {
        let root = self.root()?;
        let device = DevicePieces::of(input, plan);
        let described = self.image.layers().iter().zip(commands(&self.image));
        let mut usages = Vec::new();
        for (number, (descriptor, created_by)) in described.enumerate() {
            let (digest, blob_size) = (descriptor.digest().to_string(), descriptor.size());
            let mut usage = LayerUsage { digest, created_by, blob_size, ..LayerUsage::default() };
            for (id, member) in self.members(number).filter(|(_, member)| member.kind == LayerMemberKind::File) {
                let size = member.content.end.saturating_sub(member.content.start);
                usage.size += size;
                if root.member(&member.path) != Some(id) {
                    usage.hidden_size += size;
                    continue;
                }
                for (keys, size) in device.at(&member.path, parts, size) {
                    *usage.device.entry(keys).or_default() += size;
                }
            }
            usages.push(usage);
        }
        Ok(usages)
    }
}

/// Device code and databases by path.
struct DevicePieces<'a> {
    code: HashMap<&'a EntryPath, BTreeMap<BundleKey, u64>>,
    databases: HashMap<&'a EntryPath, &'a BundleKey>,
}

impl<'a> DevicePieces<'a> {
    fn of(input: &'a Input, plan: &'a Plan) -> Self {
        // The code of joined binaries is in archives.
        let fat = plan.binaries.iter().filter(|binary| !plan.joined.contains(&binary.path));
        let code = fat.map(|binary| {
            let mut by_key = BTreeMap::new();
            for (target, (_, size)) in &binary.code {
                *by_key.entry(BundleKey::of(target)).or_default() += size;
            }
            (&binary.path, by_key)
        });
        let databases = input.entries.iter().zip(&plan.places).filter_map(|(entry, place)| match place {
            Destination::Device(key, _) | Destination::Unwanted(key, _) => Some((&entry.path, key)),
            Destination::Host | Destination::Rewritten { .. } | Destination::Held => None,
        });
        Self { code: code.collect(), databases: databases.collect() }
    }

    /// The pieces of a file of this size.
    fn at(&self, path: &EntryPath, parts: &DeviceParts, size: u64) -> Vec<(BTreeSet<BundleKey>, u64)> {
        if let Some(keys) = parts.of_archive(path) {
            return vec![((**keys).clone(), size)];
        }
        if let Some(key) = self.databases.get(path) {
            return vec![([(*key).clone()].into(), size)];
        }
        let code = self.code.get(path).into_iter().flatten();
        code.map(|(key, size)| ([key.clone()].into(), *size)).collect()
    }
}

/// The command that made each layer, if the history fits to the layers.
fn commands(image: &Image) -> Vec<String> {
    let history = image.config.get("history").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let has_layer = |entry: &&Value| !entry.get("empty_layer").and_then(Value::as_bool).unwrap_or(false);
    let command = |entry: &Value| entry.get("created_by").and_then(Value::as_str).unwrap_or_default().to_owned();
    let found: Vec<_> = history.iter().filter(has_layer).map(command).collect();
    if found.len() == image.layers().len() { found } else { vec![String::new(); image.layers().len()] }
}
