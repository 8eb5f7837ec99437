//! Which of several directories and wheels belong together. What they hold tells it, so that their order does not matter.

use std::path::PathBuf;
use std::sync::Arc;

use super::VerifyError;
use super::lookup::is_archive;
use super::report::{Check, Findings};
use super::subject::{Kind, Part, Parts, begins_binary};
use crate::database::Databases;
use crate::index::Resources;
use crate::rope::Content;
use crate::wheel::{Metadata, normalise};

/// A directory or wheel, and what it says about itself.
struct Candidate {
    part: Arc<Part>,
    /// METADATA, if it is a wheel.
    metadata: Option<Metadata>,
}

/// Gives each host part together with its device parts. What has no device parts stands for itself.
pub(super) fn arrange(
    paths: &[PathBuf],
    resources: &Arc<Resources>,
    findings: &Findings,
) -> Result<Vec<Parts>, VerifyError> {
    let mut parts = Vec::new();
    for path in paths {
        parts.push(Part::open(path, path.display().to_string(), resources)?);
    }
    parts.sort_by(|one, other| (&one.input.location, &one.label).cmp(&(&other.input.location, &other.label)));
    parts.dedup_by(|one, other| one.input.location == other.input.location);
    let candidates = parts.into_iter().map(|part| {
        let metadata = Metadata::read(&part.input).ok();
        Candidate { part: Arc::new(part), metadata }
    });
    let databases = Databases::all();
    let (devices, hosts): (Vec<_>, Vec<_>) = candidates.partition(|candidate| is_device(&candidate.part, &databases));
    let mut groups: Vec<_> = hosts.iter().map(|host| vec![Arc::clone(&host.part)]).collect();
    let mut alone = Vec::new();
    for device in &devices {
        // A variant wheel is the host wheel once more, so that there may be several.
        let theirs: Vec<_> = groups.iter_mut().zip(&hosts).filter(|(_, host)| device.belongs_to(host)).collect();
        if theirs.is_empty() {
            let pins: Vec<_> = device.pins().map(|(name, version)| format!("{name}=={version}")).collect();
            let host = if pins.is_empty() { "a host part".to_owned() } else { pins.join(", ") };
            findings.add(
                Check::Separation,
                device.part.label.as_str(),
                format!("it belongs to {host}, which is not among what is verified"),
            );
            alone.push(vec![Arc::clone(&device.part)]);
        }
        for (group, _) in theirs {
            group.push(Arc::clone(&device.part));
        }
    }
    groups.extend(alone);
    let kind = |group: &Vec<_>| if group.len() > 1 { Kind::Split } else { Kind::Installation };
    Ok(groups.into_iter().map(|group| Parts::new(kind(&group), group)).collect())
}

impl Candidate {
    fn pins(&self) -> impl Iterator<Item = (String, &str)> {
        self.metadata.iter().flat_map(Metadata::pins)
    }

    /// Whether this device part goes with a host part. Device wheels require their host wheel in its version; what does
    /// not say where it belongs, such as a part of a tree, belongs to whatever it is named with.
    fn belongs_to(&self, host: &Self) -> bool {
        let Some(host) = host.metadata.as_ref().filter(|_| self.pins().next().is_some()) else { return true };
        // Separators of a local version may be written in three ways (PEP 440).
        let wanted = (normalise(&host.name), normalise(&host.version));
        self.pins().any(|(name, version)| (name, normalise(version)) == wanted)
    }
}

/// Whether a part holds archives or databases, and no other code. A host part that still has databases has binaries, too.
fn is_device(part: &Part, databases: &Databases) -> bool {
    let files = part.files().filter(|(path, _)| !Part::is_metadata(path));
    let (device, others): (Vec<_>, Vec<_>) =
        files.partition(|(path, content)| is_archive(path, content) || databases.classify(path).is_some());
    !device.is_empty() && !others.into_iter().any(|(_, content)| is_binary(content))
}

fn is_binary(content: &Arc<dyn Content>) -> bool {
    let mut magic = [0; 4];
    content.size() >= 4 && content.peek(&mut magic).is_ok() && begins_binary(magic)
}
