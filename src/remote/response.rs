//! What the answer to a request for a range says, and whether it is what was asked for.

use std::io::Read;
use std::ops::Range;
use std::time::Duration;

use ureq::http::{HeaderMap, Response, StatusCode};
use ureq::{Body, BodyReader};

use super::error::RemoteProblem;
use crate::rope::to_usize;

/// The bytes that a request asks for.
#[derive(Clone, Debug, derive_more::Display)]
pub(super) enum AskedRange {
    /// The last ones, as many as these.
    #[display("last {_0} bytes")]
    Tail(u64),
    /// These.
    #[display("bytes {}-{}", _0.start, _0.end.saturating_sub(1))]
    Bytes(Range<u64>),
    /// All, if they are no more than these.
    #[display("file")]
    Whole(u64),
}

impl AskedRange {
    /// The value of the header `Range`.
    pub(super) fn header(&self) -> Option<String> {
        match self {
            Self::Tail(length) => Some(format!("bytes=-{length}")),
            Self::Bytes(range) => Some(format!("bytes={}-{}", range.start, range.end.saturating_sub(1))),
            Self::Whole(_) => None,
        }
    }

    /// The most bytes of an answer.
    pub(super) fn most(&self) -> u64 {
        match self {
            Self::Tail(length) | Self::Whole(length) => *length,
            Self::Bytes(range) => range.end - range.start,
        }
    }

    /// The bytes in a file of this length.
    pub(super) fn within(&self, total: u64) -> Range<u64> {
        match self {
            Self::Tail(length) => total.saturating_sub(*length)..total,
            Self::Bytes(range) => range.clone(),
            Self::Whole(_) => 0..total,
        }
    }
}

/// By what a change of a file is noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Validators {
    /// The length.
    pub(super) total: u64,
    /// The entity tag.
    pub(super) tag: Option<String>,
    /// The time of the last change, as the server writes it.
    pub(super) modified: Option<String>,
}

impl Validators {
    fn of(headers: &HeaderMap, total: u64) -> Self {
        Self { total, tag: text(headers, "etag"), modified: text(headers, "last-modified") }
    }

    /// The tag, if a server can compare it: the comparison of `If-Match` fails for weak ones (RFC 9110, section 13.1.1).
    pub(super) fn strong_tag(&self) -> Option<&str> {
        self.tag.as_deref().filter(|tag| tag.starts_with('"'))
    }

    /// Whether an answer with other validators may be one of the same file. Some servers leave them out of some answers.
    fn is_same(&self, other: &Self) -> bool {
        let differ = |one: &Option<String>, other: &Option<String>| matches!((one, other), (Some(one), Some(other)) if one != other);
        // Servers behind one name have copies with different times.
        let is_other_time = differ(&self.modified, &other.modified) && (self.tag.is_none() || other.tag.is_none());
        self.total == other.total && !differ(&self.tag, &other.tag) && !is_other_time
    }
}

/// An answer with the bytes that were asked for.
pub(super) struct RangeAnswer {
    pub(super) range: Range<u64>,
    pub(super) validators: Validators,
    pub(super) body: RangeBody,
}

/// The bytes of an answer.
pub(super) struct RangeBody {
    reader: BodyReader<'static>,
    range: Range<u64>,
    /// Bytes that have not come.
    left: u64,
}

impl RangeBody {
    /// Reads some bytes. Fails if there are fewer or more than the answer says.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, RemoteProblem> {
        let length = self.reader.read(buffer)?;
        // With the last bytes the end is read, so that the connection can be used again.
        let mut is_longer = || matches!(self.reader.read(&mut [0]), Ok(1..));
        self.left = match self.left.checked_sub(length as u64) {
            Some(1..) if length == 0 => return Err(RemoteProblem::Closed),
            Some(0) if is_longer() => return Err(self.too_long()),
            Some(left) => left,
            None => return Err(self.too_long()),
        };
        Ok(length)
    }

    /// Reads all bytes.
    pub(super) fn read_all(&mut self) -> Result<Vec<u8>, RemoteProblem> {
        let (mut bytes, mut come) = (vec![0; to_usize(self.left)], 0);
        while self.left > 0 {
            come += self.read(bytes.get_mut(come..).unwrap_or_default())?;
        }
        Ok(bytes)
    }

    fn too_long(&self) -> RemoteProblem {
        let asked = AskedRange::Bytes(self.range.clone()).to_string();
        RemoteProblem::OtherRange { asked, answer: "more".to_owned() }
    }
}

impl RangeAnswer {
    /// Checks an answer. `known` is what earlier ones said.
    pub(super) fn check(
        response: Response<Body>,
        asked: &AskedRange,
        known: Option<&Validators>,
        name: &str,
    ) -> Result<Self, RemoteProblem> {
        let (head, body) = response.into_parts();
        let headers = &head.headers;
        if let Some(encoding) = text(headers, "content-encoding").filter(|it| it != "identity") {
            let refused = "which was refused (accept-encoding: identity); download the file";
            return Err(RemoteProblem::of(format!(
                "the server sends it with content-encoding {encoding:?}, {refused}"
            )));
        }
        let (range, total) = match head.status {
            StatusCode::PARTIAL_CONTENT => {
                let answer = text(headers, "content-range").unwrap_or_default();
                let found = content_range(&answer).filter(|(range, total)| *range == asked.within(*total));
                found.ok_or_else(|| RemoteProblem::OtherRange { asked: asked.to_string(), answer })?
            }
            // A range of all bytes may be answered so. Some servers answer any other one so, too (rclone 1.75 `serve s3`).
            StatusCode::OK => {
                let is_of_part = |total: u64| {
                    text(headers, "content-range").is_some_and(|it| content_range(&it) != Some((0..total, total)))
                };
                let total = body.content_length().filter(|it| asked.within(*it) == (0..*it) && !is_of_part(*it));
                let total = total.ok_or_else(|| RemoteProblem::NoRanges(name.to_owned()))?;
                if let AskedRange::Whole(most) = asked
                    && total > *most
                {
                    return Err(RemoteProblem::of(format!(
                        "the server does not answer requests for ranges, and its {total} bytes are more than half of --memory; \
                         give more, or download it: curl -LO {name}"
                    )));
                }
                (0..total, total)
            }
            status => return Err(refusal(status, headers, known.is_some())),
        };
        let validators = Validators::of(headers, total);
        if known.is_some_and(|known| !known.is_same(&validators)) {
            return Err(RemoteProblem::Changed);
        }
        let body = RangeBody { reader: body.into_reader(), range: range.clone(), left: range.end - range.start };
        Ok(Self { range, validators, body })
    }
}

fn refusal(status: StatusCode, headers: &HeaderMap, is_known: bool) -> RemoteProblem {
    match status.as_u16() {
        407 => RemoteProblem::of(
            "the proxy refuses it (407): it reads a user name and a password in its own URL, as in https_proxy=http://USER:PASSWORD@HOST",
        ),
        401 | 403 => RemoteProblem::Denied(status.as_u16()),
        404 | 410 => RemoteProblem::NotThere(status.as_u16()),
        412 => RemoteProblem::Changed,
        // The range was one of the file.
        416 if is_known => RemoteProblem::Changed,
        416 if text(headers, "content-range").is_some_and(|it| it.ends_with(" */0")) => {
            RemoteProblem::of("it has 0 bytes on the server; publish it again")
        }
        status @ (429 | 503) => busy(status, headers),
        status => RemoteProblem::Status(status),
    }
}

/// What a busy server answers.
pub(crate) fn busy(status: u16, headers: &HeaderMap) -> RemoteProblem {
    let after = text(headers, "retry-after").and_then(|it| it.parse().ok()).map(Duration::from_secs);
    RemoteProblem::Busy { status, after }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// The bytes, and the length of the file, of a header `Content-Range` (RFC 9110, section 14.4).
pub(super) fn content_range(value: &str) -> Option<(Range<u64>, u64)> {
    let (unit, range) = value.split_once(' ')?;
    // RFC 9110, section 14.1: the case of a unit says nothing.
    let (range, total) = Some(range).filter(|_| unit.eq_ignore_ascii_case("bytes"))?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, end) = (first.parse().ok()?, last.parse::<u64>().ok()?.checked_add(1)?);
    let total = total.parse().ok()?;
    (first < end && end <= total).then_some((first..end, total))
}

#[cfg(test)]
mod tests {
    use super::{Validators, content_range};

    #[test]
    fn ranges_that_make_no_sense_are_none() {
        assert_eq!(content_range("bytes 0-9/10"), Some((0..10, 10)));
        assert_eq!(content_range("Bytes 0-9/10"), Some((0..10, 10)));
        for value in [
            "",
            "bytes 0-9/*",
            "bytes 5-4/10",
            "bytes 0-10/10",
            "items 0-9/10",
            "bytes 0-18446744073709551615/1",
            "bytes -1-2/3",
        ] {
            assert_eq!(content_range(value), None, "{value}");
        }
    }

    #[test]
    fn a_file_is_the_same_by_length_and_tag_or_else_by_time() {
        let of = |total, tag: &str, modified: &str| {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            Validators { total, tag: some(tag), modified: some(modified) }
        };
        let one = of(1, "\"a\"", "then");
        for (other, is_same) in [
            (of(1, "\"a\"", "then"), true),
            (of(1, "\"a\"", "later"), true),
            (of(1, "", ""), true),
            (of(1, "", "later"), false),
            (of(1, "\"b\"", "then"), false),
            (of(2, "\"a\"", "then"), false),
        ] {
            assert_eq!(one.is_same(&other), is_same, "{other:?}");
        }
        assert_eq!((one.strong_tag(), of(1, "W/\"a\"", "").strong_tag()), (Some("\"a\""), None));
    }
}
