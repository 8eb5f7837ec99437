//! Credentials: `~/.netrc`, or the file in `NETRC`, as curl and pip read it; or a token in `KPACKFS_TOKEN`, for the
//! host that the user named.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ureq::http::Uri;

use crate::disk;
use crate::memory::Parser;

/// The variable with a token (RFC 6750).
const TOKEN: &str = "KPACKFS_TOKEN";

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
    pub(super) fn of(named: &Uri) -> Option<Self> {
        if let Some(token) = std::env::var(TOKEN).ok().filter(|token| !token.is_empty()) {
            return Some(Self(format!("Bearer {}", token.trim())));
        }
        let text = files().iter().find_map(|file| disk::read_to_string(file, Parser::Text).ok())?;
        let (user, password) = of_host(&text, named.host()?)?;
        Some(Self(format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))))
    }
}

/// The user name and the password of a host (netrc(5)). Macros and accounts do not occur with HTTP.
fn of_host<'a>(text: &'a str, host: &str) -> Option<(&'a str, &'a str)> {
    let mut words = text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    let (mut is_it, mut user, mut password) = (false, None, None);
    while let Some(word) = words.next() {
        match word {
            "machine" | "default" if is_it => break,
            "machine" => is_it = words.next() == Some(host),
            "default" => is_it = true,
            "login" if is_it => user = words.next(),
            "password" if is_it => password = words.next(),
            "login" | "password" | "account" => drop(words.next()),
            _ => {}
        }
    }
    Some((user?, password?))
}

#[cfg(test)]
mod tests {
    use super::of_host;

    #[test]
    fn netrc_is_read_as_curl_reads_it() {
        let text = "# machine a login no password no\nmachine a login u password p\nmachine\n b\n password q login v account w\n\
                    machine c login only\ndefault login d password e";
        for (host, expected) in [("a", Some(("u", "p"))), ("b", Some(("v", "q"))), ("c", None), ("z", Some(("d", "e")))]
        {
            assert_eq!(of_host(text, host), expected, "{host}");
        }
        assert_eq!(of_host("machine a login u password", "a"), None);
        assert_eq!(of_host("", "a"), None);
    }
}
