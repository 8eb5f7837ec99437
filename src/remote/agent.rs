//! How servers are connected to.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use ureq::Agent;
use ureq::config::RedirectAuthHeaders;
use ureq::tls::{RootCerts, TlsConfig};

use super::certificates;
use super::error::RemoteProblem;

/// The most answers of a server at a time.
pub(super) const MOST_ANSWERS: usize = 8;

/// The longest time without a byte of an answer.
const SILENCE: Duration = Duration::from_secs(30);

/// What makes requests. Of `https` URLs, none leads to one of `http`.
pub(crate) fn agent(is_secure: bool) -> Result<Agent, RemoteProblem> {
    let certificates = certificates::read();
    // A redirect from HTTP may lead to HTTPS.
    let certificates = if is_secure { certificates? } else { certificates.unwrap_or_default() };
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()));
    let silence = silence();
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .https_only(is_secure)
        .redirect_auth_headers(RedirectAuthHeaders::SameHost)
        .user_agent(concat!("kpackfs/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .tls_config(tls.build())
        .max_idle_connections_per_host(MOST_ANSWERS)
        .timeout_resolve(Some(silence))
        .timeout_connect(Some(silence))
        .timeout_per_read(Some(silence))
        .timeout_per_write(Some(silence))
        .timeout_recv_response(Some(silence * 2));
    Ok(Agent::new_with_config(config.build()))
}

/// The longest time without a byte; in tests less.
pub(crate) fn silence() -> Duration {
    #[cfg(debug_assertions)]
    if let Some(milliseconds) = std::env::var("KPACKFS_SILENCE").ok().and_then(|it| it.parse().ok()) {
        return Duration::from_millis(milliseconds);
    }
    SILENCE
}
