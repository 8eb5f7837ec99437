//! `kpackfs split --format index -o s3://BUCKET/PREFIX`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};

use super::limits::wheels_of_release;
use super::options::SplitOptions;
use super::package_index::{IndexOutput, check};
use super::prepare::{CommandSession, save_index};
use super::progress::show_bytes;
use super::said::{SaidPiece, WrittenOutput, is_quiet};
use super::table::{counted, size};
use super::terminal::note;
use crate::bucket::{BucketFile, BucketPlace, Publication, WrittenFiles};
use crate::kpack::{ArchiveRope, dropped_size, unmade_size};
use crate::metrics::Progress;
use crate::mount;
use crate::opened::NamedPath;
use crate::report::PartChoice;
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
    written: usize,
    left_out: usize,
    bytes: u64,
    /// Sizes and digests, by names below the prefix.
    sums: HashMap<String, WheelSums>,
}

impl IndexOutput<'_> {
    /// Publishes an index of all wheels of the inputs, which need not belong together. Nothing is kept on disk without --frame-cache.
    pub(super) fn publish(
        &self,
        named: &[NamedPath],
        options: &SplitOptions,
        allow_http: bool,
    ) -> anyhow::Result<WrittenOutput> {
        let place = BucketPlace::parse(self.directory)?;
        mount::raise_open_files().context("RLIMIT_NOFILE")?;
        let options = SplitOptions { without_disk: !options.resources.keeps_frames(), ..options.clone() };
        let release = CommandSession::new(named, &options)?.session().open_apart(named)?;
        release.wheels.iter().try_for_each(check)?;
        let wheels = release.listed()?;
        self.limits.check_bounds(|| wheels_of_release(&release), PartChoice::Gpus)?;
        let Some(root) = release.root() else { bail!("there are no wheels") };
        let last = format!("{SIMPLE}/{PAGE}");
        let publication = Publication::begin(&place, (allow_http, self.force), &last, &release.resources, note_wait)?;
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
        let piece =
            SaidPiece { name: SIMPLE.to_owned(), size: published.bytes, files: Some(published.files), digest: None };
        Ok(WrittenOutput::index(self.directory, piece))
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
        if self.limits.limit().is_some() {
            release.wheels.iter().try_for_each(|wheel| make(wheel, progress).map(drop))?;
            self.limits.check(|| wheels_of_release(release), PartChoice::Gpus)?;
        }
        for wheel in &release.wheels {
            let dropped = make(wheel, progress)?;
            note_memory(wheel, dropped);
            let mut tree = Tree::new(root);
            view::show_index(&mut tree, SIMPLE, root, wheel.listed()?)?;
            published.add(publication, &files_of(&tree)?, progress)?;
        }
        Ok(())
    }
}

/// Makes the archives of an input, all of them together. Returns the bytes of code objects that had no room in memory.
fn make(wheel: &ReleasedWheel, progress: &Progress) -> anyhow::Result<u64> {
    let parts: Vec<Arc<WheelPart>> = wheel.prepared.parts();
    let archives: Vec<&ArchiveRope> = parts.iter().flat_map(|part| part.archives()).collect();
    progress.expect(unmade_size(&archives));
    WheelSet::make(&parts, true, &progress.done)?;
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
    let (of_root, of_projects): (Vec<_>, Vec<_>) =
        pages.into_iter().partition(|page| page.name.matches('/').count() == 1);
    let (last, of_root): (Vec<_>, Vec<_>) = of_root.into_iter().partition(|page| page.name.ends_with(PAGE));
    // A store that keeps no such names may make other objects of long ones (SeaweedFS 4.48: of more than 1 KiB). The shortest shows that.
    let (mut directories, of_projects): (Vec<_>, Vec<_>) =
        of_projects.into_iter().partition(BucketFile::is_of_directory);
    directories.sort_by_key(|page| page.content.size());
    let others = directories.split_off(directories.len().min(1));
    publication.check()?;
    for mut stage in [of_projects, directories, others, of_root, last] {
        stage.retain(|page| published.left_out == 0 || !page.is_of_directory());
        published.add(publication, &stage, &Progress::default())?;
    }
    Ok(())
}

impl Published {
    fn note(&self) {
        let there = self.files - self.written - self.left_out;
        if there > 0 {
            let files = counted(self.files, "file", "files");
            note(&format!("{there} of {files} had been uploaded before"));
        }
        if self.left_out > 0 {
            note(
                "the store keeps no pages under names that end with /; installers need a web server before it that answers with \
                 index.html",
            );
        }
    }

    fn add(&mut self, publication: &Publication, files: &[BucketFile], progress: &Progress) -> anyhow::Result<()> {
        let sizes = || files.iter().map(|file| file.content.size());
        progress.expect(sizes().sum());
        let WrittenFiles { sums, written, left_out } = publication.write(files, progress)?;
        let sums = sums.into_iter().zip(sizes()).map(|(sha256, size)| WheelSums { size, sha256 });
        self.sums.extend(files.iter().map(|file| file.name.clone()).zip(sums));
        self.files += files.len();
        self.written += written;
        self.left_out += left_out;
        self.bytes += sizes().sum::<u64>();
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
