//! URLs that the user named.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use ureq::http::Uri;
use url::Url;

use super::error::RemoteProblem;

/// URLs by their names, if these are not the same. A query may be a signature and stands in no message, so that only the client has it.
static WHOLE: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());

const HTTPS: &str = "https://";
const HTTP: &str = "http://";

const NO_URL: &str = "it is not the URL of a file";

/// Whether an input is a URL.
pub(crate) fn is_url(input: &Path) -> bool {
    begins(input, HTTPS) || begins(input, HTTP)
}

/// Schemes have no case (RFC 3986, section 3.1).
fn begins(input: &Path, scheme: &str) -> bool {
    input.to_str().and_then(|text| text.get(..scheme.len())).is_some_and(|it| it.eq_ignore_ascii_case(scheme))
}

/// Whether an input is a URL whose bytes travel in the clear.
pub(crate) fn is_insecure(input: &Path) -> bool {
    begins(input, HTTP)
}

/// The name of an input, by which it can be opened. That of a URL has no password, no query and no fragment, and ends with the name of a
/// file as it is on disk.
pub(crate) fn without_secrets(input: PathBuf) -> PathBuf {
    let Some(text) = input.to_str().filter(|_| is_url(&input)) else { return input };
    let Some((scheme, rest)) = text.split_once("://") else { return input };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (above, file) = path.rsplit_once('/').map_or(("", path), |(above, file)| (above, file));
    let decoded = percent_decode_str(file).decode_utf8().ok().filter(|it| !it.contains(['/', '?', '#', '%']));
    let file = decoded.filter(|it| !it.contains(char::is_control)).unwrap_or(file.into());
    let above = if above.is_empty() { String::new() } else { format!("{above}/") };
    let name = PathBuf::from(format!("{}://{host}/{above}{file}", scheme.to_ascii_lowercase()));
    let whole = text.split('#').next().unwrap_or_default();
    if name.to_str() != Some(whole) {
        WHOLE.lock().insert(name.clone(), whole.to_owned());
    }
    name
}

/// The URL behind a name.
pub(super) fn of_name(name: &Path) -> Result<Uri, RemoteProblem> {
    let whole = WHOLE.lock().get(name).cloned();
    let text = whole.as_deref().or(name.to_str()).unwrap_or_default();
    let uri: Uri = text.parse().map_err(|_| RemoteProblem::of(NO_URL))?;
    match uri.authority() {
        Some(authority) if authority.as_str().contains('@') => Err(RemoteProblem::of(
            "a user name and a password in a URL are seen by all users of this machine; write them to ~/.netrc",
        )),
        Some(authority) if !authority.host().is_empty() => Ok(uri),
        _ => Err(RemoteProblem::of(NO_URL)),
    }
}

/// The URL to which a redirect leads from a URL, without its fragment; `None` if it is none with a host.
pub(super) fn redirected(from: &Uri, location: &str) -> Option<Uri> {
    let mut to = Url::parse(&from.to_string()).ok()?.join(location).ok()?;
    to.set_fragment(None);
    to.as_str().parse().ok().filter(|_| to.has_host())
}

/// The host and the port of a URL; no port if it is the usual one of the scheme.
pub(super) fn server_of(uri: &Uri) -> (Option<String>, Option<u16>) {
    let usual = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    (uri.host().map(str::to_ascii_lowercase), uri.port_u16().filter(|&port| port != usual))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{is_insecure, is_url, of_name, redirected, server_of, without_secrets};

    #[test]
    fn names_have_no_secrets_and_lead_to_the_whole_url() {
        for (given, name, whole) in [
            ("https://h/a/x.whl", "https://h/a/x.whl", Some("https://h/a/x.whl")),
            ("https://h/x.whl#sha256=1", "https://h/x.whl", Some("https://h/x.whl")),
            ("https://h:1/x.whl?key=secret", "https://h:1/x.whl", Some("https://h:1/x.whl?key=secret")),
            ("https://h/x.whl?a/b@c", "https://h/x.whl", Some("https://h/x.whl?a/b@c")),
            ("https://h/b/x-1%2Bcpu.whl", "https://h/b/x-1+cpu.whl", Some("https://h/b/x-1%2Bcpu.whl")),
            ("https://h/b/x%2F..%2Fy.whl", "https://h/b/x%2F..%2Fy.whl", Some("https://h/b/x%2F..%2Fy.whl")),
            ("https://u:secret@h/x.whl", "https://h/x.whl", None),
            ("http://h", "http://h/", Some("http://h/")),
            ("HTTPS://h/a/x.whl", "https://h/a/x.whl", Some("https://h/a/x.whl")),
        ] {
            let found = without_secrets(given.into());
            assert_eq!(found, Path::new(name));
            assert_eq!(of_name(&found).ok().map(|uri| uri.to_string()).as_deref(), whole, "{given}");
            assert!(is_url(&found) && is_insecure(&found) == given.starts_with("http:"));
        }
        let refused = of_name(&without_secrets("https://u:secret@h/y.whl".into())).unwrap_err().to_string();
        assert!(refused.contains("~/.netrc") && !refused.contains("secret"), "{refused}");
        for other in ["a.whl", "s3://b/x.whl", "oci:x", "https:x", "ftp://h/x", "h\u{20ac}ttp://x"] {
            assert!(!is_url(&without_secrets(other.into())), "{other}");
        }
    }

    /// The tables of RFC 3986, sections 5.4.1 and 5.4.2, without fragments and without a reference that leads to no file.
    #[test]
    fn references_lead_where_rfc_3986_says() {
        for (reference, expected) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("#s", "/b/c/d;p?q"),
            ("g#s", "/b/c/g"),
            ("g?y#s", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            ("g;x", "/b/c/g;x"),
            ("g;x?y#s", "/b/c/g;x?y"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../", "/"),
            ("../../g", "/g"),
            ("../../../g", "/g"),
            ("../../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            (".g", "/b/c/.g"),
            ("g..", "/b/c/g.."),
            ("..g", "/b/c/..g"),
            ("./../g", "/b/g"),
            ("./g/.", "/b/c/g/"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            ("g;x=1/./y", "/b/c/g;x=1/y"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/./x", "/b/c/g?y/./x"),
            ("g?y/../x", "/b/c/g?y/../x"),
        ] {
            let found = redirected(&"http://a/b/c/d;p?q".parse().unwrap(), reference);
            assert_eq!(found.map(|it| it.to_string()), Some(format!("http://a{expected}")), "{reference:?}");
        }
    }

    #[test]
    fn servers_have_one_name_with_and_without_the_usual_port() {
        let server = |uri: &str| server_of(&uri.parse().unwrap());
        for same in ["https://h/x", "https://H:443/y?z", "http://h:80/x", "http://h"] {
            assert_eq!(server(same), server("https://h"), "{same}");
            assert_eq!(server_of(&redirected(&same.parse().unwrap(), "/z").unwrap()), server(same), "{same}");
        }
        for other in ["https://h:80/x", "http://h:443", "https://h:1", "https://h.i"] {
            assert_ne!(server(other), server("https://h"), "{other}");
        }
    }

    #[test]
    fn references_to_other_servers_are_whole() {
        for (reference, expected) in [
            ("//h", Some("https://h/")),
            ("//h:1/x?y", Some("https://h:1/x?y")),
            ("http://h/a/../x", Some("http://h/x")),
            ("HTTPS://h", Some("https://h/")),
            ("http:g", Some("http://g/")),
            ("g:h", None),
            ("mailto:x", None),
            ("//", None),
            ("g h", Some("https://a/g%20h")),
        ] {
            let found = redirected(&"https://a/b".parse().unwrap(), reference);
            assert_eq!(found.map(|it| it.to_string()).as_deref(), expected, "{reference:?}");
        }
        assert_eq!(redirected(&"https://a".parse().unwrap(), "x").unwrap(), "https://a/x");
    }
}
