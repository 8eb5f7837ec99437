//! A wheel as one content: all bytes of the `.whl` file, through the descriptor that its members are read with.

use std::fs::File;
use std::sync::Arc;

use super::member::OpenWheel;
use super::stamp::check_unchanged;
use super::wheel_bytes::WheelBytes;
use crate::disk;
use crate::rope::{Backing, Content, Identity, ReadError};

#[derive(Debug)]
pub(super) struct WholeWheel(pub(super) Arc<OpenWheel>);

impl Content for WholeWheel {
    fn size(&self) -> u64 {
        self.0.bytes.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.0.read(&self.0.label(), offset, buffer)
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.0.bytes.is_cached(offset, length)
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.0.bytes.identity())
    }

    fn backing(&self) -> Option<&dyn Backing> {
        matches!(self.0.bytes, WheelBytes::Disk(..)).then_some(self)
    }
}

impl Backing for WholeWheel {
    fn open(&self) -> Result<File, ReadError> {
        // By its name: the kernel would go on to serve a file that was replaced.
        let file = disk::open_listed(&self.0.path).map_err(|source| ReadError::io(&self.0.label(), source))?;
        Backing::check(self, &file)?;
        Ok(file)
    }

    fn check(&self, file: &File) -> Result<(), ReadError> {
        match &self.0.bytes {
            WheelBytes::Disk(_, stamp) => check_unchanged(file, stamp, &self.0.label()),
            WheelBytes::Remote(_) | WheelBytes::Member(..) => Err(ReadError::Changed { entry: self.0.label() }),
        }
    }
}
