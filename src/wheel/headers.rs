//! The header block of METADATA and WHEEL, with the exact position of each field.
//!
//! Python's `email` parser reads both. Lines end at LF, possibly after CR, and nowhere else: METADATA contains the long
//! description, in which U+2028, form feeds and the like are text.

use std::borrow::Cow;
use std::ops::Range;

/// The most fields. A real METADATA has at most some thousands. Each field takes many times its size in memory.
pub(super) const MAX_FIELDS: usize = 1 << 16;

/// A field with its position, including the line ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeaderField {
    pub(super) name: String,
    /// Without white space at both ends. The lines of a folded field are joined by LF.
    pub(super) value: String,
    pub(super) range: Range<usize>,
}

/// The fields before the first empty line.
#[derive(Clone, Debug)]
pub(super) struct Headers {
    pub(super) list: Vec<HeaderField>,
    /// Offset of the line that ends the block: an empty line, or one that is not a header. `email` takes both for the
    /// start of the body.
    pub(super) end: usize,
    /// The line ending of this file.
    pub(super) newline: &'static str,
    /// Whether the last field has no line ending.
    pub(super) unfinished: bool,
}

impl Headers {
    /// Parses the block. `None` if it has more than [`MAX_FIELDS`] fields.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut list: Vec<HeaderField> = Vec::new();
        let mut headers = Self { list: Vec::new(), end: 0, newline: "\n", unfinished: false };
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            let range = headers.end..headers.end.saturating_add(line.len());
            if let (Some(b' ' | b'\t'), Some(folded)) = (text.first(), list.last_mut()) {
                folded.value.push('\n');
                folded.value.push_str(lossy(text).trim());
                folded.range.end = range.end;
            } else if let Some((name, value)) = field(text) {
                if list.len() == MAX_FIELDS {
                    return None;
                }
                list.push(HeaderField { name: lossy(name).into_owned(), value: lossy(value).trim().to_owned(), range });
            } else {
                break;
            }
            headers.newline = if line.ends_with(b"\r\n") { "\r\n" } else { "\n" };
            headers.unfinished = !line.ends_with(b"\n");
            headers.end = headers.end.saturating_add(line.len());
        }
        headers.list = list;
        Some(headers)
    }

    /// The values of a field. Its name is not case-sensitive.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.list.iter().filter(|header| header.is(name)).map(|header| header.value.as_str())
    }

    /// The first value of a field.
    pub(super) fn first(&self, name: &str) -> Option<&str> {
        self.list.iter().find(|header| header.is(name)).map(|header| header.value.as_str())
    }

    /// Lines in the form for insertion at [`Headers::end`].
    pub(super) fn lines(&self, lines: &[String]) -> String {
        let mut text = String::new();
        if self.unfinished {
            text.push_str(self.newline);
        }
        for line in lines {
            text.push_str(line);
            text.push_str(self.newline);
        }
        text
    }
}

impl HeaderField {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Name and value of a line, if it is a field (RFC 5322, 2.2: printable ASCII before the colon).
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, rest) = line.split_at_checked(colon)?;
    (!name.is_empty() && name.iter().all(u8::is_ascii_graphic)).then_some((name, rest.get(1..).unwrap_or_default()))
}

fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[cfg(test)]
mod tests {
    use super::Headers;

    #[test]
    fn fields_end_at_the_first_empty_line() {
        for newline in ["\n", "\r\n"] {
            let text = "Name: x\nSUMMARY : no\nLicense: a\n  b\n\tc\u{2028}d\x0c\nEmpty:\n\nName: body\n"
                .replace('\n', newline);
            let headers = Headers::parse(text.as_bytes()).unwrap();
            assert_eq!(headers.newline, newline);
            assert_eq!((headers.end, headers.list.len()), (format!("Name: x{newline}").len(), 1), "a space in a name");
            let text = text.replace("SUMMARY ", "SUMMARY");
            let headers = Headers::parse(text.as_bytes()).unwrap();
            assert_eq!(headers.first("license"), Some("a\nb\nc\u{2028}d"));
            assert_eq!(headers.all("Name").collect::<Vec<_>>(), ["x"]);
            assert!(text[headers.end..].starts_with(&format!("{newline}Name: body")));
        }
    }

    #[test]
    fn a_file_may_end_anywhere() {
        for (text, end, lines) in
            [("", 0, "B: 1\n"), ("A: 1", 4, "\nB: 1\n"), ("A: 1\r\n", 6, "B: 1\r\n"), ("\nA: 1", 0, "B: 1\n")]
        {
            let headers = Headers::parse(text.as_bytes()).unwrap();
            assert_eq!((headers.end, headers.lines(&["B: 1".to_owned()]).as_str()), (end, lines), "{text:?}");
        }
    }
}
