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

use anyhow::{Context, Error, anyhow, bail};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::client::{BucketClient, Condition};
use super::error::is_status;
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

/// What is wrong if the statement is no longer that of this run.
const LOST: &str = "it was removed, or another run has taken the place over because this one did not reach the server for a while; wait \
                    until that one ends, and run the command again";

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
    pub(super) fn take(client: &Arc<BucketClient>, run: [u8; 16], wait: impl Fn(Duration)) -> anyhow::Result<Self> {
        let named = || client.shown(STATEMENT);
        let held = Arc::new(Mutex::new(HeldStatement::take(client, &hex(&run), wait).with_context(named)?));
        let ((end, ended), renewed) = (channel(), Arc::clone(&held));
        let renew = move || {
            while ended.recv_timeout(lease() / CHANGES) == Err(RecvTimeoutError::Timeout) {
                // If it fails, the next change does as well, or it was of no account.
                renewed.lock().change(|_| {}).ok();
            }
        };
        let thread = threads::spawn("kpackfs-lease", renew).with_context(named)?;
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
    pub(super) fn change(&self, change: impl FnOnce(&mut BucketStatement)) -> anyhow::Result<()> {
        self.held.lock().change(change)
    }

    /// Ends all uploads in the statement.
    pub(super) fn abort_all(&self) -> anyhow::Result<()> {
        let (client, uploads) = {
            let held = self.held.lock();
            (Arc::clone(&held.client), held.statement.uploads.clone())
        };
        for (id, name) in &uploads {
            client.abort(name, id).with_context(|| client.shown(name))?;
        }
        if uploads.is_empty() { Ok(()) } else { self.change(|statement| statement.uploads.clear()) }
    }

    /// Lets others write there. What the thread changes afterwards says so, too.
    pub(super) fn end(&self) -> anyhow::Result<()> {
        self.change(|statement| statement.has_ended = true)
    }
}

impl HeldStatement {
    fn take(client: &Arc<BucketClient>, run: &str, wait: impl Fn(Duration)) -> anyhow::Result<Self> {
        let new = |files| {
            let (version, run, uploads) = (VERSION, run.to_owned(), BTreeMap::new());
            BucketStatement { version, run, changes: 0, has_ended: false, uploads, files }
        };
        let Some((text, tag)) = client.read(STATEMENT)? else {
            let statement = new(BTreeMap::new());
            let tag = statement.take(client, Condition::Create)?;
            // Otherwise it would be no lock.
            return match client.put(STATEMENT, &statement.text(), Condition::Create) {
                Err(error) if is_status(&error, 412) => Ok(Self { client: Arc::clone(client), statement, tag }),
                Err(error) if !is_status(&error, 501) => Err(error),
                _ => bail!(
                    "the store does not keep the condition If-None-Match or If-Match of a PUT, so that two runs could write there at \
                     a time; use a newer store, or split to a directory and copy it"
                ),
            };
        };
        let Some(earlier) = BucketStatement::parse(&text) else {
            bail!("it is no statement of this version of kpackfs; remove it if no run publishes there");
        };
        if !earlier.has_ended {
            wait(lease());
            see_no_change(client, &tag)?;
        }
        // Its uploads stay in it until they are ended.
        let statement = BucketStatement { uploads: earlier.uploads, ..new(earlier.files) };
        let tag = statement.take(client, Condition::Replace(&tag))?;
        Ok(Self { client: Arc::clone(client), statement, tag })
    }

    fn change(&mut self, change: impl FnOnce(&mut BucketStatement)) -> anyhow::Result<()> {
        change(&mut self.statement);
        self.statement.changes += 1;
        let put = self.statement.put(&self.client, Condition::Replace(&self.tag)).map_err(|error| {
            let is_lost = is_status(&error, 412) || is_status(&error, 404);
            if is_lost { anyhow!(LOST) } else { error }
        });
        self.tag = put.with_context(|| self.client.shown(STATEMENT))?;
        Ok(())
    }
}

impl BucketStatement {
    /// One of this version.
    fn parse(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok().filter(|it: &Self| it.version == VERSION)
    }

    fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Writes it as the first one of a run.
    fn take(&self, client: &BucketClient, condition: Condition<'_>) -> anyhow::Result<String> {
        self.put(client, condition).map_err(|error| if is_status(&error, 412) { held() } else { error })
    }

    /// Writes it. A request whose answer was lost may have been carried out, so that its own condition fails afterwards.
    fn put(&self, client: &BucketClient, condition: Condition<'_>) -> anyhow::Result<String> {
        match client.put(STATEMENT, &self.text(), condition) {
            Err(error) if is_status(&error, 412) => match client.read(STATEMENT)? {
                Some((found, tag)) if found == self.text() => Ok(tag),
                Some((found, tag)) if self.is_of_same_run(&found) => {
                    client.put(STATEMENT, &self.text(), Condition::Replace(&tag))
                }
                _ => Err(error),
            },
            tag => tag,
        }
    }

    fn is_of_same_run(&self, text: &[u8]) -> bool {
        Self::parse(text).is_some_and(|other| other.run == self.run)
    }
}

/// Waits for as long as a run that lives would not.
fn see_no_change(client: &BucketClient, tag: &str) -> anyhow::Result<()> {
    let end = Instant::now() + lease();
    while Instant::now() < end {
        thread::sleep(lease() / CHANGES);
        match client.read(STATEMENT)? {
            Some((_, now)) if now == tag => {}
            _ => return Err(held()),
        }
    }
    Ok(())
}

fn held() -> Error {
    anyhow!(
        "another run publishes there, since it has changed this object within {} s; wait until it ends, or name another prefix",
        lease().as_secs()
    )
}

/// How long a statement stays as it is before its run counts as killed; in tests less.
fn lease() -> Duration {
    test_milliseconds("KPACKFS_LEASE").unwrap_or(LEASE)
}
