//! The forms of AMD device code: how each is recognised, how much of it there is and for which targets, and what can be done
//! with it. docs/forms.md has a table of them, and real packages.
//!
//! It does not know host binaries. Its callers say which ranges of a file hold data.

mod beginning;
mod bitcode;
mod effort;
mod form;
mod found;
mod frame;
mod named;
mod offload_binary;
mod search;
mod section;

pub(crate) use beginning::{beginnings, code_after_head};
pub use beginning::{code_of_file, is_for_linker};
pub use effort::Effort;
pub use form::{CodeFrame, DeviceCodePlace, DeviceForm, SQLITE};
pub(crate) use form::{UNJOINED, foreign_code};
pub use found::{CodeAmount, CodeOfForm, CodePiece, CodeTally};
pub(crate) use named::{UnpackedFile, code_by_name, files_behind, first_block, is_packed_tree, is_program, unpacked};
pub use search::{SearchError, search};
