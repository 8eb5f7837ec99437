//! Words of messages for terminals, pages and shells. Names in inputs may contain sequences that move the cursor,
//! change the direction of text or forge a line.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Display;

/// The most names that a sentence gives before it counts the others.
pub(crate) const NAMED: usize = 3;

/// How many more there are than those that are named, if there are some: `, and 2 more`.
pub(crate) fn more(left_out: usize, separator: &str) -> String {
    if left_out == 0 { String::new() } else { format!("{separator} and {left_out} more") }
}

/// The first of some names, with `between` them, and how many more there are: `a, b, and 2 more`.
pub(crate) fn first_names<T: Display>(
    names: impl IntoIterator<Item = T>,
    most: usize,
    between: &str,
    separator: &str,
) -> String {
    let mut names = names.into_iter();
    let first: Vec<_> = names.by_ref().take(most).map(|name| name.to_string()).collect();
    first.join(between) + &more(names.count(), separator)
}

/// The most names that a sentence gives together with the number of others.
const LISTED: usize = 5;

/// These names as words of a sentence: `a, b and c`. Of many, the first and how many more there are.
pub(crate) fn some_of<N: Display>(names: impl IntoIterator<Item = N>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    match names.as_slice() {
        [first @ .., last] if (1..=LISTED).contains(&first.len()) => format!("{} and {last}", first.join(", ")),
        _ => first_names(names, LISTED, ", ", ""),
    }
}

/// A word or a path, quoted for a shell. A terminal shows all of it, so that it can be copied from there.
pub(crate) fn quoted(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_encoded_bytes();
    let shown = word.as_ref().to_str().filter(|word| !word.contains(is_special));
    let Some(word) = shown else { return format!("$'{}'", bytes.escape_ascii()) };
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-./+:=@%,".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A text on one line without invisible characters. Control characters, and those that change the direction or the
/// place of what follows, are written as in Rust (`\n`, `\u{1b}`).
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_special) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_special(letter) {
            escaped.extend(letter.escape_default());
        } else {
            escaped.push(letter);
        }
    }
    Cow::Owned(escaped)
}

/// JSON with escapes for the characters in its strings that `is_odd` selects, each of which has four hexadecimal digits.
pub(crate) fn escaped_json(json: &str, is_odd: impl Fn(char) -> bool) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        if is_odd(letter) {
            text.extend(format!("\\u{:04x}", u32::from(letter)).chars());
        } else {
            text.push(letter);
        }
    }
    text
}

/// Whether a terminal would not show a character, or would let it change how others are shown.
pub(crate) fn is_special(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            // Zero width, directions (Unicode Standard Annex 9), line and paragraph separator, byte order mark.
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A text of at most `most` letters.
pub(crate) fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_shell_gets_the_word() {
        for (word, expected) in [
            (&b"a-b/c.so"[..], "a-b/c.so"),
            (b"", "''"),
            (b"it's $x", r"'it'\''s $x'"),
            ("na\u{ef}ve".as_bytes(), "na\u{ef}ve"),
            (b"na\xefve it's", r"$'na\xefve it\'s'"),
            (b"two\nlines it's", r"$'two\nlines it\'s'"),
            ("gpj.\u{202e}so".as_bytes(), r"$'gpj.\xe2\x80\xaeso'"),
        ] {
            assert_eq!(quoted(OsStr::from_bytes(word)), expected);
        }
    }
}
