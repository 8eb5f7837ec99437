//! Code that is known by the name of its file, because what is in it is not read.

use std::sync::Arc;

use memchr::memmem;

use super::form::DeviceForm;
use super::found::CodePiece;
use crate::resources::Resources;
use crate::rope::{Content, to_usize};
use crate::source::{Entry, EntryKind, EntryPath, Input, TAR_BLOCK, is_head_of_binary, is_packed_archive};

/// How names of code end, before that of a compression: those of hipcc, Tensile, Triton and Blender.
const CODE: [&[u8]; 4] = [b".hsaco", b".co", b".fatbin", b".hipfb"];

/// Compressions that are not searched.
const PACKED: [(&[u8], DeviceForm); 3] =
    [(b".xz", DeviceForm::Xz), (b".bz2", DeviceForm::Bzip2), (b".lzma", DeviceForm::Lzma)];

/// Names of archives that are compressed, or that are not read.
const ARCHIVES: [&str; 19] = [
    ".7z",
    ".conda",
    ".deb",
    ".rar",
    ".rpm",
    ".run",
    ".tar",
    ".tar.Z",
    ".tar.bz2",
    ".tar.gz",
    ".tar.lz4",
    ".tar.lzma",
    ".tar.xz",
    ".tar.zst",
    ".tbz",
    ".tbz2",
    ".tgz",
    ".txz",
    ".zip",
];

/// A file of an input, or of an archive in it.
pub(crate) struct UnpackedFile {
    pub(crate) path: EntryPath,
    pub(crate) content: Arc<dyn Content>,
    /// Whether it is an archive that is not searched.
    pub(crate) is_packed_tree: bool,
    /// Whether it is in an archive of the input.
    pub(crate) is_in_archive: bool,
}

impl UnpackedFile {
    fn in_archive(entry: Entry) -> Option<Self> {
        let EntryKind::File { content, .. } = entry.kind else { return None };
        let is_packed_tree = is_packed_tree(entry.path.name(), &first_block(&*content), &content);
        Some(Self { path: entry.path, content, is_packed_tree, is_in_archive: true })
    }
}

/// The bytes by which [`is_packed_tree`] judges a file. None if it cannot be read.
pub(crate) fn first_block(content: &dyn Content) -> Vec<u8> {
    content.beginning(to_usize(TAR_BLOCK)).unwrap_or_default()
}

/// Whether a file with this first block is an archive, in which device code may be: by its name or its beginning.
pub(crate) fn is_packed_tree(name: &[u8], block: &[u8], content: &Arc<dyn Content>) -> bool {
    let is_library = || {
        let unpacked = name.strip_suffix(b".bz2").unwrap_or_default();
        let version = memmem::rfind(unpacked, b".so").and_then(|at| unpacked.get(at + 3..));
        version.is_some_and(|version| version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.'))
    };
    let is_named = || ARCHIVES.iter().any(|suffix| name.ends_with(suffix.as_bytes())) || is_library();
    let begins = || packed_code(name).is_none() && is_packed_archive(block, content);
    !is_head_of_binary(block) && (is_named() || begins())
}

/// Whether a file is a program or a script, which may have a zip file behind it.
pub(crate) fn is_program(block: &[u8]) -> bool {
    is_head_of_binary(block) || block.starts_with(b"#!")
}

/// The files in an archive of an input; and what was given, unless that is one that was listed as a whole. Archives among these are
/// not searched.
pub(crate) fn unpacked(
    path: &EntryPath,
    content: &Arc<dyn Content>,
    resources: &Arc<Resources>,
) -> impl Iterator<Item = UnpackedFile> + use<> {
    let is_packed_tree = is_packed_tree(path.name(), &first_block(&**content), content);
    let archive = is_packed_tree.then(|| Input::in_archive(path, content, resources)).flatten();
    let own =
        || UnpackedFile { path: path.clone(), content: Arc::clone(content), is_packed_tree, is_in_archive: false };
    let own = archive.as_ref().is_none_or(|archive| archive.is_joined).then(own);
    own.into_iter().chain(archive.into_iter().flat_map(|it| it.entries).filter_map(UnpackedFile::in_archive))
}

/// The files of the zip file from which a program unpacks itself, which is behind it.
pub(crate) fn files_behind(
    path: &EntryPath,
    content: &Arc<dyn Content>,
    resources: &Arc<Resources>,
) -> Vec<UnpackedFile> {
    let archive = Input::in_archive(path, content, resources);
    archive.into_iter().flat_map(|it| it.entries).filter_map(UnpackedFile::in_archive).collect()
}

/// The form of a file whose name is that of compressed code.
fn packed_code(name: &[u8]) -> Option<DeviceForm> {
    let is_code = |name: &[u8]| CODE.iter().any(|end| name.ends_with(end));
    PACKED.into_iter().find(|(end, _)| name.strip_suffix(*end).is_some_and(is_code)).map(|(_, form)| form)
}

/// The code in a file of this name, if it begins as such a file does.
pub(crate) fn code_by_name(name: &[u8], content: &dyn Content) -> Option<CodePiece> {
    let is_cache = name.starts_with(b"rocfft_kernel_cache") && name.ends_with(b".db");
    let form = if is_cache { DeviceForm::KernelCache } else { packed_code(name)? };
    let magic = form.magic();
    (content.beginning(magic.len()).ok()? == magic).then(|| CodePiece::opaque(form, content.size()))
}
