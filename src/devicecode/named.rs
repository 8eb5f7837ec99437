//! Code that is known by the name of its file, because what is in it is not read.

use std::sync::Arc;

use super::form::DeviceForm;
use super::found::CodePiece;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{EntryPath, Input};

/// Names of code before `.xz`: those of hipcc, Tensile, Triton and Blender.
const SUFFIXES: [&[u8]; 4] = [b".hsaco.xz", b".co.xz", b".fatbin.xz", b".hipfb.xz"];

/// Names of archives.
const ARCHIVES: [&[u8]; 12] = [
    b".tar",
    b".tar.bz2",
    b".tar.gz",
    b".tar.xz",
    b".tar.zst",
    b".tbz2",
    b".tgz",
    b".txz",
    b".zip",
    b".conda",
    b".deb",
    b".rpm",
];

/// Whether a file is an archive by its name, in which device code may be.
pub(crate) fn is_packed_tree(name: &[u8]) -> bool {
    ARCHIVES.iter().any(|suffix| name.ends_with(suffix))
}

/// The files in an archive of an input; or what was given, if that is none that can be listed. Archives among these are not
/// searched.
pub(crate) fn unpacked(
    path: &EntryPath,
    content: &Arc<dyn Content>,
    resources: &Arc<Resources>,
) -> Vec<(EntryPath, Arc<dyn Content>)> {
    let files = is_packed_tree(path.name()).then(|| Input::files_in(path, content, resources)).flatten();
    files.unwrap_or_else(|| vec![(path.clone(), Arc::clone(content))])
}

/// The code in a file of this name, if it begins as such a file does.
pub(crate) fn code_by_name(name: &[u8], content: &dyn Content) -> Option<CodePiece> {
    let is_cache = name.starts_with(b"rocfft_kernel_cache") && name.ends_with(b".db");
    let form = if is_cache {
        DeviceForm::KernelCache
    } else if SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
        DeviceForm::Xz
    } else {
        return None;
    };
    let magic = form.row().magic;
    (content.beginning(magic.len()).ok()? == magic).then(|| CodePiece::opaque(form, content.size()))
}
