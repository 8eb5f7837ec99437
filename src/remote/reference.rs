//! Where a redirect leads (RFC 3986, section 5.2).

use ureq::http::Uri;

/// The URL to which a reference leads from a URL, without its fragment; `None` if it is none.
pub(super) fn resolve(base: &Uri, reference: &str) -> Option<Uri> {
    let (reference, _) = reference.split_once('#').unwrap_or((reference, ""));
    let (path, query) = reference.split_once('?').map_or((reference, None), |(path, query)| (path, Some(query)));
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    if has_scheme(path) || path.starts_with("//") {
        let whole = if has_scheme(path) { reference.to_owned() } else { format!("{scheme}:{reference}") };
        let whole: Uri = whole.parse().ok()?;
        return joined(whole.scheme_str()?, whole.authority()?.as_str(), whole.path(), whole.query());
    }
    let (directory, _) = base.path().rsplit_once('/')?;
    match path {
        "" => joined(scheme, authority.as_str(), base.path(), query.or(base.query())),
        path if path.starts_with('/') => joined(scheme, authority.as_str(), path, query),
        path => joined(scheme, authority.as_str(), &format!("{directory}/{path}"), query),
    }
}

fn has_scheme(path: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|it: char| it.is_ascii_alphabetic())
            && scheme.chars().all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it))
    };
    path.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// A URL of these pieces. Dots in its path are removed (section 5.2.4).
fn joined(scheme: &str, authority: &str, path: &str, query: Option<&str>) -> Option<Uri> {
    let mut kept = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            other => kept.push(other),
        }
        if matches!(segment, "." | "..") && segments.peek().is_none() {
            kept.push("");
        }
    }
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{authority}/{}{query}", kept.join("/")).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::resolve;

    /// The tables of sections 5.4.1 and 5.4.2, without fragments and without a reference that leads to no file.
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
            let found = resolve(&"http://a/b/c/d;p?q".parse().unwrap(), reference);
            assert_eq!(found.map(|it| it.to_string()), Some(format!("http://a{expected}")), "{reference:?}");
        }
    }

    #[test]
    fn references_to_other_servers_are_whole() {
        for (reference, expected) in [
            ("//h", Some("https://h/")),
            ("//h:1/x?y", Some("https://h:1/x?y")),
            ("http://h/a/../x", Some("http://h/x")),
            ("HTTPS://h", Some("https://h/")),
            ("http:g", None),
            ("g:h", None),
            ("mailto:x", None),
            ("//", None),
            ("g h", None),
        ] {
            let found = resolve(&"https://a/b".parse().unwrap(), reference);
            assert_eq!(found.map(|it| it.to_string()).as_deref(), expected, "{reference:?}");
        }
        assert_eq!(resolve(&"https://a".parse().unwrap(), "x").unwrap(), "https://a/x");
    }
}
