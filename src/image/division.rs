//! The division of an image: which members of its layers go to the layer that all GPUs share, and which to that of a
//! GPU.
//!
//! A path has device code if the plan of the root file system says so. Of such a path, the member that the root file
//! system shows moves to the layers of GPUs: in its thin form, or unchanged if it is an archive or a database of a GPU.
//! So does a distribution that consists of these. Everything else stays as it stands in its layer, byte for byte. That
//! also holds for whiteouts, which remove files of both layers below.
//!
//! A file with device code that a later layer hides is left out: no program sees it, and it would be fetched with every
//! image. Nothing else that is hidden is touched.
//!
//! Which member goes where does not depend on the GPUs that are wanted, so the shared layers of all images are the
//! same.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::ImageError;
use super::device_parts::{DeviceParts, DistributionRecord, PartKeys, claim_of, is_dist_info};
use super::hidden::hidden_with_code;
use super::layer::{Layer, LayerMember, LayerMemberKind};
use super::layered::LayeredImage;
use super::member_header::MemberHeader;
use super::new_image::LayerPart;
use super::new_layer::{MadeLayer, NewLayer};
use super::root::{LinkTarget, LinkTargets, MemberId, RootFiles};
use crate::gpu::GpuSet;
use crate::index::Index;
use crate::rope::{Content, Materialize, Rope, Segment};
use crate::source::{EntryPath, Input, file_in};
use crate::split::{Destination, FatBinaries, Plan, PlanOptions, Statement};
use crate::wheel::{LineEdit, PART_MANIFEST, STATEMENT};

/// Where a member goes that does not stay where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Moved {
    /// To the layer of each GPU, in its thin form.
    Thin,
    /// To the layers of GPUs that need one of these parts.
    Device(PartKeys),
    /// To the layer of each GPU, with statements about what is there.
    Record,
    /// To the layer of each GPU, with the statement of a thin distribution.
    Statement,
    /// Nowhere.
    Gone,
}

/// The form of what is split already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DivisionForm {
    /// It stays split: each GPU gets its archives.
    Split,
    /// As everything else, it gets the thin form.
    Thin,
}

/// The division of an image.
pub(crate) struct Division<'a> {
    image: &'a LayeredImage,
    moved: BTreeMap<MemberId, Moved>,
    /// The members of moved paths that the root file system shows.
    shown: HashMap<EntryPath, MemberId>,
    targets: LinkTargets,
    parts: DeviceParts,
    form: DivisionForm,
    /// That of thin distributions, without their GPUs.
    statement: Statement,
    binaries: FatBinaries,
    /// For each layer, the directories of what moves, with their members at that time.
    directories: BTreeMap<u32, BTreeMap<EntryPath, Option<MemberId>>>,
    /// Links whose file is not in the same new layer, so that they are copies.
    pub(crate) copies: HashSet<MemberId>,
    /// Files that are left out since later layers hide them.
    pub(crate) hidden: Vec<String>,
}

impl<'a> Division<'a> {
    /// Divides an image for these GPUs. `input` is its root file system, with its plan.
    pub(crate) fn new(
        image: &'a LayeredImage,
        input: &Input,
        plan: &Plan,
        parts: DeviceParts,
        form: DivisionForm,
        options: &PlanOptions,
        gpus: &[GpuSet],
    ) -> Result<Self, ImageError> {
        let mut root = image.root()?;
        let binaries = FatBinaries::new(input, plan, gpus);
        let shown: HashSet<_> = root.members().collect();
        let hidden = hidden_with_code(image, &shown, input, plan, options)?;
        let names = hidden.iter().filter_map(|id| Some(image.member(*id)?.1.path.to_string())).collect();
        let (moved, moved_paths, directories, copies) = Default::default();
        let targets = std::mem::take(&mut root.targets);
        let mut division = Self {
            image,
            moved,
            shown: moved_paths,
            targets,
            parts,
            form,
            statement: Statement::of(options),
            binaries,
            directories,
            copies,
            hidden: names,
        };
        division.moved.extend(hidden.into_iter().map(|id| (id, Moved::Gone)));
        for layer in 0..image.layers.len() {
            for (id, member) in image.members(layer) {
                let is_shown = shown.contains(&id);
                let moved = match &member.kind {
                    kind if is_shown && (*kind == LayerMemberKind::File || division.targets.contains_key(&id)) => {
                        division.destination(input, plan, &member.path)
                    }
                    // A hidden link to a file that is left out.
                    LayerMemberKind::HardLink(_) => {
                        let target = division.targets.get(&id).and_then(|target| division.moved.get(&target.named));
                        target.map(|_| Moved::Gone)
                    }
                    LayerMemberKind::Symlink(_) if is_shown => division.of_distribution(&member.path),
                    LayerMemberKind::Directory => division.of_distribution(&member.path),
                    // A former one.
                    LayerMemberKind::File | LayerMemberKind::Symlink(_) => {
                        division.of_distribution(&member.path).map(|_| Moved::Gone)
                    }
                    _ => None,
                };
                if is_shown && moved.is_some() {
                    division.shown.insert(member.path.clone(), id);
                }
                division.moved.extend(moved.map(|moved| (id, moved)));
            }
        }
        division.find_records(&root, plan)?;
        division.find_directories()?;
        division.find_copies();
        Ok(division)
    }

    fn destination(&self, input: &Input, plan: &Plan, path: &EntryPath) -> Option<Moved> {
        if let Some(moved) = self.of_distribution(path) {
            return Some(moved);
        }
        if self.form == DivisionForm::Split {
            if let Some(keys) = self.parts.of_archive(path) {
                return Some(Moved::Device(Arc::clone(keys)));
            }
            if plan.joined.contains(path) {
                return None;
            }
        }
        if self.binaries.has(path) {
            return Some(Moved::Thin);
        }
        let entry = input.entries.binary_search_by(|entry| entry.path.cmp(path)).ok();
        match entry.and_then(|at| plan.places.get(at)) {
            Some(Destination::Device(key, _) | Destination::Unwanted(key, _)) => {
                Some(Moved::Device(Arc::new([key.clone()].into())))
            }
            Some(Destination::Host | Destination::Rewritten { .. } | Destination::Held) => None,
            // Joining has put it into binaries.
            None => Some(Moved::Gone),
        }
    }

    /// Where a member of a device distribution goes. Nothing is left to describe once its archives are in binaries.
    fn of_distribution(&self, path: &EntryPath) -> Option<Moved> {
        let keys = self.parts.of_distribution(path)?;
        match self.form {
            DivisionForm::Split => Some(Moved::Device(Arc::clone(keys))),
            DivisionForm::Thin => path.components().any(is_dist_info).then_some(Moved::Gone),
        }
    }

    /// Finds RECORD of each distribution with files that move, unless all of it moves.
    fn find_records(&mut self, root: &RootFiles, plan: &Plan) -> Result<(), ImageError> {
        let image = self.image;
        for (id, member) in (0..image.layers.len()).flat_map(|layer| image.members(layer)) {
            let is_file = member.kind == LayerMemberKind::File && root.member(&member.path) == Some(id);
            if !is_file || self.moved.contains_key(&id) {
                continue;
            }
            let Some(record) = self.record(id)? else { continue };
            let paths: Vec<_> = record.paths().into_iter().flatten().collect();
            if self.form == DivisionForm::Thin && paths.iter().any(|path| plan.joined.contains(path)) {
                // They state how the distribution is split, which it is not in thin form.
                for path in &paths {
                    let (Some(moved), Some(id)) = (in_thin_form(path), root.member(path)) else { continue };
                    self.shown.insert(path.clone(), id);
                    self.moved.insert(id, moved);
                }
            }
            if paths.iter().any(|path| self.shown.contains_key(path)) {
                self.moved.insert(id, Moved::Record);
            }
        }
        Ok(())
    }

    /// RECORD; `None` if the member is another file.
    fn record(&self, id: MemberId) -> Result<Option<DistributionRecord>, ImageError> {
        let Some((layer, member)) = self.image.member(id) else { return Ok(None) };
        if !DistributionRecord::is_at(&member.path) {
            return Ok(None);
        }
        let record = Some(DistributionRecord::read(&member.path, &*content_of(layer, member)?));
        record.transpose().map_err(|error| layer.bad(&member.path, error.to_string()))
    }

    /// Finds the directories above what moves, as they are when its layer has been applied.
    fn find_directories(&mut self) -> Result<(), ImageError> {
        let mut root = RootFiles::default();
        for (number, layer) in self.image.layers.iter().enumerate() {
            root.apply(number, layer)?;
            let mut found = BTreeMap::new();
            let (first, last) = (MemberId::new(number, 0), MemberId::new(number + 1, 0));
            for (id, _) in self.moved.range(first..last) {
                let mut above = self.image.member(*id).and_then(|(_, member)| member.path.parent());
                while let Some(directory) = above.filter(|directory| !directory.is_root()) {
                    above = directory.parent();
                    if found.contains_key(&directory) {
                        break;
                    }
                    let member = root.member(&directory);
                    found.insert(directory, member);
                }
            }
            if !found.is_empty() {
                self.directories.insert(first.layer, found);
            }
        }
        Ok(())
    }

    /// Finds the hard links that cannot stay links. Programs that unpack a layer by itself need the file in the same
    /// layer.
    fn find_copies(&mut self) {
        let is_copied = |(id, target): &(&MemberId, &LinkTarget)| {
            let (link, file) = (self.moved.get(*id), self.moved.get(&target.named));
            let is_together = link == file && (link.is_none() || id.layer == target.named.layer);
            link != Some(&Moved::Gone) && !is_together
        };
        self.copies = self.targets.iter().filter(is_copied).map(|(id, _)| *id).collect();
    }

    /// Whether something of a layer changes. Other layers stay as they are.
    pub(crate) fn is_divided(&self, layer: usize) -> bool {
        let members = MemberId::new(layer, 0)..MemberId::new(layer + 1, 0);
        self.copies.iter().any(|id| members.contains(id)) || self.moved.range(members).next().is_some()
    }

    /// The digest of the archive of a layer.
    pub(crate) fn diff_id(&self, layer: usize, index: &Index) -> Result<String, ImageError> {
        self.image.layers.get(layer).map_or_else(|| Ok(String::new()), |layer| layer.diff_id(index))
    }

    /// The part of a layer that all GPUs share.
    pub(crate) fn shared_layer(&self, number: usize) -> Result<MadeLayer, ImageError> {
        let mut new = NewLayer::default();
        let Some(layer) = self.image.layers.get(number) else { return new.finish() };
        for (id, member) in self.image.members(number).filter(|(id, _)| !self.moved.contains_key(id)) {
            if self.copies.contains(&id) {
                self.add_file(&mut new, id, member, &self.file_of(id)?)?;
            } else {
                new.add_unchanged(layer, member)?;
            }
        }
        // What unpacks the layer would create them for what is not there any more.
        let directories = self.directories.get(&MemberId::new(number, 0).layer).into_iter().flatten();
        let nothing: Arc<dyn Content> = Arc::new(Rope::default());
        let is_missing = |(directory, member): &(&EntryPath, &Option<MemberId>)| {
            member.is_none() && self.parts.of_distribution(directory).is_none()
        };
        for (directory, _) in directories.filter(is_missing) {
            new.add(MemberHeader::of_implied_directory(), directory, &nothing)?;
        }
        new.finish()
    }

    /// The part of a layer that is for these GPUs; `None` if there is nothing.
    pub(crate) fn layer_of(&self, number: usize, gpus: &Arc<GpuSet>) -> Result<Option<MadeLayer>, ImageError> {
        let (mut new, keys) = (NewLayer::default(), gpus.keys());
        let Some(layer) = self.image.layers.get(number) else { return Ok(None) };
        let mut has_files = false;
        for (id, member) in self.image.members(number) {
            let content = match self.moved.get(&id) {
                Some(Moved::Thin) => self.binaries.thin(gpus, &member.path).map(|thin| thin.make()).transpose()?,
                Some(Moved::Record) => Some(self.record_for(id, gpus)?),
                Some(Moved::Statement) => Some(self.statement_for(gpus)?),
                Some(Moved::Device(wanted)) if !wanted.is_disjoint(&keys) => None,
                Some(Moved::Device(_) | Moved::Gone) | None => continue,
            };
            if member.kind == LayerMemberKind::Directory && !new.lacks(&member.path) {
                continue;
            }
            has_files = true;
            self.add_directories(&mut new, number, &member.path)?;
            let (is_link, is_copy) = (matches!(member.kind, LayerMemberKind::HardLink(_)), self.copies.contains(&id));
            match content {
                Some(content) if is_copy || !is_link => self.add_file(&mut new, id, member, &content)?,
                None if is_copy => self.add_file(&mut new, id, member, &self.file_of(id)?)?,
                _ => new.add_unchanged(layer, member)?,
            }
        }
        if has_files { new.finish().map(Some) } else { Ok(None) }
    }

    /// The files of a new layer, with their sizes in the old one.
    pub(crate) fn files(&self, part: &LayerPart) -> impl Iterator<Item = (String, u64)> {
        let keys = part.gpus.as_ref().map(GpuSet::keys);
        let members = self.image.members(part.number).filter(move |(id, _)| match (self.moved.get(id), &keys) {
            (Some(Moved::Device(wanted)), Some(keys)) => !wanted.is_disjoint(keys),
            (moved, keys) => moved == keys.as_ref().map(|_| &Moved::Thin),
        });
        members.map(|(_, member)| (member.path.to_string(), member.content.end.saturating_sub(member.content.start)))
    }

    /// RECORD of a distribution, with statements about what is there for these GPUs.
    fn record_for(&self, id: MemberId, gpus: &Arc<GpuSet>) -> Result<Arc<dyn Content>, ImageError> {
        let Some(record) = self.record(id)? else { return self.file_of(id) };
        let keys = gpus.keys();
        record.edited(|path| {
            Ok(match self.shown.get(path).and_then(|id| self.moved.get(id)) {
                Some(Moved::Thin) => match self.binaries.thin(gpus, path) {
                    Some(thin) => LineEdit::State(claim_of(&*thin.make()?)?),
                    None => LineEdit::Keep,
                },
                Some(Moved::Statement) => LineEdit::State(claim_of(&*self.statement_for(gpus)?)?),
                Some(Moved::Device(wanted)) if wanted.is_disjoint(&keys) => LineEdit::Remove,
                Some(Moved::Gone) => LineEdit::Remove,
                Some(Moved::Device(_) | Moved::Record) | None => LineEdit::Keep,
            })
        })
    }

    fn statement_for(&self, gpus: &GpuSet) -> Result<Arc<dyn Content>, ImageError> {
        let statement = self.statement.clone().with_views(&[format!("thin/{gpus}")]);
        Ok(Arc::new(Rope::new([Segment::literal(statement.to_json().into_bytes())])?))
    }

    /// Adds the directories above a path, so that what unpacks the layer by itself gives them their attributes.
    fn add_directories(&self, new: &mut NewLayer, number: usize, path: &EntryPath) -> Result<(), ImageError> {
        let Some(directories) = self.directories.get(&MemberId::new(number, 0).layer) else { return Ok(()) };
        let mut above: Vec<_> = std::iter::successors(path.parent(), EntryPath::parent).collect();
        above.reverse();
        let nothing: Arc<dyn Content> = Arc::new(Rope::default());
        for directory in above.iter().filter(|directory| !directory.is_root()) {
            if !new.lacks(directory) {
                continue;
            }
            let member = directories.get(directory).copied().flatten().and_then(|id| self.image.member(id));
            if let Some((layer, member)) = member {
                new.add_unchanged(layer, member)?;
            } else {
                new.add(MemberHeader::of_implied_directory(), directory, &nothing)?;
            }
        }
        Ok(())
    }

    /// Adds a file at the path of `member`, with the attributes of the member that has its content in the old image.
    fn add_file(
        &self,
        new: &mut NewLayer,
        id: MemberId,
        member: &LayerMember,
        content: &Arc<dyn Content>,
    ) -> Result<(), ImageError> {
        let file = self.targets.get(&id).map_or(id, |target| target.file);
        let Some((layer, file)) = self.image.member(file) else { return Ok(()) };
        new.add(MemberHeader::read(layer, file)?, &member.path, content)
    }

    /// The content of the file to which a hard link leads.
    fn file_of(&self, link: MemberId) -> Result<Arc<dyn Content>, ImageError> {
        let file = self.targets.get(&link).map_or(link, |target| target.file);
        let Some((layer, member)) = self.image.member(file) else { return Ok(Arc::new(Rope::default())) };
        content_of(layer, member)
    }
}

/// Where a file of a distribution goes that states how it is split, if the distribution is in thin form.
fn in_thin_form(path: &EntryPath) -> Option<Moved> {
    let is_metadata = path.parent().is_some_and(|directory| is_dist_info(directory.name()));
    match path.name() {
        name if is_metadata && name == STATEMENT.as_bytes() => Some(Moved::Statement),
        name if is_metadata && name == PART_MANIFEST.as_bytes() => Some(Moved::Gone),
        _ => None,
    }
}

fn content_of(layer: &Layer, member: &LayerMember) -> Result<Arc<dyn Content>, ImageError> {
    let kind = file_in(&layer.archive, &member.content).map_err(|reason| layer.bad(&member.path, reason))?;
    Ok(kind.content().map_or_else(|| Arc::new(Rope::default()) as _, Arc::clone))
}
