//! Opening of regular files without waiting and without side effects.

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The reason why [`open_regular`] refuses a file. It is the inner error of an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is {0}, not a regular file")]
pub struct NotRegular(&'static str);

impl NotRegular {
    /// Fails unless the metadata are those of a regular file.
    pub fn check(metadata: &Metadata) -> io::Result<()> {
        if metadata.is_file() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, Self(name(metadata.file_type()))))
    }

    /// Whether an error has this reason.
    pub fn is_reason_of(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

fn name(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Opens a regular file for reading. Fails with [`NotRegular`] for everything else, without waiting.
///
/// A device is not even opened, because that can have effects, such as starting a watchdog or rewinding a tape.
pub fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    NotRegular::check(&fs::metadata(path)?)?;
    open_regular_with(path, File::options().read(true), 0)
}

/// Like [`open_regular`], with other options and further flags for open(2), and without looking at what is there before
/// it is opened. That is for files that were found in a listing, and may only be replaced since.
///
/// If another process has a lease on the file (`F_SETLEASE` of fcntl(2)), fails with
/// [`WouldBlock`](io::ErrorKind::WouldBlock). The kernel then makes that process return the lease.
#[expect(clippy::disallowed_methods, reason = "this is what all others call")]
pub fn open_regular_with(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<(File, Metadata)> {
    // Opening a FIFO would wait for a writer. The flag does not change how a regular file is read (open(2)).
    let file = options.custom_flags(flags | libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    NotRegular::check(&metadata)?;
    Ok((file, metadata))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    /// Something of every kind is refused, also through a symlink. Nothing here waits: the test would not end.
    #[test]
    fn only_regular_files_are_opened() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let kinds = [("fifo", "a FIFO"), ("socket", "a socket"), ("null", "a device"), ("directory", "a directory")];
        assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        let _listener = UnixListener::bind(at("socket")).unwrap();
        symlink("/dev/null", at("null")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        for (name, kind) in kinds {
            symlink(name, at(&format!("{name}-link"))).unwrap();
            for path in [at(name), at(&format!("{name}-link"))] {
                let error = open_regular(&path).unwrap_err();
                assert!(NotRegular::is_reason_of(&error), "{name}: {error}");
                assert_eq!(error.to_string(), format!("it is {kind}, not a regular file"));
                for options in [File::options().read(true), File::options().write(true)] {
                    open_regular_with(&path, options, 0).unwrap_err();
                }
            }
        }
        fs::write(at("file"), "x").unwrap();
        assert_eq!(open_regular(&at("file")).unwrap().1.len(), 1);
        let missing = open_regular(&at("missing")).unwrap_err();
        assert!(missing.kind() == io::ErrorKind::NotFound && !NotRegular::is_reason_of(&missing));
        let created = open_regular_with(&at("new"), File::options().write(true).create_new(true), 0);
        assert!(created.unwrap().1.is_file());
    }
}
