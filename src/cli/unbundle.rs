//! `kpackfs kpack unbundle`: extracts code objects from fat binaries and offload bundles.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};

use super::progress::show_bytes;
use super::replacing::Replacing;
use super::said::WrittenOutput;
use super::terminal::warn;
use crate::binary::FatBinary;
use crate::export::{self, Inputs, NewFiles};
use crate::fatbin::{Bundle, CodeObject, MAGIC_SIZE, bundle_size, is_bundle};
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::rope::{Content, copy_from};
use crate::source::{EntryPath, open_file};

/// What code objects are called.
pub(super) const CODE_OBJECTS: (&str, &str) = ("code object", "code objects");

/// The most padding between two bundles of a file, in bytes.
const GAP: u64 = 1 << 16;

/// Writes the code objects of `files` to `output`, as `<file>.<number of the wrapper or bundle>.<target>.hsaco`.
pub(super) fn unbundle(
    files: &[PathBuf],
    output: &Path,
    target: Option<&TargetId>,
    replacing: Replacing,
    memory: u64,
) -> anyhow::Result<WrittenOutput> {
    let resources = Resources::new(memory);
    let mut new = NewFiles::new(replacing.force);
    let mut total = 0_u64;
    for file in files {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let bundles = bundles(file, &resources).with_context(|| file.display().to_string())?;
        let is_wanted = |of: &TargetId| target.is_none_or(|target| of == target || of.without_features() == *target);
        let mut count = 0;
        for (number, objects) in bundles.into_iter().enumerate() {
            for object in objects.into_iter().filter(|object| is_wanted(&object.target)) {
                let path = output.join(file_name(&format!("{name}.{number}.{}.hsaco", object.target))?);
                total = total.saturating_add(object.content.size());
                new.add(path, format!("{} (bundle {number}, {})", file.display(), object.target), object)?;
                count += 1;
            }
        }
        if count == 0 {
            let of_target = target.map(|target| format!(" for {target}")).unwrap_or_default();
            bail!("{}: no code objects{of_target} in it", file.display());
        }
    }
    // In pieces, since a code object may be larger than the memory.
    let places = show_bytes("Writing", |progress| {
        progress.expect(total);
        new.write(&Inputs::of_files(files), warn, |object, file, path| {
            anyhow::Ok(export::copy(&*object.content, file, path, &progress.done)?)
        })
    })?;
    WrittenOutput::at(CODE_OBJECTS, output, &places)
}

/// The name of a file. One that leads out of the directory is refused.
pub(super) fn file_name(name: &str) -> anyhow::Result<PathBuf> {
    let path = EntryPath::new(name.as_bytes()).with_context(|| format!("{name:?}"))?;
    Ok(path.as_path().to_owned())
}

/// The code objects of each wrapper of a binary, or of each bundle in a file of bundles.
fn bundles(file: &Path, resources: &Arc<Resources>) -> anyhow::Result<Vec<Vec<CodeObject>>> {
    let content = open_file(file, resources)?;
    let read_bundle = |at: u64, limit: u64| -> anyhow::Result<Vec<CodeObject>> {
        let bundle = Bundle::read(&content, at, limit, resources)?;
        for id in bundle.unfound_ids(&content, resources) {
            warn(&format!("{}: code with the entry ID {id:?}, which no runtime finds", file.display()));
        }
        Ok(bundle.objects(&content, resources)?)
    };
    if let Some(binary) = FatBinary::scan(&content)? {
        let (places, wrappers) = binary.bundles();
        let bundles = places.iter().map(|it| read_bundle(it.bundle, it.limit)).collect::<anyhow::Result<Vec<_>>>()?;
        return Ok(wrappers.iter().filter_map(|&bundle| bundles.get(bundle).cloned()).collect());
    }
    let mut bundles = Vec::new();
    let mut next = next_bundle(&content, 0)?.filter(|&at| at == 0);
    while let Some(at) = next {
        bundles.push(read_bundle(at, content.size())?);
        next = match bundle_size(&content, at, content.size()) {
            Some(size) if size > 0 => next_bundle(&content, at + size)?,
            // A bundle that does not state its size is the last one.
            _ => None,
        };
    }
    ensure!(!bundles.is_empty(), "it is neither a binary with device code nor an offload bundle");
    Ok(bundles)
}

/// The offset of the next bundle, after padding.
fn next_bundle(content: &Arc<dyn Content>, from: u64) -> anyhow::Result<Option<u64>> {
    let available = content.size().saturating_sub(from).min(GAP);
    let mut bytes = vec![0; usize::try_from(available)?];
    content.read_at(from, &mut bytes)?;
    let Some(padding) = bytes.iter().position(|&byte| byte != 0) else { return Ok(None) };
    let mut magic = [0; MAGIC_SIZE];
    let found = copy_from(&bytes, padding as u64, &mut magic).is_ok() && is_bundle(&magic);
    Ok(found.then_some(from + padding as u64))
}
