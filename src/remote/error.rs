//! Why a file on a server is not read.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use rustls::{CertificateError, InvalidMessage};
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
    /// Other bytes were sent than those that were asked for.
    #[error("the server was asked for the {asked} and answered {answer:?}; download the file")]
    OtherRange {
        /// The bytes.
        asked: String,
        /// What its answer says.
        answer: String,
    },
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
    /// There is no answer in time.
    #[error("the server does not answer in time ({0}); try again")]
    Late(String),
    /// There is no connection.
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    /// What no other request changes.
    #[error("{0}")]
    Final(Cow<'static, str>),
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

    /// A problem that no other request changes.
    pub(crate) fn of(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Final(text.into())
    }

    /// The error of a command that does not read it.
    pub(crate) fn not_taken(url: &Path) -> RemoteError {
        let name = name_of(url);
        Self::of(format!(
            "wheels on servers are read by `verify`, and one at a time by `inspect` and `why`; download it: curl -LO {name}"
        ))
        .at(url)
    }

    /// Its bytes would travel without TLS.
    pub(crate) fn in_the_clear() -> Self {
        Self::of("others on the way can read and change what http carries; name the https URL, or give --allow-http")
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
        let reason = match error {
            Error::Timeout(phase) => return Self::Late(format!("{phase:?}")),
            Error::RequireHttpsOnly(_) => {
                return Self::of("the server redirects from https to http, which is refused");
            }
            Error::Rustls(error) => return of_tls(&error),
            Error::Tls(error) => return of_certificate(error),
            Error::Io(error) => return error.into(),
            Error::HostNotFound => "its name is not known",
            Error::InvalidProxyUrl => "the URL of a proxy is not understood",
            Error::ConnectProxyFailed(_) => "the proxy refuses the connection",
            Error::Protocol(_) | Error::LargeResponseHeader(..) => "its answer breaks the rules of HTTP",
            _ => "no connection",
        };
        Self::Unreachable(reason.to_owned())
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
                InvalidData => error
                    .get_ref()
                    .and_then(|it| it.downcast_ref())
                    .map_or_else(|| Self::Unreachable(error.to_string()), of_tls),
                _ => Self::Unreachable(error.to_string()),
            },
        }
    }
}

/// A failure of TLS. Its library has errors of another one, which it names by the words of a program.
fn of_tls(error: &rustls::Error) -> RemoteProblem {
    match error {
        rustls::Error::InvalidCertificate(CertificateError::Other(other))
            if other.to_string() == "CaUsedAsEndEntity" =>
        {
            RemoteProblem::of(
                "the server's certificate is one of an authority, such as one that signed itself, and is not accepted even if it is \
                 trusted; have an authority sign one for the server, and name the authority's in SSL_CERT_FILE",
            )
        }
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => of_no_tls("no record of it"),
        rustls::Error::InvalidCertificate(_) => of_certificate(&error.to_string()),
        other => of_no_tls(&other.to_string()),
    }
}

/// The server does not prove who it is.
fn of_certificate(reason: &str) -> RemoteProblem {
    RemoteProblem::of(format!(
        "the server's certificate is not accepted: {reason}; SSL_CERT_FILE names a file with those of a private authority"
    ))
}

/// What answers speaks no TLS.
fn of_no_tls(reason: &str) -> RemoteProblem {
    RemoteProblem::of(format!(
        "the server speaks no TLS at this port ({reason}); name another port, or the http URL with --allow-http"
    ))
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
