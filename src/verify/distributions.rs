//! The distributions in the input, by their METADATA, statement and RECORD.

use std::collections::{BTreeMap, BTreeSet};

use super::lookup::names_archive;
use super::parts::{Part, Parts};
use super::report::Findings;
use super::rules::Rule;
use crate::database::named_arch;
use crate::gpu::{BundleKey, GpuSet};
use crate::memory::{Parser, ParserMemory, TableError};
use crate::opened::statement_in;
use crate::source::{EntryKind, EntryPath, InputKind};
use crate::split::{HOST, PartManifest, Statement};
use crate::wheel::{Claims, Metadata, PART_MANIFEST, STATEMENT, Stated, normalise, part_in};

/// A `*.dist-info` directory.
#[derive(Debug)]
pub(super) struct Distribution<'a> {
    /// The number of the part that contains it.
    pub(super) number: usize,
    pub(super) part: &'a Part,
    pub(super) directory: EntryPath,
    /// `None` if it cannot be read.
    pub(super) metadata: Option<Metadata>,
    /// The statement in it; `None` if there is none, as of other tools.
    pub(super) statement: Option<Statement>,
    pub(super) role: Role,
    /// `None` if there is none.
    pub(super) record: Option<Claims>,
    #[expect(dead_code, reason = "the lines count as long as it is there")]
    table: ParserMemory,
}

/// The role of a distribution in a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Its METADATA names device distributions.
    Host,
    /// It contains archives and databases.
    Device,
    /// It is self-contained, with device code for some GPUs.
    Thin,
    /// It does not belong to a split, or was installed before the split.
    Other,
}

/// What is kept of a line of a RECORD in all, in bytes, apart from its path: its own memory, and that of the results.
const ROW: u64 = 256;

/// The distributions of all parts.
pub(super) fn find<'a>(parts: &'a Parts, findings: &Findings) -> Vec<Distribution<'a>> {
    let numbered = parts.all.iter().enumerate();
    let mut found: Vec<_> = numbered.flat_map(|(number, part)| of_part(number, part, findings)).collect();
    let named: BTreeSet<_> = found.iter().flat_map(Distribution::devices).collect();
    // That a host names it also holds if its own METADATA does not name the host, or is gone.
    for it in found.iter_mut().filter(|it| it.role == Role::Other && it.record.is_some()) {
        if named_by(&it.directory).is_some_and(|(name, _)| named.contains(&name)) {
            it.role = Role::Device;
        }
    }
    found
}

fn of_part<'a>(number: usize, part: &'a Part, findings: &Findings) -> Vec<Distribution<'a>> {
    let entries = &part.input.entries;
    // Where the files that RECORD names were deleted, the directories are left, which stand for nothing.
    let files = entries.iter().filter(|entry| !matches!(entry.kind, EntryKind::Directory));
    let filled: BTreeSet<_> = files.filter_map(|entry| entry.path.components().next()).collect();
    let directories = entries
        .iter()
        .filter(|it| it.path.is_dist_info() && matches!(it.kind, EntryKind::Directory))
        .filter(|it| filled.contains(it.path.as_bytes()));
    let open = |directory: &EntryPath| {
        let (record_path, table) = (directory.child(b"RECORD"), ParserMemory::new(Parser::RecordLines));
        let bytes = part.read(&record_path, Parser::Record);
        let record = bytes.and_then(|bytes| Ok(bytes.map(|bytes| claims(&bytes, &table)).transpose()?));
        let record = record.unwrap_or_else(|error| {
            findings.add(Rule::RecordUnreadable, part.label(&record_path), error);
            None
        });
        let metadata = Metadata::read_at(&part.input, directory).ok();
        let statement = statement_in(&part.input, directory);
        let (directory, role) = (directory.clone(), Role::Other);
        let mut found = Distribution { number, part, directory, metadata, statement, role, record, table };
        found.role = found.find_role();
        found
    };
    directories.map(|entry| open(&entry.path)).collect()
}

/// The normalised name and the version of the distribution in the name of its `*.dist-info` directory.
pub(super) fn named_by(directory: &EntryPath) -> Option<(String, &str)> {
    let name = std::str::from_utf8(directory.name()).ok()?.strip_suffix(".dist-info")?;
    let (name, version) = name.split_once('-')?;
    Some((normalise(name), version))
}

/// The content of a RECORD.
fn claims(bytes: &[u8], table: &ParserMemory) -> Result<Claims, TableError> {
    let claims = Claims::parse(bytes);
    // All at once, so that an error names the memory for all lines.
    table.grow(claims.rows().map(|(path, _)| ROW.saturating_add(path.len() as u64)).sum())?;
    Ok(claims)
}

/// Whether a file is the RECORD of a distribution, and both parts' RECORDs state the same. The paths in it are those of
/// an installation, or those of the wheel.
pub(super) fn is_same_record(path: &EntryPath, one: &Part, other: &Part) -> bool {
    let table = ParserMemory::new(Parser::RecordLines);
    let rows = |part: &Part| -> Option<BTreeMap<EntryPath, Stated>> {
        let bytes = part.read(path, Parser::Record).ok()??;
        let row = |(row, stated): (&[u8], Stated)| Some((part.recorded(&EntryPath::new(row).ok()?)?, stated));
        claims(&bytes, &table).ok()?.rows().map(row).collect()
    };
    let is_record = path.depth() == 2 && Part::is_metadata(path) && path.name() == b"RECORD";
    is_record && rows(one).is_some_and(|one| rows(other).is_some_and(|other| one == other))
}

impl Distribution<'_> {
    fn find_role(&self) -> Role {
        if self.thin().is_some() {
            return Role::Thin;
        }
        match self.statement.as_ref().and_then(|it| it.part.as_deref()) {
            Some(HOST) => return Role::Host,
            Some(_) => return Role::Device,
            None => {}
        }
        if self.metadata.as_ref().is_some_and(|metadata| !metadata.devices().is_empty()) {
            return Role::Host;
        }
        let has_pins = self.pins().next().is_some();
        let mut payload = self.payload().peekable();
        if payload.peek().is_none() {
            // There is no RECORD, or it names nothing that is installed. Its name and its requirements determine the role.
            let is_named = self.name().is_some_and(|(name, _)| part_in(&name).is_some());
            return if is_named && has_pins { Role::Device } else { Role::Other };
        }
        let part = self.part;
        let of_database = |path: &EntryPath| match part.recorded(path).filter(|path| part.input.entry(path).is_some()) {
            Some(path) => part.databases.classify(&path).is_some(),
            // The header of a missing code object is unknown, so its path decides.
            None => part.databases.classify(path).is_some() || named_arch(path).is_some(),
        };
        let is_device = |path: &EntryPath| names_archive(path) || of_database(path);
        if payload.all(|path| is_device(&path)) && has_pins { Role::Device } else { Role::Other }
    }

    /// The GPUs of a thin wheel.
    pub(super) fn thin(&self) -> Option<GpuSet> {
        self.statement.as_ref().and_then(Statement::thin)
    }

    /// The ID of its split, if its statement has one.
    pub(super) fn split_id(&self) -> Option<&str> {
        self.statement.as_ref()?.split_id.as_deref()
    }

    /// The lines of its RECORD.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&[u8], Stated)> {
        self.record.iter().flat_map(Claims::rows)
    }

    /// The files that its RECORD names.
    pub(super) fn named(&self) -> impl Iterator<Item = EntryPath> {
        self.rows().filter_map(|(row, _)| EntryPath::new(row).ok())
    }

    /// The same without metadata of distributions.
    pub(super) fn payload(&self) -> impl Iterator<Item = EntryPath> {
        self.named().filter(|path| !Part::is_metadata(path))
    }

    /// Whether its RECORD names anything else than metadata. What was in `*.data` is often out of the directory of packages.
    pub(super) fn installs_anything(&self) -> bool {
        self.rows().any(|(row, _)| EntryPath::new(row).ok().is_none_or(|path| !Part::is_metadata(&path)))
    }

    /// The paths in its part of what its RECORD names.
    pub(super) fn recorded(&self) -> impl Iterator<Item = EntryPath> {
        self.named().filter_map(|path| self.part.recorded(&path))
    }

    /// The paths in its part of [`Distribution::payload`].
    pub(super) fn recorded_payload(&self) -> impl Iterator<Item = EntryPath> {
        self.payload().filter_map(|path| self.part.recorded(&path))
    }

    /// Whether its manifest lists an archive; `None` without a manifest.
    pub(super) fn lists_archives(&self) -> Option<bool> {
        let bytes = self.part.read(&self.directory.child(PART_MANIFEST.as_bytes()), Parser::Manifest).ok()??;
        Some(PartManifest::parse(&bytes).ok()?.files.iter().any(|file| file.entries.is_some()))
    }

    /// Whether it contains archives and databases only.
    pub(super) fn is_device(&self) -> bool {
        self.role == Role::Device
    }

    /// Whether it requires another distribution, which exists in its version.
    pub(super) fn belongs_to(&self, host: &Self) -> bool {
        host.name().is_some_and(|(name, _)| self.pins().any(|(pinned, _)| pinned == name))
    }

    /// The names of the device distributions that its METADATA names.
    pub(super) fn devices(&self) -> impl Iterator<Item = String> {
        self.metadata.iter().flat_map(Metadata::devices).flat_map(|(_, of_extra)| of_extra).map(|(name, _)| name)
    }

    /// Whether it belongs to a split.
    pub(super) fn is_of_split(&self) -> bool {
        self.role != Role::Other
    }

    /// Whether its RECORD states any digest.
    pub(super) fn states_digests(&self) -> bool {
        self.rows().any(|(_, stated)| stated.claim_of_any_form().is_some())
    }

    /// The path of its RECORD.
    pub(super) fn record_path(&self) -> EntryPath {
        self.directory.child(b"RECORD")
    }

    /// Its name in findings: the wheel, or its directory in an installation.
    pub(super) fn label(&self) -> String {
        match (&self.part.input.kind, self.part.label.as_str()) {
            (InputKind::Wheel(_), "") => self.part.input.location.display().to_string(),
            (InputKind::Wheel(_), label) => label.to_owned(),
            _ => self.part.label(&self.directory),
        }
    }

    /// Its name and version, by METADATA. Without METADATA that can be read, those of its directory.
    pub(super) fn name(&self) -> Option<(String, &str)> {
        let stated = self.metadata.as_ref().map(|metadata| (normalise(&metadata.name), metadata.version.as_str()));
        stated.or_else(|| named_by(&self.directory))
    }

    /// Whether it was made from the wheel of a distribution.
    pub(super) fn is_made_of(&self, fat: &str) -> bool {
        self.is_of_split()
            && (self.name().is_some_and(|(name, _)| name == fat) || self.pins().any(|(name, _)| name == fat))
    }

    /// The distributions that this one belongs to: those that it requires in exactly its own version.
    pub(super) fn pins(&self) -> impl Iterator<Item = (String, &str)> {
        self.metadata.iter().flat_map(Metadata::pins_of_own_version)
    }
}

impl Distribution<'_> {
    /// Of a device distribution: its pins of the host distribution, which METADATA names first, and of the device
    /// distributions of its families, whose names begin like its own. Others are those of `--device-requires-dist`, and
    /// may have the same version by chance.
    pub(super) fn pins_of_split(&self) -> impl Iterator<Item = (String, &str)> {
        let is_of_split = move |(number, (name, _)): &(usize, (String, &str))| *number == 0 || self.is_sibling(name);
        self.pins().enumerate().filter(is_of_split).map(|(_, pin)| pin)
    }

    /// The name of the host distribution of a device distribution.
    pub(super) fn host_name(&self) -> Option<String> {
        self.is_device().then(|| self.host_pin()).flatten().map(|(name, _)| name)
    }

    /// The pin of the host distribution.
    pub(super) fn host_pin(&self) -> Option<(String, &str)> {
        self.pins().next().filter(|(name, _)| !self.is_sibling(name))
    }

    /// Whether another device distribution has a name that begins like that of this one.
    fn is_sibling(&self, name: &str) -> bool {
        let prefix = |name: &str| {
            let key = part_in(name)?.to_string().replace('_', "-");
            Some(name.strip_suffix(&key)?.to_owned())
        };
        self.name().and_then(|(own, _)| prefix(&own)).is_some_and(|own| prefix(name) == Some(own))
    }
}

/// The bundle keys whose device distributions exist.
pub(super) fn present_keys(distributions: &[&Distribution<'_>]) -> BTreeSet<BundleKey> {
    let existing: BTreeSet<_> = distributions.iter().filter_map(|it| Some(it.name()?.0)).collect();
    let hosts = distributions.iter().filter_map(|host| host.metadata.as_ref());
    let offered = hosts.flat_map(Metadata::devices).flat_map(|(_, devices)| devices).map(|(name, _)| name);
    offered.filter(|name| existing.contains(name)).filter_map(|name| part_in(&name)).collect()
}

/// Reports statements, and METADATA of host distributions, that cannot be read.
pub(super) fn check_readable(distributions: &[Distribution<'_>], findings: &Findings) {
    for it in distributions.iter().filter(|it| it.statement.is_none()) {
        let path = it.directory.child(STATEMENT.as_bytes());
        if it.part.input.entry(&path).is_some() {
            let reason = "it is no statement of this version of kpackfs";
            findings.add(Rule::ManifestUnreadable, it.part.label(&path), reason);
        }
    }
    let named: BTreeSet<_> = distributions.iter().filter_map(Distribution::host_name).collect();
    let is_host =
        |it: &&Distribution<'_>| it.role == Role::Host || it.name().is_some_and(|(name, _)| named.contains(&name));
    for host in distributions.iter().filter(|it| it.metadata.is_none()).filter(is_host) {
        findings.add(Rule::HostRequirements, host.label(), "it has no METADATA that can be read");
    }
}
