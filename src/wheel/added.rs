//! The lines that splitters add to the METADATA of a host wheel, and how they are removed.
//!
//! kpackfs and `split_python_wheels` of rocm-kpack add lines at the end of the header: the requirement
//! `rocm-bootstrap`, and extras for each target and for all targets. The extras require device wheels in the version of
//! the host wheel.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::headers::HeaderField;
use super::metadata::{BOOTSTRAP, pin_of_extra};
use super::{Metadata, WheelError, normalise};
use crate::gpu::{BundleKey, begins_device_part};
use crate::source::EntryPath;

/// The extra that requires all device wheels.
const ALL: &str = "all";

/// The lines that a splitter has added.
#[derive(Clone, Debug, Default)]
pub struct Added {
    /// The normalised names of device distributions, and the device parts that they are named after.
    devices: BTreeMap<String, BundleKey>,
    range: Range<usize>,
}

impl Added {
    /// Whether an extra requires a distribution. Its name is normalised.
    pub fn has(&self, distribution: &str) -> bool {
        self.devices.contains_key(distribution)
    }

    /// The device part that a required distribution is named after. Its name is normalised.
    pub fn part(&self, distribution: &str) -> Option<&BundleKey> {
        self.devices.get(distribution)
    }

    /// The required device distributions.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.devices.keys().map(String::as_str)
    }

    /// The common prefix of the device distributions' names.
    pub(crate) fn prefix(&self) -> Option<String> {
        let prefix = |(name, key): (&String, &BundleKey)| {
            let name = name.strip_suffix(&*normalise(&key.distribution_part()))?;
            name.strip_suffix('-').map(str::to_owned)
        };
        self.devices.iter().find_map(prefix)
    }
}

impl Metadata {
    /// The lines that a splitter has added. Empty if the end of the header has another form.
    pub fn added(&self) -> Added {
        let mut added = Added::default();
        let mut has_extra = false;
        let mut start = None;
        for header in self.headers.list.iter().rev() {
            if let Some((name, part)) = self.device_pin(header) {
                added.devices.entry(name).or_insert(part);
            } else if Extra::declared(header).is_some() {
                has_extra = true;
            } else {
                let is_first = header.is("Requires-Dist") && normalise(header.value.trim()) == BOOTSTRAP;
                start = if is_first { Some(header.range.start) } else { start };
                break;
            }
            start = Some(header.range.start);
        }
        let end = self.headers.list.last().map_or(0, |last| last.range.end);
        match start.filter(|_| has_extra && !added.devices.is_empty()) {
            Some(start) => Added { range: start..end, ..added },
            None => Added::default(),
        }
    }

    /// The device distributions that each extra of a host distribution installs, with their versions. Those for one target
    /// are under its name, and those for all targets under "all".
    pub(crate) fn devices(&self) -> BTreeMap<String, BTreeSet<(String, String)>> {
        let mut devices = BTreeMap::<String, BTreeSet<(String, String)>>::new();
        let own = self.own_extras();
        for (extra, name, version) in self.pins_of_extras() {
            let target = extra.strip_prefix("device-").unwrap_or(&extra);
            if part_in(&name).is_some() && own.of_split(target).is_some_and(|of_split| of_split == extra) {
                devices.entry(target.to_owned()).or_default().insert((name, version.to_owned()));
            }
        }
        devices
    }

    /// The extras that are declared before those that a splitter has added.
    pub(crate) fn own_extras(&self) -> OwnExtras {
        let start = self.added().range.start;
        let own = self.headers.list.iter().filter(|it| it.is("Provides-Extra") && it.range.start < start);
        OwnExtras(own.map(|it| normalise(&it.value)).collect())
    }

    /// The same METADATA, byte by byte, without the lines that a splitter has added.
    pub(crate) fn without(&self, added: &Added, path: &EntryPath) -> Result<Self, WheelError> {
        if added.range.is_empty() {
            return Ok(self.clone());
        }
        let before = self.bytes.get(..added.range.start).unwrap_or_default();
        let after = self.bytes.get(added.range.end..).unwrap_or_default();
        Self::parse([before, after].concat(), path)
    }

    /// The normalised name of a device distribution that an extra requires, and the part that it is named after.
    fn device_pin(&self, header: &HeaderField) -> Option<(String, BundleKey)> {
        let (extra, name, version) = pin_of_extra(&header.value).filter(|_| header.is("Requires-Dist"))?;
        let part = Extra::parse(&extra)?.part_of(&name)?;
        (normalise(version) == normalise(&self.version)).then_some((name, part))
    }
}

/// The normalised names of the extras that a wheel had before it was split.
#[derive(Clone, Debug)]
pub(crate) struct OwnExtras(pub(super) BTreeSet<String>);

impl OwnExtras {
    /// The extra with which a split installs the code for a target, or for "all": the longer spelling that the wheel does not
    /// have itself.
    pub(crate) fn of_split(&self, target: &str) -> Option<String> {
        spellings(target).into_iter().rfind(|extra| !self.0.contains(extra))
    }
}

/// Both spellings of an extra: the original one of rocm-kpack, and the one since ROCm/rocm-systems#5514.
pub(super) fn spellings(target: &str) -> [String; 2] {
    [target.to_owned(), format!("device-{target}")]
}

/// An extra that splitters declare.
#[derive(Clone, Debug)]
pub(super) enum Extra {
    /// For a target.
    Target(BundleKey),
    /// For all targets.
    All,
}

impl Extra {
    pub(super) fn parse(name: &str) -> Option<Self> {
        let target = name.strip_prefix("device-").unwrap_or(name);
        if target == ALL {
            return Some(Self::All);
        }
        let target = Some(target).filter(|target| begins_device_part(target.as_bytes()))?;
        target.parse().ok().map(Self::Target)
    }

    /// The extra that a header declares.
    fn declared(header: &HeaderField) -> Option<Self> {
        if header.is("Provides-Extra") { Self::parse(&normalise(&header.value)) } else { None }
    }

    /// The part that a required distribution is named after: the target, one of its families, or any part.
    fn part_of(self, distribution: &str) -> Option<BundleKey> {
        let is_named = |key: &BundleKey| distribution.ends_with(&*normalise(&key.distribution_part()));
        let own = match self {
            Self::Target(key) => key.packaging_chain().into_iter().find(is_named),
            Self::All => None,
        };
        own.or_else(|| part_in(distribution))
    }
}

/// The part at the end of a distribution's normalised name: `gfx942`, or `gfx12_0` for `gfx12-0`.
pub(crate) fn part_in(distribution: &str) -> Option<BundleKey> {
    let parse = |name: &str| name.parse::<BundleKey>().ok();
    let mut ends = distribution.rmatch_indices('-').filter_map(|(at, _)| distribution.get(at + 1..));
    let name = ends.find(|end| begins_device_part(end.as_bytes()))?;
    parse(&name.replace('-', "_")).filter(BundleKey::is_known).or_else(|| parse(name))
}
