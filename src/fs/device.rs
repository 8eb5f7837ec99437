//! Requests through `/dev/fuse`: read(2) takes one, writev(2) answers it.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use rustix::io::{Errno, read, writev};

use super::answer::{Answers, RequestEntry};
use super::buffers::FileBytes;
use super::failure::contained;
use super::negotiation::MAX_REQUEST;
use super::protocol::{self, HEADER, Request};

/// Bytes of the longest request: the headers of a write, and its bytes.
const LONGEST: usize = MAX_REQUEST as usize + 4096;

/// Answers requests on `threads` threads until the filesystem is gone.
pub(crate) fn serve(answers: &Answers, device: &Arc<OwnedFd>, threads: usize) -> io::Result<()> {
    thread::scope(|scope| {
        let name = |number| thread::Builder::new().name(format!("kpackfs-device{number}"));
        let start = |number| name(number).spawn_scoped(scope, || take_requests(answers, device));
        let threads = (0..threads).map(start).collect::<Result<Vec<_>, _>>()?;
        let panicked = |_| Err(io::Error::other("a session thread panicked"));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
    })
}

fn take_requests(answers: &Answers, device: &Arc<OwnedFd>) -> io::Result<()> {
    let mut buffer = vec![0; LONGEST];
    loop {
        match read(device, &mut *buffer) {
            Ok(0) | Err(Errno::NODEV) => return Ok(()),
            Ok(length) => _ = contained(|| take(answers, device, buffer.get(..length).unwrap_or_default())),
            // The request was taken back.
            Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Answers a request, here or on another thread.
fn take(answers: &Answers, device: &Arc<OwnedFd>, bytes: &[u8]) {
    let (header, payload) = protocol::in_form_of_rings(bytes);
    match protocol::operation(&header) {
        // FORGET, BATCH_FORGET, INTERRUPT and NOTIFY_REPLY have no reply.
        2 => answers.fs.forget(protocol::node(&header)),
        42 => protocol::forgotten(payload).for_each(|node| answers.fs.forget(node)),
        36 => answers.fs.waiting.interrupt(protocol::interrupted(&header)),
        41 => {}
        _ => {
            let payload = payload.to_vec();
            answers.answer(DeviceEntry { device: Arc::clone(device), header, payload, is_answered: false });
        }
    }
}

/// A request, with room for its reply. One that is dropped without a reply answers EIO.
struct DeviceEntry {
    device: Arc<OwnedFd>,
    header: [u8; HEADER],
    payload: Vec<u8>,
    is_answered: bool,
}

impl DeviceEntry {
    fn send(&mut self, payload: Result<&[u8], Errno>) {
        self.is_answered = true;
        let length = payload.map(|payload| u32::try_from(payload.len()).unwrap_or(u32::MAX));
        protocol::set_reply(&mut self.header, length);
        let header = protocol::out_header(&self.header);
        // It fails if the kernel has given up the request.
        writev(&self.device, &[IoSlice::new(header), IoSlice::new(payload.unwrap_or_default())]).ok();
    }
}

impl RequestEntry for DeviceEntry {
    fn request(&self) -> Option<Request<'_>> {
        Request::decode(&self.header, &self.payload)
    }

    fn room(&mut self, size: usize) -> &mut [u8] {
        // New memory is zero already, and often much larger than the payload of the request.
        if self.payload.len() < size {
            self.payload = vec![0; size];
        }
        &mut self.payload
    }

    fn reply(mut self, length: Result<usize, Errno>) {
        let payload = std::mem::take(&mut self.payload);
        self.send(length.and_then(|length| payload.get(..length).ok_or(Errno::IO)));
    }

    fn reply_with(mut self, bytes: Result<FileBytes<'_>, Errno>) {
        match bytes {
            Ok(bytes) => bytes.read(|bytes| self.send(bytes)),
            Err(error) => self.send(Err(error)),
        }
    }
}

impl Drop for DeviceEntry {
    fn drop(&mut self) {
        if !self.is_answered {
            self.send(Err(Errno::IO));
        }
    }
}
