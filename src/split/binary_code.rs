//! The device code behind the wrappers of a file, from the index or by scanning it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::binary::{BinaryError, FatBinary, Wrapper, is_signed};
use crate::fatbin::{Bundle, FatbinError};
use crate::gpu::TargetId;
use crate::index::RecordKind;
use crate::memory::{Parser, ParserMemory, TableError};
use crate::resources::Resources;
use crate::rope::{Content, Identity};

#[derive(Debug, thiserror::Error)]
pub(super) enum ScanError {
    #[error(transparent)]
    Binary(#[from] BinaryError),
    #[error(transparent)]
    Fatbin(#[from] FatbinError),
    #[error("a bundle has two code objects for {0}")]
    Twice(TargetId),
    #[error("a bundle has a code object for {0}, which is no target's name")]
    Reserved(TargetId),
    #[error("the tables of its bundles: {0}")]
    Tables(#[from] TableError),
}

/// The most problems of a file that a warning names.
const MAX_PROBLEMS: usize = 4;

/// The device code of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct DeviceCode {
    pub(super) bundles: Vec<Bundle>,
    /// For each wrapper, the index of its bundle in `bundles`.
    pub(super) wrappers: Vec<usize>,
    pub(super) is_signed: bool,
    /// The first rules of loaders and tools that the file breaks.
    pub(super) problems: Vec<String>,
}

impl DeviceCode {
    /// The first wrapper that leads to each bundle.
    pub(super) fn first_wrappers(&self) -> HashMap<usize, usize> {
        self.wrappers.iter().enumerate().rev().map(|(wrapper, &bundle)| (bundle, wrapper)).collect()
    }

    fn is_complete(&self) -> bool {
        self.wrappers.iter().all(|&bundle| bundle < self.bundles.len())
    }
}

/// The kind of a file with device code.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holder {
    /// A program or a library, with wrappers.
    Binary,
    /// A file that is a bundle.
    BundleFile,
}

impl Holder {
    /// The key of the scan result for a content.
    fn identity(self, content: &dyn Content) -> Option<Identity> {
        let identity = content.identity()?;
        Some(match self {
            Self::Binary => identity,
            Self::BundleFile => Identity::describe("bundle that is a file").add(&identity.0).finish(),
        })
    }

    /// What the index has of a content.
    pub(super) fn indexed(self, content: &dyn Content, resources: &Resources) -> Option<CodeAndBinary> {
        let code: Option<DeviceCode> = resources.index.get(RecordKind::Scan, &self.identity(content)?)?;
        code.as_ref().is_none_or(DeviceCode::is_complete).then_some((code, None))
    }

    pub(super) fn scan(self, content: &Arc<dyn Content>) -> Result<Option<FatBinary>, BinaryError> {
        match self {
            Self::Binary => FatBinary::scan(content),
            Self::BundleFile => FatBinary::of_bundle(content),
        }
    }
}

/// The device code of a file, `None` if it has none; and the file as a binary, unless the index has what is known of it.
type CodeAndBinary = (Option<DeviceCode>, Option<FatBinary>);

/// The device code of a file, from the index or by scanning.
pub(super) fn find(
    content: &Arc<dyn Content>,
    holder: Holder,
    resources: &Arc<Resources>,
) -> Result<CodeAndBinary, ScanError> {
    holder.indexed(&**content, resources).map_or_else(|| examine(content, holder, resources), Ok)
}

pub(super) fn examine(
    content: &Arc<dyn Content>,
    holder: Holder,
    resources: &Arc<Resources>,
) -> Result<CodeAndBinary, ScanError> {
    let binary = holder.scan(content)?;
    let code = binary.as_ref().map(|binary| device_code(content, binary, resources)).transpose()?;
    // Binaries without device code share one record.
    let identity = holder.identity(&**content).filter(|_| code.is_some() || matches!(holder, Holder::BundleFile));
    if let Some(identity) = identity {
        resources.index.put(RecordKind::Scan, &identity, &code);
    }
    Ok((code, binary))
}

fn device_code(
    content: &Arc<dyn Content>,
    binary: &FatBinary,
    resources: &Arc<Resources>,
) -> Result<DeviceCode, ScanError> {
    let problems = match binary.problems() {
        Err(error @ BinaryError::Read(_)) => return Err(error.into()),
        found => found.unwrap_or_else(|error| vec![error.to_string()]),
    };
    let (is_signed, problems) = (is_signed(content), problems.into_iter().take(MAX_PROBLEMS).collect());
    let ((places, wrappers), table) = (binary.bundles(), ParserMemory::new(Parser::Bundle));
    let read = |place: &Wrapper| {
        let bundle = Bundle::read(content, place.bundle, place.limit, resources)?;
        bundle.count(&table)?;
        Ok(bundle)
    };
    let bundles = places.iter().map(read).collect::<Result<_, ScanError>>()?;
    Ok(DeviceCode { bundles, wrappers, is_signed, problems })
}
