//! `kpackfs split --format index -o s3://BUCKET/PREFIX`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error};

use super::limits::wheels_of_release;
use super::options::SplitOptions;
use super::prepare::save_index;
use super::progress::show_bytes;
use super::said::{SaidPiece, WrittenOutput, is_quiet};
use super::table::{counted, size};
use super::terminal::note;
use super::writing::OutputTarget;
use crate::bucket::{BucketFile, BucketPlace, FileFate, Publication, WrittenFile};
use crate::kpack::{ArchiveRope, dropped_size};
use crate::metrics::Progress;
use crate::opened::NamedPath;
use crate::report::PartChoice;
use crate::rope::ReadError;
use crate::session::{Release, ReleasedWheel};
use crate::simple::WheelSums;
use crate::source::{Attributes, EntryPath};
use crate::tree::{Body, ROOT, Tree};
use crate::view::{self, ListedWheel, SIMPLE};
use crate::wheelparts::{WheelPart, WheelSet};

/// The page of a directory.
const PAGE: &str = "index.html";

/// What was published.
#[derive(Default)]
struct Published {
    files: usize,
    there: usize,
    left_out: usize,
    bytes: u64,
    /// Sizes and digests, by names below the prefix.
    sums: HashMap<String, WheelSums>,
}

impl OutputTarget<'_> {
    /// Publishes an index of all wheels of the inputs, which need not belong together. Nothing is kept on disk without --frame-cache.
    pub(super) fn publish_index(
        &self,
        named: &[NamedPath],
        options: &SplitOptions,
        allow_http: bool,
    ) -> anyhow::Result<(WrittenOutput, Release)> {
        let place = BucketPlace::parse(self.directory)?;
        let options = SplitOptions { without_disk: !options.resources.keeps_frames(), ..options.clone() };
        let (release, wheels, root) = self.open_release(named, &options)?;
        let last = format!("{SIMPLE}/{PAGE}");
        let publication = Publication::begin(&place, allow_http, self.force, &last, &release.resources, note_wait)?;
        let published = show_bytes("Uploading", |progress| -> anyhow::Result<_> {
            let mut published = Published::default();
            self.write_files(&release, root, &publication, &mut published, progress)?;
            write_pages(wheels, root, &publication, &mut published)?;
            Ok(published)
        });
        let published = publication.end(published)?;
        save_index(&release.resources);
        if !is_quiet() {
            published.note();
        }
        let Published { files, bytes: size, .. } = published;
        let piece = SaidPiece { name: SIMPLE.to_owned(), size, files: Some(files), digest: None };
        let written = WrittenOutput::new(("index", "indexes"), self.directory, size, vec![piece]);
        Ok((written, release))
    }

    /// Writes the wheels and their METADATA, one input after the other, so that what was compressed for one is still in memory.
    fn write_files(
        &self,
        release: &Release,
        root: Attributes,
        publication: &Publication,
        published: &mut Published,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        if self.limits.max_part.is_some() {
            release.wheels.iter().try_for_each(|wheel| make(wheel, progress).map(drop))?;
            self.limits.check(|| wheels_of_release(release), PartChoice::Gpus)?;
        }
        for wheel in &release.wheels {
            let dropped = make(wheel, progress)?;
            note_memory(wheel, dropped);
            let mut tree = Tree::new(root);
            view::show_index(&mut tree, SIMPLE, root, wheel.listed()?)?;
            published.add(publication, &files_of(&tree)?, progress).map_err(|error| named(wheel, error))?;
        }
        Ok(())
    }
}

/// Names the input if it cannot be read. Errors of the bucket name the object.
fn named(wheel: &ReleasedWheel, error: Error) -> Error {
    if error.is::<ReadError>() { error.context(wheel.path().display().to_string()) } else { error }
}

/// Makes the archives of an input, all of them together. Returns the bytes of code objects that had no room in memory.
fn make(wheel: &ReleasedWheel, progress: &Progress) -> anyhow::Result<u64> {
    let parts: Vec<Arc<WheelPart>> = wheel.prepared.parts();
    let archives: Vec<&ArchiveRope> = parts.iter().flat_map(|part| part.archives()).collect();
    progress.expect(WheelSet::unmade_size(&parts, true));
    WheelSet::make(&parts, true, progress).with_context(|| wheel.path().display().to_string())?;
    Ok(dropped_size(&archives))
}

/// Says how the upload would be faster, if code objects have to be compressed again for it.
fn note_memory(wheel: &ReleasedWheel, dropped: u64) {
    if dropped > 0 {
        let text = format!(
            "{}: {} of its compressed code objects had no room in memory and are made again for each wheel, which takes many times as \
             long; give more --memory, or --frame-cache MIB, which keeps them on disk",
            wheel.path().display(),
            size(dropped)
        );
        note(&text);
    }
}

/// Writes the pages: those of projects first, and last of all the one by which it is seen that there is an index.
fn write_pages(
    mut wheels: Vec<ListedWheel>,
    root: Attributes,
    publication: &Publication,
    published: &mut Published,
) -> anyhow::Result<()> {
    for wheel in &mut wheels {
        let name = format!("{SIMPLE}/{}", wheel.indexed.path());
        let sums = published.sums.get(&name).copied();
        wheel.indexed.sums = Some(sums.with_context(|| format!("{name}: no SHA-256"))?);
    }
    let mut tree = Tree::new(root);
    view::show_pages(&mut tree, SIMPLE, root, &wheels)?;
    let mut pages = files_of(&tree)?;
    // A server of S3 does not look for a page in a directory, and this name is what installers ask for.
    let directory = |page: &BucketFile| {
        let name = page.name.strip_suffix(PAGE)?.to_owned();
        Some(BucketFile { name, content: Arc::clone(&page.content) })
    };
    pages.extend(pages.iter().filter_map(directory).collect::<Vec<_>>());
    let stage = |page: &BucketFile| {
        let is_of_root = page.name.matches('/').count() == 1;
        (is_of_root, is_of_root && page.name.ends_with(PAGE), page.is_of_directory())
    };
    pages.sort_by_key(|page| (stage(page), page.content.size()));
    publication.check()?;
    for pages in pages.chunk_by(|one, other| stage(one) == stage(other)) {
        // A store that keeps no such names may make other objects of long ones (SeaweedFS 4.48: of more than 1 KiB). The shortest shows that.
        let alone = usize::from(pages.iter().any(BucketFile::is_of_directory));
        for some in <[_; 2]>::from(pages.split_at(alone)) {
            if alone == 0 || published.left_out == 0 {
                published.add(publication, some, &Progress::default())?;
            }
        }
    }
    Ok(())
}

impl Published {
    fn note(&self) {
        if self.there > 0 {
            let files = counted(self.files, "file", "files");
            note(&format!("{} of {files} were there already, and were not uploaded", self.there));
        }
        if self.left_out > 0 {
            note(
                "the store keeps no pages under names that end with /; installers need a web server before it that answers with \
                 index.html",
            );
        }
    }

    fn add(&mut self, publication: &Publication, files: &[BucketFile], progress: &Progress) -> anyhow::Result<()> {
        progress.expect(files.iter().map(|file| file.content.size()).sum());
        for WrittenFile { name, size, sha256, fate } in publication.write(files, progress)? {
            self.files += 1;
            self.bytes += size;
            self.there += usize::from(fate == FileFate::There);
            self.left_out += usize::from(fate == FileFate::LeftOut);
            self.sums.insert(name, WheelSums { size, sha256 });
        }
        Ok(())
    }
}

/// The files of a tree, with their contents.
fn files_of(tree: &Tree) -> anyhow::Result<Vec<BucketFile>> {
    let file = |(path, body): (EntryPath, Body)| {
        let content = body.content().with_context(|| path.to_string())?;
        Ok(BucketFile { name: path.to_string(), content })
    };
    tree.files_below(ROOT).into_iter().map(file).collect()
}

fn note_wait(time: Duration) {
    let seconds = time.as_secs();
    note(&format!("another run has not ended there; waiting {seconds} s to see whether it is still alive"));
}
