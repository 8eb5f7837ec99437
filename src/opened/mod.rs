//! What the user named: its form, and what belongs to it.
//!
//! One ordered list of forms recognises each input, from names, statements and first bytes. Commands ask for the
//! answer and do not look at names of directories themselves. What is odd about an input is a fact here, which `verify`
//! turns into findings and other commands into notes.

mod error;
mod form;
mod inner;
mod inputs;
mod mounted;
mod packed;
mod place;
mod site;
mod split;
mod statement;
mod tarred;
mod wheels;

pub use error::{NotUnderstood, is_not_understood};
pub use form::{FORMS, FormRow, Named, NamedPath, recognise, recognise_all, recognise_all_unproved};
pub(crate) use inner::InnerSplits;
pub use inputs::{
    OpenedInputs, OpenedResult, check_elsewhere, check_sites, is_statement, open, open_all, open_apart, split_of_parts,
    statements_in,
};
pub use mounted::shows_nothing_of_its_own;
pub use place::check_there;
pub use site::{Site, outside};
pub(crate) use site::{is_apart, is_environment};
pub use split::SplitDirectory;
pub use statement::{LocatedStatement, statement_in, thin_gpus};
pub use wheels::{WheelDirectory, is_unpacked_wheel, wheel_in_tree};

pub use crate::source::{DirectoryListing, ListedEntry, ListedKind};
