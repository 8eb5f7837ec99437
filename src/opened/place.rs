//! A path that the user named, with what is read of it once for all forms.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use once_cell::unsync::OnceCell;

use super::error::NotUnderstood;
use super::tarred::TarredForm;
use crate::artifact::{FoundArtifacts, find_in};
use crate::disk;
use crate::remote::is_url;
use crate::source::{DirectoryListing, SourceError, packing_of};

/// First bytes of a file that show its form: a block of tar, which is more than any other magic takes.
const HEAD: u64 = 512;

/// Fails if there is nothing at one of several paths.
pub fn check_there<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> anyhow::Result<()> {
    paths.into_iter().filter(|path| !is_url(path)).try_for_each(|path| match Place::new(path) {
        Err(error) if error.is::<NotUnderstood>() => Err(error),
        _ => Ok(()),
    })
}

/// A path that the user named.
#[derive(Debug)]
pub(super) struct Place {
    /// The path as it was named.
    pub(super) path: PathBuf,
    /// Whether it leads to a directory.
    pub(super) is_directory: bool,
    listing: OnceCell<DirectoryListing>,
    artifacts: OnceCell<Option<FoundArtifacts>>,
    head: OnceCell<Vec<u8>>,
    tarred: OnceCell<Option<TarredForm>>,
}

impl Place {
    pub(super) fn new(path: &Path) -> anyhow::Result<Self> {
        if let Some(mount) = disk::dead_mount(path) {
            return Err(NotUnderstood::DeadMount { path: path.to_owned(), mount }.into());
        }
        let metadata = path.metadata().map_err(|source| match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => anyhow::Error::from(NotUnderstood::NotThere(path.to_owned())),
            _ => SourceError::Io { path: path.to_owned(), source }.into(),
        })?;
        let is_directory = metadata.is_dir();
        // The working directory may have been deleted.
        if is_directory && path.canonicalize().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Err(NotUnderstood::NotThere(path.to_owned()).into());
        }
        if !is_directory && !metadata.is_file() {
            let what = "neither a file nor a directory";
            return Err(SourceError::UnknownKind { path: path.to_owned(), what }.into());
        }
        let (listing, artifacts) = (OnceCell::new(), OnceCell::new());
        let (head, tarred) = (OnceCell::new(), OnceCell::new());
        Ok(Self { path: path.to_owned(), is_directory, listing, artifacts, head, tarred })
    }

    /// Its entries, if it is a directory.
    pub(super) fn listing(&self) -> Result<Option<&DirectoryListing>, SourceError> {
        let read = || DirectoryListing::read(&self.path);
        self.is_directory.then(|| self.listing.get_or_try_init(read)).transpose()
    }

    /// The artifacts and other tar archives in it, if it is a directory. Each directory in it is asked for a manifest.
    pub(super) fn artifacts(&self) -> Result<Option<&FoundArtifacts>, SourceError> {
        let Some(listing) = self.listing()? else { return Ok(None) };
        Ok(self.artifacts.get_or_init(|| find_in(listing)).as_ref())
    }

    /// Its first bytes, if it is a file.
    pub(super) fn head(&self) -> Result<&[u8], SourceError> {
        if self.is_directory {
            return Ok(&[]);
        }
        let read = || {
            let mut head = Vec::new();
            disk::open(&self.path)
                .map_err(SourceError::at(&self.path))?
                .0
                .take(HEAD)
                .read_to_end(&mut head)
                .map_err(SourceError::at(&self.path))?;
            Ok::<_, SourceError>(head)
        };
        Ok(self.head.get_or_try_init(read)?)
    }

    /// What it is as a tar archive, if it is one.
    pub(super) fn tarred(&self) -> Result<Option<TarredForm>, SourceError> {
        let recognise = || {
            let packing = packing_of(&self.path, self.head()?);
            packing.map(|packing| TarredForm::of(&self.path, packing)).transpose()
        };
        Ok(*self.tarred.get_or_try_init(recognise)?)
    }

    /// Whether it is a file whose name ends with a dot and this extension.
    pub(super) fn has_extension(&self, extension: &str) -> bool {
        !self.is_directory && self.path.extension().is_some_and(|it| it == extension)
    }
}
