//! SBOMs of the fat wheel (PEP 770). One that lists packages holds for the wheels of a split as well. One that states
//! digests of files which a split rewrites does not.

use std::collections::{BTreeSet, HashSet};

use super::input_record::InputRecord;
use crate::rope::{Content, ReadError, Sha256, read_all};
use crate::source::{EntryPath, Input};
use crate::split::{Destination, Plan, hex};
use crate::wheel::is_made_again;

/// The directory of SBOMs in dist-info (PEP 770).
const SBOMS: &[u8] = b"sboms";

/// The longest word that is looked at: paths are shorter on Linux (`PATH_MAX`).
const MAX_WORD: usize = 4096;

/// Digits of digests in hexadecimal that SBOMs have: those of 128 to 512 bits.
const DIGITS: [usize; 6] = [32, 40, 56, 64, 96, 128];

/// The SBOMs that do not hold for the wheels of a split. Only wheels that have some are read for them.
pub(super) fn stale(input: &Input, plan: &Plan, record: &InputRecord) -> Result<BTreeSet<EntryPath>, ReadError> {
    let Some(dist_info) = input.dist_info() else { return Ok(BTreeSet::new()) };
    let directory = dist_info.child(SBOMS);
    let sboms: Vec<_> = input.entries.iter().filter(|entry| entry.path.is_below(&directory)).collect();
    if sboms.is_empty() {
        return Ok(BTreeSet::new());
    }
    let changed = ChangedFiles::of(input, plan, dist_info, record)?;
    let mut stale = BTreeSet::new();
    for entry in sboms {
        if let Some(content) = entry.content()
            && changed.are_in(&**content)?
        {
            stale.insert(entry.path.clone());
        }
    }
    Ok(stale)
}

/// The files that a split rewrites, or makes again.
#[derive(Default)]
struct ChangedFiles {
    /// The path of each. Binaries are there with their file names as well, which is all that some SBOMs have.
    paths: HashSet<Vec<u8>>,
    /// The SHA-256 of each in hexadecimal: what RECORD states, or else that of the file.
    sums: HashSet<Vec<u8>>,
}

impl ChangedFiles {
    fn of(input: &Input, plan: &Plan, dist_info: &EntryPath, record: &InputRecord) -> Result<Self, ReadError> {
        let mut changed = Self::default();
        for (entry, place) in input.entries.iter().zip(&plan.places) {
            let Some(content) = entry.content() else { continue };
            if matches!(place, Destination::Rewritten { .. }) {
                changed.paths.insert(entry.path.name().to_vec());
            } else if !is_made_again(dist_info, &entry.path) {
                continue;
            }
            let stated = record.sha256(&entry.path, content.size()).ok().flatten();
            let sum = stated.map_or_else(|| Sha256::of_content(&**content), Ok)?;
            changed.sums.insert(hex(&sum).into_bytes());
            changed.paths.insert(entry.path.as_bytes().to_vec());
        }
        Ok(changed)
    }

    /// Whether a text states a digest of one of them: its SHA-256, or its path or name among digests of any kind.
    fn are_in(&self, text: &dyn Content) -> Result<bool, ReadError> {
        let mut words =
            Words { changed: self, word: Vec::new(), names_one: false, has_digest: false, states_one: false };
        read_all(text, |piece| piece.iter().for_each(|&byte| words.take(byte)))?;
        words.end();
        Ok(words.states_one || words.names_one && words.has_digest)
    }
}

/// Looks at the words of a text. SBOMs have several formats, of which each can be nested deeply; digests and paths are words
/// in all of them.
struct Words<'a> {
    changed: &'a ChangedFiles,
    word: Vec<u8>,
    names_one: bool,
    has_digest: bool,
    states_one: bool,
}

impl Words<'_> {
    fn take(&mut self, byte: u8) {
        if !byte.is_ascii_alphanumeric() && !b"/._-+~".contains(&byte) {
            self.end();
        } else if self.word.len() <= MAX_WORD {
            self.word.push(byte);
        }
    }

    fn end(&mut self) {
        let word = &self.word;
        if DIGITS.contains(&word.len()) && word.iter().all(u8::is_ascii_hexdigit) {
            self.has_digest = true;
            self.states_one |= self.changed.sums.contains(&word.to_ascii_lowercase());
        } else {
            let path = word.strip_prefix(b"./").or_else(|| word.strip_prefix(b"/")).unwrap_or(word);
            self.names_one |= self.changed.paths.contains(path);
        }
        self.word.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rope::{Rope, Segment};

    #[test]
    fn an_sbom_holds_unless_it_states_digests_of_changed_files() {
        let sum = "0123456789abcdef".repeat(4);
        let other = "f".repeat(64);
        let changed = ChangedFiles {
            paths: HashSet::from([b"pkg/lib/liba.so.6".to_vec(), b"liba.so.6".to_vec()]),
            sums: HashSet::from([sum.clone().into_bytes()]),
        };
        let is_stale = |text: String| {
            let rope = Rope::new([Segment::literal(text.into_bytes())]).unwrap();
            changed.are_in(&rope).unwrap()
        };
        for text in [
            format!("{{\"name\": \"liba.so.6\", \"content\": \"{sum}\"}}"),
            format!("FileChecksum: SHA256: {}", sum.to_uppercase()),
            format!("{{\"fileName\":\"./pkg/lib/liba.so.6\",\"checksumValue\":\"{}\"}}", "a".repeat(40)),
            format!("SHA1: {} /pkg/lib/liba.so.6", "a".repeat(40)),
            format!("<file name='liba.so.6'><hash>{}</hash>", "a".repeat(128)),
            sum.clone(),
        ] {
            assert!(is_stale(text.clone()), "{text}");
        }
        for text in [
            String::new(),
            "{\"name\":\"pkg/lib/liba.so.6\"}".to_owned(),
            format!("{{\"name\": \"liba.so\", \"content\": \"{other}\"}}"),
            format!("{{\"name\": \"pkg/lib/liba.so.60\", \"content\": \"{other}\"}}"),
            format!("{{\"serialNumber\": \"x{sum}\"}}"),
            "9".repeat(3 * MAX_WORD),
        ] {
            assert!(!is_stale(text.clone()), "{text}");
        }
    }
}
