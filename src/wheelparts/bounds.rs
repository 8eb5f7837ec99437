//! The size of a wheel before its archives are compressed and its members are deflated.

use super::payload::Payload;
use super::wheel_part::WheelPart;
use super::zip::{MemberSize, layout_size};
use crate::rope::SizeBounds;
use crate::wheel::{WheelError, line_size};

/// A deflate stream becomes at most this many times its size: a symbol of one bit stands for 258 bytes, and has a distance of
/// one bit (RFC 1951, 3.2.5).
const MAX_RATIO: u64 = 1032;

/// A file of the wheel: its path, its size, and what it takes of the wheel without names and headers.
struct Sized {
    path: String,
    size: SizeBounds,
    packed: SizeBounds,
}

/// What is known of a file that is deflated if that makes it smaller.
fn deflated(size: SizeBounds) -> SizeBounds {
    SizeBounds { least: size.least / MAX_RATIO, most: size.most }
}

impl WheelPart {
    /// What is known of its size without work.
    pub(super) fn bounds(&self) -> SizeBounds {
        let Ok(files) = self.sized() else { return SizeBounds::UNKNOWN };
        let member = |file: &Sized, of: fn(SizeBounds) -> u64| MemberSize {
            name: file.path.len() as u64,
            size: of(file.size),
            packed: of(file.packed),
        };
        let size = |of: fn(SizeBounds) -> u64| layout_size(files.iter().map(|file| member(file, of)));
        SizeBounds { least: size(|it| it.least), most: size(|it| it.most) }
    }

    /// What its files take of it, as far as that is known without work.
    pub(super) fn files_in_wheel(&self) -> Vec<(String, SizeBounds)> {
        self.sized().unwrap_or_default().into_iter().map(|file| (file.path, file.packed)).collect()
    }

    fn sized(&self) -> Result<Vec<Sized>, WheelError> {
        let paths = self.wheels.paths(&self.part)?;
        let mut files = Vec::with_capacity(self.payload.len() + self.dist_info.len() + 1);
        let record = self.record_path()?;
        let mut lines = SizeBounds::exact(line_size(&record, None)?);
        for payload in &*self.payload {
            let Some(path) = payload.path(&paths) else { continue };
            let (size, packed) = sizes_of(payload);
            lines = lines + SizeBounds { least: 0, most: line_size(&path, Some(size.most))? };
            files.push(Sized { path: path.to_string(), size, packed });
        }
        for file in &self.dist_info {
            let size = SizeBounds::exact(file.digest.content.size());
            lines = lines + SizeBounds { least: 0, most: line_size(&file.path, Some(size.most))? };
            files.push(Sized { path: file.path.to_string(), size, packed: deflated(size) });
        }
        files.push(Sized { path: record.to_string(), size: lines, packed: deflated(lines) });
        Ok(files)
    }
}

/// The size of a file, and of its member.
fn sizes_of(payload: &Payload) -> (SizeBounds, SizeBounds) {
    let size = payload.size();
    let packed = match payload {
        Payload::Unchanged(unchanged) => unchanged.packed().map(|packed| SizeBounds::exact(packed.bytes.size())),
        // Archives are stored.
        Payload::Archive(..) => Some(size),
        Payload::Binary(_) | Payload::Thin(..) => None,
    };
    (size, packed.unwrap_or_else(|| deflated(size)))
}
