//! Requirements with extras for GPUs, such as `rocm[libraries,device-all]==7.14.*`: what is left of them in the host
//! wheel, and what device wheels and thin wheels require instead.
//!
//! An extra is for GPUs if its name is `device-all` or `device-<target>`, as in `rocm` and in host wheels. Only
//! the list of extras is understood and replaced. Specifiers, URL and marker are copied byte by byte, so that they keep
//! their meaning ([dependency specifiers]).
//!
//! [dependency specifiers]: https://packaging.python.org/en/latest/specifications/dependency-specifiers/

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::str::FromStr;

use super::added::Extra;
use super::devices::is_distribution;
use super::headers::{HeaderField, Headers};
use super::requirement::is_satisfied_by;
use super::{Metadata, WheelError, normalise};
use crate::gpu::{BundleKey, GpuSet, Level, begins_with_target};
use crate::source::EntryPath;

/// What separates the words of a requirement, which may be folded.
const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];

/// How requirements with extras for GPUs appear in the wheels of a split.
#[derive(Clone, Debug, Default)]
pub enum Requirements {
    /// As in the fat wheel.
    #[default]
    Keep,
    /// Each part requires the extras of its own GPUs.
    Split(KnownExtras),
}

/// What is known about the extras of other distributions, by normalised names.
#[derive(Clone, Debug, Default)]
pub struct KnownExtras(BTreeMap<String, ExtrasOf>);

/// What is known about the extras of one distribution.
#[derive(Clone, Debug)]
struct ExtrasOf {
    names: BTreeSet<String>,
    /// Whether it has no others.
    is_complete: bool,
    /// The file that states them, unless the user does.
    source: Option<String>,
}

/// The extras of a distribution as a user states them: `rocm=libraries,device-gfx942`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatedExtras {
    distribution: String,
    extras: BTreeSet<String>,
}

impl FromStr for StatedExtras {
    type Err = WheelError;

    fn from_str(text: &str) -> Result<Self, WheelError> {
        let refused = |reason: &str| WheelError::StatedExtras(reason.to_owned());
        let (distribution, list) = text.split_once('=').ok_or_else(|| refused("there is no \"=\""))?;
        let names: Vec<_> = list.split([',', ' ']).filter(|name| !name.is_empty()).collect();
        match std::iter::once(distribution).chain(names.iter().copied()).find(|name| !is_distribution(name)) {
            Some(bad) => Err(refused(&format!("{bad:?} is no name"))),
            None => {
                Ok(Self { distribution: normalise(distribution), extras: names.into_iter().map(normalise).collect() })
            }
        }
    }
}

impl FromIterator<StatedExtras> for KnownExtras {
    fn from_iter<I: IntoIterator<Item = StatedExtras>>(stated: I) -> Self {
        let mut known = Self::default();
        for StatedExtras { distribution, extras } in stated {
            let new = || ExtrasOf { names: BTreeSet::new(), is_complete: true, source: None };
            known.0.entry(distribution).or_insert_with(new).names.extend(extras);
        }
        known
    }
}

impl KnownExtras {
    /// Whether something is known about a distribution.
    pub(crate) fn has(&self, distribution: &str) -> bool {
        self.0.contains_key(&normalise(distribution))
    }

    /// Adds the extras that METADATA of a distribution declares. Of several, an extra counts if all have it. `source`
    /// names its file.
    pub(crate) fn add(&mut self, metadata: &Metadata, source: &str) {
        let names = metadata.extras();
        let is_complete = !metadata.has_dynamic_extras();
        match self.0.entry(normalise(&metadata.name)) {
            Entry::Vacant(vacant) => {
                vacant.insert(ExtrasOf { names, is_complete, source: Some(source.to_owned()) });
            }
            Entry::Occupied(mut occupied) => {
                let known = occupied.get_mut();
                known.names.retain(|name| names.contains(name));
                known.is_complete &= is_complete;
                known.source = known.source.take().map(|earlier| format!("{earlier}, {source}"));
            }
        }
    }

    /// The file that states the extras of a distribution, unless the user does.
    pub(crate) fn source(&self, distribution: &str) -> Option<&str> {
        self.0.get(&normalise(distribution))?.source.as_deref()
    }
}

/// The extra that a part for one GPU requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartExtra {
    /// The distribution is known to have it, or the fat wheel requires it by this name.
    Known(String),
    /// Nothing is known about the extras of the distribution.
    Unchecked(String),
    /// The distribution does not have it.
    Missing(String),
}

impl PartExtra {
    /// Its name, if it is required. Installers answer an unknown extra with a warning only, so a missing one would hide
    /// the error.
    fn required(self) -> Option<String> {
        match self {
            Self::Known(name) | Self::Unchecked(name) => Some(name),
            Self::Missing(_) => None,
        }
    }
}

/// A requirement with extras for GPUs.
#[derive(Clone, Debug)]
pub(crate) struct GpuRequirement<'a> {
    /// The field up to the name.
    before: &'a str,
    /// The required distribution, as written.
    pub(crate) name: &'a str,
    /// The other extras, as written.
    others: Vec<&'a str>,
    /// The targets of the extras for GPUs, with the names of these. Empty if all GPUs are meant.
    targets: Vec<(BundleKey, &'a str)>,
    /// What follows the list of extras, to the end of the field.
    after: &'a str,
    range: Range<usize>,
}

impl<'a> GpuRequirement<'a> {
    /// Parses a field with its name. `None` if it is none, or is not understood.
    fn parse(field: &'a str, range: Range<usize>) -> Option<Self> {
        let (_, value) = field.split_once(':')?;
        if one_line(value).contains(|letter: char| letter.is_control() && letter != '\t') {
            return None;
        }
        let start = field.len().checked_sub(value.trim_start_matches(BLANK).len())?;
        let (before, text) = field.split_at_checked(start)?;
        let of_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        let (name, rest) = text.split_at_checked(text.find(|letter| !of_name(letter))?)?;
        let (list, after) = rest.trim_start_matches(BLANK).strip_prefix('[')?.split_once(']')?;
        let follows = after.trim_start_matches(BLANK).chars().next();
        if !is_distribution(name) || follows.is_some_and(|letter| !"<>=!~(@;".contains(letter)) {
            return None;
        }
        let (mut others, mut targets, mut is_for_all) = (Vec::new(), Vec::new(), false);
        for extra in list.split(',').map(|extra| extra.trim_matches(BLANK)) {
            match gpu_extra(&normalise(extra)) {
                _ if !is_distribution(extra) => return None,
                Some(Extra::Target(key)) => targets.push((key, extra)),
                Some(Extra::All) => is_for_all = true,
                None => others.push(extra),
            }
        }
        if is_for_all {
            targets.clear();
        } else if targets.is_empty() {
            return None;
        }
        Some(Self { before, name, others, targets, after, range })
    }

    /// Whether its marker asks for an extra of the wheel that requires it. Device wheels do not have these extras.
    pub(crate) fn depends_on_extra(&self) -> bool {
        let after = self.after.trim_start_matches(BLANK);
        // A URL ends at white space, and may contain semicolons.
        let marker = match after.strip_prefix('@') {
            Some(url) => url.trim_start_matches(BLANK).split_once(BLANK).map_or("", |(_, rest)| rest),
            None => after,
        };
        let Some((_, marker)) = marker.split_once(';') else { return false };
        let mut outside = String::new();
        let mut quote = None;
        for letter in marker.chars() {
            match quote {
                Some(open) if open == letter => quote = None,
                Some(_) => {}
                None if letter == '"' || letter == '\'' => {
                    quote = Some(letter);
                    outside.push(' ');
                }
                None => outside.push(letter),
            }
        }
        outside.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').any(|word| word == "extra")
    }

    /// The field with these extras in place of those for GPUs.
    fn with(&self, extras: &[String]) -> String {
        let Self { before, name, after, .. } = self;
        let extras: Vec<_> = self.others.iter().copied().chain(extras.iter().map(String::as_str)).collect();
        let list = if extras.is_empty() { String::new() } else { format!("[{}]", extras.join(",")) };
        format!("{before}{name}{list}{after}")
    }

    /// The requirement of a device wheel, as the value of a field.
    fn of_device(&self, extra: &str) -> String {
        one_line(&format!("{}[{extra}]{}", self.name, self.after))
    }

    /// The requirement of the fat wheel, on one line.
    pub(crate) fn original(&self, metadata: &Metadata) -> String {
        let field = metadata.raw(&self.range).unwrap_or_default();
        one_line(field.split_once(':').map_or("", |(_, value)| value))
    }

    /// The requirement of the host wheel, on one line.
    pub(crate) fn of_host(&self) -> String {
        one_line(self.with(&[]).split_once(':').map_or("", |(_, value)| value))
    }

    /// Whether its specifiers accept a version of the distribution.
    pub(crate) fn accepts(&self, version: &str) -> bool {
        is_satisfied_by(&one_line(&format!("{}{}", self.name, self.after)), version)
    }

    /// Whether it is for more than one GPU.
    pub(crate) fn has_several_gpus(&self) -> bool {
        self.targets.len() != 1
    }

    /// The extra for the part of a key: the first of its chain that exists, or else its own. `None` for a family without
    /// an extra, since the packages of its targets require it.
    pub(crate) fn extra(&self, key: &BundleKey, known: &KnownExtras) -> Option<PartExtra> {
        let known = known.0.get(&normalise(self.name));
        let own = |key: &BundleKey| format!("device-{}", normalise(key.as_str()));
        let is_known = |extra: &str| known.is_none_or(|known| known.names.contains(&normalise(extra)));
        let is_complete = known.is_some_and(|known| known.is_complete);
        let existing = |key: BundleKey| {
            if self.targets.is_empty() {
                return Some(own(&key)).filter(|extra| known.is_some() && is_known(extra));
            }
            let (_, extra) = self.targets.iter().find(|(target, extra)| *target == key && is_known(extra))?;
            Some((*extra).to_owned())
        };
        if let Some(extra) = key.packaging_chain().into_iter().find_map(existing) {
            return Some(PartExtra::Known(extra));
        }
        let is_open = !is_complete && self.targets.is_empty();
        match key.level() {
            Level::Target if is_open => Some(PartExtra::Unchecked(own(key))),
            Level::Target => Some(PartExtra::Missing(own(key))),
            Level::SubFamily | Level::Family => None,
        }
    }
}

impl Metadata {
    /// The requirements with extras for GPUs, except those of the wheel itself.
    pub(crate) fn gpu_requirements(&self) -> impl Iterator<Item = GpuRequirement<'_>> {
        let own = normalise(&self.name);
        let fields = self.headers.list.iter().filter(|header| header.is("Requires-Dist"));
        let parsed = fields.filter_map(|field| GpuRequirement::parse(self.field(field)?, field.range.clone()));
        parsed.filter(move |requirement| normalise(requirement.name) != own)
    }

    /// Those that are split between host and device wheels.
    pub(crate) fn split_requirements(&self) -> impl Iterator<Item = GpuRequirement<'_>> {
        self.gpu_requirements().filter(|requirement| !requirement.depends_on_extra())
    }

    /// The fields that [`Metadata::for_host`] replaces, as they are.
    pub fn replaced_fields(&self) -> Vec<String> {
        self.split_requirements().filter_map(|it| Some(line(self.raw(&it.range)?).to_owned())).collect()
    }

    /// The same METADATA without extras for GPUs, which device wheels require instead.
    pub fn for_host(&self) -> Result<Self, WheelError> {
        self.replacing(self.split_requirements().map(|it| (it.range.clone(), it.with(&[]))))
    }

    /// The same METADATA with the extras of some GPUs only.
    pub fn for_gpus(&self, gpus: &GpuSet, known: &KnownExtras) -> Result<Self, WheelError> {
        let keys: Vec<_> = gpus.targets().iter().map(BundleKey::of).collect();
        self.replacing(self.gpu_requirements().map(|it| {
            let mut extras: Vec<String> =
                keys.iter().filter_map(|key| it.extra(key, known).and_then(PartExtra::required)).collect();
            let mut seen = BTreeSet::new();
            extras.retain(|extra| seen.insert(extra.clone()));
            (it.range.clone(), it.with(&extras))
        }))
    }

    /// What the device wheel of a key requires in place of the fat wheel.
    pub fn device_requirements(&self, key: &BundleKey, known: &KnownExtras) -> Vec<String> {
        let required = |it: GpuRequirement<'_>| Some(it.of_device(&it.extra(key, known)?.required()?));
        self.split_requirements().filter_map(required).collect()
    }

    /// The same METADATA with the fields that [`Metadata::for_host`] replaced. `None` if one of them has no place in it.
    pub fn restored(&self, old: &[String]) -> Result<Option<Self>, WheelError> {
        let mut fields = self.headers.list.iter();
        let mut edits = Vec::new();
        for old in old {
            let Some(new) = host_form(old) else { return Ok(None) };
            let Some(field) = fields.find(|field| self.field(field).map(line) == Some(&*new)) else { return Ok(None) };
            edits.push((field.range.start..field.range.start.saturating_add(new.len()), old.clone()));
        }
        self.replacing(edits).map(Some)
    }

    fn field(&self, field: &HeaderField) -> Option<&str> {
        self.raw(&field.range)
    }

    fn raw(&self, range: &Range<usize>) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(range.clone())?).ok()
    }

    /// The same METADATA with other bytes in these ranges, which are in their order.
    fn replacing(&self, edits: impl IntoIterator<Item = (Range<usize>, String)>) -> Result<Self, WheelError> {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut at = 0;
        for (range, text) in edits {
            bytes.extend_from_slice(self.bytes.get(at..range.start).unwrap_or_default());
            bytes.extend_from_slice(text.as_bytes());
            at = range.end;
        }
        bytes.extend_from_slice(self.bytes.get(at..).unwrap_or_default());
        Self::parse(bytes, &EntryPath::root().child(b"METADATA"))
    }
}

/// What a host wheel has in place of a field of the fat wheel. The field comes from a file, so it is checked that it is
/// one field and no more.
fn host_form(field: &str) -> Option<String> {
    let headers = Headers::parse(field.as_bytes())?;
    let [only] = &*headers.list else { return None };
    let is_whole = headers.end == field.len() && only.is("Requires-Dist") && line(field) == field;
    Some(GpuRequirement::parse(field, 0..field.len()).filter(|_| is_whole)?.with(&[]))
}

/// The normalised name of the distribution that a replaced field of the fat wheel requires.
pub(crate) fn replaced_distribution(field: &str) -> Option<String> {
    Some(normalise(GpuRequirement::parse(field, 0..field.len())?.name))
}

/// A field without its last line ending.
fn line(field: &str) -> &str {
    let field = field.strip_suffix('\n').unwrap_or(field);
    field.strip_suffix('\r').unwrap_or(field)
}

/// A folded text on one line.
fn one_line(text: &str) -> String {
    text.lines().map(|line| line.trim_matches(BLANK)).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// An extra for GPUs.
fn gpu_extra(normalised: &str) -> Option<Extra> {
    let rest = normalised.strip_prefix("device-")?;
    if rest == "all" || begins_with_target(rest.as_bytes()) { Extra::parse(normalised) } else { None }
}

#[cfg(test)]
#[path = "gpu_requirements_tests.rs"]
mod tests;
