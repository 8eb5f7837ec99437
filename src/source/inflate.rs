//! A raw deflate decoder that can start at any block boundary and reports its position. It wraps the C interface of
//! zlib-rs, the only one that reports bit positions, in a safe one.

use std::ffi::c_int;
use std::fmt;

use libz_rs_sys::{
    Z_BLOCK, Z_BUF_ERROR, Z_DATA_ERROR, Z_NO_FLUSH, Z_OK, Z_STREAM_END, inflate, inflateEnd, inflateGetDictionary,
    inflateInit2_, inflatePrime, inflateReset, inflateSetDictionary, z_stream, zlibVersion,
};

/// The longest distance that a deflate match can reach back (RFC 1951, section 2).
pub(super) const WINDOW: usize = 32 << 10;

/// Negative: a raw stream without header and trailer, with a window of 2^15 bytes (zlib.h, `inflateInit2`).
const RAW: c_int = -15;

/// The decoder. Its state is allocated once and reused for many streams.
#[derive(derive_more::Debug)]
#[debug("Inflater")]
pub(super) struct Inflater {
    /// `state`, `zalloc` and `zfree` belong to the library. The input and output pointers are valid only inside of
    /// [`Inflater::step`].
    stream: Box<z_stream>,
}

// SAFETY: the stream owns its state, nothing in it is tied to a thread, and the allocator is Rust's global one.
#[expect(unsafe_code, reason = "z_stream holds pointers to memory that it owns")]
unsafe impl Send for Inflater {}

/// Where a call of the decoder may end before the input or the output is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stops {
    /// Nowhere, which is a few percent faster.
    Never,
    /// At each block boundary.
    AtBlocks,
}

/// The result of one call of the decoder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Bytes consumed of the input.
    pub(super) consumed: usize,
    /// Bytes written to the output.
    pub(super) produced: usize,
    /// Where the decoder stands.
    pub(super) place: DecoderPosition,
}

/// Where the decoder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecoderPosition {
    /// Inside a block, or after the last block but before the end.
    Inside,
    /// Inside a block, and it cannot continue without more input or more output space.
    Stuck,
    /// Between two blocks. This many of the last consumed byte's upper bits belong to the next block.
    Boundary(u8),
    /// The stream has ended.
    End,
    /// What follows is no deflate stream. The output up to here depends on the stream alone, not on how it was divided
    /// into calls: symbols are written one by one, and the first invalid one ends decoding.
    Invalid,
}

/// The library refused a call, mostly because it could not allocate memory.
#[derive(Debug)]
pub(super) struct Refused(c_int);

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            libz_rs_sys::Z_MEM_ERROR => formatter.write_str("not enough memory to inflate"),
            other => write!(formatter, "the inflater refused a call (zlib's error {other})"),
        }
    }
}

fn check(code: c_int) -> Result<(), Refused> {
    if code == Z_OK { Ok(()) } else { Err(Refused(code)) }
}

impl Inflater {
    pub(super) fn new() -> Result<Self, Refused> {
        let mut stream = Box::new(z_stream::default());
        let size = c_int::try_from(size_of::<z_stream>()).unwrap_or(0);
        // SAFETY: `stream` is a valid z_stream with the default allocator, and the version is the library's own.
        #[expect(unsafe_code, reason = "zlib's interface")]
        check(unsafe { inflateInit2_(&raw mut *stream, RAW, zlibVersion(), size) })?;
        Ok(Self { stream })
    }

    /// Prepares to decode from a block boundary. `bits` bits of `value` precede the first byte of the input, and
    /// `window` is the content before it.
    pub(super) fn enter(&mut self, bits: u8, value: u8, window: &[u8]) -> Result<(), Refused> {
        let stream = &raw mut *self.stream;
        // SAFETY: the stream was initialised by `new` and has not been ended.
        #[expect(unsafe_code, reason = "zlib's interface")]
        check(unsafe { inflateReset(stream) })?;
        if bits > 0 {
            // SAFETY: as above.
            #[expect(unsafe_code, reason = "zlib's interface")]
            check(unsafe { inflatePrime(stream, bits.into(), value.into()) })?;
        }
        if !window.is_empty() {
            let window = window.get(window.len().saturating_sub(WINDOW)..).unwrap_or_default();
            let length = u32::try_from(window.len()).unwrap_or(0);
            // SAFETY: as above; pointer and length are those of a slice that lives during the call.
            #[expect(unsafe_code, reason = "zlib's interface")]
            check(unsafe { inflateSetDictionary(stream, window.as_ptr(), length) })?;
        }
        Ok(())
    }

    /// Decodes until the input or the output is used up, the end is reached, or a block boundary if it `stops` there.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8], stops: Stops) -> Result<Step, Refused> {
        let flush = match stops {
            Stops::Never => Z_NO_FLUSH,
            Stops::AtBlocks => Z_BLOCK,
        };
        let available_in = u32::try_from(input.len()).unwrap_or(u32::MAX);
        let available_out = u32::try_from(output.len()).unwrap_or(u32::MAX);
        self.stream.next_in = input.as_ptr();
        self.stream.avail_in = available_in;
        self.stream.next_out = output.as_mut_ptr();
        self.stream.avail_out = available_out;
        // SAFETY: the stream was initialised by `new`. The pointers and lengths are those of slices that live during
        // the call, and are replaced before the next one.
        #[expect(unsafe_code, reason = "zlib's interface")]
        let code = unsafe { inflate(&raw mut *self.stream, flush) };
        let consumed = (available_in - self.stream.avail_in) as usize;
        let produced = (available_out - self.stream.avail_out) as usize;
        // zlib.h, `inflate`: data_type holds the number of unused bits in the last byte, plus 64 in the last block,
        // plus 128 right after an end-of-block code.
        let state = self.stream.data_type;
        let place = match code {
            Z_STREAM_END => DecoderPosition::End,
            // Z_BUF_ERROR means that no bytes were consumed or produced. That can still be progress: an end-of-block
            // code may lie in bits that were consumed before.
            Z_OK | Z_BUF_ERROR if state & 0x80 != 0 => match u8::try_from(state & 0x3f) {
                Ok(bits @ 0..8) if state & 0x40 == 0 => DecoderPosition::Boundary(bits),
                _ => DecoderPosition::Inside,
            },
            Z_OK => DecoderPosition::Inside,
            Z_BUF_ERROR => DecoderPosition::Stuck,
            Z_DATA_ERROR => DecoderPosition::Invalid,
            other => return Err(Refused(other)),
        };
        Ok(Step { consumed, produced, place })
    }

    /// The last bytes that were decoded, up to 32 KiB.
    pub(super) fn window(&self) -> Result<Vec<u8>, Refused> {
        let mut window = vec![0; WINDOW];
        let mut length = 0;
        // SAFETY: the stream was initialised by `new`; the library writes at most 32 KiB (zlib.h,
        // `inflateGetDictionary`), which is the buffer's length.
        #[expect(unsafe_code, reason = "zlib's interface")]
        check(unsafe { inflateGetDictionary(&raw const *self.stream, window.as_mut_ptr(), &raw mut length) })?;
        window.truncate(length as usize);
        Ok(window)
    }
}

impl Drop for Inflater {
    fn drop(&mut self) {
        // SAFETY: the stream was initialised by `new` and is ended nowhere else.
        #[expect(unsafe_code, reason = "zlib's interface")]
        let _ = unsafe { inflateEnd(&raw mut *self.stream) };
    }
}

/// Deflation, for tests of everything that inflates.
#[cfg(test)]
pub(super) mod testing {

    use std::ffi::c_int;

    use libz_rs_sys::{
        Z_DEFLATED, Z_FINISH, Z_OK, Z_STREAM_END, deflate, deflateBound, deflateEnd, deflateInit2_, z_stream,
        zlibVersion,
    };

    pub(crate) use libz_rs_sys::{
        Z_DEFAULT_STRATEGY, Z_FIXED, Z_FULL_FLUSH, Z_HUFFMAN_ONLY, Z_NO_FLUSH, Z_PARTIAL_FLUSH, Z_SYNC_FLUSH,
    };

    /// Deflates `data`, with a flush of the given kind after every `every` bytes.
    pub(crate) fn deflated(data: &[u8], level: c_int, every: usize, flush: c_int) -> Vec<u8> {
        deflated_by(data, level, Z_DEFAULT_STRATEGY, every, flush)
    }

    /// Like `deflated`, with one of zlib's strategies.
    pub(crate) fn deflated_by(data: &[u8], level: c_int, strategy: c_int, every: usize, flush: c_int) -> Vec<u8> {
        let mut stream = z_stream::default();
        let size = c_int::try_from(size_of::<z_stream>()).unwrap();
        // SAFETY: as in `Inflater::new`.
        #[expect(unsafe_code, reason = "zlib's interface")]
        let code =
            unsafe { deflateInit2_(&raw mut stream, level, Z_DEFLATED, super::RAW, 8, strategy, zlibVersion(), size) };
        assert_eq!(code, Z_OK);
        // SAFETY: the stream is initialised.
        #[expect(unsafe_code, reason = "zlib's interface")]
        let bound = unsafe { deflateBound(&raw mut stream, data.len() as u64) };
        let mut output = vec![0; usize::try_from(bound).unwrap() + 64 * (data.len() / every + 2)];
        stream.next_out = output.as_mut_ptr();
        stream.avail_out = u32::try_from(output.len()).unwrap();
        for piece in data.chunks(every) {
            stream.next_in = piece.as_ptr();
            stream.avail_in = u32::try_from(piece.len()).unwrap();
            // SAFETY: the stream is initialised, and the pointers and lengths are those of living slices.
            #[expect(unsafe_code, reason = "zlib's interface")]
            let code = unsafe { deflate(&raw mut stream, flush) };
            assert_eq!((code, stream.avail_in), (Z_OK, 0));
        }
        // SAFETY: as above; nothing is left to be read.
        #[expect(unsafe_code, reason = "zlib's interface")]
        let code = unsafe { deflate(&raw mut stream, Z_FINISH) };
        assert_eq!(code, Z_STREAM_END);
        output.truncate(usize::try_from(stream.total_out).unwrap());
        // SAFETY: the stream is initialised.
        #[expect(unsafe_code, reason = "zlib's interface")]
        let _ = unsafe { deflateEnd(&raw mut stream) };
        output
    }
}
