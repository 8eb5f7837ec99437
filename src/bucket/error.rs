//! What is decided by a request to a bucket that failed. All other errors are made where the fault is found.

use std::time::Duration;

use anyhow::Error;

use crate::remote::RemoteProblem;

/// Another answer than that of a store.
#[derive(Debug, thiserror::Error)]
#[error("the server answers {status}{}; try again", shown(code.as_deref()))]
pub(super) struct BadAnswer {
    pub(super) status: u16,
    pub(super) code: Option<String>,
}

/// The code of an answer, behind its status in a message.
pub(super) fn shown(code: Option<&str>) -> String {
    code.map(|code| format!(" {code}")).unwrap_or_default()
}

/// Whether the server answered with this status.
pub(super) fn is_status(error: &Error, expected: u16) -> bool {
    error.downcast_ref().is_some_and(|BadAnswer { status, .. }| *status == expected)
}

/// The pause before a request is made again; `None` if it would have the same answer.
pub(super) fn pause(error: &Error, tries: u32, unit: Duration) -> Option<Duration> {
    if let Some(problem) = error.downcast_ref::<RemoteProblem>() {
        return problem.pause(tries, unit);
    }
    let status = match error.downcast_ref()? {
        // S3 answers 409 if two requests meet, and 400 if it has waited too long for a body.
        BadAnswer { status: 409, .. } => 500,
        BadAnswer { status: 400, code: Some(code) } if code == "RequestTimeout" => 500,
        BadAnswer { status, .. } => *status,
    };
    RemoteProblem::Status(status).pause(tries, unit)
}
