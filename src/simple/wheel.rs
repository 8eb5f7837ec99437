//! A wheel of an index.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::rope::Sha256;
use crate::source::EntryPath;
use crate::split::hex;
use crate::wheel::{Metadata, WheelName, normalise};

/// What stands behind the name of a wheel in the name of its METADATA (PEP 658).
const METADATA: &str = ".metadata";

/// Size and digest of a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WheelSums {
    /// Bytes.
    pub size: u64,
    /// The SHA-256 of all bytes.
    pub sha256: [u8; 32],
}

/// A wheel of an index.
#[derive(Clone, Debug)]
pub struct IndexedWheel {
    /// The parts of its file name.
    pub name: WheelName,
    /// The input that it is made of, which messages name.
    pub input: PathBuf,
    metadata_sha256: [u8; 32],
    /// Name and version in METADATA.
    stated: (String, String),
    /// The extras that it declares, normalised.
    pub(super) extras: BTreeSet<String>,
    /// The versions of Python that it requires.
    pub requires_python: Option<String>,
    /// Why installers are not to choose it unless its version is asked for (PEP 592). May be empty.
    pub yanked: Option<String>,
    /// Whether a signature by GPG is next to it (PEP 503).
    pub has_gpg_signature: bool,
    /// Size and digest, if they are known.
    pub sums: Option<WheelSums>,
}

impl IndexedWheel {
    /// The wheel with this name and METADATA, made of an input.
    pub fn new(name: WheelName, metadata: &Metadata, input: &Path) -> Self {
        let requires_python = metadata.requires_python().map(str::to_owned);
        let metadata_sha256 = Sha256::of(&metadata.bytes());
        let stated = (normalise(&metadata.name), metadata.version.clone());
        let (input, extras) = (input.to_owned(), metadata.extras());
        let (yanked, has_gpg_signature, sums) = (None, false, None);
        Self { name, input, metadata_sha256, stated, extras, requires_python, yanked, has_gpg_signature, sums }
    }

    /// Why installers refuse it: METADATA does not agree with the file name.
    pub fn mismatch(&self) -> Option<String> {
        let (name, version) = &self.stated;
        let is_same = *name == self.project() && normal_version(version) == normal_version(&self.name.version);
        (!is_same).then(|| format!("installers refuse it, since its METADATA is that of {name} {version}"))
    }

    /// What messages call it: its input, or its name too if that is another one, as of a device wheel.
    pub(super) fn label(&self) -> String {
        let (name, input) = (self.name.to_string(), self.input.display());
        let is_input = self.input.file_name().is_some_and(|file| file == name.as_str());
        if is_input { input.to_string() } else { format!("{name} (made of {input})") }
    }

    /// The normalised name of its project.
    pub fn project(&self) -> String {
        normalise(&self.name.distribution)
    }

    /// The path of the wheel in the index.
    pub fn path(&self) -> EntryPath {
        EntryPath::root().child(self.project().as_bytes()).child(self.name.to_string().as_bytes())
    }

    /// The path of its METADATA in the index.
    pub fn metadata_path(&self) -> EntryPath {
        self.path_of(METADATA)
    }

    /// The path of the file about it with this suffix.
    pub fn path_of(&self, suffix: &str) -> EntryPath {
        let file = format!("{}{suffix}", self.name);
        EntryPath::root().child(self.project().as_bytes()).child(file.as_bytes())
    }

    /// The SHA-256 of its METADATA, in hexadecimal.
    pub(super) fn metadata_sha256(&self) -> String {
        hex(&self.metadata_sha256)
    }

    /// The file name as a relative URL (RFC 3986). S3 takes a `+` for a space, so everything except unreserved characters
    /// is escaped.
    pub(super) fn link(&self) -> String {
        let escaped = |byte: u8| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        };
        self.name.to_string().bytes().map(escaped).collect()
    }

    /// What tells it from other wheels of the project.
    pub(super) fn distinction(&self) -> Distinction {
        let WheelName { version, build, python, abi, platform, variant, .. } = &self.name;
        let tags = [python, abi, platform].map(|set| set.split('.').map(str::to_ascii_lowercase).collect());
        (normal_version(version), build.as_deref().map(normal_build), tags, variant.clone())
    }
}

/// Version, build tag, tags and variant label. Installers cannot tell wheels apart in which all of them are equal.
pub(super) type Distinction = (String, Option<(String, String)>, [BTreeSet<String>; 3], Option<String>);

/// A build tag as installers compare it: its leading digits as a number, and the rest (Binary distribution format).
fn normal_build(build: &str) -> (String, String) {
    let (number, rest) = build.split_at(build.find(|it: char| !it.is_ascii_digit()).unwrap_or(build.len()));
    (number.trim_start_matches('0').to_owned(), rest.to_owned())
}

/// A version in a form that is equal for `1.0`, `1.0.0` and `v1`, as installers compare them (PEP 440).
fn normal_version(version: &str) -> String {
    let plain = version.replace('_', "-").to_ascii_lowercase();
    plain.parse::<pep508_rs::pep440_rs::Version>().map_or(plain, |version| {
        let mut release = version.release().to_vec();
        while release.len() > 1 && release.last() == Some(&0) {
            release.pop();
        }
        version.with_release(release).to_string()
    })
}
