//! Package indexes in a tree: the wheels of one or several inputs, their METADATA, and pages about them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use super::layout::below;
use super::made_time::MadeTime;
use super::report::fixed;
use super::thin_wheels::{METADATA, ThinWheelOfView};
use crate::disk;
use crate::index::{Index, RecordKind};
use crate::memory::Parser;
use crate::rope::{Content, Identity};
use crate::simple::{IndexedWheel, PackageIndex, WheelSums};
use crate::source::{Attributes, EntryPath, Input, InputKind};
use crate::split::{SIMPLE, SIMPLE_THIN, WHEELS};
use crate::tree::{Body, NodeKind, Origin, OriginKind, ROOT, Tree, TreeError};
use crate::wheel::{GPG, Metadata, WheelError, WheelName, signatures_of, unusable_signatures};
use crate::wheelparts::{WheelBody, WheelPart, WheelSet};

/// A wheel that an index lists.
#[derive(Clone, Debug)]
pub struct ListedWheel {
    /// What the pages say about it.
    pub indexed: IndexedWheel,
    pub(crate) body: Body,
    metadata: Arc<dyn Content>,
    /// Its attestations and signatures.
    signatures: Vec<Signature>,
    attributes: Attributes,
    origin: OriginKind,
    /// The time of made files of a mount; see [`Tree::date`].
    made: Option<i64>,
    /// Its size and digest are recorded under this.
    identity: Option<Identity>,
}

impl ListedWheel {
    /// The wheels of a split, except the fat one: an installer could not tell that from the host wheel.
    pub fn of_split(input: &Input, wheels: &WheelSet) -> anyhow::Result<Vec<Self>> {
        let listed = |part: &Arc<WheelPart>| {
            let name = part.file_name()?;
            let metadata = part.dist_info.iter().find(|file| file.path.name() == METADATA);
            let metadata = metadata.map(|file| Arc::clone(&file.digest.content));
            let body = Body::Made(Arc::new(WheelBody(Arc::clone(part))));
            let identity = wheels.identity(&name);
            Self::made(&name, input, metadata, body, wheels.readers, identity)
        };
        wheels.hosts.iter().chain(wheels.devices.values()).map(listed).collect()
    }

    /// A thin wheel of a split.
    pub fn thin(input: &Input, wheels: &WheelSet, thin: &ThinWheelOfView) -> anyhow::Result<Self> {
        let name = thin.file_name()?;
        let identity = wheels.identity(&format!("{} {name}", thin.gpus));
        Self::made(&name, input, thin.metadata()?, thin.body(), wheels.readers, identity)
    }

    /// A wheel as it is.
    pub fn whole(input: &Input) -> anyhow::Result<Self> {
        let (InputKind::Wheel(dist_info), Some(content)) = (&input.kind, &input.file) else {
            return Err(WheelError::NotAWheel.into());
        };
        let name = input.location.file_name().unwrap_or_default().to_string_lossy();
        let mut indexed = IndexedWheel::new(WheelName::parse(&name)?, &Metadata::read(input)?, &input.location);
        let signatures = signatures(&input.location)?;
        indexed.has_gpg_signature = signatures.iter().any(|signature| signature.suffix == GPG);
        let metadata = input.content(&dist_info.child(METADATA)).cloned().ok_or(WheelError::NotAWheel)?;
        let identity = content.identity().map(|of| Identity::describe("whole wheel").add(&of.0).finish());
        let (body, origin) = (Body::Ready(Arc::clone(content)), OriginKind::Unchanged);
        let attributes = Attributes { mode: 0o644, ..file_attributes(&input.location)? };
        Ok(Self { indexed, body, metadata, signatures, attributes, origin, made: None, identity })
    }

    fn made(
        name: &str,
        input: &Input,
        metadata: Option<Arc<dyn Content>>,
        body: Body,
        attributes: Attributes,
        identity: Option<Identity>,
    ) -> anyhow::Result<Self> {
        let metadata = metadata.ok_or(WheelError::NotAWheel)?;
        let indexed = IndexedWheel::new(WheelName::parse(name)?, &Metadata::of_file(&*metadata)?, &input.location);
        let (signatures, origin) = (Vec::new(), OriginKind::Wheel);
        Ok(Self { indexed, body, metadata, signatures, attributes, origin, made: None, identity })
    }

    /// The same, with the time of made files of a mount, in seconds since 1970.
    #[must_use]
    pub fn dated(self, seconds: i64) -> Self {
        Self { made: Some(seconds), ..self }
    }

    /// Why installers refuse it as it is, and which of its signatures are not listed.
    pub fn warnings(&self) -> Vec<String> {
        let input = &self.indexed.input;
        let refused = self.indexed.mismatch().map(|reason| format!("{}: {reason}", input.display()));
        let unusable = unusable_signatures(input).into_iter().map(|path| {
            format!(
                "{}: left out, since it is no file, or a symlink that leads out of its directory; put a copy there",
                path.display()
            )
        });
        refused.into_iter().chain(unusable).collect()
    }

    /// The file name.
    pub fn file_name(&self) -> String {
        self.indexed.name.to_string()
    }

    /// Sets size and digest, and records them for later sessions.
    pub fn put_sums(&mut self, sums: WheelSums, index: &Index) {
        self.indexed.sums = Some(sums);
        if let Some(identity) = &self.identity {
            index.put(RecordKind::Wheel, identity, &sums);
        }
    }

    fn insert(&self, tree: &mut Tree, path: &EntryPath) -> Result<(), TreeError> {
        let node = tree.insert(ROOT, path, self.attributes, NodeKind::file(self.body.clone()))?;
        tree.set_origin(node, Origin::made(self.origin));
        Ok(())
    }

    /// Sets the time of what was inserted for it.
    fn date(&self, tree: &mut Tree) {
        self.made.iter().for_each(|&seconds| tree.date(seconds));
    }
}

/// An attestation or a signature next to a wheel.
#[derive(Clone, Debug)]
struct Signature {
    suffix: &'static str,
    body: Body,
    attributes: Attributes,
}

/// The attestations and signatures next to a wheel. They are small, and do not change with the files.
fn signatures(wheel: &Path) -> anyhow::Result<Vec<Signature>> {
    let read = |(suffix, path): (_, PathBuf)| {
        let attributes = Attributes { mode: 0o644, ..file_attributes(&path)? };
        let bytes = disk::read(&path, Parser::Text).with_context(|| path.display().to_string())?;
        Ok(Signature { suffix, body: fixed(bytes.into_bytes()), attributes })
    };
    signatures_of(wheel).into_iter().map(read).collect()
}

/// The attributes of a file that an index has as it is.
fn file_attributes(path: &Path) -> anyhow::Result<Attributes> {
    let metadata = path.metadata().with_context(|| path.display().to_string())?;
    Ok(Attributes::of(&metadata))
}

/// The wheels of the indexes of a mount.
#[derive(Debug, Default)]
pub struct PackageIndexes {
    /// Those of parts, and those that are as they are.
    pub wheels: Vec<ListedWheel>,
    /// Thin ones, by the names of their views.
    thin: BTreeMap<String, Vec<ListedWheel>>,
    /// Those that are as they are, which each index has.
    whole: Vec<ListedWheel>,
}

impl PackageIndexes {
    /// Adds the wheels of a split, and thin ones, with the time of made files in seconds since 1970.
    pub fn add_split(
        &mut self,
        input: &Input,
        wheels: &WheelSet,
        thin: &[ThinWheelOfView],
        seconds: i64,
    ) -> anyhow::Result<()> {
        self.wheels.extend(ListedWheel::of_split(input, wheels)?.into_iter().map(|wheel| wheel.dated(seconds)));
        for wheel in thin {
            let listed = ListedWheel::thin(input, wheels, wheel)?.dated(seconds);
            self.thin.entry(wheel.gpus.to_string()).or_default().push(listed);
        }
        Ok(())
    }

    /// Adds a wheel as it is.
    pub fn add_whole(&mut self, wheel: ListedWheel) {
        self.wheels.push(wheel.clone());
        self.whole.push(wheel);
    }

    /// Adds `simple/` and `simple-thin/` to a tree. Pages have the sizes and digests that are recorded in `index`. The latter
    /// is not listed: a listing of the whole mount would make all thin wheels for it, which `thin-wheels/` has already.
    pub fn show(mut self, tree: &mut Tree, root: Attributes, index: &Index) -> anyhow::Result<()> {
        let mut show = |place: &str, wheels: &mut Vec<ListedWheel>| {
            for wheel in wheels.iter_mut() {
                // An earlier session may have recorded size and digest.
                wheel.indexed.sums = wheel.identity.and_then(|identity| index.get(RecordKind::Wheel, &identity));
            }
            show_index(tree, place, root, wheels)?;
            show_pages(tree, place, root, wheels)
        };
        show(SIMPLE, &mut self.wheels)?;
        for (gpus, mut wheels) in self.thin {
            wheels.extend(self.whole.iter().cloned());
            show(&format!("{SIMPLE_THIN}/{gpus}"), &mut wheels)?;
        }
        tree.hide(ROOT, SIMPLE_THIN.as_bytes());
        Ok(())
    }
}

/// Adds `wheels/` with these wheels.
pub fn show_all_wheels(tree: &mut Tree, root: Attributes, wheels: &[ListedWheel]) -> anyhow::Result<()> {
    let place = below(&EntryPath::root(), &[WHEELS]);
    tree.insert(ROOT, &place, root, NodeKind::directory())?;
    wheels.iter().try_for_each(|wheel| {
        wheel.insert(tree, &place.child(wheel.file_name().as_bytes()))?;
        wheel.date(tree);
        Ok(())
    })
}

/// Adds an index of wheels at a place, without its pages: each wheel, and its METADATA next to it.
pub fn show_index(tree: &mut Tree, place: &str, root: Attributes, wheels: &[ListedWheel]) -> anyhow::Result<()> {
    let place = below(&EntryPath::root(), &[place]);
    tree.insert(ROOT, &place, root, NodeKind::directory())?;
    for wheel in wheels {
        wheel.insert(tree, &place.child(wheel.indexed.path().as_bytes()))?;
        let metadata = NodeKind::file(Body::Ready(Arc::clone(&wheel.metadata)));
        tree.insert(ROOT, &place.child(wheel.indexed.metadata_path().as_bytes()), wheel.attributes, metadata)?;
        for Signature { suffix, body, attributes } in &wheel.signatures {
            let path = place.child(wheel.indexed.path_of(suffix).as_bytes());
            let node = tree.insert(ROOT, &path, *attributes, NodeKind::file(body.clone()))?;
            tree.set_origin(node, Origin::made(OriginKind::Unchanged));
        }
        wheel.date(tree);
    }
    Ok(())
}

/// Adds the pages of an index. Each says what is known about the wheels now, so its time in a mount depends on its text.
pub fn show_pages(tree: &mut Tree, place: &str, root: Attributes, wheels: &[ListedWheel]) -> anyhow::Result<()> {
    let place = below(&EntryPath::root(), &[place]);
    let index = PackageIndex::new(wheels.iter().map(|wheel| wheel.indexed.clone()))?;
    for (path, text) in index.pages() {
        let made = MadeTime::of_bytes(root.mtime, text.as_bytes());
        let (path, attributes) = (place.child(path.as_bytes()), Attributes { mode: 0o644, ..root });
        tree.insert(ROOT, &path, attributes, NodeKind::file(fixed(text)))?;
        tree.date(made.seconds());
    }
    Ok(())
}
