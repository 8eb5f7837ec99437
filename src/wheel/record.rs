//! RECORD (Recording installed projects): every file with SHA-256 and size, in Python's `csv` dialect.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::WheelError;
use crate::source::EntryPath;

/// Length of a SHA-256 in urlsafe base64 without padding.
pub(crate) const SHA256_TEXT: usize = 43;

/// The most lines. There is one for each file.
const MAX_LINES: usize = 1 << 20;

/// The content of a RECORD.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    /// All paths, one after another.
    paths: Vec<u8>,
    /// Sorted by path, each path once.
    rows: Vec<Row>,
    digests: Vec<Claim>,
}

/// A path, and where its claim is in the list of claims.
#[derive(Clone, Copy, Debug)]
struct Row {
    start: u32,
    length: u32,
    claim: u32,
}

/// Instead of the place of a claim: [`Stated::Nothing`] and [`Stated::Several`].
const NOTHING: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;
/// Added to the place of a claim whose digest has hexadecimal digits. Places are less than [`MAX_LINES`].
const HEXADECIMAL: u32 = 1 << 30;

/// The statement of a RECORD about one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stated {
    /// A SHA-256 and a size.
    Claim(Claim),
    /// A SHA-256 in hexadecimal digits and a size, as rocm-kpack's splitters write it. The specification does not allow
    /// that, and nothing but `verify` reads it.
    Hexadecimal(Claim),
    /// No SHA-256 or no size, as in some real wheels.
    Nothing,
    /// Several different ones. Installers write that when two files of a wheel have one installed path, so that one was
    /// overwritten.
    Several,
}

/// What a RECORD says about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// SHA-256 of the content.
    pub sha256: [u8; 32],
    /// Size in bytes.
    pub size: u64,
}

impl Claims {
    /// The memory that they take, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let Self { paths, rows, digests } = self;
        (paths.capacity() + size_of_val(&**rows) + size_of_val(&**digests)) as u64
    }

    /// Parses a RECORD file. The result is empty if there are more than `MAX_LINES` lines.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut parsed = Self::default();
        let lines = memchr::memchr_iter(b'\n', bytes).count();
        if lines > MAX_LINES {
            return parsed;
        }
        let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
        let mut row = csv::ByteRecord::new();
        parsed.rows.reserve_exact(lines);
        while let Ok(true) = reader.read_byte_record(&mut row) {
            if parsed.rows.len() >= MAX_LINES {
                return Self::default();
            }
            let Some(path) = row.get(0) else { continue };
            let stated = match (row.get(1), row.get(2), row.len()) {
                (Some(digest), Some(size), 3) => stated(digest, size).unwrap_or(Stated::Nothing),
                _ => Stated::Nothing,
            };
            // RECORD has at most 64 MiB.
            let [start, length] = [parsed.paths.len(), path.len()].map(|it| u32::try_from(it).unwrap_or(NOTHING));
            let claim = parsed.keep(stated);
            parsed.rows.push(Row { start, length, claim });
            parsed.paths.extend_from_slice(path);
        }
        parsed.sort();
        parsed
    }

    /// Sorts the rows, and combines those about one path.
    fn sort(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by(|one, other| self.path(*one).cmp(self.path(*other)));
        rows.dedup_by(|next, kept| {
            let is_same = self.path(*next) == self.path(*kept);
            if is_same {
                let stated = self.stated(*kept).and(self.stated(*next));
                kept.claim = match stated {
                    Stated::Nothing => NOTHING,
                    Stated::Several => SEVERAL,
                    claim if claim == self.stated(*next) => next.claim,
                    _ => kept.claim,
                };
            }
            is_same
        });
        self.rows = rows;
    }

    fn path(&self, row: Row) -> &[u8] {
        let start = row.start as usize;
        self.paths.get(start..start.saturating_add(row.length as usize)).unwrap_or_default()
    }

    /// Stores a statement, and returns its form in a row.
    fn keep(&mut self, stated: Stated) -> u32 {
        // There are at most MAX_LINES.
        let place = u32::try_from(self.digests.len()).unwrap_or(NOTHING);
        match stated {
            Stated::Nothing => NOTHING,
            Stated::Several => SEVERAL,
            Stated::Claim(claim) => {
                self.digests.push(claim);
                place
            }
            Stated::Hexadecimal(claim) => {
                self.digests.push(claim);
                place | HEXADECIMAL
            }
        }
    }

    fn stated(&self, row: Row) -> Stated {
        let form = if row.claim & HEXADECIMAL == 0 { Stated::Claim } else { Stated::Hexadecimal };
        match row.claim {
            NOTHING => Stated::Nothing,
            SEVERAL => Stated::Several,
            place => self.digests.get((place & !HEXADECIMAL) as usize).map_or(Stated::Nothing, |claim| form(*claim)),
        }
    }

    fn position(&self, path: &EntryPath) -> Option<usize> {
        self.rows.binary_search_by(|row| self.path(*row).cmp(path.as_bytes())).ok()
    }

    /// Removes the statements about a path.
    pub(crate) fn forget(&mut self, path: &EntryPath) {
        if let Some(position) = self.position(path) {
            self.rows.remove(position);
        }
    }

    /// All paths, as written there, with the statements about them, sorted by path.
    pub fn rows(&self) -> impl Iterator<Item = (&[u8], Stated)> {
        self.rows.iter().map(|row| (self.path(*row), self.stated(*row)))
    }

    /// Whether there is a line about a path, whatever it states.
    pub(crate) fn names(&self, path: &EntryPath) -> bool {
        self.position(path).is_some()
    }

    /// The claim for a path of the input.
    pub fn get(&self, path: &EntryPath) -> Option<Claim> {
        let row = self.rows.get(self.position(path)?)?;
        self.stated(*row).claim()
    }
}

impl Stated {
    /// The claim, if it is the only statement.
    pub fn claim(self) -> Option<Claim> {
        match self {
            Self::Claim(claim) => Some(claim),
            Self::Hexadecimal(_) | Self::Nothing | Self::Several => None,
        }
    }

    /// The claim, if it is the only statement, whatever the form of its digest.
    pub fn claim_of_any_form(self) -> Option<Claim> {
        match self {
            Self::Claim(claim) | Self::Hexadecimal(claim) => Some(claim),
            Self::Nothing | Self::Several => None,
        }
    }

    /// Combines the statements of two lines about one path.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Claim(one) | Self::Hexadecimal(one), Self::Claim(other) | Self::Hexadecimal(other))
                if one != other =>
            {
                Self::Several
            }
            (Self::Several, _) | (_, Self::Several) => Self::Several,
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
            (Self::Claim(_), Self::Hexadecimal(_)) => other,
            (Self::Claim(_) | Self::Hexadecimal(_), _) => self,
        }
    }
}

fn stated(digest: &[u8], size: &[u8]) -> Option<Stated> {
    let digest = digest.strip_prefix(b"sha256=")?;
    let size = std::str::from_utf8(size).ok()?.parse().ok()?;
    let of_text = || Some(Stated::Claim(Claim { sha256: sha256_of_text(digest)?, size }));
    let of_digits = || Some(Stated::Hexadecimal(Claim { sha256: sha256_of_digits(digest)?, size }));
    of_text().or_else(of_digits)
}

/// Bytes of the line for a file. Without a size, it is the line for RECORD itself.
pub fn line_size(path: &EntryPath, size: Option<u64>) -> Result<u64, WheelError> {
    let name = std::str::from_utf8(path.as_bytes()).map_err(|_| WheelError::NotUtf8(path.clone()))?;
    let stated = size.map_or(0, |size| "sha256=".len() + SHA256_TEXT + size.checked_ilog10().unwrap_or(0) as usize + 1);
    Ok((quoted(name).len() + ",,\n".len() + stated) as u64)
}

/// A field as Python's `csv` module writes it.
pub(crate) fn quoted(field: &str) -> Cow<'_, str> {
    if field.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        format!("\"{}\"", field.replace('"', "\"\"")).into()
    } else {
        field.into()
    }
}

pub(crate) fn sha256_text(sha256: &[u8; 32]) -> [u8; SHA256_TEXT] {
    let mut text = [b'A'; SHA256_TEXT];
    // Cannot fail: 32 bytes take exactly 43 characters.
    let _ = URL_SAFE_NO_PAD.encode_slice(sha256, &mut text);
    text
}

/// Parses a digest of hexadecimal digits.
fn sha256_of_digits(digits: &[u8]) -> Option<[u8; 32]> {
    let mut sha256 = [0; 32];
    let pairs = digits.chunks_exact(2);
    if digits.len() != 2 * sha256.len() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (byte, pair) in sha256.iter_mut().zip(pairs) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(sha256)
}

/// Parses a digest. Padding is accepted.
pub(crate) fn sha256_of_text(text: &[u8]) -> Option<[u8; 32]> {
    let mut sha256 = [0; 32];
    let text = text.strip_suffix(b"=").unwrap_or(text);
    let length = URL_SAFE_NO_PAD.decode_slice(text, &mut sha256).ok()?;
    (length == sha256.len() && text.len() == SHA256_TEXT).then_some(sha256)
}
