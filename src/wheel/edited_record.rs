//! RECORD with some lines changed.

use std::io::Write;

use super::record::{Claim, quoted, sha256_text};

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEdit {
    /// It stays as it is, byte for byte.
    Keep,
    /// It goes.
    Remove,
    /// It states this.
    State(Claim),
}

/// RECORD with changed lines. `edit` is asked for each path, as written there.
pub(crate) fn edited_record<E>(
    record: &[u8],
    mut edit: impl FnMut(&[u8]) -> Result<LineEdit, E>,
) -> Result<Vec<u8>, E> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(record);
    let (mut row, mut edited, mut start) = (csv::ByteRecord::new(), Vec::new(), 0);
    while let Ok(true) = reader.read_byte_record(&mut row) {
        let mut end = usize::try_from(reader.position().byte()).unwrap_or(record.len()).min(record.len());
        // The reader stops between both bytes of a line's end.
        if record.get(..end).is_some_and(|line| line.ends_with(b"\r")) && record.get(end) == Some(&b'\n') {
            end += 1;
        }
        let line = record.get(start..end).unwrap_or_default();
        start = end;
        let path = row.get(0).unwrap_or_default();
        match (edit(path)?, std::str::from_utf8(path)) {
            (LineEdit::State(claim), Ok(path)) => {
                let (path, sha256) = (quoted(path), sha256_text(&claim.sha256));
                let ending = if line.ends_with(b"\r\n") { "\r\n" } else { "\n" };
                // Writing to a vector cannot fail.
                let _ = write!(edited, "{path},sha256={},{}{ending}", String::from_utf8_lossy(&sha256), claim.size);
            }
            (LineEdit::Remove, _) => {}
            (LineEdit::Keep | LineEdit::State(_), _) => edited.extend_from_slice(line),
        }
    }
    edited.extend_from_slice(record.get(start..).unwrap_or_default());
    Ok(edited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_lines_stay_as_they_are() {
        let claim = Claim { sha256: [0; 32], size: 7 };
        let edit = |path: &[u8]| {
            Ok::<_, ()>(match path {
                b"a,b.so" | b"c.so" => LineEdit::State(claim),
                b"gone" => LineEdit::Remove,
                _ => LineEdit::Keep,
            })
        };
        let record = b"x,sha256=abc,1\r\n\"a,b.so\",sha256=def,2\r\n\"y\",,\ngone,sha256=1,1\nc.so,,\nz\nlast,,";
        let zeros = "A".repeat(43);
        let expected =
            format!("x,sha256=abc,1\r\n\"a,b.so\",sha256={zeros},7\r\n\"y\",,\nc.so,sha256={zeros},7\nz\nlast,,");
        assert_eq!(String::from_utf8(edited_record(record, edit).unwrap()).unwrap(), expected);
        assert_eq!(edited_record(b"", edit), Ok(Vec::new()));
        let failing = |_: &[u8]| Err(());
        assert_eq!(edited_record(record, failing), Err(()));
    }
}
