//! C1: the minimum of a FUSE filesystem: files served from memory, with the attributes, caching and refusals of kpackfs'
//! own mounts. It has two transports, `/dev/fuse` and `io_uring`.

mod device;
mod files;
mod protocol;
mod uring;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};

use self::files::Files;

/// How long the kernel may cache answers.
const TTL: Duration = Duration::from_secs(86_400);

/// The same values as in `src/fs/adapter.rs`.
const MAX_BACKGROUND: u16 = 64;
const BLOCK_SIZE: u32 = 128 << 10;

/// Serves a file, or a directory of files, from memory.
#[derive(Debug, Args)]
pub(crate) struct Memfs {
    /// A file, which is served under its name, or a directory. Symlinks are left out
    source: PathBuf,
    mount_point: PathBuf,
    /// How requests and replies travel
    #[arg(long, value_enum, default_value_t = Transport::DevFuse)]
    transport: Transport,
    /// Threads that read from /dev/fuse; more than one is slower for one reader
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Entries in the queue of each processor, with --transport uring
    #[arg(long, default_value_t = 8)]
    depth: u32,
    /// The largest read request in bytes. Each entry of a queue has a buffer of this size
    #[arg(long, default_value_t = 1 << 20)]
    max_request: u32,
    /// Copy what is read into a buffer first, as a filesystem does that reads its input with pread. Over `io_uring` this is
    /// always so, since replies are made in the buffers of the queue
    #[arg(long)]
    copy: bool,
    /// Number of further files sleep-0, sleep-1 … at the root, whose reads take long
    #[arg(long, default_value_t = 0)]
    sleeping: usize,
    /// The time of such a read, in seconds
    #[arg(long, default_value_t = 5.0)]
    sleep: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Transport {
    /// read(2) and writev(2) on /dev/fuse
    DevFuse,
    /// One queue for each processor (Linux 6.14, `/sys/module/fuse/parameters/enable_uring`)
    Uring,
}

impl Memfs {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let files = Arc::new(Files::read(&self.source, self.sleeping, Duration::from_secs_f64(self.sleep))?);
        let session = match self.transport {
            Transport::DevFuse => device::mount(self, files)?,
            Transport::Uring => {
                // The kernel holds all requests back from its INIT until the queues of all processors have entries. So
                // everything that could fail comes before.
                let queues = uring::Queues::prepare(self.depth, self.max_request, &files)?;
                let session = device::mount(self, files)?;
                queues.register(&session)?;
                session
            }
        };
        println!("mounted");
        io::stdout().flush()?;
        // With --transport uring it only gets what the kernel does not send through queues, such as FORGET.
        Ok(session.run()?)
    }
}
