//! The directories that `split` writes and a mount shows.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::{directories_in, read_directory, wheels_among, wheels_in};
use super::distributions::statement;
use super::error::VerifyError;
use super::group::{self, NamedInput};
use super::mounted;
use super::overlaid::{laid_over, overlaid_keys, take_off};
use super::parts::{Part, Parts, PartsKind};
use super::report::{Findings, enumerate};
use super::rules::Rule;
use super::statement::LocatedStatement;
use crate::gpu::{BundleKey, GpuSet, TargetId};
use crate::resources::Resources;
use crate::source::SourceError;
use crate::split::{RESERVED, SIMPLE, STATEMENT};
use crate::view::{HOST, MERGED, REPORTS, THIN, THIN_WHEELS, WHEELS};

/// The directories that `split` writes and a mount shows.
pub(super) struct Views {
    path: PathBuf,
    /// What comes before the names of parts in findings.
    prefix: String,
    has_host: bool,
    /// Names of device parts.
    devices: Vec<String>,
    /// Names of merged views.
    merged: Vec<String>,
    /// Wheels in `wheels/`, and next to the views.
    wheels: Vec<PathBuf>,
    /// Thin views.
    thin: Vec<String>,
    /// Thin wheels, each in a directory for its GPUs.
    thin_wheels: Vec<PathBuf>,
    /// The statement of the split.
    statement: Option<LocatedStatement>,
    /// Whether it is a mount, whose views show the same files several times.
    is_mount: bool,
    /// The splits in a mount of several wheels.
    splits: Vec<Self>,
}

impl Views {
    /// Recognises views by the names in a directory. `None` if there is no view among them.
    pub(super) fn of(path: &Path) -> Result<Option<Self>, VerifyError> {
        Self::with_prefix(path, String::new())
    }

    fn with_prefix(path: &Path, prefix: String) -> Result<Option<Self>, VerifyError> {
        if !path.is_dir() {
            return Ok(None);
        }
        let names = directories(path)?;
        let has = |name: &str| names.iter().any(|it| it == name);
        let has_host = has(HOST);
        let is_mount = mounted::is_mount(path);
        let is_key = |name: &String| name.parse().is_ok_and(|key: BundleKey| key.is_known());
        let statement = LocatedStatement::read(path, STATEMENT)?;
        let parts = statement.as_ref().map(LocatedStatement::parts).transpose()?;
        let is_device = |name: &String| {
            let is_reserved = name == REPORTS || RESERVED.contains(&name.as_str());
            // Other directories may be there if the split has a statement.
            let is_named = || match &parts {
                Some(parts) => parts.iter().any(|part| part.as_bytes() == name.as_bytes()),
                None => has_host,
            };
            !is_reserved && (is_key(name) || is_named())
        };
        let merged = if has(MERGED) { directories(&path.join(MERGED))? } else { Vec::new() };
        let wheels = if has(WHEELS) { wheels_in(&path.join(WHEELS))? } else { Vec::new() };
        let thin = if has(THIN) { directories(&path.join(THIN))? } else { Vec::new() };
        let thin: Vec<_> = thin.into_iter().filter(|name| is_set(name)).collect();
        let thin_wheels = if is_mount { Vec::new() } else { thin_wheels_in(path)? };
        // `split --format thin-wheel` writes directories with the names of device parts.
        let has_thin_wheel = |name: &str| thin_wheels.iter().any(|wheel| wheel.parent() == Some(&path.join(name)));
        let devices: Vec<_> = names.iter().filter(|name| is_device(name) && !has_thin_wheel(name)).cloned().collect();
        let is_installation = names.iter().any(|name| name.ends_with(".dist-info"));
        let is_thin = !thin.is_empty() || !thin_wheels.is_empty();
        // A package of an installation may have the name of a view.
        let is_view = has_host
            || is_thin
            || !devices.is_empty()
            || !merged.is_empty() && merged.iter().all(is_key)
            || !wheels.is_empty();
        if is_installation || !is_view && statement.is_none() {
            return Ok(None);
        }
        // Another run of `split` may have written wheels next to the views.
        let wheels = [wheels_among(&path.join(WHEELS))?, wheels_among(path)?].concat();
        let splits = if is_mount && !has_host { mounted::splits_in(path)? } else { Vec::new() };
        let splits = splits.into_iter().map(|(name, place)| Self::with_prefix(&place, format!("{name}/")));
        let splits = splits.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let path = path.to_owned();
        Ok(Some(Self {
            path,
            prefix,
            has_host,
            devices,
            merged,
            wheels,
            thin,
            thin_wheels,
            statement,
            is_mount,
            splits,
        }))
    }

    /// Whether `split` wrote them, or a mount shows them.
    pub(super) fn has_statement(&self) -> bool {
        self.statement.is_some()
    }

    pub(super) fn open(&self, resources: &Arc<Resources>, findings: &Findings) -> Result<Vec<Parts>, VerifyError> {
        let mut opened = Vec::new();
        self.check_parts(findings)?;
        if self.has_host {
            opened.push(self.open_split(resources, findings)?);
        } else {
            for name in &self.devices {
                opened.push(Parts::open_installation(&self.path.join(name), name.clone(), resources, findings)?);
            }
        }
        for split in &self.splits {
            opened.append(&mut split.open(resources, findings)?);
        }
        if self.is_mount {
            if !self.merged.is_empty() || !self.wheels.is_empty() {
                findings.note(format!(
                    "{MERGED}/ and {WHEELS}/ of a mount show what {HOST}/ and the device parts are made of; name them to \
                     check them as well"
                ));
            }
            if !self.thin.is_empty() {
                findings.note(format!("{THIN}/ and {THIN_WHEELS}/ of a mount were not checked; name what is in them"));
            }
        } else {
            self.note_unchecked(findings)?;
            for name in self.wholes() {
                opened.push(Parts::open_installation(&self.path.join(&name), name, resources, findings)?);
            }
            let wheels = self.wheels.iter().chain(&self.thin_wheels);
            let wheels: Vec<_> = wheels.map(|path| NamedInput { path: path.clone(), is_listed: true }).collect();
            opened.extend(group::group(&wheels, resources, findings)?);
            let is_merged = |part: &&Arc<Part>| part.input.location.parent().is_some_and(|it| it.ends_with(MERGED));
            let wholes = opened.iter().filter_map(|parts| parts.all.first()).filter(|part| !is_merged(part));
            wholes.for_each(|part| check_thin(part, findings));
        }
        Ok(opened)
    }

    /// Notes directories that are not checked: an index, and the views of each wheel in a copy of a mount of several.
    fn note_unchecked(&self, findings: &Findings) -> Result<(), SourceError> {
        let is_alone = !self.has_host && self.devices.is_empty() && self.statement.is_none();
        let has_thin_wheel = |name: &str| self.thin_wheels.iter().any(|it| it.starts_with(self.path.join(name)));
        let is_unchecked = |name: &String| {
            let is_other = !RESERVED.contains(&name.as_str()) && !has_thin_wheel(name);
            name == SIMPLE || is_alone && is_other
        };
        let names: Vec<_> = directories_in(&self.path)?.into_iter().filter(is_unchecked).collect();
        if !names.is_empty() {
            let (place, names) = (self.path.display(), enumerate(&names));
            findings
                .note(format!("{place}: directories in it that were not checked; name them to check them: {names}"));
        }
        Ok(())
    }

    /// The views that show a whole tree.
    fn wholes(&self) -> impl Iterator<Item = String> {
        let merged = self.merged.iter().map(|name| format!("{MERGED}/{name}"));
        merged.chain(self.thin.iter().map(|name| format!("{THIN}/{name}")))
    }

    /// Checks that exactly the parts in the statement exist.
    fn check_parts(&self, findings: &Findings) -> Result<(), VerifyError> {
        let Some(located) = &self.statement else { return Ok(()) };
        let host = self.has_host.then(|| HOST.to_owned());
        let existing = host.into_iter().chain(self.devices.iter().cloned()).chain(self.wholes());
        located.check_parts(&self.path, existing.filter(|_| !self.is_mount), findings)
    }

    fn open_split(&self, resources: &Arc<Resources>, findings: &Findings) -> Result<Parts, VerifyError> {
        let names = std::iter::once(HOST).chain(self.devices.iter().map(String::as_str));
        let label = |name: &str| format!("{}{name}", self.prefix);
        let open = |name: &str| Part::open(&self.path.join(name), label(name), resources, findings);
        let mut parts = names.map(open).collect::<Result<Vec<_>, _>>()?;
        if let Some((host, devices)) = parts.split_first_mut() {
            let devices: Vec<_> = devices.iter().collect();
            let overlaid = match &self.statement {
                Some(located) => overlaid_keys(&located.arch()?),
                None => laid_over(host, &devices, !self.merged.is_empty(), findings),
            };
            take_off(host, &devices, &overlaid, findings);
        }
        let has_all = self.statement.as_ref().is_none_or(|located| located.statement.views().is_empty());
        let kind = if has_all { PartsKind::Split } else { PartsKind::Partial };
        if self.statement.is_none() && parts.first().is_some_and(|host| host.input.dist_info().is_none()) {
            let place = self.path.join(REPORTS).join(STATEMENT);
            findings.note(format!("{}: not found, so that a part which is missing is not noticed", place.display()));
        }
        let statement = self.statement.clone();
        let parts = Parts { statement, ..Parts::new(kind, parts.into_iter().map(Arc::new).collect()) };
        group::check_complete(&parts, findings);
        Ok(parts)
    }
}

/// Checks that a thin wheel is in no directory for other GPUs. Its statement tells which form it is. A view of an
/// installation keeps the statements of what was installed there.
fn check_thin(part: &Part, findings: &Findings) {
    let location = &part.input.location;
    let directory = if location.is_dir() { Some(&**location) } else { location.parent() };
    let named = directory.and_then(|it| it.file_name()?.to_str()?.parse::<GpuSet>().ok());
    let is_gpu = |target: &TargetId| target.is_known() && !target.is_generic();
    let Some(named) = named.filter(|named| named.targets().iter().all(is_gpu)) else { return };
    let Some(stated) = part.input.dist_info().and_then(|own| statement(part, own)?.thin()) else { return };
    let is_named = |target: &TargetId| named.targets().iter().any(|it| it.is_same_gpu(target));
    if stated.targets().iter().all(is_gpu) && !stated.targets().iter().any(is_named) {
        let reason = format!("it is the thin form for {stated}, in the directory for {named}");
        findings.add(Rule::WrongPart, part.label_or_name(), reason);
    }
}

/// The names of the directories in a directory.
fn directories(path: &Path) -> Result<Vec<String>, SourceError> {
    let directories = read_directory(path)?.into_iter().filter(|path| path.is_dir() && !path.is_symlink());
    Ok(directories.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
}

fn is_set(name: &str) -> bool {
    name.parse::<GpuSet>().is_ok()
}

/// The wheels in directories for their GPUs, as `split --format thin-wheel` writes them and as a copy of a mount has them.
fn thin_wheels_in(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let mut wheels = Vec::new();
    for place in [path.to_owned(), path.join(THIN_WHEELS)].iter().filter(|place| place.is_dir()) {
        for name in directories(place)?.iter().filter(|name| is_set(name)) {
            wheels.extend(wheels_in(&place.join(name))?);
        }
    }
    Ok(wheels)
}
