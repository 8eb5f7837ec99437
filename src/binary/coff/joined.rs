//! A split image with its device code in it again.

use std::sync::Arc;

use crate::binary::BinaryError;
use crate::binary::changes::Change;
use crate::binary::joined::Placed;
use crate::rope::Content;

/// The changes after which a split image has bundles.
pub(in crate::binary) fn join(_: &Arc<dyn Content>, _: &Placed) -> Result<Vec<Change>, BinaryError> {
    Err(BinaryError::unsupported("device code is not put back into images for Windows"))
}
