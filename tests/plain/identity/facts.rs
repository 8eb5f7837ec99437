//! The tables of processors and fallbacks are what the facts say, which `scripts/check-hierarchy` compares with sources
//! of LLVM, COMGR and CLR.

use kpackfs::gpu::{FALLBACKS, FallbackState, ModeSupport, PROCESSORS};

const PROCESSOR_FACTS: &str = include_str!("../../facts/processors.txt");
const FALLBACK_FACTS: &str = include_str!("../../facts/fallbacks.txt");

/// Processors that compilers no longer know.
const REMOVED: [&str; 2] = ["gfx940", "gfx941"];

/// Processors whose XNACK the HSA runtime turns off, although compilers have both modes (ROCm/rocm-systems#8237).
const FORCED_OFF: [&str; 3] = ["gfx902", "gfx909", "gfx90c"];

/// A processor according to LLVM and CLR.
pub(crate) struct ProcessorFact {
    pub(crate) name: &'static str,
    pub(crate) number: u8,
    /// `-`, `modes` or `on`.
    pub(crate) xnack: &'static str,
    sramecc: &'static str,
}

fn rows<const N: usize>(text: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split(' ').collect::<Vec<_>>().try_into().unwrap())
}

pub(crate) fn processors() -> Vec<ProcessorFact> {
    let row = |[name, number, xnack, sramecc]: [&'static str; 4]| {
        let number = u8::from_str_radix(number.strip_prefix("0x").unwrap(), 16).unwrap();
        ProcessorFact { name, number, xnack, sramecc }
    };
    rows(PROCESSOR_FACTS).map(row).collect()
}

#[test]
fn processors_are_those_of_llvm() {
    let facts = processors();
    let known: Vec<_> = PROCESSORS.iter().filter(|it| !REMOVED.contains(&it.name)).collect();
    assert_eq!(known.iter().map(|it| it.name).collect::<Vec<_>>(), facts.iter().map(|it| it.name).collect::<Vec<_>>());
    for (ours, fact) in known.into_iter().zip(&facts) {
        let text = |mode: ModeSupport| match mode {
            ModeSupport::Unsupported | ModeSupport::Unnamed => "-",
            ModeSupport::Selectable | ModeSupport::ForcedOff => "modes",
            ModeSupport::AlwaysOn => "on",
        };
        let row = (ours.number, text(ours.xnack), text(ours.sramecc));
        assert_eq!(row, (fact.number, fact.xnack, fact.sramecc), "{}", fact.name);
        assert_eq!(ours.xnack == ModeSupport::ForcedOff, FORCED_OFF.contains(&fact.name), "{}", fact.name);
    }
}

#[test]
fn fallbacks_are_those_of_clr() {
    let facts: Vec<[&str; 3]> = rows(FALLBACK_FACTS).collect();
    let row = |row: &'static kpackfs::gpu::Fallback| {
        let state = match row.state {
            FallbackState::Merged => "merged",
            FallbackState::Open => "open",
        };
        row.processors.iter().map(move |name| [*name, row.generic, state])
    };
    assert_eq!(FALLBACKS.iter().flat_map(row).collect::<Vec<_>>(), facts);
}
