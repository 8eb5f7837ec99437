//! The statement in the dist-info of a part's wheel.

use std::sync::Arc;

use crate::gpu::BundleKey;
use crate::rope::{Content, ReadError};
use crate::split::{SplitId, Statement};

/// The split that wheels are of.
#[derive(Clone, Debug)]
pub(super) struct StatedSplit {
    pub(super) id: SplitId,
    /// The restrictions of the split, which host wheels state.
    pub(super) statement: Statement,
}

impl StatedSplit {
    /// The statement of the host part.
    pub(super) fn of_host(&self) -> Result<Arc<dyn Content>, ReadError> {
        Ok(Arc::new(self.statement.clone().of_host().to_rope(&self.id)?))
    }

    /// The statement of a device part.
    pub(super) fn of_device(&self, key: &BundleKey) -> Result<Arc<dyn Content>, ReadError> {
        Ok(Arc::new(Statement::of_device(key).to_rope(&self.id)?))
    }
}
