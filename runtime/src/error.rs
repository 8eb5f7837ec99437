//! Why something failed, and the error codes of the C interface.

use std::io;

/// The error codes of the C interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[expect(missing_docs, reason = "their names are the field's; include/rocm_kpack/kpack.h says when each is returned")]
pub enum ErrorCode {
    Success = 0,
    InvalidArgument = 1,
    FileNotFound = 2,
    InvalidFormat = 3,
    UnsupportedVersion = 4,
    KernelNotFound = 5,
    DecompressionFailed = 6,
    OutOfMemory = 7,
    NotImplemented = 8,
    IoError = 9,
    MsgpackParseFailed = 10,
    PathDiscoveryFailed = 11,
    InvalidMetadata = 12,
    ArchiveNotFound = 13,
    ArchNotFound = 14,
}

/// Why an archive, or a part of it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller broke the interface's rules.
    #[error("{0}")]
    Argument(&'static str),
    /// There is no such file.
    #[error("there is no such file")]
    FileNotFound,
    /// The file's bytes cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is not an archive, or not a valid one.
    #[error("{0}")]
    Malformed(String),
    /// It is an archive of another version.
    #[error("it is not a version 1 kpack archive, but one of version {0}")]
    Version(u32),
    /// MessagePack that is broken, or describes something else.
    #[error("MessagePack: {0}")]
    MessagePack(String),
    /// It has no code object with this name and target.
    #[error("it has no code object {0}")]
    NoKernel(String),
    /// A stored code object does not decompress to what the table of contents promises.
    #[error("{0}")]
    Frame(String),
    /// There is not enough memory.
    #[error("not enough memory for {0} bytes")]
    Memory(usize),
    /// The environment forbids loading.
    #[error("ROCM_KPACK_DISABLE is set")]
    Disabled,
    /// An address is in no mapped file.
    #[error("the address is not in a mapped file")]
    NoMapping,
    /// What a wrapper points at is no marker.
    #[error("the metadata is no marker: {0}")]
    Metadata(String),
    /// There is no archive at any of this many paths.
    #[error("there is no archive at any of {0} paths")]
    NoArchive(usize),
    /// No archive is for any of the targets.
    #[error("no archive offers any of the targets")]
    NoTarget,
}

impl Error {
    /// The code that C callers get.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Argument(_) => ErrorCode::InvalidArgument,
            Self::FileNotFound => ErrorCode::FileNotFound,
            Self::Read(_) => ErrorCode::IoError,
            Self::Malformed(_) => ErrorCode::InvalidFormat,
            Self::Version(_) => ErrorCode::UnsupportedVersion,
            Self::MessagePack(_) => ErrorCode::MsgpackParseFailed,
            Self::NoKernel(_) => ErrorCode::KernelNotFound,
            Self::Frame(_) => ErrorCode::DecompressionFailed,
            Self::Memory(_) => ErrorCode::OutOfMemory,
            Self::Disabled => ErrorCode::NotImplemented,
            Self::NoMapping => ErrorCode::PathDiscoveryFailed,
            Self::Metadata(_) => ErrorCode::InvalidMetadata,
            Self::NoArchive(_) => ErrorCode::ArchiveNotFound,
            Self::NoTarget => ErrorCode::ArchNotFound,
        }
    }
}

pub(crate) fn malformed(reason: impl Into<String>) -> Error {
    Error::Malformed(reason.into())
}
