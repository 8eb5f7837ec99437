//! Kinds of causes: tables with what tools and documents need to know about each.

/// A kind of cause. Tools rely on identifiers, which never change their meaning; `docs/why.md` lists them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CauseKind {
    /// The identifier, in lower case with hyphens.
    pub id: &'static str,
    /// What is wrong, in a few words.
    pub meaning: &'static str,
    /// What fixes it, in a few words.
    pub remedy: &'static str,
}

/// A table of kinds: a name for the code, the identifier, the meaning and the remedy.
macro_rules! cause_kinds {
    ($table:ident: $($name:ident $id:literal $meaning:literal $remedy:literal;)*) => {
        $(
            #[doc = $meaning]
            pub(crate) static $name: $crate::coverage::CauseKind =
                $crate::coverage::CauseKind { id: $id, meaning: $meaning, remedy: $remedy };
        )*
        /// All kinds of this table.
        #[cfg(test)]
        pub(crate) static $table: &[&$crate::coverage::CauseKind] = &[$(&$name),*];
    };
}

pub(crate) use cause_kinds;
