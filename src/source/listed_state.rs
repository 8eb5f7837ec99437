//! What the list of an input says about its bytes, none of which are read for it.

use super::entry::{Attributes, EntryKind};
use super::input::Input;
use crate::rope::Identity;

/// The state of an input as its list shows it. A copy of the input that keeps times has the same state, on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedState {
    /// Seconds since 1970 of the newest entry.
    pub newest: i64,
    /// Identifies the names, kinds, permissions, sizes and times of the entries and of the files of device wheels, the targets
    /// of symlinks, the CRC-32 of members of wheels, and the requirements of device wheels.
    pub identity: Identity,
}

impl Input {
    /// The state of the input: of its entries, and of the tar archive that holds them.
    pub fn state(&self) -> ListedState {
        let mut newest = self.root.mtime;
        let mut identity = Identity::describe("state of an input");
        let time = |it: &Attributes| [it.mtime.cast_unsigned(), it.mtime_nanoseconds.into()];
        identity.numbers(time(&self.root));
        let devices = || self.host_wheel().into_iter().flat_map(|host| &host.devices);
        for text in devices().flat_map(|device| std::iter::once(&device.part).chain(&device.requires)) {
            identity.add(text.as_bytes());
        }
        for entry in self.entries.iter().chain(devices().flat_map(|device| &device.files)) {
            newest = newest.max(entry.attributes.mtime);
            identity.add(entry.path.as_bytes()).number(entry.attributes.mode.into()).numbers(time(&entry.attributes));
            match &entry.kind {
                EntryKind::Directory => identity.number(0),
                EntryKind::Symlink(target) => identity.number(1).add(target),
                EntryKind::File { content, .. } => {
                    let crc32 = content.member().map_or(0, |member| member.packed().crc32);
                    identity.numbers([2, content.size(), crc32.into()])
                }
            };
        }
        ListedState { newest, identity: identity.finish() }
    }
}
