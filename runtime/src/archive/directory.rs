//! The table of contents, read in place. What a lookup does not need is skipped, and names are kept as positions.

use crate::error::{Error, malformed};
use crate::format::Scheme;
use crate::marker::texts;
use crate::msgpack::Cursor;
use crate::source::reserved;
use crate::toc::{Blob, TocEntry};

/// More targets than any archive lists. All archives of torch together have 30.
const MAX_TARGETS: u32 = 1 << 12;

/// More names than any archive has. Torch's archive for one GPU has some thousands.
const MAX_NAMES: u32 = 1 << 20;

/// What is read of the table of contents before the first lookup.
#[derive(Debug)]
pub(super) struct ArchiveDirectory {
    /// Bytes of the table of contents.
    pub(super) length: usize,
    pub(super) targets: Vec<String>,
    pub(super) scheme: Scheme,
    /// The region of the frames.
    pub(super) frames: Option<Blob>,
    /// Position of the list of blobs.
    pub(super) blobs: Option<usize>,
    /// Positions of the names in the map `toc`, sorted by name.
    names: Vec<u32>,
}

impl ArchiveDirectory {
    /// Reads the top level. Checks that the rest is MessagePack and that the fields that should be integers are
    /// integers.
    pub(super) fn read(toc: &[u8]) -> Result<Self, Error> {
        let mut targets = Vec::new();
        let (mut scheme, mut offset, mut size, mut blobs, mut names) = (Scheme::None, None, None, None, Vec::new());
        let length = walk(toc, |name, cursor| {
            let at = toc.len() - cursor.left();
            match name {
                "gfx_arches" => targets = texts(cursor, MAX_TARGETS)?,
                "compression_scheme" => scheme = Scheme::of_name(cursor.text()?)?,
                "zstd_offset" => offset = Some(cursor.integer()?),
                "zstd_size" => size = Some(cursor.integer()?),
                "toc" => names = positions(toc, cursor)?,
                "blobs" => {
                    blobs = Some(at);
                    skip_blobs(cursor)?;
                }
                _ => cursor.skip()?,
            }
            Ok(())
        })?;
        let frames = offset.zip(size).map(|(offset, size)| Blob { offset, size });
        Ok(Self { length, targets, scheme, frames, blobs, names })
    }

    /// The names in the map `toc`, sorted, each once.
    pub(super) fn names<'a>(&'a self, toc: &'a [u8]) -> impl Iterator<Item = &'a str> {
        self.names.iter().filter_map(|&at| name_at(toc, at))
    }

    pub(super) fn name<'a>(&self, toc: &'a [u8], number: usize) -> Option<&'a str> {
        name_at(toc, *self.names.get(number)?)
    }

    pub(super) fn name_count(&self) -> usize {
        self.names.len()
    }

    /// The code objects of a name: a cursor at the map of targets.
    pub(super) fn find<'a>(&self, toc: &'a [u8], name: &str) -> Option<Cursor<'a>> {
        let found = self.names.binary_search_by(|&at| name_at(toc, at).cmp(&Some(name))).ok()?;
        let mut cursor = cursor_at(toc, *self.names.get(found)?);
        cursor.text().ok()?;
        Some(cursor)
    }
}

/// Goes through the pairs of the map that is the table of contents, and returns its length in bytes.
pub(super) fn walk<'a>(
    toc: &'a [u8],
    mut each: impl FnMut(&'a str, &mut Cursor<'a>) -> Result<(), Error>,
) -> Result<usize, Error> {
    let mut cursor = Cursor::new(toc);
    for _ in 0..cursor.map()? {
        let name = cursor.text()?;
        each(name, &mut cursor)?;
    }
    Ok(toc.len() - cursor.left())
}

/// Skips the list of blobs. Like rocm-kpack's library, this one refuses to open an archive in which an offset, a size
/// or an ordinal is not an integer. Other defects of a description only fail the load of that code object.
fn skip_blobs(cursor: &mut Cursor<'_>) -> Result<(), Error> {
    if !cursor.is_array() {
        return cursor.skip();
    }
    for _ in 0..cursor.array()? {
        skip_numbers(cursor, &["offset", "size"])?;
    }
    Ok(())
}

/// Skips the code objects of a name.
fn skip_entries(cursor: &mut Cursor<'_>) -> Result<(), Error> {
    skip_pairs(cursor, |_, cursor| skip_numbers(cursor, &["ordinal", "original_size"]))
}

/// Skips a map in which the values of these keys must be integers.
fn skip_numbers(cursor: &mut Cursor<'_>, numbers: &[&str]) -> Result<(), Error> {
    skip_pairs(cursor, |key, cursor| {
        if key.is_some_and(|key| numbers.contains(&key)) { cursor.integer().map(drop) } else { cursor.skip() }
    })
}

/// Skips a map, calling `value` to skip each of its values; skips any other value as it is. A key is `None` if it is
/// not text.
fn skip_pairs<'a>(
    cursor: &mut Cursor<'a>,
    mut value: impl FnMut(Option<&'a str>, &mut Cursor<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    if !cursor.is_map() {
        return cursor.skip();
    }
    for _ in 0..cursor.map()? {
        let mut ahead = *cursor;
        let key = ahead.text().ok();
        cursor.skip()?;
        value(key, cursor)?;
    }
    Ok(())
}

/// Positions of the keys of a map, sorted by key. Of equal keys the last one counts, as if a map were filled in order.
fn positions(toc: &[u8], cursor: &mut Cursor<'_>) -> Result<Vec<u32>, Error> {
    let count = cursor.map()?;
    if count > MAX_NAMES {
        return Err(malformed(format!("it has more than {MAX_NAMES} names")));
    }
    // A name, a map, and in it a target with a map take six bytes. With fewer bytes left per name, the length is not
    // believed.
    let mut names = reserved(usize::try_from(count).unwrap_or(usize::MAX).min(cursor.left() / 6))?;
    for _ in 0..count {
        let at = toc.len() - cursor.left();
        cursor.text()?;
        skip_entries(cursor)?;
        names.push(u32::try_from(at).map_err(|_| malformed("its table of contents is too long"))?);
    }
    // Archives written by kpackfs and rocm-kpack are sorted already.
    names.sort_unstable_by(|&one, &other| name_at(toc, one).cmp(&name_at(toc, other)).then(one.cmp(&other)));
    names.reverse();
    names.dedup_by(|one, kept| name_at(toc, *one) == name_at(toc, *kept));
    names.reverse();
    Ok(names)
}

fn name_at(toc: &[u8], at: u32) -> Option<&str> {
    cursor_at(toc, at).text().ok()
}

fn cursor_at(toc: &[u8], at: u32) -> Cursor<'_> {
    Cursor::new(usize::try_from(at).ok().and_then(|at| toc.get(at..)).unwrap_or_default())
}

/// The description of a code object.
pub(super) fn entry(cursor: &mut Cursor<'_>) -> Result<TocEntry, Error> {
    let (mut kind, mut ordinal, mut original_size) = (String::new(), None, None);
    for _ in 0..cursor.map()? {
        match cursor.text()? {
            "type" => cursor.text()?.clone_into(&mut kind),
            "ordinal" => ordinal = Some(cursor.integer()?),
            "original_size" => original_size = Some(cursor.integer()?),
            _ => cursor.skip()?,
        }
    }
    let missing = |what| Error::MessagePack(format!("a code object has no {what}"));
    Ok(TocEntry {
        kind,
        ordinal: ordinal.ok_or_else(|| missing("ordinal"))?,
        original_size: original_size.ok_or_else(|| missing("original_size"))?,
    })
}
