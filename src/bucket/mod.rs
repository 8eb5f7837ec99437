//! Publishes an index in a bucket of S3 or of a server that speaks its protocol. Nothing of it is kept on disk.
//!
//! Files first, pages last: a page names only what the bucket has. `lock` has the statement by which runs know of each
//! other, `upload` writes files, `client` makes requests.

mod client;
mod credentials;
mod error;
mod lock;
mod place;
mod signature;
mod upload;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use client::BucketClient;
use lock::BucketLock;
use upload::PartBuffers;

pub(crate) use credentials::credential_files;
pub(crate) use place::{BucketPlace, is_bucket};
pub(crate) use upload::{BucketFile, FileFate, WrittenFile};

use crate::resources::Resources;

/// An index that is being published.
#[derive(Debug)]
pub(crate) struct Publication {
    client: Arc<BucketClient>,
    lock: BucketLock,
    buffers: PartBuffers,
}

impl Publication {
    /// Takes the place, so that no other run writes there. `last` is the page that is written last; if it is there, there is an index, which
    /// is replaced only by `force`. `wait` is called before waiting for another run.
    pub(crate) fn begin(
        place: &BucketPlace,
        allow_http: bool,
        force: bool,
        last: &str,
        resources: &Resources,
        wait: impl Fn(Duration),
    ) -> anyhow::Result<Self> {
        let client = Arc::new(BucketClient::new(place, allow_http).with_context(|| place.shown(""))?);
        let lock = BucketLock::take(&client, resources.session, wait)?;
        let publication = Self { client, lock, buffers: PartBuffers::new(&resources.budget) };
        if force {
            return Ok(publication);
        }
        let there = match publication.client.head(last) {
            Ok(None) => return Ok(publication),
            Ok(Some(_)) => anyhow!("there already; name another prefix, or replace what is there by --force"),
            Err(error) => error,
        };
        let error = there.context(publication.client.shown(last));
        publication.end(Err(error))
    }

    /// Fails if another run has taken the place over. Call it before the first page.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.lock.change(|_| {})
    }

    /// Lets others write there, after uploads that did not succeed were ended.
    pub(crate) fn end<T>(self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        match result {
            Ok(value) => {
                self.lock.end()?;
                Ok(value)
            }
            // The next run does what fails here.
            Err(error) => {
                if self.lock.abort_all().is_ok() {
                    self.lock.end().ok();
                }
                Err(error)
            }
        }
    }
}
