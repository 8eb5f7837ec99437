//! Target IDs: a processor and its known features, as offload bundles and loaders write them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::fallback::{self, Fallback, FallbackState};
use super::hierarchy::{TARGETS, canonical_key, owner_of, sharing_package};
use super::processors::{ModeSupport, Processor};

/// Bytes of the longest name that is accepted. It has to fit into file names next to a package's name.
const MAX_LENGTH: usize = 128;

/// Each feature doubles the number of [`TargetId::candidates`]. Real targets have at most two (sramecc, xnack).
const MAX_FEATURES: usize = 4;

/// The processor of SPIR-V code, which runs on every GPU (`hip_fatbin.cpp` of CLR).
pub const SPIRV: &str = "amdgcnspirv";

/// Whether a name begins as all names of targets and families do. Other names can be valid target IDs, too.
pub fn begins_with_target(name: &[u8]) -> bool {
    name.starts_with(b"gfx") || name.starts_with(SPIRV.as_bytes())
}

/// What a code object was compiled for: a processor, then the features that it depends on, sorted by name, as runtimes
/// name devices. `gfx90a:sramecc+:xnack-`, `gfx11-generic` and `amdgcnspirv` are target IDs; `gfx90a:xnack-:sramecc+` is
/// read as the first of them. A processor has its bare name if target IDs cannot name its modes: `gfx1250:xnack+` is read
/// as `gfx1250`. `gfx1250:xnack-` is kept, since no GPU runs such code. All features of unknown processors are kept.
///
/// Each code object has one, and few of them differ. So it is a pointer to a shared name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, derive_more::Debug)]
#[debug("{:?}", self.to_string())]
#[serde(try_from = "String", into = "String")]
pub struct TargetId(Arc<TargetName>);

#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
struct TargetName {
    processor: String,
    /// Names with their sign: `xnack+`.
    features: Vec<String>,
}

/// Why a string is no target ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetIdError {
    /// The processor is empty or has characters that do not belong into a file name.
    #[error("{0:?} is no target: a processor is lower-case letters, digits and inner \".\", \"_\" or \"-\"")]
    Processor(String),
    /// What follows a colon is not a name with a sign.
    #[error("{0:?} is no target: a feature is a name and \"+\" or \"-\"")]
    Feature(String),
    /// It names a feature twice.
    #[error("{0:?} is no target: it names a feature twice")]
    DuplicateFeature(String),
    /// It has more features than any target has.
    #[error("{0:?} is no target: it has more than {MAX_FEATURES} features")]
    TooManyFeatures(String),
    /// It is too long.
    #[error("a target of {0} bytes is longer than {MAX_LENGTH}")]
    TooLong(usize),
}

impl TargetId {
    /// A target that a user typed, in any case: `GFX90A:XNACK-`, or as rocminfo names it: `amdgcn-amd-amdhsa--gfx942`. Names in files
    /// are exact.
    pub fn typed(text: &str) -> Result<Self, TargetIdError> {
        let text = text.to_ascii_lowercase();
        text.strip_prefix("amdgcn-amd-amdhsa--").unwrap_or(&text).parse()
    }

    /// A target without features. The caller has validated the name.
    pub(super) fn bare(processor: impl Into<String>) -> Self {
        Self::of(processor.into(), Vec::new())
    }

    fn of(processor: String, features: Vec<String>) -> Self {
        Self(Arc::new(TargetName { processor, features }))
    }

    /// The target with this `gfx_target_version`. Versions that the table lacks are named by LLVM's rule: major and minor
    /// decimal, stepping hexadecimal. The version cannot tell gfx1250-strict from gfx1250.
    pub fn of_version(version: u32) -> Self {
        let known =
            TARGETS.iter().find(|target| target.version == version && canonical_key(target.name) == target.name);
        let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
        Self::bare(known.map_or_else(|| format!("gfx{major}{minor}{stepping:x}"), |target| target.name.to_owned()))
    }

    /// The processor, such as `gfx90a`.
    pub fn processor(&self) -> &str {
        &self.0.processor
    }

    /// The features with their signs, sorted by name: `sramecc+`, `xnack-`.
    pub fn features(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.features.iter().map(String::as_str)
    }

    /// The same processor without features.
    #[must_use]
    pub fn without_features(&self) -> Self {
        Self::bare(self.processor())
    }

    /// Whether this is a generic ISA, whose code runs on several processors: `gfx11-generic`.
    pub fn is_generic(&self) -> bool {
        self.processor().ends_with("-generic")
    }

    /// Whether this is SPIR-V, which is compiled for the GPU when it is loaded.
    pub fn is_spirv(&self) -> bool {
        self.processor() == SPIRV
    }

    /// Whether the processor is known, or this is SPIR-V.
    pub fn is_known(&self) -> bool {
        self.is_spirv() || Processor::named(self.processor()).is_some()
    }

    /// Whether both are code for one GPU, apart from features. gfx1250-strict is revision A0 of gfx1250.
    pub fn is_same_gpu(&self, other: &Self) -> bool {
        owner_of(self.processor()) == owner_of(other.processor())
    }

    /// Whether the other target names a feature of this one with the opposite sign.
    pub(crate) fn contradicts(&self, other: &Self) -> bool {
        let name = |feature: &str| feature_name(feature).map(str::to_owned);
        self.features().any(|one| other.features().any(|two| one != two && name(one) == name(two)))
    }

    /// The feature which this code needs to be off, and which is on in each of its GPUs. So no GPU runs the code.
    pub fn impossible_feature(&self) -> Option<&str> {
        let always_on = |feature: &&str| {
            feature.ends_with('-')
                && feature_name(feature).and_then(|name| self.mode(name)) == Some(ModeSupport::AlwaysOn)
        };
        self.features().find(always_on)
    }

    /// A generic processor whose code this one can run, though no released runtime takes it.
    pub fn open_fallback(&self) -> Option<&'static Fallback> {
        fallback::row(self.processor(), FallbackState::Open)
    }

    /// How the processor supports modes of a feature. `None` if the processor or the feature is not known.
    pub(super) fn mode(&self, feature: &str) -> Option<ModeSupport> {
        mode(self.processor(), feature)
    }

    /// The targets whose code a runtime accepts for a device of this target, in the order of lookup: this target with
    /// all its features, then with fewer of them, then the same for the generic ISA of its processor.
    ///
    /// The order is that of rocm-kpack's loader (all subsets of the features, most specific first) and of HIP, which
    /// asks the loader once more with the generic name and the same features.
    pub fn candidates(&self) -> Vec<Self> {
        if self.impossible_feature().is_some() {
            return vec![self.clone()];
        }
        // The first feature is the highest bit, so among sets of one size those with earlier features come first.
        let own = &self.0.features;
        let mut subsets: Vec<u32> = (0..1 << own.len()).collect();
        subsets.sort_by_key(|&subset| std::cmp::Reverse((subset.count_ones(), subset)));
        let subset = |processor: &str, bits: u32| {
            let chosen = |&(position, _): &(usize, &String)| bits >> (own.len() - 1 - position) & 1 == 1;
            let features = own.iter().enumerate().filter(chosen).map(|(_, feature)| feature.clone());
            Self::of(processor.to_owned(), features.collect())
        };
        let processors = std::iter::once(self.processor()).chain(fallback::generic_of(self.processor()));
        processors.flat_map(|processor| subsets.iter().map(move |&bits| subset(processor, bits))).collect()
    }

    /// The names by which runtimes may call a GPU of this target: one for each mode that it can be in, and for each
    /// processor of its package. Features that the target names are fixed.
    pub(super) fn device_names(&self) -> Vec<Self> {
        let is_fixed = |name: &&str| self.features().any(|feature| feature_name(feature) == Some(name));
        let mut names: Vec<_> = sharing_package(self.processor())
            .into_iter()
            .map(|processor| Self::of(processor.to_owned(), self.0.features.clone()))
            .collect();
        for feature in ["sramecc", "xnack"].into_iter().filter(|name| !is_fixed(name)) {
            let states: &[_] = match self.mode(feature) {
                Some(ModeSupport::Unsupported | ModeSupport::Unnamed | ModeSupport::AlwaysOn) => &[""],
                // Older runtimes select it.
                Some(ModeSupport::ForcedOff) => &["", "-", "+"],
                Some(ModeSupport::Selectable) | None => &["-", "+"],
            };
            let with = |name: &Self, state: &&str| {
                let added = Some(format!("{feature}{state}")).filter(|_| !state.is_empty());
                let mut features: Vec<_> = name.0.features.iter().cloned().chain(added).collect();
                features.sort_unstable();
                Self::of(name.processor().to_owned(), features)
            };
            names = names.iter().flat_map(|name| states.iter().map(move |state| with(name, state))).collect();
        }
        names
    }

    /// This target with a feature in the given state, unless it names that feature.
    #[must_use]
    pub(super) fn with_default(self, feature: &str, default: &str) -> Self {
        if self.features().any(|it| feature_name(it) == Some(feature)) {
            return self;
        }
        let mut features: Vec<_> = self.features().chain([default]).map(str::to_owned).collect();
        features.sort_unstable();
        Self::of(self.processor().to_owned(), features)
    }

    /// Which code a runtime finds first for a device that is called by exactly this name: native code, else code for
    /// its generic processor, else SPIR-V. The result has one value for each of `present`.
    pub fn finds(&self, present: &[&Self]) -> Vec<bool> {
        let has_features = |code: &Self| code.features().all(|needed| self.features().any(|feature| feature == needed));
        let native = |code: &Self| code.processor() == self.processor() && has_features(code);
        let generic =
            |code: &Self| fallback::generic_of(self.processor()) == Some(code.processor()) && has_features(code);
        let spirv = |code: &Self| code.is_spirv();
        let kinds: [&dyn Fn(&Self) -> bool; 3] = [&native, &generic, &spirv];
        let hits = kinds.into_iter().map(|is_kind| present.iter().map(|code| is_kind(code)).collect::<Vec<_>>());
        hits.into_iter().find(|hits| hits.contains(&true)).unwrap_or_else(|| vec![false; present.len()])
    }
}

/// How a processor supports modes of a feature. `None` if the processor or the feature is not known.
fn mode(processor: &str, feature: &str) -> Option<ModeSupport> {
    Processor::named(processor)?.modes().into_iter().find(|(name, _)| *name == feature).map(|(_, mode)| mode)
}

/// Whether a feature is a part of the processor's target IDs.
fn is_named(processor: &str, feature: &str) -> bool {
    match feature_name(feature).and_then(|name| mode(processor, name)) {
        Some(ModeSupport::Unsupported | ModeSupport::Unnamed) => false,
        Some(ModeSupport::AlwaysOn) => feature.ends_with('-'),
        Some(ModeSupport::Selectable | ModeSupport::ForcedOff) | None => true,
    }
}

impl FromStr for TargetId {
    type Err = TargetIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > MAX_LENGTH {
            return Err(TargetIdError::TooLong(text.len()));
        }
        let canonical = with_colons(text);
        let mut parts = canonical.split(':');
        let processor = parts.next().unwrap_or_default();
        if !is_processor(processor) {
            return Err(TargetIdError::Processor(text.to_owned()));
        }
        let mut features: Vec<String> = parts.map(str::to_owned).collect();
        if features.len() > MAX_FEATURES {
            return Err(TargetIdError::TooManyFeatures(text.to_owned()));
        }
        for (position, feature) in features.iter().enumerate() {
            let name = feature_name(feature).ok_or_else(|| TargetIdError::Feature(text.to_owned()))?;
            if features.iter().take(position).any(|earlier| feature_name(earlier) == Some(name)) {
                return Err(TargetIdError::DuplicateFeature(text.to_owned()));
            }
        }
        features.retain(|feature| is_named(processor, feature));
        features.sort_unstable();
        Ok(Self::of(processor.to_owned(), features))
    }
}

/// The target ID that build systems write as `gfx942-xnack+`, because colons are not allowed in all names.
fn with_colons(text: &str) -> Cow<'_, str> {
    let spelled = ["sramecc+", "sramecc-", "xnack+", "xnack-"];
    let replace =
        |text: Cow<'_, str>, feature: &str| -> String { text.replace(&format!("-{feature}"), &format!(":{feature}")) };
    if !text.contains("-sramecc") && !text.contains("-xnack") {
        return text.into();
    }
    spelled.into_iter().fold(text.into(), |text, feature| replace(text, feature).into())
}

/// Whether `name` can be part of the names of files, directories and Python distributions. Its first and last character
/// may not be punctuation: distributions do not allow it, and `..` has to be refused.
fn is_processor(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    name.bytes().all(inner) && outer(name.as_bytes().first()) && outer(name.as_bytes().last())
}

/// The name of a feature such as `xnack+`, without its sign.
fn feature_name(feature: &str) -> Option<&str> {
    let name = feature.strip_suffix(['+', '-'])?;
    let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (!name.is_empty() && name.bytes().all(valid)).then_some(name)
}

impl TryFrom<String> for TargetId {
    type Error = TargetIdError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        name.parse()
    }
}

impl From<TargetId> for String {
    fn from(target: TargetId) -> Self {
        target.to_string()
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.processor())?;
        self.features().try_for_each(|feature| write!(formatter, ":{feature}"))
    }
}

#[cfg(test)]
#[path = "id_tests.rs"]
mod tests;
