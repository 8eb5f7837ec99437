//! What the packages of a Python environment state about a library and its archives.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use super::cause::{self, Cause};
use super::lookup::{Lookup, quoted};
use crate::disk;
use crate::gpu::{BundleKey, TargetId};
use crate::source::EntryPath;
use crate::verify::{devices_of, key_of_device};
use crate::wheel::{Claims, MAX_RECORD, Metadata, normalise};

/// The directory in which `rocm-sdk init` copies installed files (ROCm/TheRock#5768).
const DEVELOPMENT: &str = "_rocm_sdk_devel";

/// An installed distribution.
pub(super) struct InstalledDistribution {
    pub(super) metadata: Metadata,
    pub(super) record: Claims,
}

/// The directory of packages that contains a library: the nearest one above it with `*.dist-info` directories.
pub(super) fn site_of(library: &Path) -> Option<PathBuf> {
    library.ancestors().skip(1).find(|directory| !dist_infos(directory).is_empty()).map(Path::to_owned)
}

fn dist_infos(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let mut found: Vec<_> = entries.filter(|path| path.extension().is_some_and(|it| it == "dist-info")).collect();
    found.sort();
    found
}

/// The distributions of a directory of packages.
pub(super) fn distributions(site: &Path) -> impl Iterator<Item = InstalledDistribution> {
    dist_infos(site).into_iter().filter_map(|path| open(&path))
}

/// The command that installs a package again, of a library's environment.
pub(super) fn reinstall(library: &Path, package: &str) -> Option<String> {
    let site = site_of(library)?;
    Some(format!("{} install --force-reinstall --no-deps '{package}'", pip(&site)))
}

/// Why a library has no archive that fits; `None` if packages do not explain it. `archive` is an existing one that does
/// not fit.
pub(super) fn cause(library: &Path, device: &TargetId, archive: Option<&Path>, lookup: &mut Lookup) -> Option<Cause> {
    let site = site_of(library)?;
    let distributions: Vec<_> = dist_infos(&site).iter().filter_map(|path| open(path)).collect();
    let relative = EntryPath::new(library.strip_prefix(&site).ok()?.as_os_str().as_encoded_bytes()).ok()?;
    let is_named =
        |it: &&InstalledDistribution, path: &EntryPath| it.record.rows().any(|(row, _)| row == path.as_bytes());
    let Some(host) = distributions.iter().find(|it| is_named(it, &relative)) else {
        return copy(library, &site, &distributions, lookup);
    };
    let (name, version) = (normalise(&host.metadata.name), host.metadata.version.clone());
    lookup.saw(format!("{} {version} installed the library", host.metadata.name));
    let devices = devices_of(&host.metadata);
    let existing: BTreeMap<_, _> =
        distributions.iter().map(|it| (normalise(&it.metadata.name), it.metadata.version.clone())).collect();
    let extra = normalise(device.processor());
    let pip = pip(&site);
    let exact = |it: &(String, String)| format!("'{}=={}'", it.0, it.1);
    let (wanted, install) = if let Some(wanted) = devices.get(&extra) {
        (wanted.clone(), format!("{pip} install '{}[device-{extra}]=={version}'", host.metadata.name))
    } else {
        // Code of its family, or for the family's generic ISA, serves a GPU without a package of its own.
        let chain = BundleKey::of(device).packaging_chain();
        let is_above = |it: &&(String, String)| key_of_device(&it.0).is_some_and(|key| chain.contains(&key));
        let wanted: BTreeSet<_> = devices.values().flatten().filter(is_above).cloned().collect();
        let install = format!("{pip} install {}", wanted.iter().map(exact).collect::<Vec<_>>().join(" "));
        (wanted, install)
    };
    if wanted.is_empty() {
        if devices.is_empty() {
            return None;
        }
        let keys: Vec<_> = devices.keys().filter(|key| *key != "all").map(String::as_str).collect();
        let reason = format!("{name} {version} has no package for {extra}; it has some for {}", keys.join(", "));
        return Some(Cause::new(&cause::PACKAGE_NONE, reason, None));
    }
    for (device, wanted) in &wanted {
        match existing.get(device) {
            None => {
                let reason = format!("the package {device} {wanted} is not installed");
                return Some(Cause::new(&cause::PACKAGE_MISSING, reason, Some(install)));
            }
            Some(found) if normalise(found) != normalise(wanted) => {
                let reason = format!("the package {device} is installed in version {found}, and {name} in {version}");
                return Some(Cause::new(&cause::PACKAGE_VERSION, reason, Some(install)));
            }
            Some(found) => lookup.saw(format!("{device} {found} is installed")),
        }
    }
    let all = wanted.iter().map(exact).collect::<Vec<_>>().join(" ");
    let reinstall = format!("{pip} install --force-reinstall --no-deps {all}");
    let (kind, reason) = match archive {
        Some(archive) => (
            &cause::ARCHIVE_REPLACED,
            format!("{} is not what its package installed, or is damaged", archive.display()),
        ),
        None => (&cause::ARCHIVE_GONE, "its archive is gone, although its package is installed".to_owned()),
    };
    Some(Cause::new(kind, reason, Some(reinstall)))
}

/// The package that installed an archive before it was replaced, by the SHA-256 in its RECORD. `None` if the archive
/// was not replaced, as far as packages show.
pub(super) fn replaced(library: &Path, archive: &Path) -> Option<String> {
    let (site, archive) = (site_of(library)?.canonicalize().ok()?, archive.canonicalize().ok()?);
    let path = EntryPath::new(archive.strip_prefix(&site).ok()?.as_os_str().as_encoded_bytes()).ok()?;
    let owner = |it: InstalledDistribution| Some((it.record.get(&path)?, it.metadata));
    let (claim, metadata) = dist_infos(&site).iter().filter_map(|info| open(info)).find_map(owner)?;
    (sha256(&archive).ok()? != claim.sha256).then(|| format!("{} {}", metadata.name, metadata.version))
}

fn sha256(path: &Path) -> io::Result<[u8; 32]> {
    let mut file = BufReader::with_capacity(256 << 10, disk::open(path)?.0);
    let mut context = Context::new(&SHA256);
    while let piece @ [_, ..] = file.fill_buf()? {
        context.update(piece);
        let length = piece.len();
        file.consume(length);
    }
    context.finish().as_ref().try_into().map_err(io::Error::other)
}

/// A library that no package installed. It is probably a copy, which looks for archives relative to its own path.
fn copy(library: &Path, site: &Path, distributions: &[InstalledDistribution], lookup: &mut Lookup) -> Option<Cause> {
    let name = library.file_name()?.as_encoded_bytes();
    let mut rows = distributions.iter().flat_map(|it| it.record.rows()).map(|(path, _)| path);
    let original = rows.find(|path| path.rsplit(|&byte| byte == b'/').next() == Some(name))?;
    let original = site.join(EntryPath::new(original).ok()?.as_path());
    lookup.saw(format!("no package installed the library, but {} is installed", original.display()));
    lookup.follows("archives are looked for next to the file that is loaded, symlinks resolved");
    let maker = if library.components().any(|it| it.as_os_str() == DEVELOPMENT) { "that rocm-sdk made " } else { "" };
    let reason = format!("it is a copy {maker}of {}, and the archives are where that is", original.display());
    let command = format!("ln -sf {} {}", quoted(&original), quoted(library));
    Some(Cause::new(&cause::COPIED_LIBRARY, reason, Some(command)))
}

/// The pip command for a directory of packages.
fn pip(site: &Path) -> String {
    // PREFIX/lib/python3.12/site-packages
    let python = site.ancestors().nth(3).map(|prefix| prefix.join("bin/python"));
    match python.filter(|python| python.exists()) {
        Some(python) => format!("{} -m pip", quoted(&python)),
        None => "pip".to_owned(),
    }
}

fn open(path: &Path) -> Option<InstalledDistribution> {
    let name = EntryPath::new(b"METADATA").ok()?;
    let metadata = Metadata::parse(disk::read(&path.join("METADATA"), disk::MAX_TEXT).ok()?, &name).ok()?;
    Some(InstalledDistribution {
        metadata,
        record: Claims::parse(&disk::read(&path.join("RECORD"), MAX_RECORD).unwrap_or_default()),
    })
}
