//! Patterns of paths (`--require-in`).

use std::str::FromStr;

use regex::bytes::{Regex, RegexBuilder};

use crate::source::EntryPath;

/// The longest pattern, in bytes.
const MAX_LENGTH: usize = 4096;

/// The most memory that a compiled pattern takes, in bytes. One of 4096 bytes takes less.
const MAX_COMPILED: usize = 16 << 20;

/// A pattern of paths, as in .gitignore: `*` stands for any characters but `/`, `**` for any, and `?` for one but `/`.
/// A pattern without `/` is one of names.
#[derive(Clone, Debug, derive_more::Display)]
#[display("{text}")]
pub(crate) struct Pattern {
    text: String,
    regex: Regex,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum PatternError {
    /// It would match nothing.
    #[error("an empty pattern matches nothing")]
    Empty,
    /// It is too long.
    #[error("a pattern of {0} bytes is longer than {MAX_LENGTH}")]
    TooLong(usize),
    /// Its regular expression is too large.
    #[error(transparent)]
    Regex(#[from] regex::Error),
}

impl Pattern {
    /// Whether it matches a path, the name at its end, or another name of what is there.
    pub(crate) fn matches(&self, path: &EntryPath, name: &str) -> bool {
        if self.text.contains('/') {
            return self.regex.is_match(path.as_bytes());
        }
        self.regex.is_match(path.name()) || !name.is_empty() && self.regex.is_match(name.as_bytes())
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.len() > MAX_LENGTH {
            return Err(PatternError::TooLong(text.len()));
        }
        // `a/**/b` also matches `a/b`.
        let mut regex = String::from("^");
        let mut rest = text.trim_start_matches("./");
        while let Some(next) = rest.chars().next() {
            let (token, matched) = match next {
                '*' if rest.starts_with("**/") && (regex.len() == 1 || regex.ends_with('/')) => ("**/", ".*"),
                '*' if rest.starts_with("**") => ("**", ".*"),
                '*' => ("*", "[^/]*"),
                '?' => ("?", "[^/]"),
                _ => (rest.split(['*', '?']).next().unwrap_or_default(), ""),
            };
            regex += matched;
            if matched.is_empty() {
                regex += &regex::escape(token);
            }
            rest = rest.strip_prefix(token).unwrap_or_default();
        }
        let mut builder = RegexBuilder::new(&(regex + "$"));
        let regex = builder.unicode(false).dot_matches_new_line(true).size_limit(MAX_COMPILED).build()?;
        Ok(Self { text: text.to_owned(), regex })
    }
}

#[cfg(test)]
mod tests {
    use super::{EntryPath, Pattern};

    #[test]
    fn patterns() {
        for (pattern, path, is_match) in [
            ("*.so", "torch/lib/libx.so", true),
            ("libx.so", "torch/lib/libx.so", true),
            ("lib?.so", "torch/lib/libx.so", true),
            ("lib?.so", "torch/lib/libxy.so", false),
            ("lib", "torch/lib/libx.so", false),
            ("torch/*", "torch/libx.so", true),
            ("torch/*", "torch/lib/libx.so", false),
            ("torch/**", "torch/lib/libx.so", true),
            ("**/libx.so", "torch/lib/libx.so", true),
            ("**/libx.so", "libx.so", true),
            ("torch/**/libx.so", "torch/libx.so", true),
            ("torch/**/libx.so", "torch/a/b/libx.so", true),
            ("./torch/lib/*", "torch/lib/libx.so", true),
            ("**", "torch/lib/libx.so", true),
            ("*", "torch/lib/libx.so", true),
            ("rocblas", "torch/lib/rocblas/library", true),
            ("*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            let of_path = EntryPath::new(path.as_bytes()).unwrap();
            assert_eq!(pattern.parse::<Pattern>().unwrap().matches(&of_path, "rocblas"), is_match, "{pattern} {path}");
        }
        assert!("".parse::<Pattern>().is_err() && "x".repeat(5000).parse::<Pattern>().is_err());
    }
}
