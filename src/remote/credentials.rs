//! Credentials: `~/.netrc`, or the file in `NETRC`, as curl and pip read it; or a token in `KPACKFS_TOKEN`, for the
//! host that the user named.

use std::ffi::OsString;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ureq::http::Uri;

use super::error::RemoteProblem;
use crate::disk;
use crate::memory::Parser;

/// The variable with a token (RFC 6750).
const TOKEN: &str = "KPACKFS_TOKEN";

const BAD_TOKEN: &str =
    "KPACKFS_TOKEN has a line break, or a character that is not ASCII, and is not sent; set it to the token alone";

/// The files that may have them.
pub(crate) fn files() -> Vec<PathBuf> {
    let named = std::env::var_os("NETRC").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".netrc"))).into_iter().collect()
}

/// The value of the header `Authorization` for the host that the user named.
#[derive(derive_more::Debug)]
pub(super) struct Credentials(#[debug(skip)] pub(super) String);

impl Credentials {
    /// Those for the host of a URL.
    pub(super) fn of(named: &Uri) -> Result<Option<Self>, RemoteProblem> {
        let is_blank = |token: &OsString| token.as_encoded_bytes().trim_ascii().is_empty();
        if let Some(token) = std::env::var_os(TOKEN).filter(|token| !is_blank(token)) {
            // Others cannot be in a header.
            let token = token.to_str().map(str::trim).filter(|token| token.bytes().all(|it| matches!(it, b' '..=b'~')));
            return token.map(|token| Some(Self(format!("Bearer {token}")))).ok_or(RemoteProblem::of(BAD_TOKEN));
        }
        let text = files().iter().find_map(|file| disk::read_to_string(file, Parser::Text).ok());
        let found = text.and_then(|text| of_host(&text, named.host()?));
        Ok(found.map(|(user, password)| Self(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))))
    }
}

/// The user name and the password of a host (netrc(5)). Macros and accounts do not occur with HTTP.
fn of_host(text: &str, host: &str) -> Option<(String, String)> {
    let mut words = text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(words);
    let (mut is_it, mut user, mut password) = (false, None, None);
    while let Some(word) = words.next() {
        match &*word {
            "machine" | "default" if is_it => break,
            "machine" => is_it = words.next().as_deref() == Some(host),
            "default" => is_it = true,
            "login" if is_it => user = words.next(),
            "password" if is_it => password = words.next(),
            "login" | "password" | "account" => drop(words.next()),
            _ => {}
        }
    }
    Some((user?, password?))
}

/// The words of a line. Blanks and escaped characters may be in quotation marks (curl, `lib/netrc.c`).
fn words(line: &str) -> Vec<String> {
    let (mut words, mut rest) = (Vec::new(), line.trim().chars().peekable());
    while rest.peek().is_some() {
        let is_quoted = rest.next_if_eq(&'"').is_some();
        let is_end = |it: &char| if is_quoted { *it == '"' } else { it.is_whitespace() };
        let mut word = String::new();
        while let Some(it) = rest.next_if(|it| !is_end(it)) {
            word.extend(if is_quoted && it == '\\' { rest.next().map(unescaped) } else { Some(it) });
        }
        words.push(word);
        rest.next_if_eq(&'"');
        while rest.next_if(|it| it.is_whitespace()).is_some() {}
    }
    words
}

fn unescaped(character: char) -> char {
    match character {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::of_host;

    #[test]
    fn words_may_be_quoted() {
        for (word, expected) in [
            (r#""p q""#, "p q"),
            (r#""p \"q\" \\ \t""#, "p \"q\" \\ \t"),
            (r#""""#, ""),
            (r#""p"#, "p"),
            (r#"p\q"r"#, "p\\q\"r"),
            (r#""machine" "#, "machine"),
        ] {
            let text = format!("machine a login \"u\" password {word}\nmachine b login v password w");
            assert_eq!(of_host(&text, "a"), Some(("u".to_owned(), expected.to_owned())), "{word}");
        }
    }

    #[test]
    fn netrc_is_read_as_curl_reads_it() {
        let text = "# machine a login no password no\nmachine a login u password p\nmachine\n b\n password q login v account w\n\
                    machine c login only\ndefault login d password e";
        for (host, expected) in [("a", Some(("u", "p"))), ("b", Some(("v", "q"))), ("c", None), ("z", Some(("d", "e")))]
        {
            let expected = expected.map(|(user, password)| (user.to_owned(), password.to_owned()));
            assert_eq!(of_host(text, host), expected, "{host}");
        }
        assert_eq!(of_host("machine a login u password", "a"), None);
        assert_eq!(of_host("", "a"), None);
    }
}
