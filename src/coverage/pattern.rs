//! Patterns of paths (`--require-in`).

use std::fmt;
use std::str::FromStr;

use crate::source::EntryPath;

/// The longest pattern, in bytes.
const MAX_LENGTH: usize = 4096;

/// A pattern of paths, as in .gitignore: `*` stands for any characters but `/`, `**` for any, and `?` for one but `/`.
/// A pattern without `/` is one of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    text: String,
    tokens: Vec<Token>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// Any character but `/`.
    One,
    /// Any characters but `/`.
    Name,
    /// Any characters.
    Path,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatternError {
    /// It would match nothing.
    #[error("an empty pattern matches nothing")]
    Empty,
    /// It is too long.
    #[error("a pattern of {0} bytes is longer than {MAX_LENGTH}")]
    TooLong(usize),
}

impl Pattern {
    /// Whether it matches a path, the name at its end, or another name of what is there.
    pub(crate) fn matches(&self, path: &EntryPath, name: &str) -> bool {
        if self.text.contains('/') {
            return self.is_match(path.as_bytes());
        }
        self.is_match(path.name()) || !name.is_empty() && self.is_match(name.as_bytes())
    }

    /// Follows all ways to match at once, so that the time is at most the product of both lengths.
    fn is_match(&self, text: &[u8]) -> bool {
        let mut states = vec![false; self.tokens.len() + 1];
        if let Some(first) = states.first_mut() {
            *first = true;
        }
        self.skip(&mut states);
        for &byte in text {
            let mut next = vec![false; states.len()];
            for (at, token) in self.tokens.iter().enumerate().filter(|(at, _)| states.get(*at) == Some(&true)) {
                let (is_taken, to) = match token {
                    Token::Byte(own) => (*own == byte, at + 1),
                    Token::One => (byte != b'/', at + 1),
                    Token::Name => (byte != b'/', at),
                    Token::Path => (true, at),
                };
                if let Some(state) = next.get_mut(to) {
                    *state |= is_taken;
                }
            }
            self.skip(&mut next);
            states = next;
        }
        states.last() == Some(&true)
    }

    /// Adds the states that are reached without a character.
    fn skip(&self, states: &mut [bool]) {
        for (at, token) in self.tokens.iter().enumerate() {
            let is_optional = matches!(token, Token::Name | Token::Path);
            let is_reached = is_optional && states.get(at) == Some(&true);
            if let Some(next) = states.get_mut(at + 1) {
                *next |= is_reached;
            }
        }
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
        let mut tokens = Vec::new();
        let mut rest = text.trim_start_matches("./").as_bytes();
        loop {
            rest = match rest {
                [] => break,
                [b'*', b'*', b'/', rest @ ..] if tokens.is_empty() || tokens.last() == Some(&Token::Byte(b'/')) => {
                    // `a/**/b` also matches `a/b`.
                    tokens.push(Token::Path);
                    rest
                }
                [b'*', b'*', rest @ ..] => {
                    tokens.push(Token::Path);
                    rest
                }
                [b'*', rest @ ..] => {
                    tokens.push(Token::Name);
                    rest
                }
                [b'?', rest @ ..] => {
                    tokens.push(Token::One);
                    rest
                }
                [byte, rest @ ..] => {
                    tokens.push(Token::Byte(*byte));
                    rest
                }
            };
        }
        Ok(Self { text: text.to_owned(), tokens })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
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
