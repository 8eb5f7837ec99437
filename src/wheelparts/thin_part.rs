//! Thin wheels: the files of several parts in one wheel.

use std::collections::HashSet;
use std::sync::Arc;

use super::payload::Payload;
use super::wheel_part::WheelPart;
use super::{SplitWheel, WheelEntry};
use crate::source::EntryPath;
use crate::split::ThinBinary;
use crate::wheel::{STATEMENT, WheelError};

impl WheelPart {
    /// A thin wheel: the files of `host`, and those of `devices` except archives. `is_shown` and `binary`, which returns
    /// the thin form of a file that has one, take paths of the input.
    pub(crate) fn thin(
        part: SplitWheel,
        host: &Self,
        devices: &[&Self],
        statement: String,
        is_shown: &dyn Fn(&EntryPath) -> bool,
        binary: &dyn Fn(&EntryPath) -> Option<Arc<ThinBinary>>,
    ) -> Result<Arc<Self>, WheelError> {
        let wheels = &host.wheels;
        let mut payload = Vec::with_capacity(host.payload.len());
        let mut from_devices = HashSet::new();
        for (number, from) in std::iter::once(host).chain(devices.iter().copied()).enumerate() {
            let paths = wheels.paths(&from.part)?;
            for file in &*from.payload {
                // Several parts may hold the same file.
                if let Some(entry) = file.entry().filter(|_| number > 0)
                    && (host.of_entry(entry).is_some() || !from_devices.insert(entry))
                {
                    continue;
                }
                match file {
                    Payload::Unchanged(unchanged) if is_shown(&unchanged.entry) => {
                        payload.push(match binary(&unchanged.entry) {
                            Some(binary) => {
                                let Some(path) = paths.of(&unchanged.entry) else { continue };
                                let path = wheels.renamed(&from.part, &part, &path)?;
                                Payload::Thin(path, unchanged.executable, binary)
                            }
                            None => Payload::Unchanged(unchanged.clone()),
                        });
                    }
                    Payload::Binary(made) => {
                        let path = wheels.renamed(&from.part, &part, &made.file.path)?;
                        let thin = binary(&made.entry).ok_or_else(|| WheelError::NoSuchPart(made.entry.to_string()))?;
                        payload.push(Payload::Thin(path, made.file.executable, thin));
                    }
                    Payload::Unchanged(..) | Payload::Archive(..) | Payload::Thin(..) => {}
                }
            }
        }
        let mut dist_info = wheels.dist_info(&part, std::iter::empty::<EntryPath>())?;
        let path = wheels.name(&part)?.dist_info().child(STATEMENT.as_bytes());
        dist_info.push(WheelEntry::of_text(path, statement.into_bytes())?);
        let wheels = Arc::clone(wheels);
        Ok(Self::new(part, &wheels, payload.into(), dist_info, host.stamp, &host.resources))
    }
}
