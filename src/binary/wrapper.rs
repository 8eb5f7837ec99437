//! Fat binary wrappers: the structures by which a program registers its device code.

use super::BinaryError;

/// Magic of a fat binary wrapper that points to an offload bundle (`HIPF`, `__CudaFatBinaryWrapper` of clang).
pub(super) const FATBIN_WRAPPER_MAGIC: u32 = 0x4849_5046;
/// Magic of a fat binary wrapper that points to a marker (`HIPK`, rocm-kpack).
pub(super) const HIPK_MAGIC: u32 = 0x4B50_4948;
/// Bytes of a wrapper: u32 magic, u32 version, u64 pointer, u64 unused or index.
pub(super) const FATBIN_WRAPPER_SIZE: u64 = 24;

/// The most bytes that wrappers may take.
const MAX_WRAPPER_BYTES: u64 = 16 << 20;
/// The most wrappers. There is one for each translation unit.
pub const MAX_WRAPPERS: usize = 1 << 16;

/// A fat binary wrapper. Its index is its position in [`FatBinary::wrappers`](super::FatBinary::wrappers).
#[derive(Clone, Copy, Debug)]
pub struct Wrapper {
    /// File offset of its offload bundle.
    pub bundle: u64,
    /// File offset at which the bundle ends at the latest.
    pub limit: u64,
}

/// The fields of a wrapper in the file.
pub(super) struct WrapperFields {
    pub(super) magic: u32,
    pub(super) version: u32,
    /// As linked.
    pub(super) pointer: u64,
    pub(super) index: u64,
}

impl WrapperFields {
    /// The wrapper at the beginning of these bytes; `None` if they end before it does.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let ([start, pointer, index], _) = bytes.as_chunks::<8>().0.split_first_chunk()?;
        let (magic, version) = start.split_first_chunk()?;
        Some(Self {
            magic: u32::from_le_bytes(*magic),
            version: u32::from_le_bytes(*version.first_chunk()?),
            pointer: u64::from_le_bytes(*pointer),
            index: u64::from_le_bytes(*index),
        })
    }

    /// The bytes of a wrapper of version 1, without its index if that is not given.
    pub(super) fn encode(magic: u32, address: u64, index: Option<u64>) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        bytes.extend(magic.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(address.to_le_bytes());
        bytes.extend(index.into_iter().flat_map(u64::to_le_bytes));
        bytes
    }

    /// The wrappers in the bytes of their section, each with its offset. Instrumented builds pad each wrapper with zeros
    /// (ROCm/llvm-project#2544).
    pub(super) fn in_section(bytes: &[u8]) -> impl Iterator<Item = (u64, Self)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            loop {
                let fields = Self::decode(bytes.get(usize::try_from(at).ok()?..)?)?;
                let offset = at;
                if fields.magic != 0 || fields.version != 0 {
                    at += FATBIN_WRAPPER_SIZE;
                    return Some((offset, fields));
                }
                at += 8;
            }
        })
    }

    /// Where the wrappers with device code are in the bytes of their section, and where those are that have been split.
    /// There are none of one kind. `offset` is the section's.
    pub(super) fn places(bytes: &[u8], offset: u64) -> Result<(Vec<u64>, Vec<u64>), BinaryError> {
        let (mut places, mut split) = (Vec::new(), Vec::new());
        for (at, wrapper) in Self::in_section(bytes) {
            match (wrapper.magic, wrapper.version) {
                (FATBIN_WRAPPER_MAGIC, 1) => places.push(at),
                (HIPK_MAGIC, 1) => split.push(at),
                _ => {
                    let reason = format!("there is no fat binary wrapper at {:#x}", offset + at);
                    return Err(BinaryError::unsupported(reason));
                }
            }
            check_count(places.len() + split.len())?;
        }
        if !places.is_empty() && !split.is_empty() {
            return Err(BinaryError::unsupported("some of its fat binary wrappers are split already and some are not"));
        }
        Ok((places, split))
    }
}

/// Fails if a section of wrappers is too long to be read.
pub(super) fn check_size(size: u64) -> Result<(), BinaryError> {
    if size > MAX_WRAPPER_BYTES {
        let reason = format!("its fat binary wrappers take {size} bytes; the limit is {MAX_WRAPPER_BYTES}");
        return Err(BinaryError::unsupported(reason));
    }
    Ok(())
}

/// Fails if there are too many wrappers.
pub(super) fn check_count(count: usize) -> Result<(), BinaryError> {
    if count > MAX_WRAPPERS {
        return Err(BinaryError::unsupported(format!("it has more than {MAX_WRAPPERS} wrappers")));
    }
    Ok(())
}
