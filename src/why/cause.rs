//! Causes: one table with what tools and documents need to know about each.

use serde::{Serialize, Serializer};

use crate::coverage::{CauseKind, cause_kinds};

/// A cause, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cause {
    /// Its kind.
    #[serde(rename = "id", serialize_with = "id_of")]
    pub kind: &'static CauseKind,
    /// One sentence without its full stop.
    pub reason: String,
    /// A shell command, if there is one.
    pub command: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
fn id_of<S: Serializer>(kind: &&'static CauseKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.id)
}

impl Cause {
    pub(super) fn new(kind: &'static CauseKind, reason: impl Into<String>, command: Option<String>) -> Self {
        Self { kind, reason: reason.into(), command }
    }

    /// Adds to the reason.
    pub(super) fn add(&mut self, text: &str) {
        self.reason.push_str(text);
    }

    /// With an addition to the reason, if there is one.
    #[must_use]
    pub(super) fn with(mut self, text: Option<&str>) -> Self {
        self.add(text.unwrap_or_default());
        self
    }
}

/// Whether a cause says no more than that the code is not where it was looked for.
pub(super) fn is_of_place(kind: &'static CauseKind) -> bool {
    let kinds =
        [&PACKAGE_MISSING, &PACKAGE_VERSION, &PACKAGE_NONE, &NOT_INSTALLED, &ARCHIVES_NONE, &ARCHIVE_ALONE, &NO_CODE];
    kinds.contains(&kind)
}

cause_kinds! { KINDS:
    PACKAGE_MISSING "package-missing"
        "the device package of the GPU or of its family is not installed"
        "`pip install 'NAME[device-TARGET]==VERSION'`";
    PACKAGE_VERSION "package-version"
        "the device package of the GPU or of its family has another version"
        "`pip install 'NAME[device-TARGET]==VERSION'`";
    PACKAGE_NONE "package-none"
        "there is no package for this GPU"
        "none; the answer names the GPUs with packages";
    NOT_INSTALLED "not-installed"
        "the library is in a wheel that was unpacked, not installed, without the device code"
        "unpack the device wheel over it, or install both";
    HOST_PART "host-part"
        "the library is in the host part of a split, which has no device code"
        "look at `merged/TARGET`, or install the wheels";
    OTHER_VIEW "other-view"
        "the file is in a part or a view of a split, and another view of it is the one for this GPU"
        "look at `merged/TARGET` or `thin/TARGET`";
    WHEEL_ALONE "wheel-alone"
        "the host wheel was given without the device wheels of the GPU: installed without an extra, it has no kernels"
        "`pip install` with the extra, or with the device wheels";
    SEVERAL_VERSIONS "several-versions"
        "a package has several dist-info directories, and its files are not those of one version"
        "`pip install --force-reinstall --no-deps …`";
    ARCHIVE_GONE "archive-gone"
        "the archive is gone, although its package is installed"
        "`pip install --force-reinstall --no-deps …`";
    ARCHIVE_DAMAGED "archive-damaged"
        "the archive is damaged"
        "`pip install --force-reinstall --no-deps …`";
    ARCHIVE_REPLACED "archive-replaced"
        "the archive is of another build, or was replaced"
        "`pip install --force-reinstall --no-deps …`";
    ARCHIVE_UNFIT "archive-unfit"
        "the archive is for another GPU than its name says"
        "`pip install --force-reinstall --no-deps …`";
    ARCHIVE_DENIED "archive-denied"
        "the archive may not be read, or its directory not entered"
        "`chmod`";
    ARCHIVE_NAME "archive-name"
        "the archive has a name that no runtime looks for"
        "split the library again";
    ARCHIVE_ALONE "archive-alone"
        "there are archives, and no library there leads to them"
        "install the package that has the library";
    ARCHIVES_NONE "archives-none"
        "there is no archive for this GPU where the library looks"
        "none; the answer names the GPUs with archives";
    ARCHIVES_OFF "archives-off"
        "`ROCM_KPACK_DISABLE` is set"
        "`unset ROCM_KPACK_DISABLE`";
    ARCHIVES_NAMED "archives-named"
        "`ROCM_KPACK_PATH` is set, and none of the archives that it names fits"
        "`unset ROCM_KPACK_PATH`";
    COPIED_LIBRARY "copied-library"
        "the library is a copy, such as those that `rocm-sdk init` makes in `_rocm_sdk_devel`; archives are searched relative to the loaded file"
        "`ln -sf` to the library that a package installed";
    LINKED_LIBRARY "linked-library"
        "the library is a symlink, and its archives are next to the symlink instead of next to the file (`uv --link-mode symlink`, profiles of Nix)"
        "`export ROCM_KPACK_PATH=…`, or install copies: `uv pip install --reinstall --link-mode copy …`";
    MARKER_DAMAGED "marker-damaged"
        "the marker in the library, which names its archives, is damaged"
        "install the library again";
    OTHER_MODE "other-mode"
        "the GPU is in another mode than the code needs"
        "`export HSA_XNACK=1`, or `unset HSA_XNACK`, if there is code for that";
    STRICT_CODE "strict-code"
        "there is code for gfx1250-strict only, or the reverse: a runtime on revision A0 calls the GPU one or the other"
        "`export HSA_DISABLE_GFX12_STRICT=0`, or `unset`";
    FALLBACK_UNRELEASED "fallback-unreleased"
        "there is generic code that the GPU could run, but no released runtime takes it"
        "none; the answer names the pull request";
    ENTRY_ID "entry-id"
        "the code for the GPU has an entry ID under which no HIP runtime finds it: another offload kind, another triple, or a target that an earlier entry serves"
        "bundle the code as `hipv4-amdgcn-amd-amdhsa--TARGET`, once for each target";
    NO_CODE "no-code"
        "the library, archive or code object has its code in itself, and none for this GPU"
        "none";
    RUNTIME_OLD "runtime-old"
        "the HIP runtime does not read archives"
        "`unset LD_LIBRARY_PATH` if that leads there; else use ROCm 7.13 or later, or a thin view: `kpackfs split FAT -o OUT --view thin/gfx1151`";
    FIRST_GPU "first-gpu"
        "the first GPU has no code, and another one has"
        "`export HIP_VISIBLE_DEVICES=1`";
    OVERRIDE_RENAMES "override-renames"
        "`HSA_OVERRIDE_GFX_VERSION` makes runtimes take the GPU for another one, and hides its code"
        "`unset`, or `export` with the version of the GPU";
    OVERRIDE_INVALID "override-invalid"
        "`HSA_OVERRIDE_GFX_VERSION` is invalid, and leaves no GPU"
        "`unset`";
    OVERRIDE_GENERATION "override-generation"
        "`HSA_OVERRIDE_GFX_VERSION` is of another generation, and leaves no GPU"
        "`unset`";
    OVERRIDE_UNKNOWN "override-unknown"
        "`HSA_OVERRIDE_GFX_VERSION` names no GPU that runtimes know, and leaves none"
        "`unset`";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::KINDS;

    #[test]
    fn every_kind_is_documented_once() {
        let document = include_str!("../../docs/why.md");
        let all = || KINDS.iter().chain(crate::coverage::DATABASE_KINDS);
        let ids: BTreeSet<_> = all().map(|kind| kind.id).collect();
        assert_eq!(ids.len(), all().count());
        for kind in all() {
            let row = format!("\n| `{}` | {} | {} |\n", kind.id, kind.meaning, kind.remedy);
            assert!(document.contains(&row), "{row}");
        }
    }
}
