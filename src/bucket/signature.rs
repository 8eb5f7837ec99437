//! Signatures of requests: AWS Signature Version 4, in the header `Authorization` (Amazon S3 API Reference,
//! "Authenticating Requests (AWS Signature Version 4)"). A signature in a URL would be in the logs of every server on
//! the way.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ring::hmac;

use super::credentials::AccessKey;
use crate::rope::Sha256;
use crate::source::date;
use crate::split::hex;

/// What is not escaped in values of a query.
const IN_QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The same in paths.
const IN_PATH: &AsciiSet = &IN_QUERY.remove(b'/');

/// A request to be signed.
#[derive(Debug)]
pub(super) struct Unsigned<'a> {
    pub(super) method: &'a str,
    /// As in the URL.
    pub(super) path: &'a str,
    /// As in the URL.
    pub(super) query: &'a str,
    /// Names in lower case, sorted.
    pub(super) headers: &'a [(&'static str, String)],
    /// The SHA-256 of the body, in hexadecimal.
    pub(super) body: &'a str,
    /// See [`time`].
    pub(super) time: &'a str,
    pub(super) region: &'a str,
}

/// A path as it stands in a URL.
pub(super) fn path(text: &str) -> String {
    utf8_percent_encode(text, IN_PATH).to_string()
}

/// A query as it stands in a URL. Names are sorted, and have no characters to escape.
pub(super) fn query(fields: &[(&str, &str)]) -> String {
    let field = |(name, value): &(&str, &str)| format!("{name}={}", utf8_percent_encode(value, IN_QUERY));
    fields.iter().map(field).collect::<Vec<_>>().join("&")
}

/// A time such as `20130524T000000Z`.
pub(super) fn time(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(i64::try_from(seconds / 86_400).unwrap_or_default());
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

impl Unsigned<'_> {
    /// The header `Authorization`.
    pub(super) fn authorization(&self, credentials: &AccessKey) -> String {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let mut canonical = format!("{}\n{}\n{}\n", self.method, self.path, self.query);
        for (name, value) in self.headers {
            writeln!(canonical, "{name}:{}", value.trim()).ok();
        }
        write!(canonical, "\n{names}\n{}", self.body).ok();
        let day = self.time.get(..8).unwrap_or_default();
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{}", self.time, hex(&Sha256::of(canonical.as_bytes())));
        let first = format!("AWS4{}", credentials.secret).into_bytes();
        let key = [day, self.region, "s3", "aws4_request"].iter().fold(first, |key, text| keyed(&key, text));
        let signature = hex(&keyed(&key, &text));
        format!("AWS4-HMAC-SHA256 Credential={}/{scope},SignedHeaders={names},Signature={signature}", credentials.id)
    }
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{Unsigned, path, query, time};
    use crate::bucket::credentials::AccessKey;
    use crate::rope::Sha256;
    use crate::split::hex;

    /// The examples of the reference, "Signature Calculations for the Authorization Header".
    #[test]
    fn the_examples_of_the_reference_are_signed_as_there() {
        let credentials = AccessKey {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        };
        let time = time(UNIX_EPOCH + Duration::from_secs(1_369_353_600));
        assert_eq!(time, "20130524T000000Z");
        let none: &[(&'static str, &str)] = &[];
        for (method, key, fields, more, body, signature) in [
            (
                "GET",
                "/test.txt",
                &[][..],
                &[("range", "bytes=0-9")][..],
                "",
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "PUT",
                "/test$file.text",
                &[],
                &[("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")],
                "Welcome to Amazon S3.",
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                "GET",
                "/",
                &[("lifecycle", "")],
                none,
                "",
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "GET",
                "/",
                &[("max-keys", "2"), ("prefix", "J")],
                none,
                "",
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let body = hex(&Sha256::of(body.as_bytes()));
            let usual =
                [("host", "examplebucket.s3.amazonaws.com"), ("x-amz-content-sha256", &*body), ("x-amz-date", &*time)];
            let mut headers: Vec<_> =
                usual.iter().chain(more).map(|(name, value)| (*name, (*value).to_owned())).collect();
            headers.sort_unstable();
            let (path, query) = (path(key), query(fields));
            let unsigned = Unsigned {
                method,
                path: &path,
                query: &query,
                headers: &headers,
                body: &body,
                time: &time,
                region: "us-east-1",
            };
            let found = unsigned.authorization(&credentials);
            assert!(found.ends_with(&format!("Signature={signature}")), "{method} {key}: {found}");
            assert!(!found.contains(&credentials.secret));
        }
    }

    #[test]
    fn what_is_not_unreserved_is_escaped() {
        assert_eq!(path("a/x-1.0+rocm7.1~_ä.whl"), "a/x-1.0%2Brocm7.1~_%C3%A4.whl");
        assert_eq!(query(&[("partNumber", "1"), ("uploadId", "a/b+c=")]), "partNumber=1&uploadId=a%2Fb%2Bc%3D");
    }
}
