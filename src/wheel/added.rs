//! The lines that splitters add to the METADATA of a host wheel, and how they are removed.
//!
//! kpackfs and `split_python_wheels` of rocm-kpack add lines at the end of the header: the requirement
//! `rocm-bootstrap`, and extras for each target and for all targets. The extras require device wheels in the version of
//! the host wheel.

use std::collections::BTreeMap;
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
    /// The normalised names of device distributions. If the extra of one target requires a distribution, its key is the
    /// value.
    devices: BTreeMap<String, Option<BundleKey>>,
    range: Range<usize>,
}

impl Added {
    /// Whether an extra requires a distribution. Its name is normalised.
    pub fn has(&self, distribution: &str) -> bool {
        self.devices.contains_key(distribution)
    }

    /// The required device distributions.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.devices.keys().map(String::as_str)
    }

    /// The common prefix of the device distributions' names.
    pub(crate) fn prefix(&self) -> Option<String> {
        let prefix = |(name, key): (&String, &Option<BundleKey>)| {
            let name = name.strip_suffix(&*normalise(&key.as_ref()?.distribution_part()))?;
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
            if let Some((extra, name)) = self.device_pin(header) {
                let own = extra.target_of(&name);
                let known = added.devices.entry(name).or_default();
                *known = known.take().or(own);
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

    /// The same METADATA, byte by byte, without the lines that a splitter has added.
    pub(crate) fn without(&self, added: &Added, path: &EntryPath) -> Result<Self, WheelError> {
        if added.range.is_empty() {
            return Ok(self.clone());
        }
        let before = self.bytes.get(..added.range.start).unwrap_or_default();
        let after = self.bytes.get(added.range.end..).unwrap_or_default();
        Self::parse([before, after].concat(), path)
    }

    /// The extra that requires a device distribution, and the distribution's normalised name.
    fn device_pin(&self, header: &HeaderField) -> Option<(Extra, String)> {
        let (extra, name, version) = pin_of_extra(&header.value).filter(|_| header.is("Requires-Dist"))?;
        let extra = Extra::parse(&extra)?;
        (normalise(version) == normalise(&self.version)).then_some((extra, name))
    }
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

    /// The target, if a distribution is the target's own and not one of its families'.
    fn target_of(self, distribution: &str) -> Option<BundleKey> {
        match self {
            Self::Target(key) => Some(key).filter(|key| distribution.ends_with(&*normalise(&key.distribution_part()))),
            Self::All => None,
        }
    }
}
