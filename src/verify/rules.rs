//! The rules that `verify` checks. This table is the only list of their identifiers; `docs/verify.md` repeats it, and a
//! test compares the two.

use std::fmt;

use serde::{Serialize, Serializer};

use super::report::Check;

/// What a rule says, for users.
#[derive(Debug)]
pub struct RuleText {
    /// Its identifier in JSON and in `--allow`. It never changes its meaning.
    pub id: &'static str,
    /// The kind of the check.
    pub check: Check,
    /// What was found.
    pub what: &'static str,
    /// Usual causes.
    pub cause: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// Declares `Rule` and its table.
macro_rules! rules {
    ($($rule:ident $id:literal $check:ident: $what:literal, $cause:literal, $remedy:literal;)*) => {
        /// A rule that `verify` checks. A finding says which one is broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $what] $rule,)*
        }

        impl Rule {
            /// All rules, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$rule),*];

            /// Its text.
            pub fn text(self) -> RuleText {
                match self {
                    $(Self::$rule => RuleText {
                        id: $id, check: Check::$check, what: $what, cause: $cause, remedy: $remedy,
                    },)*
                }
            }
        }
    };
}

rules! {
    StillFat "still-fat" Binary:
        "a binary of a split still has its device code",
        "it cannot be split (`split` warns), the fat wheel was installed in place of the split, or the file was copied there or rebuilt after the split",
        "install the split, from one source (docs/package-index.md), or split the input again; `inspect INPUT` names the reason why a binary cannot be split";
    BinaryForm "binary-form" Binary:
        "a split binary breaks a rule of loaders, linkers or inspection tools",
        "a tool changed the file after the split (strip, patchelf), another splitter wrote it, or the input breaks the rule, too (LIEF, UPX; `split` warns)",
        "run such tools before the split, or use the versions in docs/tools.md; then install or split again; `--allow binary-form` accepts what the input has";
    BinaryUnreadable "binary-unreadable" Binary:
        "a binary cannot be read",
        "it is truncated or damaged, or the disk has an error",
        "install or split again";
    WrapperFields "wrapper-fields" Binary:
        "a wrapper has a wrong version, or asks for the index of another wrapper",
        "the file is damaged, or another splitter numbers wrappers for each target",
        "install or split again";
    Marker "marker" Binary:
        "a wrapper has no marker that a runtime can read",
        "a tool removed or moved the section .rocm_kpack_ref, or the file is damaged",
        "install or split again, without that tool";
    ThinCode "thin-code" Binary:
        "a bundle of a thin binary has code that its GPUs cannot be given, or that cannot be read",
        "the tree is for other GPUs than its name or --thin says, or the file is damaged",
        "make the thin view again, or name its GPUs by --thin";
    ArchiveUnreadable "archive-unreadable" Archive:
        "an archive cannot be opened",
        "it is truncated or damaged, or is no archive",
        "install the distribution that its RECORD names, or split again";
    ArchiveTargets "archive-targets" Archive:
        "name, list of targets and entries of an archive disagree",
        "the archive was renamed, or was copied over that of another GPU",
        "install the distribution that its RECORD names, or split again";
    ArchiveForm "archive-form" Archive:
        "an archive has bytes or code objects that its table of contents does not account for",
        "an entry was removed from it or changed, or something was appended to it",
        "install the distribution that its RECORD names, or split again";
    EntryUnreadable "entry-unreadable" Archive:
        "a code object in an archive cannot be read",
        "the archive is damaged",
        "install the distribution that its RECORD names, or split again";
    EntryTarget "entry-target" Archive:
        "a code object is for another GPU than its name says, or needs a mode that its GPU lacks",
        "entries were mixed up by another tool, or the archive is damaged",
        "split again; HIP fails or computes nonsense with such an entry";
    DatabaseCode "database-code" Archive:
        "a code object or a bundle that a database has as a file is damaged, or is for another GPU than its path says",
        "files were mixed up, or the file is truncated",
        "install the distribution that its RECORD names, or split again";
    DatabaseCatalogue "database-catalogue" Archive:
        "a file in which rocBLAS, hipBLASLt or hipSPARSELt finds its code objects is damaged",
        "the file is truncated, or something else was written in its place",
        "install the distribution that its RECORD names, or split again";
    DatabaseMissing "database-missing" Archive:
        "files of rocBLAS, hipBLASLt or hipSPARSELt to which one of their catalogues leads, the catalogue that leads to others, or all files of a database, do not exist",
        "they were deleted or not copied, and RECORD was made again",
        "install the distributions of the library and of the GPU again, or split again";
    NoArchive "no-archive" Lookup:
        "a split library finds no archive at all where its marker leads, but others do",
        "the library was moved (auditwheel, a copy), its marker was changed, or its archives were deleted",
        "put the library where its distribution installs it, or install the distribution again";
    NoCode "no-code" Lookup:
        "a runtime finds no code for a wrapper, for no GPU",
        "the device part is missing or of another build, an archive is damaged, or setuptools made the wheel of an installed tree, without `.kpack/`",
        "install the device wheels of the GPUs in the version of the host wheel; a wheel that setuptools makes needs `**/.kpack/*` in its package data";
    HiddenCode "hidden-code" Lookup:
        "a runtime that stops at the first archive that offers a GPU misses code which another archive has",
        "another splitter wrote an archive for a mode (`gfx90a:xnack+`) without the code that serves all modes",
        "use a runtime with rocm-systems#9953, or split the fat input with kpackfs";
    OrphanArchive "orphan-archive" Lookup:
        "no marker leads to an archive",
        "the archive is in another directory than its libraries expect, or its library is missing",
        "install host and device wheels into the same directory";
    OrphanEntry "orphan-entry" Lookup:
        "no wrapper asks for an entry of an archive",
        "host and device parts are of different builds",
        "use host and device parts of one split";
    DanglingLink "dangling-link" Lookup:
        "a symlink to archives leads to nothing",
        "what it leads to was moved or deleted",
        "restore it, or install copies";
    OutsideLink "outside-link" Lookup:
        "a symlink leads to a split library or an archive outside of the installation",
        "`uv --link-mode symlink` and similar: a runtime looks for archives next to the real file",
        "install copies (`uv --link-mode copy`), or name the archives in ROCM_KPACK_PATH";
    ArtifactManifest "artifact-manifest" Artifact:
        "an artifact has no usable `artifact_manifest.txt`",
        "the directory is no artifact, or was copied in part",
        "remove the directory, or copy the artifact again";
    ArtifactName "artifact-name" Artifact:
        "the name of an artifact is not `COMPONENT_FAMILY`",
        "the directory was renamed",
        "rename it";
    ArtifactHost "artifact-host" Artifact:
        "a component has device parts but no `COMPONENT_generic`",
        "the generic artifact was not copied, or was not made",
        "add it; recombine and split need it";
    InstallConflict "install-conflict" Separation:
        "two different files are installed at one path",
        "two prefixes of an artifact, or a wheel and its .data directory, contain the same name",
        "rename one of them in the build";
    PartMissing "part-missing" Separation:
        "the statement of a split names a part that does not exist",
        "the part was deleted, or not copied",
        "copy it, or split again";
    PartUnnamed "part-unnamed" Separation:
        "the statement of a split does not name a part that exists",
        "another split left it there",
        "delete the part, or split into an empty directory";
    TwoPlaces "two-places" Separation:
        "several parts contain the same archive path",
        "parts of several splits were mixed",
        "use the parts of one split";
    OverlayDiffers "overlay-differs" Separation:
        "a file that `--arch` laid over the host part differs from that of the device part",
        "one of them was changed after the split",
        "split again";
    DeviceFileInHost "device-file-in-host" Separation:
        "the host part contains an archive or a file of a kernel database",
        "a device part was unpacked into the host part, or `--databases` of the split omitted this database",
        "split again; or give `verify` the `--databases` of the split";
    WrongPart "wrong-part" Separation:
        "a device part contains code of another GPU, the statement of another part, or a file that belongs to no GPU; or a thin form is in the directory of another GPU",
        "a file was copied into the wrong part, or another splitter puts it there",
        "split again";
    RecordMissing "record-missing" Record:
        "a distribution of a split has no RECORD",
        "it was deleted; some packagers of distributions do that",
        "install the distribution again; without RECORD, files cannot be checked or uninstalled";
    RecordUnreadable "record-unreadable" Record:
        "a RECORD cannot be read",
        "the file is damaged, or longer than 64 MiB",
        "install the distribution again";
    RecordEmpty "record-empty" Record:
        "a RECORD of a split states SHA-256 and size of no file",
        "another tool wrote it",
        "split again, or install the distribution again";
    RecordForm "record-form" Record:
        "a RECORD breaks the specification, but can be compared",
        "rocm-kpack's splitters write hexadecimal digests; `wheel unpack`, installer and check-wheel-contents refuse such wheels",
        "harmless for pip and uv: use `--allow record-form`; or split with kpackfs";
    RecordPath "record-path" Record:
        "the RECORD of a wheel names a path that a wheel cannot contain",
        "another tool wrote it; `..` and absolute paths are refused by installers",
        "make the wheel again";
    RecordTwoDigests "record-two-digests" Record:
        "a RECORD states two digests of one file",
        "two members of a wheel are installed at one path, and one is lost",
        "rename one of them in the build";
    DigestMissing "digest-missing" Record:
        "a RECORD of a split states no SHA-256 or no size of a file",
        "another tool changed RECORD, or RECORD of the wheel lacks the file, for which uv then writes a line without digest",
        "split again, or install the distribution again";
    FileChanged "file-changed" Record:
        "a file is not the one whose SHA-256 and size RECORD states",
        "it was changed after the installation, is damaged, or another distribution installed a file at its path",
        "install the distribution again (`pip install --force-reinstall --no-deps NAME==VERSION`)";
    FileMissing "file-missing" Record:
        "RECORD names a file that does not exist",
        "it was deleted; `pip install --target` deletes overlaid directories in a second run",
        "install all wheels of the split in one command";
    FileUnreadable "file-unreadable" Record:
        "a file that RECORD names cannot be read",
        "the disk has an error, permissions are missing, or a member of a wheel is damaged",
        "install or download again";
    FileUnnamed "file-unnamed" Record:
        "no RECORD names a file of the split",
        "it was copied there by hand, or an uninstallation left it there",
        "delete it, or install the distribution that contains it";
    DistributionMissing "distribution-missing" Distribution:
        "a distribution of the split needs another one, which is missing",
        "only some of the wheels were installed or copied; `--no-deps`",
        "install it, in the version that the finding names";
    DistributionVersion "distribution-version" Distribution:
        "a distribution of the split exists in another version than a distribution of the same split needs",
        "host and device wheels were upgraded separately",
        "install host and device wheels of one version in one command";
    RequirementMissing "requirement-missing" Distribution:
        "neither a device wheel nor its host wheel requires what the GPU needs of another distribution",
        "`--requirements split` found no extra for this GPU (`split` warns)",
        "name the extra with `--requirements NAME=LIST`, or split with `--requirements keep`";
    DistributionTwice "distribution-twice" Distribution:
        "a distribution of the split is installed twice in one directory",
        "an interrupted upgrade, or a copy over another version",
        "uninstall it until nothing of it is left, and install it again";
    DistributionName "distribution-name" Distribution:
        "name or version in the METADATA of a distribution of the split are not those of its directory or of the file name of its wheel",
        "one of them was renamed, or METADATA is that of another distribution",
        "rename the file of a wheel after its METADATA; install what is installed again (`pip install --force-reinstall --no-deps NAME==VERSION`)";
    DeviceEmpty "device-empty" Distribution:
        "a device distribution installs no archive and no file of a kernel database",
        "they were deleted or moved, and RECORD was made again",
        "install the distribution again (`pip install --force-reinstall --no-deps NAME==VERSION`)";
    DeviceRequirements "device-requirements" Distribution:
        "the METADATA of a device distribution does not require the host distribution of its split in its own version",
        "METADATA was changed",
        "install the device wheel of the split (`pip install --force-reinstall --no-deps DEVICE.whl`)";
    HostRequirements "host-requirements" Distribution:
        "the METADATA of a host distribution does not name the device distributions that belong to it",
        "the fat wheel was installed over the host wheel, METADATA was changed, or the wheels are of two runs for other GPUs",
        "install the host wheel of the split (`pip install --force-reinstall --no-deps HOST.whl`)";
    ManifestUnreadable "manifest-unreadable" Manifest:
        "the manifest of a part cannot be read, or the statement next to it",
        "it is damaged, or a later version of kpackfs wrote it",
        "install or split again, or use that version";
    OtherSplit "other-split" Manifest:
        "parts that belong together are of different splits",
        "one of them was made of another build, also under the same version, by another version of kpackfs, or with other options such as `--group`",
        "install host and device wheels of one split; `kpackfs.json` of each has the ID of its split";
    ListedMissing "listed-missing" Manifest:
        "there is no file at the path that the manifest of its part lists",
        "it was deleted or moved (`auditwheel repair` moves libraries), or a symlink leads nowhere",
        "install the distribution again, or split again after the move";
    ListedChanged "listed-changed" Manifest:
        "a binary, an archive or a database is not the one that the split wrote",
        "it is damaged, a tool changed it after the split, or it is of another build; RECORD may have been made again since",
        "install the distribution again (`pip install --force-reinstall --no-deps NAME==VERSION`), or split again";
    ListedEntry "listed-entry" Manifest:
        "an archive lacks an entry of its split, has a further one, or has other code in it",
        "it is damaged, of another build, or was put together by another tool",
        "install the distribution again, or split again; HIP fails or computes nonsense with other code";
    Unlisted "unlisted" Manifest:
        "the manifest of a part does not list an archive, a file of a kernel database or a copy of a binary that is in the part or next to it",
        "it was copied there after the split, and RECORD was made again",
        "delete it, or install the distribution that contains it";
    AgainstLost "against-lost" Against:
        "something of the fat input is in no part",
        "it was deleted, or the split was restricted and `verify` was not given the same options",
        "split again; give `verify` the `--gpu-targets`, `--exclude-targets` and `--databases` of the split";
    AgainstChanged "against-changed" Against:
        "a file differs from that of the fat input",
        "it was changed after the split, or the split is that of another build",
        "name the input that was split, or split again";
    AgainstBinary "against-binary" Against:
        "a binary differs from its fat form in more than its device code",
        "a tool changed it after the split, or the split is that of another build",
        "name the input that was split, or split again";
    AgainstMode "against-mode" Against:
        "a file has another mode than in the fat input",
        "it was copied without its mode, or `chmod` changed it",
        "copy with modes (`cp -a`, `rsync -a`), or split again";
    AgainstAdded "against-added" Against:
        "there is a file that the fat input does not have",
        "it was added after the split, or is of another split",
        "delete it, or name the input that was split";
    AgainstPlace "against-place" Against:
        "a file is in the wrong part, or in several",
        "the split was restricted by other options than `verify` was given, or another splitter wrote it",
        "give `verify` the options of the split, or split again";
    AgainstCodeLost "against-code-lost" Against:
        "code that worked in the fat binary is not found in its split or thin form",
        "an archive is missing or damaged, or the split is that of another build",
        "split again; install host and device wheels of one split";
    AgainstCodeChanged "against-code-changed" Against:
        "a runtime finds other code than in the fat binary",
        "entries were mixed up, or the split is that of another build",
        "split again; install host and device wheels of one split";
    AgainstCodeAdded "against-code-added" Against:
        "a runtime finds code that the fat binary does not have",
        "the split is that of another build",
        "name the input that was split, or split again";
    AgainstUnreadable "against-unreadable" Against:
        "something cannot be compared, because it cannot be read",
        "the split or the fat input is damaged",
        "`verify` without --against names the damaged file of a split";
    AgainstOther "against-other" Against:
        "nothing that is verified was made of the input after --against",
        "--against names the wheel of another distribution or build",
        "name the wheel or the tree that was split";
    AgainstMissing "against-missing" Against:
        "a distribution of a split is not compared, as no fat input after --against is of it",
        "--against names the wheels of a part of the release, or of another build",
        "name all wheels that were split, or their directory";
    AgainstComponent "against-component" Against:
        "a component of the fat artifacts has no artifact in the split",
        "it was not split, or not copied",
        "split it, or restrict `verify` by --component";
}

impl Rule {
    /// Its identifier.
    pub fn id(self) -> &'static str {
        self.text().id
    }

    /// The rule with this identifier.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.id() == id)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.id())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write;

    use super::{Check, Rule};

    /// The tables of `docs/verify.md`: one for each check.
    fn tables() -> Vec<String> {
        let mut tables = Vec::new();
        let mut last: Option<Check> = None;
        for rule in Rule::ALL {
            let text = rule.text();
            if last != Some(text.check) {
                tables.push("| identifier | finding | usual causes | what to do |\n|---|---|---|---|\n".to_owned());
                last = Some(text.check);
            }
            if let Some(table) = tables.last_mut() {
                writeln!(table, "| `{}` | {} | {} | {} |", text.id, text.what, text.cause, text.remedy).unwrap();
            }
        }
        tables
    }

    #[test]
    fn the_page_lists_all_rules() {
        let page = std::fs::read_to_string("docs/verify.md").unwrap();
        for table in tables() {
            assert!(page.contains(&table), "docs/verify.md must contain:\n{table}");
        }
        let (_, page) = page.split_once("## Findings").unwrap();
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, Rule::ALL.len(), "docs/verify.md has rows without a rule");
    }

    #[test]
    fn identifiers_are_unique_words() {
        let ids: BTreeSet<_> = Rule::ALL.iter().map(|rule| rule.id()).collect();
        assert_eq!(ids.len(), Rule::ALL.len());
        for rule in Rule::ALL {
            assert_eq!(Rule::of_id(rule.id()), Some(*rule));
            assert!(rule.id().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{rule}");
        }
    }
}
