//! Details of the page beyond the numbers of `inspect`: the split by package, by binary and target, and by database and
//! target, and estimates.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::SizedParts;
use crate::gpu::{BundleKey, TargetId};
use crate::rope::{Content, Edit};
use crate::source::{Entry, EntryPath, Input};
use crate::split::{Destination, Plan, PlannedBinary};

/// The most packages and files. Further ones are summed up.
const MAX_LISTED: usize = 60;

/// Device parts by target.
type Keys<'a> = BTreeMap<&'a TargetId, &'a BundleKey>;

/// Sizes are in bytes.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Details {
    /// The directory that contains all files, if there is one.
    pub(crate) root: String,
    /// The top-level directories, the largest first.
    pub(crate) packages: Vec<DirectoryDetails>,
    /// The largest unchanged files.
    pub(crate) files: Vec<PlainFile>,
    /// The code of each binary by target, by the binary's path.
    pub(crate) code: BTreeMap<String, BTreeMap<String, TargetCode>>,
    /// Database files by library and key.
    pub(crate) database_files: BTreeMap<String, BTreeMap<String, Files>>,
    /// Estimated sizes of an installation with thin binaries for each GPU.
    pub(crate) thin: BTreeMap<String, ThinEstimate>,
}

/// A directory of the input.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DirectoryDetails {
    /// Its name; `None` for the sum of those that are not listed.
    pub(crate) name: Option<String>,
    pub(crate) files: u64,
    /// Bytes of all files.
    pub(crate) size: u64,
    /// Bytes that stay in the host part.
    pub(crate) host_size: u64,
    /// Bytes of device code in binaries, as stored there.
    pub(crate) device_size: u64,
    /// Database files by library.
    pub(crate) databases: BTreeMap<&'static str, u64>,
}

/// A file without device code.
#[derive(Debug, Serialize)]
pub(crate) struct PlainFile {
    pub(crate) path: String,
    pub(crate) size: u64,
}

/// Code objects of a binary for a target.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TargetCode {
    /// The device part of the code.
    pub(crate) key: String,
    pub(crate) code_objects: u64,
    pub(crate) code_size: u64,
}

/// Files of a library for a key.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Files {
    pub(crate) files: u64,
    pub(crate) size: u64,
}

/// About what a block of a deflate stream inflates to.
const BLOCK: u64 = 256 << 10;

/// The error of estimates in percent, up to which those of real wheels and trees are right (docs/report.md).
pub(crate) const ESTIMATE_ERROR: u8 = 10;

/// An estimate. It assumes that the device code of a binary compresses equally for all GPUs.
#[derive(Debug, Serialize)]
pub(crate) struct ThinEstimate {
    /// For wheels only.
    pub(crate) download_size: Option<u64>,
    pub(crate) installed_size: u64,
}

/// The inputs of estimates, counted once for all GPUs.
#[derive(Default)]
struct Weights {
    /// Host files: unpacked bytes, and bytes in the wheel.
    host: (u64, u64),
    /// Database files by key.
    databases: BTreeMap<String, (u64, u64)>,
    /// Fat binaries.
    binaries: Vec<Binary>,
}

struct Binary {
    /// The host part: unpacked bytes, and bytes in the wheel.
    host: (u64, u64),
    /// The same of device code.
    device: (u64, u64),
    code: BTreeMap<String, u64>,
}

impl Details {
    /// Counts. With `reads`, what is left of the deflate streams of fat binaries is read, so that estimates of their sizes are better.
    pub(crate) fn of(input: &Input, plan: &Plan, parts: &SizedParts, reads: bool) -> Self {
        let keys = keys(plan);
        let weights = Weights::of(input, plan, &keys, reads);
        let root = root(input.entries.iter().filter(|entry| is_file(entry)).map(|entry| &entry.path));
        let is_wheel = parts.input_wheel_size.is_some();
        let thin = |keys: &[String]| {
            let (installed_size, download) = weights.kept(keys);
            ThinEstimate { download_size: is_wheel.then_some(download), installed_size }
        };
        Self {
            packages: packages(input, plan, &root),
            root: root.to_string(),
            files: files(input, plan),
            code: plan.binaries.iter().map(|binary| (binary.path.to_string(), code(binary, &keys))).collect(),
            database_files: databases(input, plan),
            thin: parts.users.iter().map(|(gpu, (keys, _))| (gpu.clone(), thin(keys))).collect(),
        }
    }

    /// The details of several artifacts, each of which is a package.
    pub(crate) fn joined(artifacts: impl IntoIterator<Item = (String, Self)>) -> Self {
        let mut all = Self::default();
        for (name, details) in artifacts {
            let package = details.packages.into_iter().reduce(DirectoryDetails::and).unwrap_or_default();
            all.packages.push(DirectoryDetails { name: Some(name.clone()), ..package });
            let below = |path: &str| format!("{name}/{path}");
            all.files.extend(details.files.into_iter().map(|file| PlainFile { path: below(&file.path), ..file }));
            all.code.extend(details.code.into_iter().map(|(path, code)| (below(&path), code)));
            for (library, keys) in details.database_files {
                for (key, files) in keys {
                    let sum = all.database_files.entry(library.clone()).or_default().entry(key).or_default();
                    (sum.files, sum.size) = (sum.files + files.files, sum.size + files.size);
                }
            }
            for (gpu, thin) in details.thin {
                let sum = all.thin.entry(gpu).or_insert(ThinEstimate { download_size: None, installed_size: 0 });
                sum.installed_size += thin.installed_size;
            }
        }
        all.files.sort_by_key(|file| Reverse(file.size));
        all.files.truncate(MAX_LISTED);
        all.packages = largest(all.packages);
        all
    }
}

impl Weights {
    fn of(input: &Input, plan: &Plan, keys: &Keys<'_>, reads: bool) -> Self {
        let codes: BTreeMap<_, _> = plan.binaries.iter().map(|binary| (&binary.path, binary)).collect();
        let (mut weights, mut databases) = (Self::default(), BTreeMap::<&BundleKey, (u64, u64)>::new());
        for (entry, place) in input.entries.iter().zip(&plan.places) {
            let (size, packed) = (entry.size(), packed_size(entry));
            let sum = match place {
                Destination::Host => &mut weights.host,
                Destination::Device(key, _) => databases.entry(key).or_default(),
                Destination::Held | Destination::Unwanted(..) => continue,
                Destination::Rewritten { content, .. } => {
                    let mut by_key = BTreeMap::new();
                    let codes = codes.get(&entry.path).map(|binary| code(binary, keys)).unwrap_or_default();
                    for code in codes.into_values() {
                        *by_key.entry(code.key).or_default() += code.code_size;
                    }
                    let host_size = content.size();
                    let packed_host = reads.then(|| packed_host(&*content.original, &content.edits, packed)).flatten();
                    let even = || part(packed, host_size, size);
                    let packed_host = packed_host.unwrap_or_else(even).max(least_packed(host_size)).min(packed);
                    let device = (size.saturating_sub(host_size), packed - packed_host);
                    weights.binaries.push(Binary { host: (host_size, packed_host), device, code: by_key });
                    continue;
                }
            };
            *sum = (sum.0 + size, sum.1 + packed);
        }
        for (key, entry) in plan.held.iter().flat_map(|(key, files)| files.iter().map(move |file| (key, file))) {
            let sum = databases.entry(key).or_default();
            *sum = (sum.0 + entry.size(), sum.1 + packed_size(entry));
        }
        weights.databases = databases.into_iter().map(|(key, sum)| (key.to_string(), sum)).collect();
        weights
    }

    /// What an installation with the device parts of these keys contains: unpacked bytes, and estimated bytes in a
    /// wheel.
    fn kept(&self, keys: &[String]) -> (u64, u64) {
        let databases = keys.iter().filter_map(|key| self.databases.get(key)).copied();
        let binaries = self.binaries.iter().map(|binary| binary.kept(keys));
        let sum = |a: (u64, u64), b: (u64, u64)| (a.0 + b.0, a.1 + b.1);
        databases.chain(binaries).fold(self.host, sum)
    }
}

impl Binary {
    /// The same of one binary.
    fn kept(&self, keys: &[String]) -> (u64, u64) {
        let (wanted, all) = (keys.iter().filter_map(|key| self.code.get(key)).sum(), self.code.values().sum());
        let share = |whole| part(whole, wanted, all);
        (self.host.0 + share(self.device.0), self.host.1 + share(self.device.1))
    }
}

/// What a host part takes of a wheel at least. Of the stream, one that is smaller than a block has no part of its own, and 27 % is usual
/// for it (15 to 29 in wheels of docs/report.md).
fn least_packed(host_size: u64) -> u64 {
    if host_size < BLOCK { part(host_size, 27, 100) } else { 0 }
}

/// What the bytes that `edits` leave take of the `packed` ones of a deflated binary. Within a block of the stream all bytes count alike.
fn packed_host(original: &dyn Content, edits: &[Edit], packed: u64) -> Option<u64> {
    let boundaries = original.member()?.block_boundaries().ok()??;
    let bits_before = |offset: u64| {
        let next = boundaries.partition_point(|boundary| boundary.output <= offset);
        let before = boundaries.get(next.checked_sub(1)?)?;
        let after = boundaries.get(next).unwrap_or(before);
        let (bits, bytes) = (after.bit.checked_sub(before.bit)?, after.output.checked_sub(before.output)?);
        Some(before.bit + part(bits, offset.checked_sub(before.output)?, bytes))
    };
    let gone = edits.iter().map(|edit| bits_before(edit.end)?.checked_sub(bits_before(edit.start)?));
    Some(packed.saturating_sub(gone.sum::<Option<u64>>()? / 8))
}

/// The same share of `whole` that `some` is of `all`.
pub(crate) fn part(whole: u64, some: u64, all: u64) -> u64 {
    let part = (u128::from(whole) * u128::from(some)).checked_div(u128::from(all)).unwrap_or(0);
    u64::try_from(part).unwrap_or(u64::MAX).min(whole)
}

fn packed_size(entry: &Entry) -> u64 {
    let member = entry.content().and_then(|content| content.member());
    member.map_or_else(|| entry.size(), |member| member.packed().bytes.size())
}

/// The device part for the code of each target.
fn keys(plan: &Plan) -> Keys<'_> {
    plan.archives.iter().map(|planned| (planned.archive.target(), &planned.key)).collect()
}

fn code(binary: &PlannedBinary, keys: &Keys<'_>) -> BTreeMap<String, TargetCode> {
    let code = |(target, &(code_objects, code_size)): (&TargetId, &(u64, u64))| {
        // A target that is not wanted is in no archive.
        let key = keys.get(target).map_or_else(|| BundleKey::of(target).to_string(), ToString::to_string);
        (target.to_string(), TargetCode { key, code_objects, code_size })
    };
    binary.code.iter().map(code).collect()
}

fn databases(input: &Input, plan: &Plan) -> BTreeMap<String, BTreeMap<String, Files>> {
    let mut libraries = BTreeMap::<String, BTreeMap<String, Files>>::new();
    for ((handler, key), (files, size)) in plan.database_files(input) {
        let of_key = Files { files: files as u64, size };
        libraries.entry(handler.name().to_owned()).or_default().insert(key.to_string(), of_key);
    }
    libraries
}

fn files(input: &Input, plan: &Plan) -> Vec<PlainFile> {
    let host = input.entries.iter().zip(&plan.places).filter(|(_, place)| matches!(place, Destination::Host));
    let mut files: Vec<_> = host.map(|(entry, _)| (Reverse(entry.size()), &entry.path)).collect();
    files.retain(|(Reverse(size), _)| *size > 0);
    if files.len() > MAX_LISTED {
        files.select_nth_unstable(MAX_LISTED);
        files.truncate(MAX_LISTED);
    }
    files.sort_unstable();
    files.into_iter().map(|(Reverse(size), path)| PlainFile { path: path.to_string(), size }).collect()
}

/// The packages: the files below the common directory, by the first component of their path.
fn packages(input: &Input, plan: &Plan, root: &EntryPath) -> Vec<DirectoryDetails> {
    let mut packages = BTreeMap::<&[u8], DirectoryDetails>::new();
    for (entry, place) in input.entries.iter().zip(&plan.places).filter(|(entry, _)| is_file(entry)) {
        let name = || Some(package_name(&entry.path, root));
        let package = packages
            .entry(package_path(&entry.path, root))
            .or_insert_with(|| DirectoryDetails { name: name(), ..DirectoryDetails::default() });
        let size = entry.size();
        package.files += 1;
        package.size += size;
        match place {
            Destination::Host => package.host_size += size,
            Destination::Rewritten { content, .. } => {
                let host_size = content.size();
                package.host_size += host_size;
                package.device_size += size.saturating_sub(host_size);
            }
            Destination::Held => {}
            Destination::Device(_, handler) | Destination::Unwanted(_, handler) => {
                *package.databases.entry(handler.name()).or_default() += size;
            }
        }
    }
    largest(packages.into_values().collect())
}

/// The largest packages first. All beyond [`MAX_LISTED`] are summed up as one.
fn largest(mut packages: Vec<DirectoryDetails>) -> Vec<DirectoryDetails> {
    packages.sort_by(|a, b| (Reverse(a.size), &a.name).cmp(&(Reverse(b.size), &b.name)));
    let others = packages.split_off(packages.len().min(MAX_LISTED)).into_iter().reduce(DirectoryDetails::and);
    packages.extend(others.map(|others| DirectoryDetails { name: None, ..others }));
    packages
}

impl DirectoryDetails {
    fn and(mut self, other: Self) -> Self {
        self.files += other.files;
        self.size += other.size;
        self.host_size += other.host_size;
        self.device_size += other.device_size;
        for (library, size) in other.databases {
            *self.databases.entry(library).or_default() += size;
        }
        self
    }
}

fn is_file(entry: &Entry) -> bool {
    entry.content().is_some()
}

/// The directory that contains all of these files.
pub(crate) fn root<'a>(files: impl Iterator<Item = &'a EntryPath>) -> EntryPath {
    let common = files.map(EntryPath::directory).reduce(common_directory).unwrap_or_default();
    EntryPath::root().child(common)
}

/// The directory that holds two directories.
fn common_directory<'a>(first: &'a [u8], second: &[u8]) -> &'a [u8] {
    let is_end = |path: &[u8], at: usize| path.get(at).is_none_or(|&byte| byte == b'/');
    let same = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    let ends = (0..=same).rev().find(|&at| at == 0 || is_end(first, at) && is_end(second, at));
    first.get(..ends.unwrap_or(0)).unwrap_or_default()
}

/// The package of a file: `.` if it is in the root itself.
pub(crate) fn package_name(path: &EntryPath, root: &EntryPath) -> String {
    String::from_utf8_lossy(package_path(path, root)).into_owned()
}

fn package_path<'a>(path: &'a EntryPath, root: &EntryPath) -> &'a [u8] {
    let path = path.as_bytes();
    let start = if root.is_root() { 0 } else { root.as_bytes().len() + 1 };
    let first = path.get(start..).and_then(|below| memchr::memchr(b'/', below));
    first.and_then(|length| path.get(..start + length)).unwrap_or(b".")
}

#[cfg(test)]
mod tests {
    use super::packed_host;
    use crate::rope::Edit;
    use crate::source::testing::{Z_NO_FLUSH, deflated, deflated_member};

    #[test]
    fn what_stays_of_a_binary_has_its_own_part_of_the_stream() {
        const SIZE: u32 = 1 << 20;
        // The host part deflates to nothing, and the code between not at all.
        let host = || vec![0; SIZE as usize];
        let mut state = 1_u64;
        let code = (0..SIZE).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_le_bytes()[7]
        });
        let bytes = [host(), code.collect(), host()].concat();
        let packed = deflated(&bytes, 6, bytes.len(), Z_NO_FLUSH);
        let binary = deflated_member(&packed, bytes.len() as u64, crc32fast::hash(&bytes));
        let edits = [Edit { start: SIZE.into(), end: (2 * SIZE).into(), replacement: Vec::new() }];
        let host = packed_host(&*binary, &edits, packed.len() as u64).unwrap();
        assert!((1..64 << 10).contains(&host), "{host} of {}", packed.len());
    }
}
