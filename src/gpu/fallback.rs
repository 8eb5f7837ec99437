//! Which generic code runtimes take for a processor that has no code of its own.
//!
//! CLR decides (`TargetGenericMap` in `hip_fatbin.cpp`), and the HSA runtime has to accept it (`isa.cpp`).
//! `scripts/check-hierarchy` compares this table with CLR's.

/// Whether runtimes have a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallbackState {
    /// It is merged.
    Merged,
    /// It is an open pull request, so no released runtime has it. Nothing but `why` uses such a row.
    Open,
}

/// A generic processor, and processors that fall back to its code.
#[derive(Clone, Copy, Debug)]
pub struct Fallback {
    /// The generic processor.
    pub generic: &'static str,
    /// The processors.
    pub processors: &'static [&'static str],
    /// Whether runtimes do it.
    pub state: FallbackState,
    /// Files of CLR, or pull requests of ROCm/rocm-systems.
    pub source: &'static str,
}

/// All rows. gfx1251 is in none, although LLVM's gfx12-5-generic covers it.
pub const FALLBACKS: &[Fallback] = &[
    merged("gfx9-generic", &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"], CLR),
    merged("gfx9-4-generic", &["gfx942", "gfx950"], CLR),
    merged("gfx10-1-generic", &["gfx1010", "gfx1011", "gfx1012", "gfx1013"], CLR),
    merged("gfx10-3-generic", &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"], CLR),
    merged(
        "gfx11-generic",
        &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"],
        CLR,
    ),
    merged("gfx12-generic", &["gfx1200", "gfx1201"], CLR),
    merged("gfx12-5-generic", &["gfx1250"], "ROCm/rocm-systems#9741"),
    Fallback {
        generic: "gfx11-7-generic",
        processors: &["gfx1170", "gfx1171", "gfx1172"],
        state: FallbackState::Open,
        source: "ROCm/rocm-systems#11977",
    },
];

const CLR: &str = "CLR: hip_fatbin.cpp";

const fn merged(generic: &'static str, processors: &'static [&'static str], source: &'static str) -> Fallback {
    Fallback { generic, processors, state: FallbackState::Merged, source }
}

/// The generic processor to whose code runtimes fall back on `processor`.
pub(super) fn generic_of(processor: &str) -> Option<&'static str> {
    row(processor, FallbackState::Merged).map(|row| row.generic)
}

/// The processors that fall back to the code of a generic processor.
pub(super) fn processors_of(generic: &str) -> Option<&'static [&'static str]> {
    let is_it = |row: &&Fallback| row.generic == generic && row.state == FallbackState::Merged;
    FALLBACKS.iter().find(is_it).map(|row| row.processors)
}

/// The fallback of `processor` in this state.
pub(super) fn row(processor: &str, state: FallbackState) -> Option<&'static Fallback> {
    FALLBACKS.iter().find(|row| row.state == state && row.processors.contains(&processor))
}
