//! The manifest of a part as a file. Its length follows from names and sizes. Digests, and the sizes of archives, are
//! computed when they are read, and nothing is stored for them. `docs/manifest.md` describes the format.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::file_digest::FileDigest;
use super::split_id::{ID_TEXT, SplitId, hex};
use crate::kpack::ArchiveRope;
use crate::rope::{Content, Materialize, ReadError, check_range, to_usize};
use crate::source::EntryPath;

/// Characters of the size of an archive, which is padded with spaces: it is known only after its frames are made.
const SIZE_TEXT: usize = 20;

/// Bytes of the XXH3-128 of a stored code object.
const STORED_SUM: usize = 16;

/// A file that a manifest lists.
pub struct ManifestFile<'a> {
    /// Its path in the part.
    pub path: EntryPath,
    /// What else is listed.
    pub kind: ManifestFileKind<'a>,
    /// Computes its digest.
    pub digest: Box<dyn Fn() -> Result<Vec<u8>, ReadError> + 'a>,
}

/// What a manifest lists of a file in addition to its digest.
pub enum ManifestFileKind<'a> {
    /// Its size in bytes.
    Plain(u64),
    /// A split binary: its size in bytes, and the number of its wrappers.
    Binary(u64, usize),
    /// An archive.
    Archive(&'a ArchiveRope),
}

/// The files that the manifest of a part lists, always the same ones in the same order.
pub trait ManifestFiles: Send + Sync + fmt::Debug {
    /// Passes each file to `take`.
    fn each(&self, take: &mut dyn FnMut(&ManifestFile<'_>));
}

impl<F: ManifestFiles> ManifestFiles for Arc<F> {
    fn each(&self, take: &mut dyn FnMut(&ManifestFile<'_>)) {
        (**self).each(take);
    }
}

/// A manifest.
#[derive(Debug)]
pub struct ManifestText<F> {
    split_id: SplitId,
    part: String,
    /// The names of all parts, in the manifest of the host part.
    parts: Vec<String>,
    digest: FileDigest,
    files: F,
    size: OnceLock<u64>,
}

impl<F: ManifestFiles> ManifestText<F> {
    /// The manifest of the part of this name. Only that of the host part has `parts`.
    pub fn new(split_id: SplitId, part: impl Into<String>, parts: Vec<String>, digest: FileDigest, files: F) -> Self {
        Self { split_id, part: part.into(), parts, digest, files, size: OnceLock::new() }
    }

    fn write(&self, window: &mut WantedText<'_>) {
        window.put("{\n\"json_version\": 1,\n\"split_id\": \"");
        window.later(ID_TEXT, || Ok(self.split_id.text()?.into_bytes()));
        window.put(&format!("\",\n\"part\": {},\n", quoted(&self.part)));
        if !self.parts.is_empty() {
            let parts: Vec<_> = self.parts.iter().map(|part| quoted(part)).collect();
            window.put(&format!("\"parts\": [{}],\n", parts.join(", ")));
        }
        window.put(&format!("\"digest\": {},\n\"files\": [", quoted(self.digest.name())));
        let mut separator = "\n";
        self.files.each(&mut |file| {
            window.put(separator);
            separator = ",\n";
            self.write_file(file, window);
        });
        window.put("\n]\n}\n");
    }

    fn write_file(&self, file: &ManifestFile<'_>, window: &mut WantedText<'_>) {
        window.put(&format!("{{\"path\": {}, \"size\": ", quoted(&file.path.to_text())));
        match file.kind {
            ManifestFileKind::Plain(size) | ManifestFileKind::Binary(size, _) => window.put(&size.to_string()),
            ManifestFileKind::Archive(archive) => window.later(SIZE_TEXT, || {
                let size = archive.make()?.size();
                Ok(format!("{size:SIZE_TEXT$}").into_bytes())
            }),
        }
        window.put(", \"digest\": \"");
        window.later(2 * self.digest.size(), || Ok(hex(&(file.digest)()?).into_bytes()));
        window.put("\"");
        match file.kind {
            ManifestFileKind::Plain(_) => {}
            ManifestFileKind::Binary(_, wrappers) => window.put(&format!(", \"wrappers\": {wrappers}")),
            ManifestFileKind::Archive(archive) => write_entries(archive, window),
        }
        window.put("}");
    }
}

fn write_entries(archive: &ArchiveRope, window: &mut WantedText<'_>) {
    window.put(&format!(", \"target\": {}, \"entries\": [", quoted(&archive.target().to_string())));
    let mut separator = "\n ";
    for entry in archive.entries() {
        let object = &entry.frame.object;
        let (name, target) = (quoted(&entry.key()), quoted(&object.target.to_string()));
        window.put(&format!("{separator}[{name}, {target}, {}, \"", object.content.size()));
        window.later(2 * STORED_SUM, || Ok(hex(&archive.stored_sum(entry)?).into_bytes()));
        window.put("\"]");
        separator = ",\n ";
    }
    window.put("]");
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl<F: ManifestFiles> Content for ManifestText<F> {
    fn size(&self) -> u64 {
        *self.size.get_or_init(|| {
            let mut window = WantedText::new(0, &mut []);
            self.write(&mut window);
            window.at
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size())?;
        let mut window = WantedText::new(offset, buffer);
        self.write(&mut window);
        window.failed.map_or(Ok(()), Err)
    }

    /// Always `false`: digests are computed.
    fn is_nonblocking(&self, _: u64, _: usize) -> bool {
        false
    }
}

/// The part of a text that is wanted.
struct WantedText<'a> {
    /// Bytes of the text so far.
    at: u64,
    start: u64,
    buffer: &'a mut [u8],
    failed: Option<ReadError>,
}

impl<'a> WantedText<'a> {
    fn new(start: u64, buffer: &'a mut [u8]) -> Self {
        Self { at: 0, start, buffer, failed: None }
    }

    fn put(&mut self, text: &str) {
        let at = self.advance(text.len());
        self.copy(at, text.as_bytes());
    }

    /// Bytes of a known length, which are computed only if some of them are wanted.
    fn later(&mut self, length: usize, make: impl FnOnce() -> Result<Vec<u8>, ReadError>) {
        let at = self.advance(length);
        let end = self.start.saturating_add(self.buffer.len() as u64);
        if self.failed.is_some() || at >= end || self.at <= self.start {
            return;
        }
        match make() {
            Ok(bytes) if bytes.len() == length => self.copy(at, &bytes),
            Ok(_) => self.failed = Some(ReadError::damaged(&"manifest".into(), "a field has another length")),
            Err(error) => self.failed = Some(error),
        }
    }

    /// Returns the position of the next bytes.
    fn advance(&mut self, length: usize) -> u64 {
        let at = self.at;
        self.at = at.saturating_add(length as u64);
        at
    }

    /// Copies what is wanted of the bytes at `at`.
    fn copy(&mut self, at: u64, bytes: &[u8]) {
        let skipped = to_usize(self.start.saturating_sub(at)).min(bytes.len());
        let place = to_usize(at.saturating_sub(self.start)).min(self.buffer.len());
        let (_, bytes) = bytes.split_at(skipped);
        let (_, room) = self.buffer.split_at_mut(place);
        let length = bytes.len().min(room.len());
        let (bytes, _) = bytes.split_at(length);
        let (room, _) = room.split_at_mut(length);
        room.copy_from_slice(bytes);
    }
}
