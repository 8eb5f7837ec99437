//! Writes a view into one file: a zip file, or a tar archive compressed with zstd. Names are in order, times and owners do
//! not depend on the machine, so that the same view gives the same file.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tar::{EntryType, Header};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::dates::MadeFiles;
use super::error::{ExportError, at, no_view, reading};
use crate::disk;
use crate::metrics::Progress;
use crate::rope::{InOrderReader, to_usize};
use crate::source::{Attributes, EntryPath};
use crate::tree::{NodeId, NodeKind, ROOT, Tree};

/// The level of zstd: that of archives, since device code takes most of the bytes.
const LEVEL: i32 = 3;

/// Members of at least this many bytes need the long form of zip (APPNOTE.TXT, 4.3.9.2).
const LARGE: u64 = 0xFFFF_FFFF;

/// The format of a packed view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedFormat {
    Zip,
    TarZstd,
}

impl PackedFormat {
    /// The format that a file name asks for.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let ends = |suffixes: &[&str]| suffixes.iter().any(|suffix| name.ends_with(suffix));
        if ends(&[".zip"]) {
            Some(Self::Zip)
        } else {
            ends(&[".tar.zst", ".tar.zstd", ".tzst"]).then_some(Self::TarZstd)
        }
    }
}

/// Writes the node `view` of a tree into a new file.
pub(crate) fn write_packed(
    tree: &Tree,
    view: &EntryPath,
    path: &Path,
    format: PackedFormat,
    progress: &Progress,
) -> Result<MadeFiles, ExportError> {
    let node = tree.resolve(ROOT, view).ok_or_else(|| no_view(view))?;
    let file = disk::open_with(path, OpenOptions::new().write(true).create_new(true), 0).map_err(at(path))?;
    let archive: Box<dyn PackedArchive> = match format {
        PackedFormat::Zip => Box::new(ZipWriter::new(ZipFile { file, has_failed: false })),
        PackedFormat::TarZstd => Box::new(ZstdTar::new(file).map_err(at(path))?),
    };
    let mut packer = Packer { tree, archive, path, progress, linked: HashMap::new() };
    packer.add_below(node, &EntryPath::root())?;
    packer.archive.finish().map_err(at(path))?;
    Ok(MadeFiles(vec![path.to_owned()]))
}

/// Makes the contents of views, so that it is known how many bytes there are to pack.
pub(crate) fn expect_packed(
    tree: &Tree,
    views: &[(EntryPath, PathBuf)],
    progress: &Progress,
) -> Result<(), ExportError> {
    for (view, path) in views {
        let node = tree.resolve(ROOT, view).ok_or_else(|| no_view(view))?;
        let bodies: Vec<_> = match PackedFormat::of(path) {
            // It has no hard links.
            Some(PackedFormat::Zip) => tree.names_below(node).into_iter().map(|(_, body, _)| body).collect(),
            _ => tree.files_below(node).into_iter().map(|(_, body)| body).collect(),
        };
        for body in bodies {
            progress.expect(body.content().map_err(reading(path))?.size());
        }
    }
    Ok(())
}

/// A file that takes members one after the other.
trait PackedArchive {
    fn directory(&mut self, name: &EntryPath, attributes: &Attributes) -> io::Result<()>;
    fn symlink(&mut self, name: &EntryPath, target: &[u8], attributes: &Attributes) -> io::Result<()>;
    fn file(&mut self, name: &EntryPath, attributes: &Attributes, size: u64, bytes: &mut dyn Read) -> io::Result<()>;
    /// A further name of a file; `false` if the format has none.
    fn hard_link(&mut self, name: &EntryPath, first: &EntryPath, attributes: &Attributes) -> io::Result<bool>;
    fn finish(self: Box<Self>) -> io::Result<()>;
}

struct Packer<'a> {
    tree: &'a Tree,
    archive: Box<dyn PackedArchive>,
    path: &'a Path,
    progress: &'a Progress,
    /// The first name of each group of hard links.
    linked: HashMap<u64, EntryPath>,
}

impl Packer<'_> {
    fn add_below(&mut self, directory: NodeId, name: &EntryPath) -> Result<(), ExportError> {
        let tree = self.tree;
        for child in tree.children(directory).into_iter().flatten().filter(|child| !child.hidden) {
            self.add(child.node, &name.child(child.name))?;
        }
        Ok(())
    }

    fn add(&mut self, node: NodeId, name: &EntryPath) -> Result<(), ExportError> {
        let Some(found) = self.tree.node(node) else { return Ok(()) };
        let attributes = &found.attributes;
        match &found.kind {
            NodeKind::Directory(_) => {
                self.archive.directory(name, attributes).map_err(at(self.path))?;
                self.add_below(node, name)
            }
            NodeKind::Symlink(target) => self.archive.symlink(name, target, attributes).map_err(at(self.path)),
            NodeKind::File { link_group, .. } => {
                if let Some(first) = link_group.and_then(|group| self.linked.get(&group))
                    && self.archive.hard_link(name, first, attributes).map_err(at(self.path))?
                {
                    return Ok(());
                }
                self.linked.extend(link_group.map(|group| (group, name.clone())));
                let Some(body) = self.tree.body(node) else { return Ok(()) };
                let content = body.content().map_err(reading(self.path))?;
                let _named = self.progress.at(|| name.to_string());
                let (reader, size) = (content.reader(0), content.size());
                let mut reader = PackedReader { reader, left: size, progress: self.progress };
                self.archive.file(name, attributes, size, &mut reader).map_err(at(self.path))
            }
        }
    }
}

/// A content as a stream.
struct PackedReader<'a> {
    reader: Box<dyn InOrderReader + 'a>,
    left: u64,
    progress: &'a Progress,
}

impl Read for PackedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(to_usize(self.left));
        let (piece, _) = buffer.split_at_mut(length);
        if length > 0 {
            self.reader.read(piece).map_err(io::Error::other)?;
        }
        self.left -= length as u64;
        self.progress.advance(length as u64);
        Ok(length)
    }
}

/// A name in a zip file, which is text.
fn text(name: &[u8]) -> io::Result<&str> {
    std::str::from_utf8(name).map_err(|_| {
        let name = String::from_utf8_lossy(name).into_owned();
        io::Error::other(format!("{name:?} is not UTF-8, so a zip file cannot hold it; write a directory or .tar.zst"))
    })
}

fn options(attributes: &Attributes) -> SimpleFileOptions {
    SimpleFileOptions::DEFAULT.compression_method(CompressionMethod::Deflated).unix_permissions(attributes.mode.into())
}

/// A file that takes nothing after a failure. Otherwise the writer would print a second one when it is dropped.
struct ZipFile {
    file: File,
    has_failed: bool,
}

impl Write for ZipFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = if self.has_failed { Ok(bytes.len()) } else { self.file.write(bytes) };
        self.has_failed |= written.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for ZipFile {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        self.file.seek(place)
    }
}

impl PackedArchive for ZipWriter<ZipFile> {
    fn directory(&mut self, name: &EntryPath, attributes: &Attributes) -> io::Result<()> {
        Ok(self.add_directory(text(name.as_bytes())?, options(attributes))?)
    }

    fn symlink(&mut self, name: &EntryPath, target: &[u8], attributes: &Attributes) -> io::Result<()> {
        let options = options(attributes).compression_method(CompressionMethod::Stored);
        Ok(self.add_symlink(text(name.as_bytes())?, text(target)?, options)?)
    }

    fn file(&mut self, name: &EntryPath, attributes: &Attributes, size: u64, bytes: &mut dyn Read) -> io::Result<()> {
        self.start_file(text(name.as_bytes())?, options(attributes).large_file(size >= LARGE))?;
        // In pieces that suit decoders.
        io::copy(&mut BufReader::with_capacity(super::STEP, bytes), self).map(drop)
    }

    fn hard_link(&mut self, _: &EntryPath, _: &EntryPath, _: &Attributes) -> io::Result<bool> {
        Ok(false)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(ZipWriter::finish(*self).map(drop)?)
    }
}

/// A tar archive with a compressor.
struct ZstdTar(tar::Builder<zstd::Encoder<'static, File>>);

impl ZstdTar {
    fn new(file: File) -> io::Result<Self> {
        Ok(Self(tar::Builder::new(zstd::Encoder::new(file, LEVEL)?)))
    }

    fn header(kind: EntryType, attributes: &Attributes, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(attributes.mode.into());
        header.set_mtime(u64::try_from(attributes.mtime).unwrap_or(0));
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(size);
        header
    }
}

impl PackedArchive for ZstdTar {
    fn directory(&mut self, name: &EntryPath, attributes: &Attributes) -> io::Result<()> {
        let mut header = Self::header(EntryType::Directory, attributes, 0);
        self.0.append_data(&mut header, name.as_path(), io::empty())
    }

    fn symlink(&mut self, name: &EntryPath, target: &[u8], attributes: &Attributes) -> io::Result<()> {
        let mut header = Self::header(EntryType::Symlink, attributes, 0);
        let target = Path::new(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(target));
        self.0.append_link(&mut header, name.as_path(), target)
    }

    fn file(&mut self, name: &EntryPath, attributes: &Attributes, size: u64, bytes: &mut dyn Read) -> io::Result<()> {
        let mut header = Self::header(EntryType::Regular, attributes, size);
        self.0.append_data(&mut header, name.as_path(), bytes)
    }

    fn hard_link(&mut self, name: &EntryPath, first: &EntryPath, attributes: &Attributes) -> io::Result<bool> {
        let mut header = Self::header(EntryType::Link, attributes, 0);
        self.0.append_link(&mut header, name.as_path(), first.as_path()).map(|()| true)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.0.into_inner()?.finish().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::PackedFormat;

    #[test]
    fn names_choose_the_format() {
        for (name, expected) in [
            ("a/x.zip", Some(PackedFormat::Zip)),
            ("X.ZIP", Some(PackedFormat::Zip)),
            ("x.tar.zst", Some(PackedFormat::TarZstd)),
            ("x.tzst", Some(PackedFormat::TarZstd)),
            ("x.tar", None),
            ("zip", None),
        ] {
            assert_eq!(PackedFormat::of(Path::new(name)), expected, "{name}");
        }
    }
}
