//! The rules that `verify` checks. This table is the only list of their identifiers; `docs/verify.md` says more about
//! each, and a test compares the two.

use serde::Serialize;

/// The kind of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Binaries.
    Binary,
    /// Archives.
    Archive,
    /// Look-ups from wrappers to code objects.
    Lookup,
    /// Manifests and names of artifacts.
    Artifact,
    /// RECORDs of wheels.
    Record,
    /// Relations between distributions.
    Distribution,
    /// Files in the wrong part.
    Separation,
    /// Manifests and split IDs.
    Manifest,
    /// The comparison with the fat input.
    Against,
}

/// Declares `Rule` and its table: of each rule, the identifier in JSON and in `--allow`, which never changes its
/// meaning, the kind of the check, and what to do.
macro_rules! rules {
    ($($(#[$what:meta])* $rule:ident $id:literal $check:ident: $remedy:literal;)*) => {
        /// A rule that `verify` checks. A finding says which one is broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[derive(strum::Display, strum::EnumString, strum::VariantNames)]
        pub enum Rule {
            $($(#[$what])* #[serde(rename = $id)] #[strum(serialize = $id)] $rule,)*
        }

        impl Rule {
            /// The kind of the check.
            pub fn check(self) -> Check {
                match self { $(Self::$rule => Check::$check,)* }
            }

            /// What to do.
            pub fn remedy(self) -> &'static str {
                match self { $(Self::$rule => $remedy,)* }
            }
        }
    };
}

rules! {
    /// A binary of a split still has its device code.
    StillFat "still-fat" Binary:
        "install the split, from one source (docs/package-index.md), or split the input again; `inspect INPUT` names the reason why a binary cannot be split";
    /// A split binary breaks a rule of loaders, linkers or inspection tools.
    BinaryForm "binary-form" Binary:
        "run such tools before the split, or use the versions in docs/tools.md; then install or split again; `--allow binary-form` accepts what the input has";
    /// A binary cannot be read.
    BinaryUnreadable "binary-unreadable" Binary:
        "install or split again";
    /// A wrapper has a wrong version, or asks for the index of another wrapper.
    WrapperFields "wrapper-fields" Binary:
        "install or split again";
    /// A wrapper has no marker that a runtime can read.
    Marker "marker" Binary:
        "install or split again, without that tool";
    /// A bundle of a thin binary has code that its GPUs cannot be given, or that cannot be read.
    ThinCode "thin-code" Binary:
        "make the thin view again, or name its GPUs by --thin";
    /// An archive cannot be opened.
    ArchiveUnreadable "archive-unreadable" Archive:
        "install the distribution that its RECORD names, or split again";
    /// Name, list of targets and entries of an archive disagree.
    ArchiveTargets "archive-targets" Archive:
        "install the distribution that its RECORD names, or split again";
    /// An archive has bytes or code objects that its table of contents does not account for.
    ArchiveForm "archive-form" Archive:
        "install the distribution that its RECORD names, or split again";
    /// A code object in an archive cannot be read.
    EntryUnreadable "entry-unreadable" Archive:
        "install the distribution that its RECORD names, or split again";
    /// A code object is for another GPU than its name says, or needs a mode that its GPU lacks.
    EntryTarget "entry-target" Archive:
        "split again; HIP fails or computes nonsense with such an entry";
    /// A code object or a bundle that a database has as a file is damaged, or is for another GPU than its path says.
    DatabaseCode "database-code" Archive:
        "install the distribution that its RECORD names, or split again";
    /// A file in which rocBLAS, hipBLASLt or hipSPARSELt finds its code objects is damaged.
    DatabaseCatalogue "database-catalogue" Archive:
        "install the distribution that its RECORD names, or split again";
    /// Files of rocBLAS, hipBLASLt or hipSPARSELt to which one of their catalogues leads, the catalogue that leads to
    /// others, or all files of a database, do not exist.
    DatabaseMissing "database-missing" Archive:
        "install the distributions of the library and of the GPU again, or split again";
    /// A split library finds no archive at all where its marker leads, but others do.
    NoArchive "no-archive" Lookup:
        "put the library where its distribution installs it, or install the distribution again";
    /// A runtime finds no code for a wrapper, for no GPU.
    NoCode "no-code" Lookup:
        "install the device wheels of the GPUs in the version of the host wheel; a wheel that setuptools makes needs `**/.kpack/*` in its package data";
    /// A runtime that stops at the first archive that offers a GPU misses code which another archive has.
    HiddenCode "hidden-code" Lookup:
        "use a runtime with rocm-systems#9953, or split the fat input with kpackfs";
    /// No marker leads to an archive.
    OrphanArchive "orphan-archive" Lookup:
        "install host and device wheels into the same directory";
    /// No wrapper asks for an entry of an archive.
    OrphanEntry "orphan-entry" Lookup:
        "use host and device parts of one split";
    /// A symlink to archives leads to nothing.
    DanglingLink "dangling-link" Lookup:
        "restore it, or install copies";
    /// A symlink leads to a split library or an archive outside of the installation.
    OutsideLink "outside-link" Lookup:
        "install copies (`uv --link-mode copy`), or name the archives in ROCM_KPACK_PATH";
    /// An artifact has no usable `artifact_manifest.txt`.
    ArtifactManifest "artifact-manifest" Artifact:
        "remove the directory, or copy the artifact again";
    /// The name of an artifact is not `COMPONENT_FAMILY`.
    ArtifactName "artifact-name" Artifact:
        "rename it";
    /// A component has device parts but no `COMPONENT_generic`.
    ArtifactHost "artifact-host" Artifact:
        "add it; recombine and split need it";
    /// Two different files are installed at one path.
    InstallConflict "install-conflict" Separation:
        "rename one of them in the build";
    /// The statement of a split names a part that does not exist.
    PartMissing "part-missing" Separation:
        "copy it, or split again";
    /// The statement of a split does not name a part that exists.
    PartUnnamed "part-unnamed" Separation:
        "delete the part, or split into an empty directory";
    /// Several parts contain the same archive path.
    TwoPlaces "two-places" Separation:
        "use the parts of one split";
    /// A file that `--arch` laid over the host part differs from that of the device part.
    OverlayDiffers "overlay-differs" Separation:
        "split again";
    /// The host part contains an archive or a file of a kernel database.
    DeviceFileInHost "device-file-in-host" Separation:
        "split again; or give `verify` the `--databases` of the split";
    /// A device part contains code of another GPU, the statement of another part, or a file that belongs to no GPU; or
    /// a thin form is in the directory of another GPU.
    WrongPart "wrong-part" Separation:
        "split again";
    /// A distribution of a split has no RECORD.
    RecordMissing "record-missing" Record:
        "install the distribution again; without RECORD, files cannot be checked or uninstalled";
    /// A RECORD cannot be read.
    RecordUnreadable "record-unreadable" Record:
        "install the distribution again";
    /// A RECORD of a split states SHA-256 and size of no file.
    RecordEmpty "record-empty" Record:
        "split again, or install the distribution again";
    /// A RECORD breaks the specification, but can be compared.
    RecordForm "record-form" Record:
        "harmless for pip and uv: use `--allow record-form`; or split with kpackfs";
    /// The RECORD of a wheel names a path that a wheel cannot contain.
    RecordPath "record-path" Record:
        "make the wheel again";
    /// A RECORD states two digests of one file.
    RecordTwoDigests "record-two-digests" Record:
        "rename one of them in the build";
    /// A RECORD of a split states no SHA-256 or no size of a file.
    DigestMissing "digest-missing" Record:
        "split again, or install the distribution again";
    /// A file is not the one whose SHA-256 and size RECORD states.
    FileChanged "file-changed" Record:
        "install the distribution again (`pip install --force-reinstall --no-deps NAME==VERSION`)";
    /// RECORD names a file that does not exist.
    FileMissing "file-missing" Record:
        "install all wheels of the split in one command";
    /// A file that RECORD names cannot be read.
    FileUnreadable "file-unreadable" Record:
        "install or download again";
    /// No RECORD names a file of the split.
    FileUnnamed "file-unnamed" Record:
        "install the distribution that contains it again; delete it only if there is none";
    /// A distribution of the split needs another one, which is missing.
    DistributionMissing "distribution-missing" Distribution:
        "install it, in the version that the finding names";
    /// A distribution of the split exists in another version than a distribution of the same split needs.
    DistributionVersion "distribution-version" Distribution:
        "install host and device wheels of one version in one command";
    /// Neither a device wheel nor its host wheel requires what the GPU needs of another distribution.
    RequirementMissing "requirement-missing" Distribution:
        "name the extra with `--requirements NAME=LIST`, or split with `--requirements keep`";
    /// A distribution of the split is installed twice in one directory.
    DistributionTwice "distribution-twice" Distribution:
        "uninstall it until nothing of it is left, and install it again";
    /// Name or version in the METADATA of a distribution of the split are not those of its directory or of the file
    /// name of its wheel.
    DistributionName "distribution-name" Distribution:
        "rename the file of a wheel after its METADATA; install what is installed again (`pip install --force-reinstall --no-deps NAME==VERSION`)";
    /// A device distribution installs no archive and no file of a kernel database.
    DeviceEmpty "device-empty" Distribution:
        "install the distribution again (`pip install --force-reinstall --no-deps NAME==VERSION`)";
    /// The METADATA of a device distribution does not require the host distribution of its split in its own version.
    DeviceRequirements "device-requirements" Distribution:
        "install the device wheel of the split (`pip install --force-reinstall --no-deps DEVICE.whl`)";
    /// The METADATA of a host distribution does not name the device distributions that belong to it.
    HostRequirements "host-requirements" Distribution:
        "install the host wheel of the split (`pip install --force-reinstall --no-deps HOST.whl`)";
    /// The manifest of a part cannot be read, or the statement next to it.
    ManifestUnreadable "manifest-unreadable" Manifest:
        "install or split again, or use that version";
    /// Parts that belong together are of different splits.
    OtherSplit "other-split" Manifest:
        "install host and device wheels of one split; `kpackfs.json` of each has the ID of its split";
    /// There is no file at the path that the manifest of its part, or the statement of `collect`, lists.
    ListedMissing "listed-missing" Manifest:
        "install the distribution again, or split again after the move, or collect again";
    /// A binary, an archive or a database is not the one that the split wrote.
    ListedChanged "listed-changed" Manifest:
        "install the distribution again (`pip install --force-reinstall --no-deps NAME==VERSION`), or split again";
    /// An archive lacks an entry of its split, has a further one, or has other code in it.
    ListedEntry "listed-entry" Manifest:
        "install the distribution again, or split again; HIP fails or computes nonsense with other code";
    /// The manifest of a part does not list an archive, a file of a kernel database or a copy of a binary that is in
    /// the part or next to it.
    Unlisted "unlisted" Manifest:
        "install the distribution that contains it again; delete it only if there is none";
    /// Something of the fat input is in no part.
    AgainstLost "against-lost" Against:
        "split again; give `verify` the `--gpu-targets`, `--exclude-targets` and `--databases` of the split";
    /// A file differs from that of the fat input.
    AgainstChanged "against-changed" Against:
        "name the input that was split, or split again";
    /// A binary differs from its fat form in more than its device code.
    AgainstBinary "against-binary" Against:
        "name the input that was split, or split again";
    /// A file has another mode than in the fat input.
    AgainstMode "against-mode" Against:
        "copy with modes (`cp -a`, `rsync -a`), or split again";
    /// There is a file that the fat input does not have.
    AgainstAdded "against-added" Against:
        "delete it, or name the input that was split";
    /// A file is in the wrong part, or in several.
    AgainstPlace "against-place" Against:
        "give `verify` the options of the split, or split again";
    /// Code that worked in the fat binary is not found in its split or thin form.
    AgainstCodeLost "against-code-lost" Against:
        "split again; install host and device wheels of one split";
    /// A runtime finds other code than in the fat binary.
    AgainstCodeChanged "against-code-changed" Against:
        "split again; install host and device wheels of one split";
    /// A runtime finds code that the fat binary does not have.
    AgainstCodeAdded "against-code-added" Against:
        "name the input that was split, or split again";
    /// Something cannot be compared, because it cannot be read.
    AgainstUnreadable "against-unreadable" Against:
        "`verify` without --against names the damaged file of a split";
    /// Nothing that is verified was made of the input after --against.
    AgainstOther "against-other" Against:
        "name the wheel or the tree that was split";
    /// A distribution of a split is not compared, as no fat input after --against is of it.
    AgainstMissing "against-missing" Against:
        "name all wheels that were split, or their directory";
    /// A component of the fat artifacts has no artifact in the split.
    AgainstComponent "against-component" Against:
        "split it, or restrict `verify` by --component";
}

#[cfg(test)]
mod tests {
    use strum::VariantNames;

    use super::Rule;

    #[test]
    fn the_page_lists_all_rules() {
        let page = std::fs::read_to_string("docs/verify.md").unwrap();
        let (_, page) = page.split_once("## Findings").unwrap();
        let rows = || page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
        assert_eq!(rows().map(|(id, _)| id).collect::<Vec<_>>(), Rule::VARIANTS);
        for (id, row) in rows() {
            let rule: Rule = id.parse().unwrap();
            assert!(row.ends_with(&format!(" | {} |", rule.remedy())), "{id}");
            assert!(id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{id}");
        }
    }
}
