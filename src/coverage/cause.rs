//! Kinds of causes: one list for the code that `why` looks up, and for databases, which other commands look up as well.

use serde::Serialize;

/// A kind of cause. Tools rely on identifiers, which never change their meaning; `docs/why.md` lists them with what fixes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(strum::VariantNames), strum(serialize_all = "kebab-case"))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CauseKind {
    /// The device package of the GPU or of its family is not installed.
    PackageMissing,
    /// The device package of the GPU or of its family has another version.
    PackageVersion,
    /// There is no package for this GPU.
    PackageNone,
    /// The library is in a wheel that was unpacked, not installed, without the device code.
    NotInstalled,
    /// The library is in the host part of a split, which has no device code.
    HostPart,
    /// The file is in a part or a view of a split, and another view of it is the one for this GPU.
    OtherView,
    /// The host wheel was given without the device wheels of the GPU: installed without an extra, it has no kernels.
    WheelAlone,
    /// A package has several dist-info directories, and its files are not those of one version.
    SeveralVersions,
    /// The archive is gone, although its package is installed.
    ArchiveGone,
    /// The archive is damaged.
    ArchiveDamaged,
    /// The archive is of another build, or was replaced.
    ArchiveReplaced,
    /// The archive is for another GPU than its name says.
    ArchiveUnfit,
    /// The archive may not be read, or its directory not entered.
    ArchiveDenied,
    /// The archive has a name that no runtime looks for.
    ArchiveName,
    /// There are archives, and no library there leads to them.
    ArchiveAlone,
    /// There is no archive for this GPU where the library looks, or none of the packages' archives has code for it.
    ArchivesNone,
    /// `ROCM_KPACK_DISABLE` is set.
    ArchivesOff,
    /// `ROCM_KPACK_PATH` is set, and none of the archives that it names fits.
    ArchivesNamed,
    /// The library is a copy, such as those that `rocm-sdk init` makes in `_rocm_sdk_devel`; archives are searched relative to the
    /// loaded file.
    CopiedLibrary,
    /// The library is a symlink, and its archives are next to the symlink instead of next to the file (`uv --link-mode symlink`,
    /// profiles of Nix).
    LinkedLibrary,
    /// The marker in the library, which names its archives, is damaged.
    MarkerDamaged,
    /// The GPU is in another mode than the code needs.
    OtherMode,
    /// There is code for gfx1250-strict only, or the reverse: a runtime on revision A0 calls the GPU one or the other.
    StrictCode,
    /// There is generic code that the GPU could run, but no released runtime takes it.
    FallbackUnreleased,
    /// The code for the GPU has an entry ID under which no HIP runtime finds it: another offload kind, another triple, or a target
    /// that an earlier entry serves.
    EntryId,
    /// The library, archive or code object has its code in itself, and none for this GPU.
    NoCode,
    /// The HIP runtime does not read archives.
    RuntimeOld,
    /// The first GPU has no code, and another one has.
    FirstGpu,
    /// `HSA_OVERRIDE_GFX_VERSION` makes runtimes take the GPU for another one, and hides its code.
    OverrideRenames,
    /// `HSA_OVERRIDE_GFX_VERSION` is invalid, and leaves no GPU.
    OverrideInvalid,
    /// `HSA_OVERRIDE_GFX_VERSION` is of another generation, and leaves no GPU.
    OverrideGeneration,
    /// `HSA_OVERRIDE_GFX_VERSION` names no GPU that runtimes know, and leaves none.
    OverrideUnknown,
    /// A library that reads kernels from files finds none of them for this GPU.
    DatabaseMissing,
    /// A file that a kernel database needs for this GPU is missing.
    DatabaseFileMissing,
    /// A file or the directory of a kernel database may not be read.
    DatabaseDenied,
    /// A file of a kernel database is empty, truncated, or for another GPU than its name says.
    DatabaseDamaged,
    /// Files of a kernel database are of another version than the others.
    DatabaseVersion,
    /// An environment variable leads the library to a directory without kernels for this GPU.
    DatabaseVariable,
    /// A directory that is named after the GPU hides the files for the GPU above it.
    DatabaseHidden,
    /// There are files for a generic target, which no released library reads, or not all of them.
    DatabaseGeneric,
    /// The GPU is in another mode than the code of a kernel database needs.
    DatabaseMode,
}

#[cfg(test)]
mod tests {
    use strum::VariantNames;

    use super::CauseKind;

    #[test]
    fn every_kind_is_documented_once() {
        let (_, table) = include_str!("../../docs/why.md").split_once("| identifier | cause | remedy |").unwrap();
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let documented: Vec<_> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
        assert_eq!(documented, CauseKind::VARIANTS);
    }
}
