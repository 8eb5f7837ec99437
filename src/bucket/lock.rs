//! The statement of a place in a bucket: which run writes there, which uploads in parts were begun, and what was
//! written.
//!
//! It is the lock, since a store creates or replaces an object under a condition for one of several writers only. A run
//! changes it every few seconds. If it stays as it is for longer, its run was killed, and the next one takes it over
//! and ends the uploads in it. A run that was only slow sees that its condition no longer holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::client::{BucketClient, Condition};
use super::error::{BucketError, BucketProblem};
use crate::remote::test_milliseconds;
use crate::split::hex;
use crate::threads;

/// Its name below the prefix.
pub(super) const STATEMENT: &str = ".kpackfs/upload.json";

/// The version of its form.
const VERSION: u32 = 1;

/// How long a statement stays as it is before its run counts as killed.
const LEASE: Duration = Duration::from_secs(60);

/// How often a run changes its statement in this time, and another one looks at it.
const CHANGES: u32 = 4;

/// An object that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WrittenObject {
    pub(super) size: u64,
    pub(super) sha256: String,
    /// The entity tag. As long as the object has it, its bytes are these.
    pub(super) tag: String,
}

/// The text of the statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BucketStatement {
    version: u32,
    /// What distinguishes the run from all others.
    run: String,
    /// How often it was changed: an entity tag may be a digest.
    changes: u64,
    /// Whether the run has ended.
    has_ended: bool,
    /// Names of objects by the IDs of their uploads.
    pub(super) uploads: BTreeMap<String, String>,
    /// What was written, by names.
    pub(super) files: BTreeMap<String, WrittenObject>,
}

/// The statement as this run has written it.
#[derive(Debug)]
struct HeldStatement {
    client: Arc<BucketClient>,
    statement: BucketStatement,
    tag: String,
}

/// The lock. While it lives, the statement is changed now and then.
#[derive(Debug)]
pub(super) struct BucketLock {
    held: Arc<Mutex<HeldStatement>>,
    /// Has the thread end that changes it, and the thread.
    renewal: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Drop for BucketLock {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.renewal.take() {
            drop(end);
            thread.join().ok();
        }
    }
}

impl BucketLock {
    /// Takes the place, and ends the uploads of a run that was killed. `wait` is called before waiting for another run to show that it lives.
    pub(super) fn take(
        client: &Arc<BucketClient>,
        run: [u8; 16],
        wait: impl Fn(Duration),
    ) -> Result<Self, BucketError> {
        let named = |problem: BucketProblem| problem.at(client.shown(STATEMENT));
        let held = Arc::new(Mutex::new(HeldStatement::take(client, &hex(&run), wait).map_err(named)?));
        let ((end, ended), renewed) = (channel(), Arc::clone(&held));
        let renew = move || {
            while ended.recv_timeout(lease() / CHANGES) == Err(RecvTimeoutError::Timeout) {
                // If it fails, the next change does as well, or it was of no account.
                renewed.lock().change(|_| {}).ok();
            }
        };
        let thread = threads::spawn("kpackfs-lease", renew).map_err(|error| named(error.into()))?;
        let lock = Self { held, renewal: Some((end, thread)) };
        lock.abort_all()?;
        Ok(lock)
    }

    /// An object that was written.
    pub(super) fn written(&self, name: &str) -> Option<WrittenObject> {
        self.held.lock().statement.files.get(name).cloned()
    }

    /// Notes something, which is written with the next change.
    pub(super) fn note(&self, change: impl FnOnce(&mut BucketStatement)) {
        change(&mut self.held.lock().statement);
    }

    /// Changes the statement. Fails if another run has taken the place over.
    pub(super) fn change(&self, change: impl FnOnce(&mut BucketStatement)) -> Result<(), BucketError> {
        self.held.lock().change(change)
    }

    /// Ends all uploads in the statement.
    pub(super) fn abort_all(&self) -> Result<(), BucketError> {
        let (client, uploads) = {
            let held = self.held.lock();
            (Arc::clone(&held.client), held.statement.uploads.clone())
        };
        for (id, name) in &uploads {
            client.abort(name, id).map_err(|problem| problem.at(client.shown(name)))?;
        }
        if uploads.is_empty() { Ok(()) } else { self.change(|statement| statement.uploads.clear()) }
    }

    /// Lets others write there. What the thread changes afterwards says so, too.
    pub(super) fn end(&self) -> Result<(), BucketError> {
        self.change(|statement| statement.has_ended = true)
    }
}

impl HeldStatement {
    fn take(client: &Arc<BucketClient>, run: &str, wait: impl Fn(Duration)) -> Result<Self, BucketProblem> {
        let new = |files| {
            let (version, run, uploads) = (VERSION, run.to_owned(), BTreeMap::new());
            BucketStatement { version, run, changes: 0, has_ended: false, uploads, files }
        };
        let Some((text, tag)) = client.read(STATEMENT)? else {
            let statement = new(BTreeMap::new());
            let tag = statement.take(client, Condition::Create)?;
            // Otherwise it would be no lock.
            return match client.put(STATEMENT, &statement.text(), Condition::Create) {
                Err(problem) if problem.is_status(412) => Ok(Self { client: Arc::clone(client), statement, tag }),
                Err(problem) if !problem.is_status(501) => Err(problem),
                _ => Err(BucketProblem::NoConditions),
            };
        };
        let earlier: BucketStatement = serde_json::from_slice(&text).map_err(|_| BucketProblem::NoStatement)?;
        if earlier.version != VERSION {
            return Err(BucketProblem::NoStatement);
        }
        if !earlier.has_ended {
            wait(lease());
            see_no_change(client, &tag)?;
        }
        // Its uploads stay in it until they are ended.
        let statement = BucketStatement { uploads: earlier.uploads, ..new(earlier.files) };
        let tag = statement.take(client, Condition::Replace(&tag))?;
        Ok(Self { client: Arc::clone(client), statement, tag })
    }

    fn change(&mut self, change: impl FnOnce(&mut BucketStatement)) -> Result<(), BucketError> {
        change(&mut self.statement);
        self.statement.changes += 1;
        let put = self.statement.put(&self.client, Condition::Replace(&self.tag)).map_err(|problem| {
            let is_lost = problem.is_status(412) || problem.is_status(404);
            if is_lost { BucketProblem::Lost } else { problem }
        });
        self.tag = put.map_err(|problem| problem.at(self.client.shown(STATEMENT)))?;
        Ok(())
    }
}

impl BucketStatement {
    fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Writes it as the first one of a run.
    fn take(&self, client: &BucketClient, condition: Condition<'_>) -> Result<String, BucketProblem> {
        let is_taken = |problem: &BucketProblem| problem.is_status(412);
        self.put(client, condition).map_err(|it| if is_taken(&it) { BucketProblem::Held(lease()) } else { it })
    }

    /// Writes it. A request whose answer was lost may have been carried out, so that its own condition fails afterwards.
    fn put(&self, client: &BucketClient, condition: Condition<'_>) -> Result<String, BucketProblem> {
        match client.put(STATEMENT, &self.text(), condition) {
            Err(problem) if problem.is_status(412) => match client.read(STATEMENT)? {
                Some((found, tag)) if found == self.text() => Ok(tag),
                Some((found, tag)) if self.is_of_same_run(&found) => {
                    client.put(STATEMENT, &self.text(), Condition::Replace(&tag))
                }
                _ => Err(problem),
            },
            tag => tag,
        }
    }

    fn is_of_same_run(&self, text: &[u8]) -> bool {
        serde_json::from_slice::<Self>(text).is_ok_and(|other| other.run == self.run)
    }
}

/// Waits for as long as a run that lives would not.
fn see_no_change(client: &BucketClient, tag: &str) -> Result<(), BucketProblem> {
    let end = Instant::now() + lease();
    while Instant::now() < end {
        thread::sleep(lease() / CHANGES);
        match client.read(STATEMENT)? {
            Some((_, now)) if now == tag => {}
            _ => return Err(BucketProblem::Held(lease())),
        }
    }
    Ok(())
}

/// How long a statement stays as it is before its run counts as killed; in tests less.
fn lease() -> Duration {
    test_milliseconds("KPACKFS_LEASE").unwrap_or(LEASE)
}
