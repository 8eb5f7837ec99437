//! The proxy that is asked for a URL. curl chooses it by the same variables (curl(1), "ENVIRONMENT"), but for `HTTP_PROXY`, which it ignores,
//! and for empty ones, which are none here.

use std::net::{IpAddr, Ipv6Addr};

use ureq::http::Uri;
use ureq::{Error, Proxy};

/// The proxy for a URL; `None` if its server is asked.
pub(crate) fn proxy_of(url: &Uri) -> Result<Option<Proxy>, Error> {
    let names =
        if url.scheme_str() == Some("https") { ["https_proxy", "HTTPS_PROXY"] } else { ["http_proxy", "HTTP_PROXY"] };
    let value = |name| std::env::var(name).ok().filter(|value: &String| !value.trim().is_empty());
    let Some(proxy) = names.into_iter().chain(["all_proxy", "ALL_PROXY"]).find_map(value) else { return Ok(None) };
    let excluded = ["no_proxy", "NO_PROXY"].into_iter().find_map(value).unwrap_or_default();
    let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 });
    if is_excluded(&excluded, url.host().unwrap_or_default(), port) {
        return Ok(None);
    }
    Proxy::new(proxy.trim()).map(Some)
}

/// Whether a list names a host: by the end of its name, by its address or network, with or without a port.
fn is_excluded(list: &str, host: &str, port: u16) -> bool {
    let host = host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    let is_host = |entry: &str| {
        let (name, its_port) = match entry.rsplit_once(':') {
            Some((name, port)) if entry.parse::<Ipv6Addr>().is_err() => (name, Some(port)),
            _ => (entry, None),
        };
        let name = name.trim_matches(['[', ']']).trim_start_matches('*').trim_matches('.').to_ascii_lowercase();
        let is_below = || address.is_none() && !name.is_empty() && host.ends_with(&format!(".{name}"));
        let is_it = host == name || is_below() || address.is_some() && address == name.parse().ok();
        is_it && its_port.is_none_or(|it| it.parse() == Ok(port))
    };
    let mut entries = list.split(|it: char| it == ',' || it.is_whitespace()).filter(|entry| !entry.is_empty());
    entries.any(|entry| entry == "*" || address.is_some_and(|address| is_in(address, entry)) || is_host(entry))
}

/// Whether an address is in a network, `ADDRESS/BITS`.
fn is_in(address: IpAddr, network: &str) -> bool {
    let Some((start, bits)) = network.split_once('/') else { return false };
    let differ = |width: u32, differences: u128| {
        let bits = bits.parse().ok().filter(|bits| *bits <= width);
        bits.is_none_or(|bits: u32| differences.checked_shr(width - bits).unwrap_or(0) != 0)
    };
    match (address, start.parse()) {
        (IpAddr::V4(one), Ok(IpAddr::V4(other))) => !differ(32, u128::from(one.to_bits() ^ other.to_bits())),
        (IpAddr::V6(one), Ok(IpAddr::V6(other))) => !differ(128, one.to_bits() ^ other.to_bits()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_excluded;

    #[test]
    fn lists_name_hosts_as_curl_reads_them() {
        for (list, host, expected) in [
            ("localhost, 127.0.0.1", "127.0.0.1", true),
            ("localhost 127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1:81", "127.0.0.1", true),
            ("127.0.0.1:82", "127.0.0.1", false),
            ("127.0.0.0/8", "127.1.2.3", true),
            ("127.0.0.0/8", "128.1.2.3", false),
            ("10.1.2.3/0", "128.1.2.3", true),
            ("10.0.0.1/32", "10.0.0.1", true),
            ("10.0.0.1/32", "10.0.0.2", false),
            ("10.0.0.1/33", "10.0.0.1", false),
            ("10.0.0.1/", "10.0.0.1", false),
            ("fd00::/8", "[fd12::1]", true),
            ("fd00::/8", "[fe80::1]", false),
            ("::1", "[::1]", true),
            ("[::1]:81", "[::1]", true),
            ("[::1]:82", "[::1]", false),
            ("0:0:0:0:0:0:0:1", "[::1]", true),
            ("example.com", "example.com", true),
            ("example.com", "a.Example.com.", true),
            (".example.com", "a.example.com", true),
            ("*.example.com", "a.example.com", true),
            ("example.com", "an-example.com", false),
            ("example.com:81", "a.example.com", true),
            ("0.1", "127.0.0.1", false),
            ("*", "a", true),
            ("", "a", false),
            (" , .", "a", false),
        ] {
            assert_eq!(is_excluded(list, host, 81), expected, "{list:?} {host}");
        }
    }
}
