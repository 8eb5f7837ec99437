//! Requests for ranges of one file, which are repeated where that helps.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::crypto::ring;
use ureq::http::{Response, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::credentials::Credentials;
use super::error::{RemoteProblem, TRIES};
use super::response::{AskedRange, RangeAnswer, RangeBody, Validators, content_range};
use super::window::BLOCK;
use super::{certificates, proxy_of, url};
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
    pub(super) validators: OnceLock<Validators>,
    credentials: Option<Credentials>,
    silence: Duration,
    /// The shortest pause before a request that is made again.
    pause: Duration,
}

impl RangeClient {
    pub(super) fn new(name: &Path) -> Result<Self, RemoteProblem> {
        let named = url::of_name(name)?;
        let agent = agent(!url::is_insecure(name))?;
        let credentials = Credentials::of(&named)?;
        let (name, found, validators) = (name.to_owned(), Mutex::default(), OnceLock::new());
        Ok(Self { name, agent, named, found, validators, credentials, silence: silence(), pause: pause() })
    }

    /// The last bytes of the file, as many as `length`, or all.
    pub(super) fn tail(&self, length: u64) -> Result<Vec<u8>, RemoteProblem> {
        let answer = match self.answer(&AskedRange::Tail(length)) {
            Err(problem) if knows_no_tail(&problem) => {
                let total = self.answer(&AskedRange::Bytes(0..1))?.validators.total;
                self.answer(&AskedRange::Bytes(total.saturating_sub(length)..total))?
            }
            answer => answer?,
        };
        let mut reader = RangeReader { body: Some(answer.body), ..RangeReader::new(answer.range) };
        let mut tail = vec![0; to_usize(reader.left())];
        reader.read(self, &mut tail)?;
        Ok(tail)
    }

    /// All bytes of the file, if they are at most `most`. Without ranges, a download that breaks off begins again.
    pub(super) fn whole(&self, most: u64) -> Result<Vec<u8>, RemoteProblem> {
        let mut tries = 0;
        loop {
            let mut answer = self.answer(&AskedRange::Whole(most))?;
            tries += 1;
            match answer.body.read_all() {
                Ok(whole) => return Ok(whole),
                Err(problem) if tries >= TRIES => return Err(problem),
                Err(_) => thread::sleep(self.pause * 2),
            }
        }
    }

    /// The answer to a request, which is made again while the server is busy.
    fn answer(&self, asked: &AskedRange) -> Result<RangeAnswer, RemoteProblem> {
        let mut tries = 0;
        loop {
            let found = self.found.lock().clone();
            let answer = self.ask(asked, found.as_ref());
            let Err(problem) = answer else { return answer };
            if matches!(asked, AskedRange::Tail(_)) && knows_no_tail(&problem) {
                return Err(problem);
            }
            // A link to which a redirect led may expire.
            if found.is_some_and(|found| found != self.named) && problem.may_be_expired() {
                *self.found.lock() = None;
                continue;
            }
            tries += 1;
            thread::sleep(problem.pause(tries, self.pause).ok_or(problem)?);
        }
    }

    /// Makes a request, of the place where the file was found before.
    fn ask(&self, asked: &AskedRange, found: Option<&Uri>) -> Result<RangeAnswer, RemoteProblem> {
        let mut place = found.unwrap_or(&self.named).clone();
        let mut left = REDIRECTS;
        let response = loop {
            let mut response = self.request(asked, &place)?;
            let Some(next) = redirect(&response, &place).filter(|_| found.is_none()) else { break response };
            left = left.checked_sub(1).ok_or_else(|| RemoteProblem::of("it is redirected again and again"))?;
            place = next?;
            // Its connection is free again if nothing is left of it.
            response.body_mut().with_config().limit(BLOCK).read_to_vec().ok();
        };
        let answer = RangeAnswer::check(response, asked, self.validators.get(), &self.name.to_string_lossy())?;
        *self.found.lock() = Some(place);
        self.validators.get_or_init(|| answer.validators.clone());
        Ok(answer)
    }

    /// Makes a request of a place, and follows no redirect.
    fn request(&self, asked: &AskedRange, uri: &Uri) -> Result<Response<Body>, RemoteProblem> {
        let slowest = self.silence + Duration::from_secs(asked.most() / SLOWEST);
        let config = self.agent.get(uri).config().proxy(proxy_of(uri)?);
        let mut request = config.timeout_recv_body(Some(slowest)).build();
        if let Some(range) = asked.header() {
            request = request.header("range", range);
        }
        if let Some(tag) = self.validators.get().and_then(Validators::strong_tag) {
            request = request.header("if-match", tag);
        }
        // Links to which that host redirects are signed, and servers refuse requests with both.
        if let Some(Credentials(authorization)) = &self.credentials
            && url::server_of(uri) == url::server_of(&self.named)
        {
            request = request.header("authorization", authorization);
        }
        Ok(request.call()?)
    }
}

/// Where an answer redirects, if it does.
fn redirect(response: &Response<Body>, place: &Uri) -> Option<Result<Uri, RemoteProblem>> {
    let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = response.headers().get("location").filter(|_| is_redirect)?;
    let next = location.to_str().ok().and_then(|location| url::redirected(place, location));
    let lost = "the server redirects to what is no URL; name the place of the file itself";
    Some(next.ok_or(RemoteProblem::of(lost)))
}

/// Whether a server that answers so may have ranges, but none that count from the end of the file, or only of files that
/// are longer (`findings/servers-refuse-the-end-of-small-files.sh`).
fn knows_no_tail(problem: &RemoteProblem) -> bool {
    match problem {
        RemoteProblem::NoRanges(_) | RemoteProblem::Status(400 | 416 | 500 | 501) => true,
        RemoteProblem::OtherRange { answer, .. } => content_range(answer).is_none(),
        _ => false,
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
                    thread::sleep(client.pause * 2);
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

/// The shortest pause before a request that is made again.
const PAUSE: Duration = Duration::from_millis(250);

/// What makes requests, without redirects. Of `https` URLs, none leads to one of `http`.
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
        .max_redirects(0)
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

/// The longest time without a byte; in tests another one.
fn silence() -> Duration {
    test_milliseconds("KPACKFS_SILENCE").unwrap_or(SILENCE)
}

/// The shortest pause before a request that is made again; in tests less.
pub(crate) fn pause() -> Duration {
    test_milliseconds("KPACKFS_PAUSE").unwrap_or(PAUSE)
}

/// The milliseconds in a variable of tests.
pub(crate) fn test_milliseconds(name: &str) -> Option<Duration> {
    let text = cfg!(debug_assertions).then(|| std::env::var(name).ok());
    text.flatten()?.parse().ok().map(Duration::from_millis)
}
