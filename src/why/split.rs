//! Libraries whose wrappers lead to archives.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocm_kpack::{Archive, ArchiveFile, Environment, Error, Marker, search, toc_key};

use super::cause::Cause;
use super::installed::TriedArchives;
use super::libraries::LibraryFile;
use super::lookup::Lookup;
use super::nearby::{NearbyArchives, nearby_archives};
use super::question::Question;
use super::{device, installed, kpack_path, part};
use crate::binary::{SplitBinary, SplitWrapper};
use crate::coverage::{CauseKind, Problem};
use crate::fatbin::{CODE_BEGINNING, code_problem, damage_by_beginning};
use crate::gpu::TargetId;
use crate::kpack::{read_entry, stored_object};
use crate::rope::{Content, to_usize};
use crate::source::open_file;

/// A place where a runtime looks for an archive.
struct ArchiveCandidate {
    path: PathBuf,
    state: SplitState,
}

enum SplitState {
    Absent,
    Denied,
    Broken(String),
    Open(Box<OpenArchive>),
}

/// An archive, and the file that it is in.
struct OpenArchive {
    archive: Archive<ArchiveFile>,
    content: Arc<dyn Content>,
}

/// The search for archives with the code of a library for a GPU.
struct ArchiveSearch<'a> {
    file: &'a LibraryFile,
    device: &'a TargetId,
    /// The names under which a runtime asks for code, in its order.
    targets: Vec<String>,
    environment: &'a Environment,
    question: &'a Question,
}

/// Follows wrappers to archives as a runtime does.
pub(super) fn look_up(
    file: &LibraryFile,
    split: &SplitBinary,
    wrappers: &[usize],
    device: &TargetId,
    question: &Question,
    lookup: &mut Lookup,
) {
    lookup.evidence.saw("its device code is in archives");
    let environment = &Environment::of(|name| question.variables.get(&OsString::from(name)).cloned());
    if environment.is_disabled {
        lookup.evidence.saw("ROCM_KPACK_DISABLE is set");
        lookup.fail(Cause::new(
            CauseKind::ArchivesOff,
            "ROCM_KPACK_DISABLE forbids the runtime to read archives",
            Some("unset ROCM_KPACK_DISABLE".to_owned()),
        ));
        return;
    }
    let targets: Vec<_> = device.candidates().iter().map(ToString::to_string).collect();
    lookup.evidence.follows(format!("a {device} runs code for {}", targets.join(", ")));
    let search = ArchiveSearch { file, device, targets, environment, question };
    if let Err(cause) = search.look_up(split, wrappers, lookup) {
        lookup.fail(cause);
    }
}

impl ArchiveSearch<'_> {
    fn look_up(&self, split: &SplitBinary, wrappers: &[usize], lookup: &mut Lookup) -> Result<(), Cause> {
        let mut last: Option<(Marker, Vec<ArchiveCandidate>)> = None;
        let mut missing = Vec::new();
        for &number in wrappers {
            let Some(wrapper) = split.wrappers.get(number) else { continue };
            let marker = marker(wrapper).map_err(|error| {
                lookup.evidence.saw(format!("wrapper {number} leads to no marker: {error}"));
                let again = "install the library again, and strip libraries before they are split (docs/tools.md)";
                let reason = format!("the library's marker, which names the archives, is damaged: {again}");
                Cause::new(CauseKind::MarkerDamaged, reason, None)
            })?;
            if last.as_ref().is_none_or(|(before, _)| *before != marker) {
                let candidates = self.candidates(&marker, lookup);
                last = Some((marker.clone(), candidates));
            }
            let Some((_, candidates)) = &last else { continue };
            let key = toc_key(&marker.kernel_name, to_usize(wrapper.index & 0xffff_ffff));
            let Some((path, open, target)) = self.find(candidates, &key) else {
                missing.push((number, key));
                continue;
            };
            // Of most code objects only the headers are read here. `verify` reads all.
            let read = self.read(open, &key, &target, lookup.with_code == 0).map_err(|error| {
                let tried = TriedArchives { paths: vec![path], unfit: Some(path) };
                let of_packages = self.question.installed.cause(self.file, self.device, &tried, &mut lookup.evidence);
                let reason = format!("{} is damaged: {key} for {target}: {error}", path.display());
                Cause::new(CauseKind::ArchiveDamaged, reason, of_packages.and_then(|cause| cause.command))
            })?;
            let damage = read.map(|reason| format!("{}: {key} for {target}: {reason}", path.display()));
            lookup.damage = lookup.damage.take().or(damage);
            lookup.with_code += 1;
        }
        lookup.evidence.saw(format!("{} of {} bundles have code", lookup.with_code, lookup.wrappers));
        match (lookup.with_code, &last) {
            (0, Some((marker, candidates))) => {
                let first = missing.first().map(|(_, key)| key.as_str());
                Err(self
                    .archives_beside_link(marker, candidates, lookup)
                    .unwrap_or_else(|| self.cause(marker, candidates, first, lookup))
                    .with(self.unused_prefix().as_deref()))
            }
            (_, Some((marker, _))) if !missing.is_empty() => {
                lookup.without_code = self.held_for_others(marker, missing);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The wrappers whose code archives have for other GPUs. The others have no kernels.
    fn held_for_others(&self, marker: &Marker, missing: Vec<(usize, String)>) -> Vec<usize> {
        let nearby = nearby_archives(marker, self.file).paths.into_iter().map(|path| self.candidate(path));
        let nearby: Vec<_> = nearby.collect();
        let open = || nearby.iter().filter_map(ArchiveCandidate::archive);
        let holds = |archive: &Archive<ArchiveFile>, key: &str| {
            archive.targets().iter().any(|target| archive.find(key, target).is_ok_and(|found| found.is_some()))
        };
        let missing = missing.into_iter().filter(|(_, key)| open().any(|archive| holds(archive, key)));
        missing.map(|(number, _)| number).collect()
    }

    /// Why `ROCM_KPACK_PATH_PREFIX` does not help.
    fn unused_prefix(&self) -> Option<String> {
        let why = kpack_path::misnamed(&self.environment.path_prefix)?;
        Some(format!("; ROCM_KPACK_PATH_PREFIX does not help: {why}"))
    }

    /// Reads a code object, in pieces if it `is_whole`, since it may be larger than the memory, or else its headers. Returns why
    /// nothing can load it, as far as these show it. Fails if it cannot be read, or is other code.
    fn read(
        &self,
        OpenArchive { archive, content }: &OpenArchive,
        key: &str,
        target: &str,
        is_whole: bool,
    ) -> Result<Option<String>, Error> {
        let Some(entry) = archive.find(key, target)? else { return Ok(None) };
        let mut header = Vec::new();
        if is_whole {
            read_entry(content, archive, &entry, &self.question.resources.budget, |piece| {
                header.extend(piece.iter().take(CODE_BEGINNING.saturating_sub(header.len())));
                Ok(())
            })?;
        } else {
            let object = stored_object(content, archive, &entry, key, &self.question.resources)?;
            header =
                object.content().beginning(CODE_BEGINNING).map_err(|error| Error::Read(io::Error::other(error)))?;
        }
        let damage = damage_by_beginning(&header, entry.original_size);
        let other = target.parse().ok().and_then(|target| code_problem(&header, &target));
        let other = other.filter(|_| damage.is_none());
        other.map_or(Ok(damage), |other| Err(Error::Read(io::Error::other(other))))
    }

    /// The archive in which a runtime finds a code object, and the target for which it does.
    fn find<'a>(&self, candidates: &'a [ArchiveCandidate], key: &str) -> Option<(&'a Path, &'a OpenArchive, String)> {
        let open: Vec<_> = candidates.iter().filter_map(|it| Some((&*it.path, it.open()?))).collect();
        let offers = |(_, open): (&Path, &OpenArchive), target: &str| open.archive.offers(target);
        let mut steps = search::steps(&self.targets, &open, offers);
        let holds = |open: &OpenArchive, target| open.archive.find(key, target).is_ok_and(|found| found.is_some());
        let ((path, open), target) = steps.find(|((_, open), target)| holds(open, target))?;
        Some((path, open, target.to_owned()))
    }

    fn candidate(&self, path: PathBuf) -> ArchiveCandidate {
        let Some(place) = self.file.found_at(&path) else {
            return ArchiveCandidate { path, state: SplitState::Absent };
        };
        let opened = ArchiveFile::open(&place).and_then(Archive::open).and_then(|archive| {
            archive.index()?;
            let content = open_file(&place, &self.question.resources);
            let content = content.map_err(|error| Error::Read(io::Error::other(error)))?;
            Ok(OpenArchive { archive, content })
        });
        let state = match opened {
            Ok(open) => SplitState::Open(Box::new(open)),
            Err(Error::FileNotFound) => SplitState::Absent,
            Err(Error::Read(error)) if error.kind() == ErrorKind::PermissionDenied => SplitState::Denied,
            Err(error) => SplitState::Broken(error.to_string()),
        };
        ArchiveCandidate { path, state }
    }

    /// The archives that a runtime tries, without duplicates.
    fn candidates(&self, marker: &Marker, lookup: &mut Lookup) -> Vec<ArchiveCandidate> {
        lookup.evidence.saw(format!(
            "it is known there as {}, and names {}",
            marker.kernel_name,
            marker.kpack_search_paths.join(", ")
        ));
        for (name, is_set) in [
            ("ROCM_KPACK_PATH", !self.environment.path.is_empty()),
            ("ROCM_KPACK_PATH_PREFIX", !self.environment.path_prefix.is_empty()),
        ] {
            if is_set {
                lookup.evidence.saw(format!("{name} is set"));
            }
        }
        let mut seen = BTreeSet::new();
        let paths =
            self.environment.archive_paths(&marker.kpack_search_paths, &self.file.path, &self.targets).into_iter();
        let candidates: Vec<_> =
            paths.filter(|path| seen.insert(path.clone())).map(|path| self.candidate(path)).collect();
        let is_alike = |one: &ArchiveCandidate, next: &ArchiveCandidate| {
            let are_absent = [one, next].iter().all(|it| matches!(it.state, SplitState::Absent));
            are_absent && one.path.parent() == next.path.parent()
        };
        for alike in candidates.chunk_by(is_alike) {
            let [candidate, others @ ..] = alike else { continue };
            let others = others.iter().filter_map(|it| Some(format!(", {}", it.path.file_name()?.display())));
            let others = others.collect::<String>();
            let state = match &candidate.state {
                SplitState::Absent => "not there".to_owned(),
                SplitState::Denied => "it may not be read".to_owned(),
                SplitState::Broken(error) => error.clone(),
                SplitState::Open(open) => {
                    let archive = &open.archive;
                    let group = archive.toc().map_or_else(|_| "?".to_owned(), |toc| toc.group_name);
                    format!("an archive of {group} for {}", archive.targets().join(", "))
                }
            };
            lookup.evidence.saw(format!("{}{others}: {state}", candidate.path.display()));
        }
        candidates
    }

    /// The cause of a library that is installed by a symlink: its archives are next to the symlink.
    fn archives_beside_link(
        &self,
        marker: &Marker,
        candidates: &[ArchiveCandidate],
        lookup: &mut Lookup,
    ) -> Option<Cause> {
        let tried: BTreeSet<_> = candidates.iter().filter_map(|it| it.path.canonicalize().ok()).collect();
        let beside = |link: &PathBuf| {
            let paths =
                Environment::default().archive_paths(&marker.kpack_search_paths, link, &self.targets).into_iter();
            let archives = paths
                .map(|path| self.candidate(path))
                .filter_map(|it| Some((it.archive()?.targets().to_vec(), it.path)));
            let fitting = archives.filter(|(offered, _)| self.targets.iter().any(|target| offered.contains(target)));
            let fitting: BTreeSet<_> =
                fitting.filter_map(|(_, path)| path.canonicalize().ok()).filter(|it| !tried.contains(it)).collect();
            (!fitting.is_empty()).then(|| (link.clone(), fitting))
        };
        let (link, archives) = self.file.links.iter().filter(|_| self.environment.path.is_empty()).find_map(beside)?;
        lookup.evidence.saw(format!("{} leads to the library", link.display()));
        lookup.evidence.follows(installed::NEXT_TO_FILE);
        let reason = format!(
            "{} is a symlink to it, with archives next to the symlink, where no runtime looks for them; install copies \
             (uv: --link-mode copy), or name the archives in ROCM_KPACK_PATH",
            link.display()
        );
        Some(Cause::new(CauseKind::LinkedLibrary, reason, Some(kpack_path::export(&archives))))
    }

    /// Why none of the archives has code.
    fn cause(&self, marker: &Marker, candidates: &[ArchiveCandidate], key: Option<&str>, lookup: &mut Lookup) -> Cause {
        let (path, device) = (&*self.file.path, self.device);
        if !self.environment.path.is_empty() {
            let why = kpack_path::misnamed(&self.environment.path).map(|why| format!(": {why}")).unwrap_or_default();
            let reason = format!(
                "ROCM_KPACK_PATH is set, so only the archives that it names are tried, and none of them fits{why}"
            );
            return Cause::new(CauseKind::ArchivesNamed, reason, Some("unset ROCM_KPACK_PATH".to_owned()));
        }
        let mut denied = candidates.iter().filter(|it| matches!(it.state, SplitState::Denied));
        if let Some(place) = denied.find_map(|it| self.file.found_at(&it.path)) {
            let denied = Problem::denied(&place);
            return Cause::new(CauseKind::ArchiveDenied, denied.reason, denied.command);
        }
        let of_marker =
            candidates.iter().filter(|it| !self.environment.path_prefix.contains(&it.path) || it.path.is_file());
        let broken = of_marker.into_iter().find_map(|it| match &it.state {
            SplitState::Broken(error) => Some((&it.path, format!("{} is damaged: {error}", it.path.display()))),
            _ => None,
        });
        let offering =
            candidates.iter().find(|it| it.archive().is_some_and(|it| self.targets.iter().any(|name| it.offers(name))));
        let unfit = candidates.iter().find(|it| it.open().is_some());
        let tried = TriedArchives {
            paths: candidates.iter().map(|it| &*it.path).collect(),
            unfit: broken.as_ref().map(|it| it.0.as_path()).or(unfit.map(|it| &*it.path)),
        };
        let of_packages = self.question.installed.cause(self.file, device, &tried, &mut lookup.evidence);
        let command = of_packages.as_ref().and_then(|cause| cause.command.clone());
        if let Some((_, reason)) = broken {
            return Cause::new(CauseKind::ArchiveDamaged, reason, command);
        }
        if let Some(offering) = offering {
            let known = of_packages.filter(|cause| cause.kind == CauseKind::PackageVersion);
            return known.unwrap_or_else(|| {
                self.question.installed.lacking_key(path, &offering.path, key.unwrap_or("it"), command)
            });
        }
        if let Some(unfit) = unfit {
            let names = unfit.archive().map(|archive| archive.targets().join(", ")).unwrap_or_default();
            let reason = format!("{} is an archive for {names}", unfit.path.display());
            return Cause::new(CauseKind::ArchiveUnfit, reason, command);
        }
        if let Some(of_part) = part::cause(path, device) {
            return of_part;
        }
        self.cause_of_names(&nearby_archives(marker, self.file), of_packages)
    }

    /// Why none of the `existing` archives is tried, by the targets in their names.
    fn cause_of_names(&self, existing: &NearbyArchives, of_packages: Option<Cause>) -> Cause {
        let device = self.device;
        // Earlier versions named archives after modes that target IDs cannot name.
        if let Some(code) = existing.targets.iter().find(|code| device.candidates().contains(code)) {
            let reason =
                format!("there is an archive for {code}, but no runtime looks for its name; split the library again");
            return Cause::new(CauseKind::ArchiveName, reason, None);
        }
        if let Some(cause) = device::cause(device, &existing.targets.iter().collect()) {
            return cause;
        }
        let names: Vec<_> = existing.targets.iter().map(ToString::to_string).collect();
        let beside = match (names.as_slice(), existing.others.as_slice()) {
            ([], []) => "there are no archives where the library looks for them: no device package is installed, or the library \
                         is a copy whose archives are elsewhere"
                .to_owned(),
            ([], others) => format!(
                "the marker names archives that are not there; the directory has {} only, to which the marker does not lead",
                others.join(", ")
            ),
            (names, _) => format!("there are archives for {} only", names.join(", ")),
        };
        of_packages.unwrap_or_else(|| Cause::new(CauseKind::ArchivesNone, beside, None))
    }
}

fn marker(wrapper: &SplitWrapper) -> Result<Marker, String> {
    let bytes = wrapper.marker.as_ref().map_err(ToString::to_string)?;
    let marker = Marker::decode(bytes).map_err(|error| error.to_string())?;
    if marker.kernel_name.is_empty() || marker.kpack_search_paths.is_empty() {
        return Err("it names no library or no search path".to_owned());
    }
    Ok(marker)
}

impl ArchiveCandidate {
    fn open(&self) -> Option<&OpenArchive> {
        let SplitState::Open(open) = &self.state else { return None };
        Some(open)
    }

    fn archive(&self) -> Option<&Archive<ArchiveFile>> {
        self.open().map(|open| &open.archive)
    }
}
