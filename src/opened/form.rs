//! Recognising what the user named: the forms of inputs, in the order in which they are looked for, specific ones
//! before general ones.

use std::path::{Path, PathBuf};

use super::error::NotUnderstood;
use super::packed;
use super::place::Place;
use super::site::{Site, is_environment, sites_of};
use super::split::SplitDirectory;
use super::tarred::TarredForm;
use super::wheels::WheelDirectory;
use crate::artifact::{FoundArtifacts, is_packed_artifact};
use crate::fatbin::{is_bundle, is_code};
use crate::image::{ImageReference, LayoutForm, is_layout};
use crate::kpack;
use crate::remote::is_url;
use crate::source::{DirectoryListing, SourceError, TarCompression, begins_binary, ends_as_zip, unknown};

/// What the user named.
#[derive(Debug)]
pub enum Named {
    /// An image in a layout on disk, a directory or a tar archive.
    Image(ImageReference),
    /// An artifact, or a directory of artifacts.
    Artifacts(FoundArtifacts),
    /// What `split` writes or a mount shows.
    Split(Box<SplitDirectory>),
    /// The directories of packages of an environment.
    Environment(Vec<Site>),
    /// A directory of wheels, or a package index.
    Wheels(WheelDirectory),
    /// Any other directory: an install tree, an unpacked wheel, a directory of packages, a view.
    Tree,
    /// A wheel.
    Wheel,
    /// A wheel on a server.
    Remote,
    /// A tar archive.
    Tar,
    /// A zip file that is no wheel by its name, perhaps behind other bytes.
    Zip,
    /// An ELF or PE file for a host.
    Binary,
    /// A `.kpack` archive.
    Archive,
    /// An offload bundle as a file.
    Bundle,
    /// A code object as a file.
    CodeObject,
}

/// A form of input.
pub struct FormRow {
    /// Its name.
    pub name: &'static str,
    /// What shows that an input has it.
    pub sign: &'static str,
    /// The commands that take it.
    pub commands: &'static str,
    /// A URL is recognised before, since it is no place.
    pub(super) recognise: fn(&Place) -> anyhow::Result<Option<Named>>,
}

/// The commands inspect, split, mount, index, collect, diff, why and verify.
const ALL: &str = "all";
const ALL_OF_PACKED: &str = "all; a packed split has to be unpacked first";

/// All forms. The first that fits is the answer.
pub static FORMS: [FormRow; 20] = [
    FormRow {
        name: "wheel on a server",
        sign: "https://HOST/…, or http://HOST/… with --allow-http",
        commands: "inspect, why, verify",
        recognise: |_| Ok(None),
    },
    FormRow {
        name: "OCI layout",
        sign: "a directory with the file oci-layout, or oci:DIR[:TAG]",
        commands: ALL,
        recognise: |place| {
            Ok((place.is_directory && is_layout(&place.path)).then(|| image(place, LayoutForm::Directory)))
        },
    },
    FormRow {
        name: "artifacts",
        sign: "artifact_manifest.txt in the directory or in those below it, or in a tar archive named <component>_<family>",
        commands: "all; split and mount take those that are not split yet",
        recognise: artifacts,
    },
    FormRow {
        name: "pieces of a collection",
        sign: "the directory common with .kpackfs/collect.json next to those of GPUs, as `collect --shared` writes them",
        commands: "none; the message says what is put together",
        recognise: |place| packed::of_directory(place).map(|()| None),
    },
    FormRow {
        name: "output of split, or a mount",
        sign: "directories named host, merged, thin or after GPUs, and .kpackfs/split.json",
        commands: "all; of thin wheels, split and mount take one of them",
        recognise: split,
    },
    FormRow { name: "environment", sign: "pyvenv.cfg or conda-meta/", commands: ALL, recognise: environment },
    FormRow {
        name: "package index",
        sign: "pages named index.html of the index and of its projects",
        commands: ALL,
        recognise: index,
    },
    FormRow { name: "directory of wheels", sign: "*.whl, and nothing of a tree", commands: ALL, recognise: wheels },
    FormRow {
        name: "site with .pth files",
        sign: "*.pth that add further directories of packages",
        commands: ALL,
        recognise: added_sites,
    },
    FormRow {
        name: "directory of tar archives",
        sign: "tar archives that are no artifacts, in any other directory",
        commands: ALL,
        recognise: |place| Ok(place.artifacts()?.cloned().map(Named::Artifacts)),
    },
    FormRow { name: "tree", sign: "any other directory", commands: ALL, recognise: tree },
    FormRow { name: "wheel", sign: "a file named *.whl", commands: ALL, recognise: wheel },
    FormRow {
        name: "archive",
        sign: "the first bytes of a .kpack archive, or that name",
        commands: "why, verify, kpack",
        recognise: archive,
    },
    FormRow { name: "code object", sign: "an ELF file for AMDGPU", commands: ALL, recognise: code_object },
    FormRow { name: "bundle", sign: "the first bytes of an offload bundle", commands: "why, kpack", recognise: bundle },
    FormRow { name: "binary", sign: "the first bytes of ELF or PE", commands: ALL, recognise: binary },
    FormRow {
        name: "package of another kind",
        sign: "the first bytes of deb, rpm, conda or ar, the members of an sdist or a docker archive, or a compressed file that is no tar archive",
        commands: "none; the message names the command that unpacks it",
        recognise: |place| packed::of_file(place).map(|()| None),
    },
    FormRow {
        name: "tarred OCI layout",
        sign: "a tar archive with oci-layout and index.json, or oci-archive:FILE[:TAG]",
        commands: ALL,
        recognise: tarred_layout,
    },
    FormRow {
        name: "zip file",
        sign: "the first bytes of a zip file, or its end behind others",
        commands: ALL_OF_PACKED,
        recognise: zip,
    },
    FormRow { name: "tar archive", sign: "a header of tar, gzip, zstd or xz", commands: ALL_OF_PACKED, recognise: tar },
];

fn image(place: &Place, form: LayoutForm) -> Named {
    Named::Image(ImageReference { layout: place.path.clone(), form, tag: None })
}

fn artifacts(place: &Place) -> anyhow::Result<Option<Named>> {
    if !place.is_directory {
        return Ok(is_packed_artifact(&place.path).then_some(Named::Artifacts(FoundArtifacts::One)));
    }
    Ok(place.artifacts()?.filter(|found| found.has_any()).cloned().map(Named::Artifacts))
}

fn split(place: &Place) -> anyhow::Result<Option<Named>> {
    let Some(listing) = place.listing()? else { return Ok(None) };
    let split = SplitDirectory::of(listing)?.filter(|split| split.is_proved);
    Ok(split.map(|split| Named::Split(Box::new(split))))
}

fn environment(place: &Place) -> anyhow::Result<Option<Named>> {
    let Some(listing) = place.listing()?.filter(|listing| is_environment(listing)) else { return Ok(None) };
    Ok(Some(Named::Environment(sites_of(listing)?)))
}

fn index(place: &Place) -> anyhow::Result<Option<Named>> {
    let Some(listing) = place.listing()? else { return Ok(None) };
    Ok(WheelDirectory::of_index(listing)?.map(Named::Wheels))
}

fn wheels(place: &Place) -> anyhow::Result<Option<Named>> {
    Ok(place.listing()?.and_then(WheelDirectory::of).map(Named::Wheels))
}

fn added_sites(place: &Place) -> anyhow::Result<Option<Named>> {
    let Some(listing) = place.listing()? else { return Ok(None) };
    if listing.files("pth").next().is_none() {
        return Ok(None);
    }
    Ok(Some(sites_of(listing)?).filter(|sites| !sites.is_empty()).map(Named::Environment))
}

#[expect(clippy::unnecessary_wraps, reason = "a row of the table")]
fn tree(place: &Place) -> anyhow::Result<Option<Named>> {
    Ok(place.is_directory.then_some(Named::Tree))
}

#[expect(clippy::unnecessary_wraps, reason = "a row of the table")]
fn wheel(place: &Place) -> anyhow::Result<Option<Named>> {
    Ok(place.has_extension("whl").then_some(Named::Wheel))
}

fn archive(place: &Place) -> anyhow::Result<Option<Named>> {
    let is_it = place.head()?.starts_with(kpack::MAGIC) || place.has_extension("kpack");
    Ok(is_it.then_some(Named::Archive))
}

fn code_object(place: &Place) -> anyhow::Result<Option<Named>> {
    Ok(is_code(place.head()?).then_some(Named::CodeObject))
}

fn bundle(place: &Place) -> anyhow::Result<Option<Named>> {
    Ok(is_bundle(place.head()?).then_some(Named::Bundle))
}

fn binary(place: &Place) -> anyhow::Result<Option<Named>> {
    Ok(begins_binary(place.head()?).then_some(Named::Binary))
}

fn tarred_layout(place: &Place) -> anyhow::Result<Option<Named>> {
    let is_it = place.tarred()? == Some(TarredForm::Layout(TarCompression::Plain));
    Ok(is_it.then(|| image(place, LayoutForm::Archive)))
}

fn zip(place: &Place) -> anyhow::Result<Option<Named>> {
    // A zip file may be the last member of a tar archive.
    let ends_as_one = || {
        Ok::<_, SourceError>(
            place.tarred()?.is_none() && ends_as_zip(&place.path).map_err(SourceError::at(&place.path))?,
        )
    };
    let is_it = !place.is_directory && (place.head()?.starts_with(b"PK") || ends_as_one()?);
    Ok(is_it.then_some(Named::Zip))
}

fn tar(place: &Place) -> anyhow::Result<Option<Named>> {
    Ok(place.tarred()?.map(|_| Named::Tar))
}

/// A path that the user named, and what it is.
#[derive(Debug)]
pub struct NamedPath {
    /// The path.
    pub path: PathBuf,
    /// What it is.
    pub named: Named,
}

/// Recognises each input of a command.
pub fn recognise_all(paths: &[PathBuf]) -> anyhow::Result<Vec<NamedPath>> {
    paths.iter().map(|path| NamedPath::of(path)).collect()
}

impl NamedPath {
    /// Recognises an input.
    pub fn of(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { path: path.to_owned(), named: recognise(path)? })
    }

    /// The artifacts, if it is one or contains some.
    pub fn artifacts(&self) -> Option<&FoundArtifacts> {
        match &self.named {
            Named::Artifacts(found) if found.has_any() => Some(found),
            _ => None,
        }
    }
}

/// The same for `verify`: a tree that has views among other things is a split, and it says what it does not check.
pub fn recognise_all_unproved(paths: &[PathBuf]) -> anyhow::Result<Vec<NamedPath>> {
    let mut all = recognise_all(paths)?;
    for NamedPath { path, named } in all.iter_mut().filter(|it| matches!(it.named, Named::Tree)) {
        if let Some(split) = SplitDirectory::of(&DirectoryListing::read(path)?)? {
            *named = Named::Split(Box::new(split));
        }
    }
    Ok(all)
}

/// Recognises an input by the first of the [`FORMS`] that fits. Reads names, statements and first bytes only.
pub fn recognise(path: &Path) -> anyhow::Result<Named> {
    if is_url(path) {
        return Ok(Named::Remote);
    }
    if let Some(image) = ImageReference::parse(path) {
        let place = Place::new(&image.layout).map_err(|error| match error.downcast_ref() {
            Some(NotUnderstood::NotThere(_)) if image.form == LayoutForm::Directory => {
                NotUnderstood::NotThere(path.to_owned()).into()
            }
            _ => error,
        })?;
        if image.form == LayoutForm::Archive {
            packed::of_tar(&place)?;
        }
        if image.form == LayoutForm::Directory && !is_layout(&place.path) {
            let what = "no layout of images, which has the file oci-layout";
            return Err(SourceError::UnknownKind { path: place.path, what }.into());
        }
        return Ok(Named::Image(image));
    }
    packed::of_reference(path)?;
    let place = Place::new(path)?;
    for form in &FORMS {
        if let Some(named) = (form.recognise)(&place)? {
            return Ok(named);
        }
    }
    Err(unknown(path).into())
}

#[cfg(test)]
mod tests {
    use super::FORMS;

    #[test]
    fn the_page_has_the_same_list() {
        let page = include_str!("../../docs/inputs.md");
        let (_, table) = page.split_once("|---|---|---|\n").unwrap();
        let listed: Vec<_> = table.lines().take_while(|line| line.starts_with('|')).collect();
        let row = |form: &super::FormRow| {
            format!("| {} | {} | {} |", form.name, form.sign.replace('<', "\\<"), form.commands)
        };
        assert_eq!(listed, FORMS.iter().map(row).collect::<Vec<_>>());
    }
}
