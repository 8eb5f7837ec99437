//! Why an index is not published in a bucket.

use std::time::Duration;

use crate::remote::RemoteProblem;
use crate::rope::ReadError;
use crate::threads::ThreadError;

/// Why an index is not published in a bucket.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct BucketError {
    /// The place or the object, as a URL without secrets.
    pub name: String,
    /// The problem.
    pub problem: BucketProblem,
}

/// A problem with a bucket, or with its server.
#[derive(Debug, thiserror::Error)]
pub enum BucketProblem {
    /// It cannot be parsed.
    #[error(
        "it is not the name of a place in a bucket; write s3://BUCKET/PREFIX, with letters, digits and -._~+=@/ in PREFIX"
    )]
    NoName,
    /// The endpoint cannot be parsed.
    #[error("AWS_ENDPOINT_URL is not https://HOST or http://HOST, with a port if need be")]
    NoEndpoint,
    /// There are no credentials.
    #[error(
        "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for one with keys in \
         ~/.aws/credentials; for all other kinds, with AWS CLI 2: eval \"$(aws configure export-credentials --format env)\""
    )]
    NoCredentials,
    /// They are of a kind that is not read.
    #[error(
        "{0} leads to temporary keys, which AWS CLI 2 gets; run: eval \"$(aws configure export-credentials --format env)\""
    )]
    OtherCredentials(&'static str),
    /// The server does not accept the credentials.
    #[error(
        "the server does not accept the credentials ({0}); check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN and the clock"
    )]
    BadCredentials(String),
    /// There is no such bucket.
    #[error("the server {0} has no such bucket; create it, or check AWS_ENDPOINT_URL")]
    NoBucket(String),
    /// The credentials are not those of a user who may do this.
    #[error("the server refuses it ({status}{}); the credentials need {needs}", code.as_ref().map(|code| format!(" {code}")).unwrap_or_default())]
    Denied { status: u16, code: Option<String>, needs: &'static str },
    /// The bucket is elsewhere.
    #[error("the bucket is in another region{}; set AWS_REGION", .0.as_ref().map(|region| format!(", {region}")).unwrap_or_default())]
    Region(Option<String>),
    /// Another answer than that of a store.
    #[error("the server answers {status}{}; try again", code.as_ref().map(|code| format!(" {code}")).unwrap_or_default())]
    Answer { status: u16, code: Option<String> },
    /// The server cannot be reached.
    #[error(transparent)]
    Remote(#[from] RemoteProblem),
    /// Another run writes to the same place.
    #[error(
        "another run publishes there, since it has changed this object within {} s; wait until it ends, or name another prefix",
        .0.as_secs()
    )]
    Held(Duration),
    /// Another run has taken the place over.
    #[error(
        "it was removed, or another run has taken the place over because this one did not reach the server for a while; wait until that one ends, and run the command again"
    )]
    Lost,
    /// The store writes without regard to conditions.
    #[error(
        "the store does not keep the condition If-None-Match or If-Match of a PUT, so that two runs could write there at a time; \
         use a newer store, or split to a directory and copy it"
    )]
    NoConditions,
    /// There is something else.
    #[error("it is no statement of this version of kpackfs; remove it if no run publishes there")]
    NoStatement,
    /// There is an index.
    #[error("there already; name another prefix, or replace what is there by --force")]
    Existing,
    /// The store has not kept what it was given.
    #[error("the store has taken it, and does not have it now; run the command again")]
    NotKept,
    /// An answer without what it must have.
    #[error("the answer of the server has no {0}; is it a server of S3?")]
    Without(&'static str),
    /// More parts than an object may have.
    #[error("it needs more than 10,000 parts of {part} bytes, which are in memory; give more --memory")]
    TooLarge {
        /// The size of a part.
        part: u64,
    },
    /// Its bytes cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// No more threads.
    #[error(transparent)]
    Thread(#[from] ThreadError),
}

impl BucketProblem {
    /// The error with the name of the object.
    pub(super) fn at(self, name: String) -> BucketError {
        BucketError { name, problem: self }
    }

    /// The pause before a request is made again; `None` if it would have the same answer.
    pub(super) fn pause(&self, tries: u32, unit: Duration) -> Option<Duration> {
        let status = match self {
            Self::Remote(problem) => return problem.pause(tries, unit),
            // S3 answers 409 if two requests meet, and 400 if it has waited too long for a body.
            Self::Answer { status: 409, .. } => 500,
            Self::Answer { status: 400, code: Some(code) } if code == "RequestTimeout" => 500,
            Self::Answer { status, .. } => *status,
            _ => return None,
        };
        RemoteProblem::Status(status).pause(tries, unit)
    }

    /// Whether the server answered with this status.
    pub(super) fn is_status(&self, expected: u16) -> bool {
        matches!(self, Self::Answer { status, .. } if *status == expected)
    }
}
