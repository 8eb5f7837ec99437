//! Host binaries with device code: locating it by reading headers only, and the binary without it as a rope.
//!
//! It does not know where code objects go. Its callers provide the marker or the bundle for each wrapper.

mod changes;
mod code;
mod coff;
mod data;
mod data_section;
mod elf;
mod error;
mod form;
mod imports;
mod joined;
mod marker;
mod payload;
mod pod;
mod ranges;
mod rewritten;
mod split;
mod words;
mod wrapper;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use self::changes::Patch;
use self::form::CodeForm;
use crate::fatbin::{MAGIC_SIZE, is_bundle};
use crate::rope::{Content, Edit, Rope, to_usize};
use crate::source::{HostFormat, MIN_BINARY};

pub use code::FileCode;
pub use data::data_ranges;
pub(crate) use data::has_bundles;
pub use error::BinaryError;
pub use form::Replaced;
pub use imports::{Imports, LinkedMachine, NeededVersion};
pub use joined::join;
pub use marker::marker;
pub use rewritten::{Rewritten, ThinChanges};
pub use split::{SplitBinary, SplitWrapper};
pub use wrapper::{MAX_WRAPPERS, Wrapper};

/// A binary with device code.
#[derive(Debug)]
pub struct FatBinary {
    content: Arc<dyn Content>,
    format: BinaryFormat,
}

impl HostFormat {
    fn of(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        Ok(Self::of_head(&content.beginning(to_usize(MIN_BINARY))?))
    }

    /// Reads a file of one of the formats; `None` for others.
    fn read<T>(
        content: &Arc<dyn Content>,
        elf: FormatReader<T>,
        coff: FormatReader<T>,
    ) -> Result<Option<T>, BinaryError> {
        match Self::of(content)? {
            Some(Self::Elf) => elf(content),
            Some(Self::Coff) => coff(content),
            None => Ok(None),
        }
    }
}

type FormatReader<T> = fn(&Arc<dyn Content>) -> Result<Option<T>, BinaryError>;

#[derive(Debug)]
enum BinaryFormat {
    Elf(Box<elf::FatElf>),
    Coff(Box<coff::FatCoff>),
    /// An offload bundle that is a file of its own, without host code. Programs load it by name.
    Bundle,
}

impl FatBinary {
    /// Looks for device code. `Ok(None)` if the file is not a binary or has none.
    pub fn scan(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        let format = match HostFormat::of(content)? {
            Some(HostFormat::Elf) => elf::FatElf::scan(content)?.map(|elf| BinaryFormat::Elf(Box::new(elf))),
            Some(HostFormat::Coff) => coff::FatCoff::scan(content)?.map(|coff| BinaryFormat::Coff(Box::new(coff))),
            None => None,
        };
        Ok(format.map(|format| Self { content: Arc::clone(content), format }))
    }

    /// A file that begins with an offload bundle, as a binary with one wrapper. It has a thin form, but none without
    /// device code. `None` if it begins with anything else.
    pub fn of_bundle(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        Ok(is_bundle(&content.beginning(MAGIC_SIZE)?)
            .then(|| Self { content: Arc::clone(content), format: BinaryFormat::Bundle }))
    }

    /// Bytes of memory that its section headers take. An image for Windows has at most 96 of them.
    pub fn header_bytes(&self) -> usize {
        if let BinaryFormat::Elf(elf) = &self.format { elf.header_bytes() } else { 0 }
    }

    /// The fat binary wrappers by index. A bundle ends where the next one begins.
    pub fn wrappers(&self) -> Vec<Wrapper> {
        let mut wrappers = match &self.format {
            BinaryFormat::Elf(elf) => elf.wrappers(),
            BinaryFormat::Coff(coff) => coff.wrappers(),
            BinaryFormat::Bundle => vec![Wrapper { bundle: 0, limit: self.content.size() }],
        };
        let bundles: BTreeSet<u64> = wrappers.iter().map(|wrapper| wrapper.bundle).collect();
        for wrapper in &mut wrappers {
            let next = bundles.range(wrapper.bundle.saturating_add(1)..).next();
            wrapper.limit = next.map_or(wrapper.limit, |&next| next.min(wrapper.limit));
        }
        wrappers
    }

    /// The places of its bundles, and for each wrapper the number of its bundle. Several wrappers may lead to one, which is read
    /// once.
    pub fn bundles(&self) -> (Vec<Wrapper>, Vec<usize>) {
        let (mut places, mut numbers) = (Vec::new(), HashMap::new());
        let number = |wrapper: Wrapper| {
            *numbers.entry(wrapper.bundle).or_insert_with(|| {
                places.push(wrapper);
                places.len() - 1
            })
        };
        let of_wrappers = self.wrappers().into_iter().map(number).collect();
        (places, of_wrappers)
    }

    /// The first difference between this binary and a file that claims to be its host form: the first byte that a
    /// program or a debugger sees and that is neither device code nor had to change. `None` if nothing differs.
    pub fn first_difference(&self, split: &Arc<dyn Content>) -> Result<Option<String>, BinaryError> {
        match &self.format {
            BinaryFormat::Elf(elf) => elf.first_difference(split),
            BinaryFormat::Coff(coff) => coff.first_difference(split),
            BinaryFormat::Bundle => Ok(None),
        }
    }

    /// Rules of loaders, linkers and inspection tools for ELF that it breaks as it is. Those for images for Windows are
    /// not checked, since their checksum is over all bytes.
    pub fn problems(&self) -> Result<Vec<String>, BinaryError> {
        match &self.format {
            BinaryFormat::Elf(elf) => elf.problems(),
            BinaryFormat::Coff(_) | BinaryFormat::Bundle => Ok(Vec::new()),
        }
    }

    /// The changes that remove the device code and point all wrappers to `marker`.
    pub fn edits(&self, marker: &[u8]) -> Result<Vec<Edit>, BinaryError> {
        changes::edits(&self.content, &self.host_changes(marker)?, &[])
    }

    fn host_changes(&self, marker: &[u8]) -> Result<Vec<Patch>, BinaryError> {
        self.changes(&CodeForm::marker(marker))
    }

    /// The changes that replace its bundles with `bundles`, which are in the order of the old offsets.
    fn thin_changes(&self, bundles: &[Replaced]) -> Result<Vec<Patch>, BinaryError> {
        let (device, address) = match &self.format {
            BinaryFormat::Elf(elf) => elf.device_code(),
            BinaryFormat::Coff(coff) => coff.device_code(),
            BinaryFormat::Bundle => (0..self.content.size(), 0),
        };
        self.changes(&CodeForm::thin(&device, address, bundles)?)
    }

    fn changes(&self, form: &CodeForm) -> Result<Vec<Patch>, BinaryError> {
        match &self.format {
            BinaryFormat::Elf(elf) => elf.changes(form),
            BinaryFormat::Coff(coff) => coff.changes(form),
            BinaryFormat::Bundle if form.is_thin() => Ok(form.replace(Vec::new(), 0..self.content.size())),
            BinaryFormat::Bundle => Err(BinaryError::unsupported("there is nothing but device code in it")),
        }
    }

    /// The binary after the changes of [`FatBinary::edits`].
    pub fn rewrite(&self, marker: &[u8]) -> Result<Rope, BinaryError> {
        changes::rope(&self.content, self.edits(marker)?)
    }
}

impl SplitBinary {
    /// Looks for split wrappers. `Ok(None)` if there are none: the file is not a binary, has never had device code, or
    /// still has it.
    pub fn read(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        HostFormat::read(content, elf::read_split, coff::read_split)
    }

    /// Like [`SplitBinary::read`], for a file that may be compressed. If it cannot have device code, not all of it is
    /// decompressed.
    pub fn find(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        if HostFormat::of(content)? == Some(HostFormat::Elf) && !elf::may_have_code(content)? {
            return Ok(None);
        }
        Self::read(content)
    }
}

/// Whether a file is an image for Windows with a signature (Authenticode). What cannot be read has none.
pub fn is_signed(content: &Arc<dyn Content>) -> bool {
    matches!(HostFormat::of(content), Ok(Some(HostFormat::Coff))) && coff::is_signed(content)
}

impl LinkedMachine {
    /// The machine of a program or a library by its header, which may be the only part that can be read. `None` for other
    /// files.
    pub fn of(content: &Arc<dyn Content>) -> Option<Self> {
        match HostFormat::of(content).ok()?? {
            HostFormat::Coff => Some(Self::Pe),
            HostFormat::Elf => elf::machine(content).map(Self::Elf),
        }
    }
}

impl Imports {
    /// Reads a program or a shared library; `Ok(None)` if the file is neither, or is for a machine without 64-bit
    /// addresses.
    pub fn read(content: &Arc<dyn Content>) -> Result<Option<Self>, BinaryError> {
        HostFormat::read(content, elf::imports, coff::imports)
    }
}
