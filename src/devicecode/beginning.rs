//! What begins at a place, judged by its first block.

use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, Input, MatchKind};
use strum::VariantArray;

use super::bitcode;
use super::effort::{Effort, SearchedRange};
use super::form::{CodeFrame, DeviceForm};
use super::found::CodePiece;
use super::frame::{self, Beginning};
use super::offload_binary;
use super::section::code_of_section;
use crate::fatbin::{
    ANY_SIZE, BITCODE, Bundle, CODE_HEADER, code_target, end_by_beginning, end_of_cubin, from_first_frame, in_frames,
    is_bitcode, is_bundle, is_code, is_skipped_frame,
};
use crate::resources::Resources;
use crate::rope::{Content, to_usize};
use crate::source::STATIC_LIBRARY;

/// Bytes that are read first: enough for the headers of a code object with 17 segments.
const FIRST: u64 = 1024;

/// The machines of object files for Windows: x86-64, 64-bit ARM, the same to be called by x86-64, and x86.
const MACHINES: [u16; 4] = [0x8664, 0xAA64, 0xA641, 0x14C];

/// The class ID of object files for many sections.
const BIGOBJ: [u8; 16] =
    [0xC7, 0xA1, 0xBA, 0xD1, 0xEE, 0xBA, 0xA9, 0x4B, 0xAF, 0x20, 0xFA, 0xF6, 0x6A, 0xA4, 0xDC, 0xB8];

/// What a byte of a table costs, since each of its entries becomes a target.
const TABLE_COST: u64 = 8;

/// The most compressions around each other that are looked through.
pub(super) const MAX_FRAMES: usize = 3;

/// Whether a linker reads a file that begins with this [`CODE_HEADER`]: a static library, or an object file. HIP runtimes load
/// linked code only (`ET_DYN`, LLVM's "User Guide for AMDGPU Backend", "AMDGPU ELF Header").
pub fn is_for_linker(head: &[u8]) -> bool {
    // The header of an ELF file up to `e_type`.
    let is_elf = head.starts_with(b"\x7fELF") && head.get(16..18) == Some(&[1, 0]);
    head.starts_with(STATIC_LIBRARY) || is_elf || begins_coff_object(head)
}

/// Whether an object file for Windows begins with these bytes ("PE Format", "COFF File Header"): one for a known machine,
/// which has sections and no optional header; or one for many sections (`ANON_OBJECT_HEADER_BIGOBJ` of winnt.h).
fn begins_coff_object(head: &[u8]) -> bool {
    let Some((machine, rest)) = head.split_first_chunk() else { return false };
    let is_known = MACHINES.contains(&u16::from_le_bytes(*machine));
    let has_sections = rest.first_chunk::<2>().is_some_and(|count| *count != [0, 0]);
    let is_many = || head.starts_with(b"\0\0\xff\xff") && head.get(12..28) == Some(&BIGOBJ);
    is_known && has_sections && head.get(16..18) == Some(&[0, 0]) || is_many()
}

/// The code that a file begins with. All of the file belongs to it. Of what is damaged or of a later version, only the form is known.
/// If `effort` is spent, there may be some that is not found.
pub fn code_of_file(content: &Arc<dyn Content>, resources: &Arc<Resources>, effort: &Effort) -> Option<CodePiece> {
    code_after_head(&content.beginning(CODE_HEADER).ok()?, content, resources, effort)
}

/// The same for a file whose [`CODE_HEADER`] is known.
pub(crate) fn code_after_head(
    head: &[u8],
    content: &Arc<dyn Content>,
    resources: &Arc<Resources>,
    effort: &Effort,
) -> Option<CodePiece> {
    let size = content.size();
    let begins_skipped = is_skipped_frame(head);
    if !begins_skipped && !may_begin(head, MAX_FRAMES) {
        return None;
    }
    let content = &if begins_skipped { from_first_frame(content).ok()?? } else { Arc::clone(content) };
    let range = SearchedRange { content, start: 0, end: content.size(), resources, effort };
    Some(match read(range, MAX_FRAMES)? {
        Ok(piece) => CodePiece { length: size, ..piece },
        Err(form) => CodePiece::opaque(form, size),
    })
}

/// Whether code may begin with these bytes, or compressions around it of which there are at most `frames`.
fn may_begin(head: &[u8], frames: usize) -> bool {
    let is_offload = || head.starts_with(DeviceForm::OffloadBinary.magic());
    let is_form = is_bundle(head) || is_code(head) || is_offload() || of_nvidia(head).is_some() || is_bitcode(head);
    is_form || frames > 0 && CodeFrame::ALL.iter().any(|frame| head.starts_with(frame.magic()))
}

/// The code that a range begins with. It has at most `frames` compressions around it. Of a bundle or
/// an offload binary that is damaged or of a later version, its form.
pub(super) fn read(range: SearchedRange<'_>, frames: usize) -> Option<Result<CodePiece, DeviceForm>> {
    let SearchedRange { content, start, effort, .. } = range;
    let end = range.end.min(content.size());
    let range = SearchedRange { end, ..range };
    let mut head = vec![0; to_usize(FIRST.min(end.checked_sub(start)?))];
    content.read_at(start, &mut head).ok()?;
    effort.spend(head.len() as u64)?;
    if let Some(code) = code_of_section(&head) {
        return Some(Ok(code));
    }
    if is_bundle(&head) {
        return bundle(&head, range);
    }
    if is_bitcode(&head) {
        return bitcode::read(range).map(Ok);
    }
    if is_code(&head) {
        return code_object(&head, end - start).map(Ok);
    }
    // In data, the next one is a piece of its own.
    let is_whole = range.is_whole();
    if head.starts_with(DeviceForm::OffloadBinary.magic()) {
        return if is_whole { offload_binary::read_all(range) } else { offload_binary::read(range) };
    }
    if let Some((form, length)) = of_nvidia(&head) {
        return Some((length <= end - start).then(|| CodePiece::opaque(form, length)).ok_or(form));
    }
    let frame = CodeFrame::ALL.into_iter().find(|frame| head.starts_with(frame.magic())).filter(|_| frames > 0)?;
    let may_be_code = |head: &[u8]| may_begin(head, frames - 1) && (is_whole || !is_bitcode(head));
    let beginning = Beginning::of(frame, range, may_be_code)?;
    let inner = |size| {
        let content = &beginning.of_size(size)?;
        read(SearchedRange { content, start: 0, end: content.size(), ..range }, frames - 1)?.ok()
    };
    // Of what is in a frame, only the beginning is known.
    let mut piece = if is_whole && frames == MAX_FRAMES {
        in_frames(&**content, beginning.stated, || effort.spend(0), inner)?
    } else {
        inner(beginning.stated.unwrap_or(ANY_SIZE))?
    };
    // Where the frame of a whole file ends does not matter, and finding that may mean decompressing it.
    piece.length = if is_whole { end } else { frame::length(frame, range)? };
    piece.frames.insert(0, frame);
    Some(Ok(piece))
}

/// The form and the length of NVIDIA's code that begins so.
fn of_nvidia(head: &[u8]) -> Option<(DeviceForm, u64)> {
    if let Some(end) = end_of_cubin(head) {
        return Some((DeviceForm::NvidiaCubin, end.max(CODE_HEADER as u64)));
    }
    let size = head.strip_prefix(DeviceForm::NvidiaFatbin.magic())?.first_chunk()?;
    Some((DeviceForm::NvidiaFatbin, u64::from_le_bytes(*size).saturating_add(16)))
}

/// Bundles without code for any target are none.
fn bundle(head: &[u8], range: SearchedRange<'_>) -> Option<Result<CodePiece, DeviceForm>> {
    let mut count = 0;
    let bundle = Bundle::read_counted(range.content, range.start, range.end, range.resources, &mut count);
    range.effort.spend(if bundle.is_ok() { count.saturating_mul(TABLE_COST) } else { count })?;
    count = 0;
    let Ok(bundle) = bundle else {
        let is_compressed = head.starts_with(DeviceForm::CompressedBundle.magic());
        return Some(Err(if is_compressed { DeviceForm::CompressedBundle } else { DeviceForm::Bundle }));
    };
    let piece = CodePiece::of_bundle(&bundle);
    let is_bitcode = bundle.has_bitcode_only(range.content, range.resources, &mut count);
    range.effort.spend(count)?;
    let form = if is_bitcode { DeviceForm::Bitcode } else { piece.form };
    (!bundle.targets().is_empty()).then_some(Ok(CodePiece { form, ..piece }))
}

impl CodePiece {
    /// The code of a bundle.
    pub fn of_bundle(bundle: &Bundle) -> Self {
        let form = if bundle.is_compressed() { DeviceForm::CompressedBundle } else { DeviceForm::Bundle };
        let code = bundle.code_sizes().map(|(target, size)| (Some(target), size)).collect();
        Self { form, frames: Vec::new(), length: bundle.length(), code }
    }
}

/// A code object ends where everything ends that its headers name.
fn code_object(head: &[u8], available: u64) -> Option<CodePiece> {
    let length = end_by_beginning(head).max(CODE_HEADER as u64);
    let code = vec![(code_target(head), length)];
    (length <= available).then(|| CodePiece { form: DeviceForm::CodeObject, frames: Vec::new(), length, code })
}

/// Finds what code begins with, of all forms in one pass.
#[expect(clippy::expect_used, reason = "these are few and short")]
static MAGICS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let forms = DeviceForm::VARIANTS.iter().filter(|form| **form <= DeviceForm::NvidiaFatbin).map(|form| form.magic());
    let magics = forms.chain(BITCODE).chain(CodeFrame::ALL.map(CodeFrame::magic));
    AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(magics).expect("magics")
});

/// Offsets in some bytes at which code may begin, in ascending order.
pub(crate) fn beginnings(bytes: &[u8]) -> Vec<usize> {
    let next = |at: usize| Some(MAGICS.find(Input::new(bytes).range(at.min(bytes.len())..))?.start());
    std::iter::successors(next(0), |found| next(found + 1)).collect()
}
