//! Headers of members that a new layer has and the old one has not: of files with other content or another name
//! (POSIX.1-2001, "ustar Interchange Format" and "pax Interchange Format").

use tar::{EntryType, Header};

use super::ImageError;
use super::layer::{Layer, LayerMember};
use super::root::IMPLIED;
use crate::rope::to_usize;
use crate::source::{EntryPath, ExtendedRecords, TAR_BLOCK, read_extended};

/// The most bytes of a name in a header.
const NAME: usize = 100;

/// Where the fields of ustar begin, and where its prefix of the name does.
const MAGIC: usize = 257;
const PREFIX: usize = 345;

/// The magic of ustar, and its version.
const USTAR: &[u8; 8] = b"ustar\x0000";

/// The header of a file, with everything that old headers say about it but for its name and its size.
#[derive(Clone, Debug)]
pub(super) struct MemberHeader {
    header: Header,
    records: ExtendedRecords,
}

impl MemberHeader {
    /// The header of a file of a layer.
    pub(super) fn read(layer: &Layer, member: &LayerMember) -> Result<Self, ImageError> {
        let start = member.content.start.saturating_sub(TAR_BLOCK);
        let mut block = [0; 512];
        layer.archive.read_at(start, &mut block)?;
        let records = read_extended(&*layer.archive, member.blocks.start..start);
        let mut records = records.map_err(|reason| layer.bad(&member.path, reason))?;
        records.remove(&[b"path", b"linkpath", b"size"]);
        let mut header = Header::from_byte_slice(&block).clone();
        let bytes = header.as_mut_bytes();
        // Other forms have other fields behind the link.
        let end = if bytes.get(MAGIC..).is_some_and(|fields| fields.starts_with(b"ustar")) { PREFIX } else { MAGIC };
        if let Some(fields) = bytes.get_mut(end..) {
            fields.fill(0);
        }
        if let Some(magic) = bytes.get_mut(MAGIC..MAGIC + USTAR.len()) {
            magic.copy_from_slice(USTAR);
        }
        header.set_entry_type(EntryType::Regular);
        Ok(Self { header, records })
    }

    /// The header of a directory that no layer has.
    pub(super) fn of_implied_directory() -> Self {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Directory);
        header.set_mode(IMPLIED.mode.into());
        header.set_uid(IMPLIED.uid.into());
        header.set_gid(IMPLIED.gid.into());
        header.set_mtime(0);
        Self { header, records: ExtendedRecords::default() }
    }

    /// Its blocks, with this name and size.
    pub(super) fn blocks(mut self, path: &EntryPath, size: u64) -> Vec<u8> {
        let path = path.as_bytes();
        let old = self.header.as_old_mut();
        old.linkname.fill(0);
        set_name(&mut old.name, path);
        if path.len() > NAME {
            self.records.push(b"path", path);
        }
        self.header.set_size(size);
        self.header.set_cksum();
        let records = self.records.to_bytes();
        let mut blocks = Vec::new();
        if !records.is_empty() {
            let mut extended = Header::new_ustar();
            extended.set_entry_type(EntryType::XHeader);
            // Programs that do not know this form write a file of this name.
            set_name(&mut extended.as_old_mut().name, &[b"PaxHeaders.0/", path].concat());
            extended.set_mode(0o644);
            extended.set_size(records.len() as u64);
            extended.set_cksum();
            blocks.extend_from_slice(extended.as_bytes());
            blocks.extend_from_slice(&records);
            blocks.resize(blocks.len().next_multiple_of(to_usize(TAR_BLOCK)), 0);
        }
        blocks.extend_from_slice(self.header.as_bytes());
        blocks
    }
}

/// Sets as much of a name as there is room for.
fn set_name(field: &mut [u8; NAME], name: &[u8]) {
    field.fill(0);
    field.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
}
