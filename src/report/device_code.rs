//! Device code by form, place and fate.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::table::{Table, TableCell, counted, size};
use crate::devicecode::{CodeAmount, CodeFrame, CodeOfForm, DeviceCodePlace, DeviceForm, UNJOINED};
use crate::split::{CodeOfFile, Fate};

/// The most targets whose amounts are written apart.
const MAX_AMOUNTS: usize = 3;

/// Code of one form in one place of a file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CodeSummary {
    /// The path of the file in the input.
    pub path: String,
    /// Its form.
    pub form: DeviceForm,
    /// Where it is in the file.
    pub place: DeviceCodePlace,
    /// The compressions around it, the outermost first.
    pub frames: Vec<CodeFrame>,
    /// What becomes of it in a split.
    pub fate: Fate,
    /// Why it stays in the host part; null if it does not.
    pub reason: Option<String>,
    /// Number of bundles, code objects or files.
    pub pieces: u64,
    /// Their bytes in the file.
    pub size: u64,
    /// The code for each target.
    pub targets: BTreeMap<String, CodeAmount>,
    /// The code whose target is not known.
    pub unknown: CodeAmount,
}

/// Offload bundles in a binary to which no wrapper points.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EmbeddedSummary {
    /// The path of the binary in the input.
    pub path: String,
    /// Number of bundles.
    pub bundles: u64,
    /// Their bytes in the file.
    pub size: u64,
    /// The targets of their code.
    pub targets: BTreeSet<String>,
}

impl CodeSummary {
    /// The code of files.
    pub(crate) fn all(files: &[CodeOfFile]) -> Vec<Self> {
        files.iter().flat_map(Self::of_file).collect()
    }

    fn of_file(file: &CodeOfFile) -> impl Iterator<Item = Self> {
        file.found.iter().map(|(fate, found)| Self {
            path: file.path.to_string(),
            form: found.form,
            place: found.place,
            frames: found.frames.clone(),
            fate: *fate,
            reason: (*fate == Fate::Stays).then(|| reason(found, file)),
            pieces: found.pieces,
            size: found.size,
            targets: found.targets.iter().map(|(target, amount)| (target.to_string(), *amount)).collect(),
            unknown: found.unknown,
        })
    }

    /// The bundles in data, which reports of version 0.2 had.
    pub(crate) fn embedded(all: &[Self]) -> Vec<EmbeddedSummary> {
        let is_bundle = |code: &&Self| {
            let is_bundle = matches!(code.form, DeviceForm::Bundle | DeviceForm::CompressedBundle);
            is_bundle && code.place == DeviceCodePlace::Data && code.frames.is_empty()
        };
        let mut found = BTreeMap::new();
        for code in all.iter().filter(is_bundle) {
            let (path, targets) = (code.path.clone(), BTreeSet::new());
            let new = EmbeddedSummary { path: path.clone(), bundles: 0, size: 0, targets };
            let sum = found.entry(path).or_insert(new);
            (sum.bundles, sum.size) = (sum.bundles + code.pieces, sum.size + code.size);
            sum.targets.extend(code.targets.keys().cloned());
        }
        found.into_values().collect()
    }

    /// What it is, in words: "zstd of a bundle, a file".
    pub(crate) fn kind(&self) -> String {
        let mut kind: String = self.frames.iter().flat_map(|frame| [frame.name(), " of "]).collect();
        let place = match self.place {
            DeviceCodePlace::Wrapper if self.form == DeviceForm::SplitMarker => "",
            DeviceCodePlace::Wrapper => " of its wrappers",
            DeviceCodePlace::Data => " in its data",
            DeviceCodePlace::Unloaded => " in unloaded data",
            DeviceCodePlace::Object => " for a linker",
            DeviceCodePlace::File => "",
        };
        kind += self.form.name();
        kind + place
    }

    /// The targets with their number of code objects and bytes; those of many targets are added up.
    pub(crate) fn amounts(&self) -> String {
        let unknown = (self.unknown.code_objects > 0 && self.form.is_amd()).then_some(("not known", &self.unknown));
        let known = self.targets.iter().map(|(target, amount)| (target.as_str(), amount));
        let all: Vec<_> = known.chain(unknown).collect();
        if all.len() <= MAX_AMOUNTS {
            return all.iter().map(|(target, amount)| self.amount_of(target, **amount)).collect::<Vec<_>>().join(", ");
        }
        let sum = all.iter().fold(CodeAmount::default(), |sum, (_, amount)| CodeAmount {
            code_objects: sum.code_objects + amount.code_objects,
            code_size: sum.code_size + amount.code_size,
        });
        self.amount_of(&all.iter().map(|(target, _)| *target).collect::<Vec<_>>().join(" "), sum)
    }

    fn amount_of(&self, target: &str, amount: CodeAmount) -> String {
        let count = usize::try_from(amount.code_objects).unwrap_or(usize::MAX);
        let is_bitcode = self.form == DeviceForm::Bitcode;
        let (one, many) = if is_bitcode { ("module", "modules") } else { ("code object", "code objects") };
        match amount.code_size {
            0 => target.to_owned(),
            bytes => format!("{target} ({}, {})", counted(count, one, many), size(bytes)),
        }
    }

    /// What stays, and why: "lib/x.so: code object in its data: gfx942 (7 code objects, 1.2 MiB), loaded by address".
    pub(super) fn sentence(&self) -> String {
        let kind = self.kind();
        // What nothing looks into has a size.
        let amounts = Some(self.amounts()).filter(|it| !it.is_empty()).unwrap_or_else(|| size(self.size));
        format!("{}: {kind}: {amounts}, {}", self.path, self.reason.as_deref().unwrap_or("it is moved"))
    }

    /// The table of what stays.
    pub(crate) fn table(all: &[Self]) -> Table {
        let columns = "file | code | pieces # | size # | targets | why it stays";
        let stays = all.iter().filter(|code| code.fate == Fate::Stays);
        Table::of("Device code that stays in the host part", columns, stays, |code| {
            let (pieces, size) = (TableCell::number(code.pieces), TableCell::size(Some(code.size)));
            let reason = code.reason.as_deref().unwrap_or_default();
            [code.path.as_str().into(), code.kind().into(), pieces, size, code.amounts().into(), reason.into()]
        })
    }
}

/// Why code stays in the host part.
pub(crate) fn reason(
    found: &CodeOfForm,
    file @ CodeOfFile { archives, may_be_wrapped, is_in_archive, .. }: &CodeOfFile,
) -> String {
    let of_form = found.form.stays();
    match (of_form, found.place) {
        (Some(_), _) if found.form == DeviceForm::SplitMarker && file.is_unjoined() => UNJOINED.to_owned(),
        (Some(reason), _) if found.form == DeviceForm::SplitMarker && !archives.is_empty() => {
            format!("{reason}; its marker names {}", archives.join(", "))
        }
        (Some(reason), _) => reason.to_owned(),
        (None, DeviceCodePlace::Wrapper | DeviceCodePlace::Data | DeviceCodePlace::File) if *is_in_archive => {
            "in an archive: it is split if that is unpacked first".to_owned()
        }
        (None, DeviceCodePlace::Wrapper) => "it is not split; the warnings say why".to_owned(),
        (None, DeviceCodePlace::Data) if *may_be_wrapped && found.is_bundle_in_data() => {
            let registered = "or registered by a function that is looked up by dlsym";
            format!("loaded by address, {registered}: then it is split if the input is unpacked first")
        }
        (None, DeviceCodePlace::Data) => "loaded by address".to_owned(),
        (None, DeviceCodePlace::Unloaded) => "not loaded with its file, which a program may read for it".to_owned(),
        (None, DeviceCodePlace::Object) => "read by a linker, not by a HIP runtime".to_owned(),
        (None, DeviceCodePlace::File) if found.targets.len() > 1 => "one file has code for several GPUs".to_owned(),
        (None, DeviceCodePlace::File) => "no handler knows it, or its path names no GPU".to_owned(),
    }
}
