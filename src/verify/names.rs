//! The names of distributions: in METADATA, in the names of their directories, and each once in a place.

use std::collections::BTreeMap;

use super::distributions::{Distribution, named_by};
use super::report::{Findings, enumerate};
use super::rules::Rule;
use crate::wheel::{WheelName, accepts, normalise};

/// Reports distributions of a split that are installed twice in one place. Python and installers see one of them.
pub(super) fn check_twice(distributions: &[Distribution<'_>], findings: &Findings) {
    let mut found = BTreeMap::<(usize, String), Vec<&Distribution<'_>>>::new();
    for it in distributions {
        if let Some((name, _)) = it.name() {
            found.entry((it.number, name)).or_default().push(it);
        }
    }
    let twice = found.into_iter().filter(|(_, all)| all.len() > 1 && all.iter().any(|it| it.is_of_split()));
    for ((_, name), all) in twice {
        let labels: Vec<_> = all.iter().skip(1).map(|it| it.directory.to_string()).collect();
        let first = all.first().map(|it| it.label()).unwrap_or_default();
        findings.add(Rule::DistributionTwice, first, format!("{name} is also installed as {}", enumerate(&labels)));
    }
}

/// Reports distributions of a split whose METADATA has another name or version than their directory or wheel. Installers go by
/// one or by the other ("Recording installed projects"), and refuse such wheels.
pub(super) fn check_directories(distributions: &[Distribution<'_>], findings: &Findings) {
    // pip renames a directory so that it is ignored (`~orch-…`), and leaves it if it is interrupted.
    let is_left = |it: &Distribution<'_>| it.directory.name().starts_with(b"~");
    for it in distributions.iter().filter(|it| it.is_of_split() && !is_left(it)) {
        let Some((name, version)) = it.metadata.as_ref().and_then(|_| it.name()) else { continue };
        let of_directory = named_by(&it.directory).map(|(named, version)| ("directory", named, version.to_owned()));
        let file = it.part.input.location.file_name().and_then(|file| file.to_str());
        let of_wheel = file.and_then(|file| WheelName::parse(file).ok());
        let of_wheel = of_wheel.map(|wheel| ("file", normalise(&wheel.distribution), wheel.version));
        let mut named = of_directory.into_iter().chain(of_wheel);
        let other = named.find(|(_, named, of_name)| *named != name || !accepts(of_name, version));
        if let Some((place, named, of_name)) = other {
            let reason = format!(
                "the name of its {place} is that of {named} {of_name}, and its METADATA that of {name} {version}"
            );
            findings.add(Rule::DistributionName, it.label(), reason);
        }
    }
}
