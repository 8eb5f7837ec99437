//! Certificates of the authorities that this machine trusts, as its administrator has chosen them.

use std::fs;
use std::path::PathBuf;

use ureq::tls::{Certificate, PemItem, parse_pem};

use super::error::RemoteProblem;

/// Where distributions have them (Go, `crypto/x509/root_linux.go`).
const FILES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The files that may have them.
pub(crate) fn files() -> Vec<PathBuf> {
    match std::env::var_os("SSL_CERT_FILE").filter(|name| !name.is_empty()) {
        Some(named) => vec![named.into()],
        None => FILES.map(PathBuf::from).to_vec(),
    }
}

/// The certificates of the first file that is there.
pub(super) fn read() -> Result<Vec<Certificate<'static>>, RemoteProblem> {
    let files = files();
    let file = files.iter().find(|file| file.is_file()).or(files.first()).cloned().unwrap_or_default();
    #[expect(clippy::disallowed_methods, reason = "the administrator or the user names a regular file")]
    let text = fs::read(&file).unwrap_or_default();
    let certificate = |item| if let Ok(PemItem::Certificate(it)) = item { Some(it) } else { None };
    let found: Vec<_> = parse_pem(&text).filter_map(certificate).collect();
    if found.is_empty() {
        let file = file.display();
        return Err(RemoteProblem::of(format!(
            "{file}: no certificates are read from it; install ca-certificates, or name a file in SSL_CERT_FILE"
        )));
    }
    Ok(found)
}
