//! Checks what host and device distributions install: libraries find code, and archives and databases belong there.

use std::collections::HashSet;
use std::sync::Arc;

use super::context::Context;
use super::distributions::{Distribution, Role};
use super::lookup::OverlaidArchive;
use super::parts::{Part, Parts, PartsKind};
use super::report::enumerate;
use super::rules::Rule;
use super::separation::elsewhere;
use super::stated::StatedPart;
use super::without_code::{LookupResults, Unreached, note_without_code};
use crate::collect::is_collected;
use crate::gpu::BundleKey;
use crate::loader::DOT_KPACK;
use crate::source::EntryPath;
use crate::wheel::part_in;

/// Checks that there is code for each distribution, or for the whole input if no distribution is a host part. An
/// installation for one GPU need not have code for every binary, but must have some for one of them.
///
/// A split states of which GPUs it has databases only, and so do the manifests of device parts. A fat input, if it is
/// `compared`, shows what code there has to be.
pub(super) fn check_code(
    context: &Context<'_>,
    stated: &[StatedPart<'_>],
    code: &LookupResults<'_>,
    is_compared: bool,
) {
    const REASON: &str = "no archive has code for any of its split binaries";
    let Context { parts, distributions, findings, .. } = *context;
    if !parts.kind.is_partial() {
        return;
    }
    // A host part may have been written without device parts on purpose.
    let is_host_only =
        parts.all.len() == 1 && parts.statement.as_ref().is_some_and(|it| !it.statement.views.is_empty());
    if parts.kind == PartsKind::Partial && is_host_only {
        return;
    }
    let mut rest = code.without_code.clone();
    let mut unreached = code.unreached.clone();
    for host in distributions.iter().filter(|it| it.role == Role::Host) {
        let named: HashSet<_> = host.recorded().collect();
        let is_own = |path: &&EntryPath| named.contains(*path);
        // The parts of some GPUs are databases only.
        let is_here = |it: &&Distribution<'_>| is_here(parts, it);
        let devices = distributions.iter().filter(|it| it.role == Role::Device && it.belongs_to(host));
        let mut devices = devices.filter(is_here).peekable();
        let has_no_archives = devices.peek().is_some() && devices.all(|it| it.lists_archives() == Some(false));
        if !code.with_code.iter().any(is_own) && code.without_code.iter().any(is_own) && !has_no_archives {
            findings.add(Rule::NoCode, host.label(), REASON);
            unreached.retain(|path, _| !is_own(path));
        }
        rest.retain(|path| !is_own(path));
    }
    let place = parts.environment.as_deref().unwrap_or_else(|| parts.location());
    let is_without_code = |view: &String| place.ends_with(view);
    let without_code = parts.statement.as_ref().map(|located| &located.statement.without_code);
    if without_code.is_some_and(|views| views.iter().any(is_without_code)) {
        return;
    }
    let lacks_all = code.with_code.is_empty() && !rest.is_empty() && !is_compared;
    if lacks_all && !context.have_databases_only(stated) && !rest.iter().all(|path| reaches_outer(context, path)) {
        let place = parts.all.first().map(|part| part.input.location.display().to_string());
        findings.add(Rule::NoCode, place.unwrap_or_default(), REASON);
        return;
    }
    // Libraries of a package share their archives. Elsewhere, those without code for the GPUs have none.
    let has_devices = distributions.iter().any(|it| it.role == Role::Device);
    for path in &code.without_code {
        let label = parts.label(0, path);
        match unreached.get(path) {
            Some(Unreached::Misplaced) => {
                let reason = "no archive is where its marker leads, and it is not where its marker expects it";
                findings.add(Rule::NoArchive, label, reason);
            }
            Some(Unreached::OtherArchives) if has_devices => {
                findings.add(Rule::NoArchive, label, "no archive there has a name that its marker asks for");
            }
            None if context.archives.list.iter().any(|archive| has_code_for(archive, path)) => {
                let reason = "its marker asks for another name than that under which an archive has its code";
                findings.add(Rule::NoCode, label, reason);
            }
            _ => note_without_code(&label, findings),
        }
    }
}

/// Whether a split binary finds archives of the environment, which may have the code of other directories of packages only.
fn reaches_outer(context: &Context<'_>, path: &EntryPath) -> bool {
    let Some((outer, wrappers)) = context.parts.outer.as_ref().zip(context.binaries.split.get(path)) else {
        return false;
    };
    let directory = path.parent().unwrap_or_else(EntryPath::root);
    wrappers.iter().flatten().any(|request| outer.are_reached(&directory, &request.marker))
}

/// Whether an archive has code under the path of a binary, for which no wrapper asks.
fn has_code_for(archive: &OverlaidArchive, path: &EntryPath) -> bool {
    let path = path.to_string();
    let is_its_name = |name: &str| path.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    archive.orphans().iter().any(|key| key.rsplit_once('#').is_some_and(|(name, _)| is_its_name(name)))
}

/// Whether anything of a device distribution is in a tree. A view of an installation that was split has the dist-info of
/// all of them.
fn is_here(parts: &Parts, device: &Distribution<'_>) -> bool {
    parts.statement.is_none() || device.recorded_payload().any(|path| device.part.input.entry(&path).is_some())
}

/// Checks that device distributions of an installation contain code of their own GPU only, and any code.
pub(super) fn check_payload(context: &Context<'_>) {
    let Context { parts, archives, distributions, findings, .. } = *context;
    if parts.kind != PartsKind::Installation {
        return;
    }
    let packaging = parts.packaging();
    for device in distributions.iter().filter(|it| it.role == Role::Device) {
        if device.record.is_some() && !device.installs_anything() {
            findings.add(Rule::DeviceEmpty, device.label(), "it installs no archive and no file of a database");
        }
        let own = device.name().and_then(|(name, _)| part_in(&name)).filter(BundleKey::is_known);
        let Some(own) = own else { continue };
        let say = |path: &EntryPath, arch: String, belongs: BundleKey| {
            // Other tools put the code of a whole family into one distribution.
            if !belongs.packaging_chain().contains(&own) {
                findings.add(Rule::WrongPart, device.part.label(path), elsewhere(&arch, &belongs, &own));
            }
        };
        let named: HashSet<_> = device.recorded_payload().collect();
        for (path, found) in named.iter().filter_map(|path| Some((path, device.part.databases.classify(path)?))) {
            say(path, found.arch.to_string(), packaging.key_of_database(&found.arch));
        }
        for archive in archives.list.iter().filter(|it| it.part == device.number && named.contains(&it.path)) {
            for target in archive.offered() {
                say(&archive.path, target.to_string(), packaging.key_of(&target));
            }
        }
    }
}

/// Checks that markers lead to all archives of device parts and device distributions, and that wrappers ask for all that is in
/// archives. Those of other packages may have other uses.
pub(super) fn check_archives(context: &Context<'_>) {
    let Context { parts, archives, distributions, choices, findings, .. } = *context;
    let is_installation = parts.kind == PartsKind::Installation;
    // A missing host part is the cause, and has been reported.
    let lacks_host =
        distributions.iter().any(Distribution::is_of_split) && !distributions.iter().any(|it| it.role == Role::Host);
    if parts.kind == PartsKind::Fragment || is_installation && lacks_host {
        return;
    }
    let devices = distributions.iter().filter(|it| it.role == Role::Device);
    let named: HashSet<_> = devices.flat_map(Distribution::recorded).collect();
    let is_tree = is_tree_alone(parts);
    for archive in &archives.list {
        let is_of_device = if is_installation { named.contains(&archive.path) } else { archive.part > 0 };
        if !archive.is_reached() {
            // A database may have its code in archives, which its library opens by itself.
            if is_of_device && choices.databases.classify(&archive.path).is_none() {
                findings.add(Rule::OrphanArchive, archive.label.as_str(), "no marker leads to it");
            }
            continue;
        }
        let Some(part) = parts.all.get(archive.part) else { continue };
        // A split and a package contain all of their binaries, and so does a view.
        let is_whole = !is_installation || is_of_device || is_tree && is_of_view(&archive.path);
        let mut orphans = if is_whole { archive.orphans() } else { archive.orphans_of_existing(&part.input) };
        orphans.retain(|name| !archive.is_left_out(name, parts));
        if !orphans.is_empty() {
            let reason = format!("no wrapper asks for {}", enumerate(&orphans));
            findings.add(Rule::OrphanEntry, archive.label.as_str(), reason);
        }
    }
}

/// Whether no packages are in a tree, at any depth, so that it may be a view. Collections, and what is around directories of
/// packages, may have some of the binaries in their archives.
fn is_tree_alone(parts: &Parts) -> bool {
    let has_packages = |part: &Arc<Part>| part.input.entries.iter().any(|it| it.path.name().ends_with(b".dist-info"));
    !parts.is_rest && !parts.all.iter().any(|part| is_collected(&part.input) || has_packages(part))
}

/// Whether an archive has the place and the name of those in a view of a tree: `.kpack/rocm_TARGET.kpack`. Other tools may install
/// some of the packages that share an archive.
fn is_of_view(archive: &EntryPath) -> bool {
    archive.directory() == DOT_KPACK.as_bytes() && archive.name().starts_with(b"rocm_gfx")
}
