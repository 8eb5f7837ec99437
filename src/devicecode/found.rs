//! What was found, added up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::form::{CodeFrame, DeviceCodePlace, DeviceForm};
use crate::gpu::TargetId;
use crate::memory::{Parser, ParserMemory, TableError};

/// Code of one form in one place of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeOfForm {
    /// Its form.
    pub form: DeviceForm,
    /// Where it is in the file.
    pub place: DeviceCodePlace,
    /// The compressions around it, the outermost first.
    pub frames: Vec<CodeFrame>,
    /// Number of bundles, code objects or files.
    pub pieces: u64,
    /// Their bytes in the file.
    pub size: u64,
    /// The code for each target.
    pub targets: BTreeMap<TargetId, CodeAmount>,
    /// The code whose target is not known.
    pub unknown: CodeAmount,
}

impl CodeOfForm {
    /// Whether it is code for its targets: bitcode has to be linked first, and an archive unpacked.
    pub(crate) fn is_for_targets(&self) -> bool {
        !matches!(self.form, DeviceForm::Bitcode | DeviceForm::Kpack) && !self.targets.is_empty()
    }

    /// Whether it is a file for compilers, such as ROCm's `amdgcn/bitcode/ocml.bc`: bitcode that is for no target of its own. No
    /// runtime loads it, so that it needs no judgement.
    pub(crate) fn is_for_compilers(&self, name: &[u8]) -> bool {
        let is_plain = self.place == DeviceCodePlace::File && self.frames.is_empty() && self.targets.is_empty();
        self.form == DeviceForm::Bitcode && is_plain && name.ends_with(b".bc")
    }

    /// Whether it is of offload bundles in data.
    pub(crate) fn is_bundle_in_data(&self) -> bool {
        let is_bundle = matches!(self.form, DeviceForm::Bundle | DeviceForm::CompressedBundle);
        is_bundle && self.place == DeviceCodePlace::Data && self.frames.is_empty()
    }
}

/// A number of code objects, and their bytes without compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeAmount {
    /// Number of code objects.
    pub code_objects: u64,
    /// Their bytes; 0 if they are not known.
    pub code_size: u64,
}

impl CodeAmount {
    fn add(&mut self, size: u64) {
        self.code_objects += 1;
        self.code_size = self.code_size.saturating_add(size);
    }
}

/// A bundle, a code object or a file.
#[derive(Debug)]
pub struct CodePiece {
    /// Its form.
    pub form: DeviceForm,
    /// The compressions around it, the outermost first.
    pub(super) frames: Vec<CodeFrame>,
    /// Its bytes in the file.
    pub(super) length: u64,
    /// The code objects: targets, if they are known, and bytes.
    pub(super) code: Vec<(Option<TargetId>, u64)>,
}

impl CodePiece {
    /// Something of which only the form and the length are known.
    pub(super) fn opaque(form: DeviceForm, length: u64) -> Self {
        Self { form, frames: Vec::new(), length, code: vec![(None, 0)] }
    }

    /// An archive for split libraries.
    pub(crate) fn of_kpack(length: u64, code: Vec<(Option<TargetId>, u64)>) -> Self {
        Self { code, ..Self::opaque(DeviceForm::Kpack, length) }
    }
}

/// The code of a file, by form and place.
#[derive(Debug)]
pub struct CodeTally {
    found: BTreeMap<(DeviceCodePlace, DeviceForm, Vec<CodeFrame>), CodeOfForm>,
    memory: ParserMemory,
}

impl Default for CodeTally {
    fn default() -> Self {
        Self { found: BTreeMap::new(), memory: ParserMemory::new(Parser::DeviceCode) }
    }
}

impl CodeTally {
    /// Adds a piece. Fails if more targets are named than there is memory for.
    pub fn add(&mut self, place: DeviceCodePlace, piece: CodePiece) -> Result<(), TableError> {
        let CodePiece { form, frames, length, code } = piece;
        let found = self.found.entry((place, form, frames)).or_insert_with_key(|(place, form, frames)| CodeOfForm {
            form: *form,
            place: *place,
            frames: frames.clone(),
            pieces: 0,
            size: 0,
            targets: BTreeMap::new(),
            unknown: CodeAmount::default(),
        });
        found.pieces += 1;
        found.size = found.size.saturating_add(length);
        for (target, size) in code {
            match target {
                None => found.unknown.add(size),
                Some(target) => {
                    if !found.targets.contains_key(&target) {
                        self.memory.add_entry(target.processor().as_bytes())?;
                    }
                    found.targets.entry(target).or_default().add(size);
                }
            }
        }
        Ok(())
    }

    /// Adds something of which only the length is known.
    pub fn add_opaque(&mut self, place: DeviceCodePlace, form: DeviceForm, length: u64) -> Result<(), TableError> {
        self.add(place, CodePiece::opaque(form, length))
    }

    /// What was found, by place and form.
    pub fn into_found(self) -> Vec<CodeOfForm> {
        self.found.into_values().collect()
    }
}
