//! The name of a place in a bucket.

use std::path::Path;

use anyhow::bail;

const SCHEME: &str = "s3://";

/// Whether an output is in a bucket.
pub(crate) fn is_bucket(output: &Path) -> bool {
    output.to_str().is_some_and(|text| text.starts_with(SCHEME))
}

/// A prefix of names in a bucket: `s3://BUCKET/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketPlace {
    pub(super) bucket: String,
    /// Empty, or with `/` at its end.
    prefix: String,
}

impl BucketPlace {
    /// Reads the name of a place. Characters that servers and tools read in several ways are refused (Amazon S3 User Guide, "Object key
    /// naming guidelines").
    pub(crate) fn parse(output: &Path) -> anyhow::Result<Self> {
        let text = output.to_string_lossy();
        let rest = text.strip_prefix(SCHEME).unwrap_or_default();
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        let is_label = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '_');
        let is_part = |part: &str| {
            !matches!(part, "" | "." | "..")
                && part.chars().all(|it| is_label(it) || matches!(it, '~' | '+' | '=' | '@'))
        };
        // The names of buckets have 3 to 63 characters, older ones up to 255.
        let is_valid = (3..=255).contains(&bucket.len()) && bucket.chars().all(is_label) && !bucket.starts_with('.');
        if !is_valid || !(prefix.is_empty() || prefix.split('/').all(is_part)) {
            bail!(
                "{text}: it is not the name of a place in a bucket; write s3://BUCKET/PREFIX, with letters, digits and -._~+=@/ in PREFIX"
            );
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Self { bucket: bucket.to_owned(), prefix })
    }

    /// The key of an object, by its name below the prefix.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// The name of an object in messages.
    pub(super) fn shown(&self, name: &str) -> String {
        format!("{SCHEME}{}/{}", self.bucket, self.key(name))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{BucketPlace, is_bucket};

    #[test]
    fn a_prefix_may_be_empty_and_has_no_names_that_are_read_in_two_ways() {
        for (text, key) in [
            ("s3://bucket", "simple/index.html"),
            ("s3://bucket/", "simple/index.html"),
            ("s3://my.bucket/a", "a/simple/index.html"),
            ("s3://bucket/rocm-7.1+x/b_c/", "rocm-7.1+x/b_c/simple/index.html"),
        ] {
            let place = BucketPlace::parse(Path::new(text)).unwrap();
            assert_eq!(place.key("simple/index.html"), key, "{text}");
            assert!(is_bucket(Path::new(text)));
        }
        for text in [
            "s3://",
            "s3:///a",
            "s3://ab",
            "s3://bucket//a",
            "s3://bucket/a//b",
            "s3://bucket/../a",
            "s3://bucket/a?b",
            "s3://bucket/a b",
            "s3://u:p@bucket/a",
            "s3://bucket/ä",
            "s3://.bucket/a",
            "s3://bucket/a%2fb",
        ] {
            assert!(BucketPlace::parse(Path::new(text)).is_err(), "{text}");
        }
        assert!(!is_bucket(Path::new("s3/a")) && !is_bucket(Path::new("S3://bucket")));
    }
}
