//! Why a file on a server is not read.

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
    #[error("a user name and a password in a URL are seen by all users of this machine; write them to ~/.netrc")]
    Password,
    /// The variable has what HTTP cannot send.
    #[error(
        "KPACKFS_TOKEN has a line break, or a character that is not ASCII, and is not sent; set it to the token alone"
    )]
    Token,
    /// The proxy wants credentials.
    #[error(
        "the proxy refuses it (407): it reads a user name and a password in its own URL, as in https_proxy=http://USER:PASSWORD@HOST"
    )]
    ProxyDenied,
    /// The file has no bytes.
    #[error("it has 0 bytes on the server; publish it again")]
    Empty,
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
    /// A redirect leads to what is no URL.
    #[error("the server redirects to what is no URL; name the place of the file itself")]
    LostRedirect,
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
    /// Its certificate is that of an authority, or vouches for itself.
    #[error(
        "the server's certificate is one of an authority, such as one that signed itself, and is not accepted even if it is \
         trusted; have an authority sign one for the server, and name the authority's in SSL_CERT_FILE"
    )]
    SelfSigned,
    /// What answers speaks no TLS.
    #[error("the server speaks no TLS at this port ({0}); name another port, or the http URL with --allow-http")]
    NoTls(String),
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
        let reason = match error {
            Error::Timeout(phase) => return Self::Late(format!("{phase:?}")),
            Error::TooManyRedirects => return Self::Redirects,
            Error::BadUri(_) | Error::Http(_) | Error::RedirectFailed => return Self::LostRedirect,
            Error::RequireHttpsOnly(_) => return Self::Insecure,
            Error::Rustls(error) => return of_tls(&error),
            Error::Tls(error) => return Self::Certificate(error.to_owned()),
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
            RemoteProblem::SelfSigned
        }
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            RemoteProblem::NoTls("no record of it".to_owned())
        }
        rustls::Error::InvalidCertificate(_) => RemoteProblem::Certificate(error.to_string()),
        other => RemoteProblem::NoTls(other.to_string()),
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
