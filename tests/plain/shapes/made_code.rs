//! Device code in other forms than behind wrappers, and files that hold it, as tools write them.

use std::io::Write;

use flate2::Compression as Level;
use flate2::write::ZlibEncoder;

use super::bundle_files::code;

/// LLVM's "Extensions": `SHT_LLVM_OFFLOADING`. The gABI: `SHT_PROGBITS`.
pub(super) const OFFLOADING: u32 = 0x6fff_4c0b;
pub(super) const PROGBITS: u32 = 1;

/// A code object of `length` bytes for the processor with this number (`EF_AMDGPU_MACH`), with section headers at its end.
pub(super) fn code_object(mach: u32, length: usize) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\x40\x02".to_vec();
    bytes.resize(16, 0);
    for field in [3_u16, 224] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(1_u32.to_le_bytes());
    for field in [0, 0, (length - 64) as u64] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(mach.to_le_bytes());
    for field in [64_u16, 56, 0, 64, 1, 0] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(code(7, length - 64));
    bytes
}

pub(super) const GFX90A: u32 = 0x3f;
pub(super) const GFX942: u32 = 0x4c;
pub(super) const GFX1100: u32 = 0x41;

/// Compresses bytes.
pub(super) type Pack = fn(&[u8]) -> Vec<u8>;

/// An offload binary of a version, with an image for each triple and architecture.
pub(super) fn offload_binary(version: u32, images: &[(&str, &str, &[u8])], pack: Option<Pack>) -> Vec<u8> {
    let (header, string) = (if version == 3 { 40 } else { 32 }, if version == 1 { 16 } else { 24 });
    let (mut entries, mut strings, mut texts, mut data) = (Vec::new(), Vec::new(), Vec::new(), Vec::<u8>::new());
    let texts_at = header + images.len() * (40 + 2 * string);
    let mut text = |text: &str| {
        let at = texts_at + texts.len();
        texts.extend(text.as_bytes());
        texts.push(0);
        at as u64
    };
    for (triple, arch, _) in images {
        for (key, value) in [("triple", triple), ("arch", arch)] {
            for field in [text(key), text(value), value.len() as u64].iter().take(string / 8) {
                strings.extend(field.to_le_bytes());
            }
        }
    }
    let data_at = (texts_at + texts.len()).next_multiple_of(8);
    for (number, (.., image)) in images.iter().enumerate() {
        entries.extend([1, 0, 2, 0, 0, 0, 0, 0]);
        let strings = header + 40 * images.len() + 2 * string * number;
        for field in [strings, 2, data_at + data.len(), image.len()] {
            entries.extend((field as u64).to_le_bytes());
        }
        data.extend(*image);
    }
    let mut body = [entries, strings, texts].concat();
    body.resize(data_at - header, 0);
    body.extend(data);
    let inflated = header + body.len();
    if let Some(pack) = pack {
        body = pack(&body);
    }
    let mut bytes = b"\x10\xff\x10\xad".to_vec();
    bytes.extend(version.to_le_bytes());
    let fields = [
        header + body.len(),
        header,
        if version == 1 { 40 } else { images.len() },
        usize::from(pack.is_some()) * inflated,
    ];
    for field in fields.iter().take((header - 8) / 8) {
        bytes.extend((*field as u64).to_le_bytes());
    }
    bytes.extend(body);
    bytes
}

pub(super) fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Level::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A zstd frame that states its size, or not, with a checksum or without.
pub(super) fn zstd(bytes: &[u8], is_stated: bool) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.include_checksum(is_stated).unwrap();
    if is_stated {
        encoder.set_pledged_src_size(Some(bytes.len() as u64)).unwrap();
    }
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A file of a type (`e_type`) with one section of this name, type and flags (gABI, chapter 4). The header of the section is at
/// the end.
pub(super) fn with_section(kind: u8, name: &str, (section_type, flags): (u32, u64), data: &[u8]) -> Vec<u8> {
    let names = format!("\0{name}\0.shstrtab\0");
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([kind, 0, 62, 0, 1, 0, 0, 0]);
    let start = 64 + names.len();
    let table = (start + data.len()).next_multiple_of(8);
    for field in [0, 0, table as u64] {
        bytes.extend(field.to_le_bytes());
    }
    for field in [0, 0, 64_u16, 56, 0, 64, 3, 1] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(names.as_bytes());
    bytes.extend(data);
    bytes.resize(table, 0);
    let mut section = |name: usize, kind: u32, flags: u64, offset: usize, size: usize| {
        bytes.extend(u32::try_from(name).unwrap().to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        for field in [flags, 0, offset as u64, size as u64, 0, 1, 0] {
            bytes.extend(field.to_le_bytes());
        }
    };
    section(0, 0, 0, 0, 0);
    section(name.len() + 2, 3, 0, 64, names.len());
    section(1, section_type, flags, start, data.len());
    bytes
}

/// A shared library with `.rodata`.
pub(super) fn with_data(data: &[u8]) -> Vec<u8> {
    with_section(3, ".rodata", (PROGBITS, 2), data)
}

pub(super) fn static_library(members: &[&[u8]]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for member in members {
        bytes.extend(format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "x.o/", 0, 0, 0, 644, member.len()).as_bytes());
        bytes.extend(*member);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    }
    bytes
}
