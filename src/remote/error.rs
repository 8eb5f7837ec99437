//! Why a file on a server is not read.

use std::path::Path;
use std::time::Duration;

use ureq::Error;

use super::url::without_secrets;
use crate::resources::Resources;

/// Why a file on a server is not read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct RemoteError {
    /// The URL, without what may be secret.
    pub name: String,
    /// The problem.
    pub problem: RemoteProblem,
}

/// A problem with a server or with its answers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RemoteProblem {
    /// It cannot be parsed.
    #[error("it is not the URL of a file")]
    NoUrl,
    /// The command does not read URLs, or not with other inputs.
    #[error(
        "wheels on servers are read by `verify`, and one at a time by `inspect` and `why`; download it: curl -LO {0}"
    )]
    NotTaken(String),
    /// Its bytes would travel without TLS.
    #[error("others on the way can read and change what http carries; name the https URL, or give --allow-http")]
    InTheClear,
    /// The URL has a user name and a password.
    #[error("a password in a URL is seen by all users of this machine; write it to ~/.netrc")]
    Password,
    /// There is nothing at the URL.
    #[error("the server has no such file ({0})")]
    NotThere(u16),
    /// The server does not give it to this user.
    #[error(
        "the server refuses it ({0}): a signed link may have expired, and credentials are read from ~/.netrc and KPACKFS_TOKEN"
    )]
    Denied(u16),
    /// The server sends whole files only.
    #[error(
        "the server does not answer requests for ranges; give --download to read all of it, or download it: curl -LO {0}"
    )]
    NoRanges(String),
    /// It sends whole files only, and this one has no room in memory.
    #[error(
        "the server does not answer requests for ranges, and its {size} bytes are more than half of --memory; \
         give more, or download it: curl -LO {name}"
    )]
    TooLarge {
        /// The bytes of the file.
        size: u64,
        /// The URL.
        name: String,
    },
    /// Other bytes were sent than those that were asked for.
    #[error("the server was asked for the {asked} and answered {answer:?}; download the file")]
    OtherRange {
        /// The bytes.
        asked: String,
        /// What its answer says.
        answer: String,
    },
    /// The server compresses the bytes.
    #[error(
        "the server sends it with content-encoding {0:?}, which was refused (accept-encoding: identity); download the file"
    )]
    Encoded(String),
    /// The connection ends too early, again and again.
    #[error("the server closed the connection before the end of an answer; try again")]
    Closed,
    /// It is another file than before.
    #[error("it changed on the server while it was read; run the command again")]
    Changed,
    /// The server asks to come back later.
    #[error("the server is busy ({status}){}; try again later", after.map(|it| format!(" and asks to wait {} s", it.as_secs())).unwrap_or_default())]
    Busy {
        /// Its answer.
        status: u16,
        /// The time in `Retry-After`.
        after: Option<Duration>,
    },
    /// Another answer than that of a file server.
    #[error("the server answers {0}; try again, or download the file")]
    Status(u16),
    /// Redirects do not end.
    #[error("it is redirected again and again")]
    Redirects,
    /// A redirect leads to HTTP without TLS.
    #[error("the server redirects from https to http, which is refused")]
    Insecure,
    /// There is no answer in time.
    #[error("the server does not answer in time ({0}); try again")]
    Late(String),
    /// There is no connection.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// The server does not prove who it is.
    #[error(
        "the server's certificate is not accepted: {0}; SSL_CERT_FILE names a file with those of a private authority"
    )]
    Certificate(String),
    /// No certificates of authorities are there.
    #[error("{0}: no certificates are read from it; install ca-certificates, or name a file in SSL_CERT_FILE")]
    NoCertificates(String),
}

/// How often a request is made that gets no further.
pub(super) const TRIES: u32 = 4;

/// The longest pause that a server can ask for.
const MOST: Duration = Duration::from_secs(30);

impl RemoteProblem {
    /// The pause before the request is made again; `None` if it would have the same answer.
    pub(crate) fn pause(&self, tries: u32, unit: Duration) -> Option<Duration> {
        let usual = unit.saturating_mul(1 << tries.min(8));
        match self {
            Self::Busy { after, .. } => Some(after.unwrap_or(usual)).filter(|pause| *pause <= MOST),
            Self::Closed | Self::Late(_) | Self::Unreachable(_) | Self::Status(500..=599 | 408) => Some(usual),
            _ => None,
        }
        .filter(|_| tries < TRIES)
    }

    /// Whether the place to which a redirect led may be no longer there.
    pub(super) fn may_be_expired(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::NotThere(_) | Self::Status(300..=499))
    }

    /// The error of a command that does not read it.
    pub(crate) fn not_taken(url: &Path) -> RemoteError {
        Self::NotTaken(name_of(url)).at(url)
    }

    /// The error with the name of the file.
    pub(crate) fn at(self, url: &Path) -> RemoteError {
        RemoteError { name: name_of(url), problem: self }
    }
}

fn name_of(url: &Path) -> String {
    without_secrets(url.to_owned()).display().to_string()
}

impl From<Error> for RemoteProblem {
    /// The texts of errors that have a URL are not used, since it may be signed.
    fn from(error: Error) -> Self {
        match error {
            Error::Timeout(phase) => Self::Late(format!("{phase:?}")),
            Error::HostNotFound => Self::Unreachable("its name is not known".to_owned()),
            Error::TooManyRedirects => Self::Redirects,
            Error::RequireHttpsOnly(_) => Self::Insecure,
            Error::Rustls(error) => Self::Certificate(error.to_string()),
            Error::Tls(error) => Self::Certificate(error.to_owned()),
            Error::InvalidProxyUrl => Self::Unreachable("the URL of a proxy is not understood".to_owned()),
            Error::Io(error) => error.into(),
            Error::BadUri(_) | Error::Http(_) | Error::RedirectFailed => {
                Self::Unreachable("a redirect leads nowhere".to_owned())
            }
            Error::ConnectProxyFailed(_) => Self::Unreachable("the proxy refuses the connection".to_owned()),
            Error::Protocol(_) | Error::LargeResponseHeader(..) => {
                Self::Unreachable("its answer breaks the rules of HTTP".to_owned())
            }
            _ => Self::Unreachable("no connection".to_owned()),
        }
    }
}

impl From<std::io::Error> for RemoteProblem {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionReset, InvalidData, TimedOut, UnexpectedEof,
        };
        match error.downcast::<Error>() {
            Ok(error) => error.into(),
            Err(error) => match error.kind() {
                TimedOut => Self::Late("reading".to_owned()),
                UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe => Self::Closed,
                InvalidData => Self::Certificate(error.to_string()),
                _ => Self::Unreachable(error.to_string()),
            },
        }
    }
}

/// Fails for good: what follows is not asked for.
pub(super) fn fail(error: RemoteError, resources: &Resources) -> RemoteError {
    resources.lost.get_or_init(|| Box::new(error.clone()));
    check(resources).err().unwrap_or(error)
}

/// Fails if bytes of a server are missing. An answer without them is no answer.
pub(crate) fn check(resources: &Resources) -> Result<(), RemoteError> {
    let lost = resources.lost.get().and_then(|lost| lost.downcast_ref::<RemoteError>());
    lost.map_or(Ok(()), |error| Err(error.clone()))
}
