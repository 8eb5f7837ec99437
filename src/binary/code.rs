//! The device code of a file to which no wrapper leads.

use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;
use rocm_kpack::Marker;
use serde::{Deserialize, Serialize};

use super::data::{data_sections, ranges};
use super::data_section::DataRole;
use super::{SplitBinary, payload};
use crate::devicecode::{
    CodeOfForm, CodeTally, DeviceCodePlace, DeviceForm, Effort, SearchError, code_after_head, is_for_linker,
    is_program, search,
};
use crate::fatbin::CODE_HEADER;
use crate::memory::TableError;
use crate::resources::Resources;
use crate::rope::{Content, ReadError, to_usize};
use crate::source::{Input, is_head_of_binary};

/// Bytes at both ends of a file in which UPX leaves its magic: its header follows those of the program, and its trailer is the
/// last 36 bytes of what it packed.
const UPX_HEAD: u64 = 4096;
const UPX_TAIL: u64 = 64;

/// The device code of a file to which no wrapper leads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCode {
    /// What was found, by place and form.
    pub found: Vec<CodeOfForm>,
    /// What the markers of a split library name.
    pub archives: Vec<String>,
    /// Whether the search stopped early, because too much looks like code.
    pub is_unfinished: bool,
    /// Whether a zip file is behind a program or a script. Its files are searched by themselves.
    pub has_zip: bool,
    /// Whether a program or a script unpacks itself from an archive that is not read.
    pub has_archive: bool,
}

impl FileCode {
    /// Searches a file: what it begins with, and the data of a program, library or object. `has_wrappers` says that wrappers
    /// lead to all bundles in the sections for these.
    pub fn of(content: &Arc<dyn Content>, has_wrappers: bool, resources: &Arc<Resources>) -> Result<Self, ReadError> {
        Self::after_head(&content.beginning(CODE_HEADER)?, content, has_wrappers, resources)
    }

    /// The same for a file whose [`CODE_HEADER`] is known.
    pub(crate) fn after_head(
        head: &[u8],
        content: &Arc<dyn Content>,
        has_wrappers: bool,
        resources: &Arc<Resources>,
    ) -> Result<Self, ReadError> {
        let mut tally = CodeTally::default();
        let mut all = Self::default();
        let effort = Effort::of(content.size());
        let result = all.find(head, content, has_wrappers, resources, &effort, &mut tally);
        all.found = tally.into_found();
        match result {
            Err(SearchError::Read(error)) => return Err(error),
            Err(SearchError::Tables(_)) => all.is_unfinished = true,
            Ok(()) => all.is_unfinished = effort.is_spent(),
        }
        Ok(all)
    }

    /// What is known of a file that cannot be read: such as a member of a zip file in a tree that is encrypted.
    pub(crate) fn unread() -> Self {
        Self { is_unfinished: true, ..Self::default() }
    }

    /// What is known of a file that is not searched: whether a zip file is behind it.
    pub(crate) fn unsearched(content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Self {
        let head = content.beginning(CODE_HEADER).unwrap_or_default();
        let zip = zip_behind(&head, content, resources);
        Self { has_zip: zip.is_some(), has_archive: zip.is_some_and(|zip| zip.is_joined), ..Self::default() }
    }

    fn find(
        &mut self,
        head: &[u8],
        content: &Arc<dyn Content>,
        has_wrappers: bool,
        resources: &Arc<Resources>,
        effort: &Effort,
        tally: &mut CodeTally,
    ) -> Result<(), SearchError> {
        let zip = zip_behind(head, content, resources);
        self.has_zip = zip.is_some();
        let is_in_script = || head.starts_with(b"#!") && payload::is_in_script(content);
        self.has_archive = zip.as_ref().map_or_else(is_in_script, |zip| zip.is_joined);
        let end = zip.map_or(u64::MAX, |zip| zip.start);
        let searched = if is_for_linker(head) {
            vec![(DeviceCodePlace::Object, 0..content.size())]
        } else if let Some(code) = code_after_head(head, content, resources, effort) {
            return Ok(tally.add(DeviceCodePlace::File, code)?);
        } else if is_head_of_binary(head) {
            self.linked(content, has_wrappers, tally)?
        } else {
            return Ok(());
        };
        for (place, range) in searched.into_iter().filter(|(_, range)| range.start < end) {
            search(content, range.start..range.end.min(end), place, resources, effort, tally)?;
        }
        Ok(())
    }

    /// The ranges of a program or a library that are searched. Adds what its headers show.
    fn linked(
        &mut self,
        content: &Arc<dyn Content>,
        has_wrappers: bool,
        tally: &mut CodeTally,
    ) -> Result<Vec<(DeviceCodePlace, Range<u64>)>, SearchError> {
        let size = content.size();
        // What is malformed is searched as a whole.
        let sections = data_sections(content).ok().flatten();
        if is_packed(content, sections.is_none())? {
            tally.add_opaque(DeviceCodePlace::File, DeviceForm::Upx, size)?;
        }
        if !has_wrappers {
            self.add_markers(content, tally)?;
        }
        let Some(sections) = sections else {
            return Ok((!has_wrappers).then_some((DeviceCodePlace::Data, 0..size)).into_iter().collect());
        };
        for form in [DeviceForm::NvidiaFatbin, DeviceForm::Sycl] {
            for range in ranges(&sections, |role| role == DataRole::Foreign(form), size) {
                tally.add_opaque(DeviceCodePlace::Data, form, range.end - range.start)?;
            }
        }
        let is_loaded = |role| role == DataRole::Data || role == DataRole::Bundles && !has_wrappers;
        let loaded = ranges(&sections, is_loaded, size);
        let unloaded = ranges(&sections, |role| role == DataRole::Unloaded, size);
        // There may be thousands.
        drop(sections);
        self.has_archive |= !self.has_zip && payload::is_in_program(content, &unloaded);
        let loaded = loaded.into_iter().map(|range| (DeviceCodePlace::Data, range));
        let mut all: Vec<_> = loaded.chain(unloaded.into_iter().map(|it| (DeviceCodePlace::Unloaded, it))).collect();
        // In file order, in which a member of a wheel is inflated once.
        all.sort_by_key(|(_, range)| range.start);
        Ok(all)
    }

    /// Adds the wrappers of a split library.
    fn add_markers(&mut self, content: &Arc<dyn Content>, tally: &mut CodeTally) -> Result<(), TableError> {
        let Ok(Some(split)) = SplitBinary::find(content) else { return Ok(()) };
        for wrapper in &split.wrappers {
            tally.add_opaque(DeviceCodePlace::Wrapper, DeviceForm::SplitMarker, 0)?;
            let marker = wrapper.marker.as_ref().ok().and_then(|bytes| Marker::decode(bytes).ok());
            for name in marker.into_iter().flat_map(|marker| marker.kpack_search_paths) {
                if !self.archives.contains(&name) && self.archives.len() < MAX_NAMED {
                    self.archives.push(name);
                }
            }
        }
        Ok(())
    }
}

/// The zip file behind a program or a script.
fn zip_behind(head: &[u8], content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Option<Input> {
    is_program(head).then(|| Input::zip_behind(content, resources)).flatten()
}

/// The most names of archives that are kept.
const MAX_NAMED: usize = 4;

/// Whether UPX packed a file. It leaves no section headers in ELF files.
fn is_packed(content: &Arc<dyn Content>, has_no_sections: bool) -> Result<bool, ReadError> {
    let magic = DeviceForm::Upx.magic();
    let is_in = |range: Range<u64>| {
        let mut bytes = vec![0; to_usize(range.end - range.start)];
        content.read_at(range.start, &mut bytes).map(|()| memmem::find(&bytes, magic).is_some())
    };
    let size = content.size();
    Ok(is_in(0..size.min(UPX_HEAD))? || has_no_sections && is_in(size.saturating_sub(UPX_TAIL)..size)?)
}
