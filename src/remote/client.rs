//! Requests for ranges of one file, which are repeated where that helps.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::crypto::ring;
use ureq::config::RedirectAuthHeaders;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, ResponseExt};

use super::credentials::Credentials;
use super::error::{RemoteProblem, TRIES};
use super::response::{AskedRange, RangeAnswer, RangeBody, Validators};
use super::window::BLOCK;
use super::{certificates, url};
use crate::rope::to_usize;

/// The slowest server that is waited for, in bytes per second.
const SLOWEST: u64 = 32 << 10;

/// The most redirects before the file.
const REDIRECTS: u32 = 5;

/// A client that reads one file.
#[derive(Debug)]
pub(super) struct RangeClient {
    /// The URL, for messages.
    name: PathBuf,
    agent: Agent,
    /// The URL that the user named.
    named: Uri,
    /// Where redirects from it led.
    found: Mutex<Option<Uri>>,
    /// What the first answer said.
    validators: OnceLock<Validators>,
    credentials: Option<Credentials>,
    silence: Duration,
}

impl RangeClient {
    pub(super) fn new(name: &Path) -> Result<Self, RemoteProblem> {
        let named = url::of_name(name)?;
        let agent = agent(!url::is_insecure(name))?;
        let credentials = Credentials::of(&named);
        let (name, found, validators) = (name.to_owned(), Mutex::default(), OnceLock::new());
        Ok(Self { name, agent, named, found, validators, credentials, silence: silence() })
    }

    /// What the first answer said.
    pub(super) fn validators(&self) -> Option<&Validators> {
        self.validators.get()
    }

    /// The last bytes of the file, as many as `length`, or all.
    pub(super) fn tail(&self, length: u64) -> Result<Vec<u8>, RemoteProblem> {
        let mut tail = Vec::new();
        let first = match self.answer(&AskedRange::Tail(length)) {
            // Not every server with ranges has those that count from the end.
            Err(RemoteProblem::NoRanges(_) | RemoteProblem::Status(400 | 416 | 501)) => {
                self.answer(&AskedRange::Bytes(0..1))?.validators.total.saturating_sub(length)
            }
            answer => {
                let mut answer = answer?;
                let first = answer.range.start;
                // What is missing is asked for below.
                answer.body.read_all(&mut tail).ok();
                first
            }
        };
        let total = self.validators.get().map_or(0, |it| it.total);
        let come = tail.len();
        let mut rest = RangeReader::new(first + come as u64..total);
        tail.resize(come + to_usize(rest.left()), 0);
        rest.read(self, tail.get_mut(come..).unwrap_or_default())?;
        Ok(tail)
    }

    /// All bytes of the file, if they are at most `most`. Without ranges, a download that breaks off begins again.
    pub(super) fn whole(&self, most: u64) -> Result<Vec<u8>, RemoteProblem> {
        let mut tries = 0;
        loop {
            let mut answer = self.answer(&AskedRange::Whole(most))?;
            let mut whole = Vec::new();
            tries += 1;
            match answer.body.read_all(&mut whole) {
                Ok(()) => return Ok(whole),
                Err(problem) if tries >= TRIES => return Err(problem),
                Err(_) => thread::sleep(self.silence / 60),
            }
        }
    }

    /// The answer to a request, which is made again while the server is busy.
    fn answer(&self, asked: &AskedRange) -> Result<RangeAnswer, RemoteProblem> {
        let mut tries = 0;
        loop {
            let found = self.found.lock().clone();
            let problem = match self.ask(asked, found.as_ref()) {
                Ok(answer) => return Ok(answer),
                Err(problem) => problem,
            };
            // A link to which a redirect led may expire.
            if found.is_some_and(|found| found != self.named) && problem.may_be_expired() {
                *self.found.lock() = None;
                continue;
            }
            tries += 1;
            thread::sleep(problem.pause(tries, self.silence / 120).ok_or(problem)?);
        }
    }

    /// Makes a request, of the place where the file was found before.
    fn ask(&self, asked: &AskedRange, found: Option<&Uri>) -> Result<RangeAnswer, RemoteProblem> {
        let uri = found.unwrap_or(&self.named);
        let redirects = if found.is_some() { 0 } else { REDIRECTS };
        let slowest = self.silence + Duration::from_secs(asked.most() / SLOWEST);
        let mut request =
            self.agent.get(uri).config().max_redirects(redirects).timeout_recv_body(Some(slowest)).build();
        if let Some(range) = asked.header() {
            request = request.header("range", range);
        }
        if let Some(tag) = self.validators.get().and_then(Validators::strong_tag) {
            request = request.header("if-match", tag);
        }
        // Links to which that host redirects are signed, and servers refuse requests with both.
        if let Some(Credentials(authorization)) = &self.credentials
            && uri.authority() == self.named.authority()
        {
            request = request.header("authorization", authorization);
        }
        let response = request.call()?;
        let place = response.get_uri().clone();
        let answer = RangeAnswer::check(response, asked, self.validators.get(), &self.name.to_string_lossy())?;
        *self.found.lock() = Some(place);
        self.validators.get_or_init(|| answer.validators.clone());
        Ok(answer)
    }
}

/// Bytes of the file, read in order from the answer to one request, and from another one where that breaks off.
#[derive(derive_more::Debug)]
pub(super) struct RangeReader {
    range: Range<u64>,
    #[debug(skip)]
    body: Option<RangeBody>,
    /// Bytes of this answer.
    come: u64,
    /// How often answers broke off that had few bytes.
    tries: u32,
}

impl RangeReader {
    /// Nothing is asked for before it is read.
    pub(super) fn new(range: Range<u64>) -> Self {
        Self { range, body: None, come: 0, tries: 0 }
    }

    /// Bytes to the end.
    pub(super) fn left(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }

    /// Fills `buffer`, which is no longer than what is left.
    pub(super) fn read(&mut self, client: &RangeClient, mut buffer: &mut [u8]) -> Result<(), RemoteProblem> {
        while !buffer.is_empty() {
            let body = match &mut self.body {
                Some(body) => body,
                None => self.body.insert(client.answer(&AskedRange::Bytes(self.range.clone()))?.body),
            };
            match body.read(buffer) {
                Ok(length) => {
                    buffer = buffer.split_at_mut(length).1;
                    self.range.start += length as u64;
                    self.come += length as u64;
                }
                Err(problem) => {
                    self.body = None;
                    self.tries = if self.come >= BLOCK { 0 } else { self.tries + 1 };
                    self.come = 0;
                    if self.tries >= TRIES {
                        return Err(problem);
                    }
                    thread::sleep(client.silence / 60);
                }
            }
        }
        Ok(())
    }
}

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
