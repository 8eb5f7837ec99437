//! The rows of the table: the forms of an input.

use crate::forms::commands::Command::{self, Against, Diff, Index, Inspect, Mount, Require, Split, Verify, Why};

/// A form of an input.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// What is named on the command line, below the place where forms are made.
    pub(crate) inputs: &'static [&'static str],
    pub(crate) holds: Holds,
    /// Whether it was split, so that `verify` has something to check.
    pub(crate) is_split: bool,
    /// Columns whose answer does not follow from what the input holds, and those that the row does not have.
    pub(crate) except: &'static [(Command, Option<&'static str>)],
    /// Whether it is made of a wheel that others made, too.
    pub(crate) is_real: bool,
}

/// What an input holds.
#[derive(Clone, Copy)]
pub(crate) enum Holds {
    /// All code of the fat wheel.
    All,
    /// All libraries, with the code for these GPUs.
    Gpus(&'static [&'static str]),
    /// The code for a GPU, without the libraries.
    Device(&'static str),
    /// One library of the wheel, with its code.
    Library(&'static str),
    /// Numbers of code objects.
    Objects(&'static [(&'static str, usize)]),
    /// The host part of a split, whose code is elsewhere.
    Host,
    /// No device code, in this number of files and binaries.
    Nothing { files: usize, binaries: usize },
    /// Something damaged, of which nothing can be said. Messages have this text.
    Damaged(&'static str),
    /// A form that is not understood, with the words that name it and what unpacks it; `|` stands between alternatives.
    Unknown(&'static [&'static str]),
}

const fn fat(name: &'static str, inputs: &'static [&'static str]) -> Row {
    Row { name, inputs, holds: Holds::All, is_split: false, except: &[], is_real: false }
}

const fn split(name: &'static str, inputs: &'static [&'static str]) -> Row {
    Row { is_split: true, ..fat(name, inputs) }
}

const fn unknown(name: &'static str, inputs: &'static [&'static str], words: &'static [&'static str]) -> Row {
    fat(name, inputs).holds(Holds::Unknown(words))
}

const fn damaged(name: &'static str, inputs: &'static [&'static str], text: &'static str) -> Row {
    fat(name, inputs).holds(Holds::Damaged(text))
}

const fn nothing(name: &'static str, inputs: &'static [&'static str], files: usize, binaries: usize) -> Row {
    fat(name, inputs).holds(Holds::Nothing { files, binaries })
}

impl Row {
    const fn holds(self, holds: Holds) -> Self {
        Self { holds, ..self }
    }

    const fn real(self) -> Self {
        Self { is_real: true, ..self }
    }

    const fn except(self, except: &'static [(Command, Option<&'static str>)]) -> Self {
        Self { except, ..self }
    }
}

const GFX90A: Holds = Holds::Gpus(&["gfx90a"]);

/// A device part depends on the host part that is not there; what stands in libraries cannot be compared.
/// `inspect` counts the code of libraries, and names archives without them in a sentence.
const ALONE: &[(Command, Option<&str>)] =
    &[(Inspect, Some("0 none")), (Split, Some("1")), (Verify, Some("1 findings=1")), (Against, None)];

/// The same as a directory, in which no library leads to its archives. The requirement is met by its kernel database.
const PART: &[(Command, Option<&str>)] = &[
    (Inspect, Some("0 none")),
    (Split, Some("1")),
    (Why, Some("gfx90a: 1 no-code, gfx1013: 1 no-code")),
    (Verify, Some("1 findings=1")),
    (Against, None),
];

/// An archive without its libraries is no input of these, and is named so. Alone and of no distribution, it is right.
const ARCHIVE: &[(Command, Option<&str>)] = &[
    (Inspect, Some("5")),
    (Require, Some("gfx90a: 5, gfx1013: 5")),
    (Split, Some("5")),
    (Mount, Some("5")),
    (Diff, Some("5")),
    (Index, Some("5")),
    (Against, None),
];

/// Each thin wheel is a whole: only one of them can be split again.
const WHOLES: &[(Command, Option<&str>)] = &[(Split, Some("1")), (Mount, Some("1"))];

/// They are refused as split already.
const SPLIT_ALREADY: &[(Command, Option<&str>)] = &[(Split, Some("1")), (Mount, Some("1")), (Against, None)];

/// Its files are installed elsewhere than those of the wheel.
const ELSEWHERE: &[(Command, Option<&str>)] = &[(Diff, None)];

/// It lacks the metadata of the wheel, which `--against` demands.
const NO_METADATA: &[(Command, Option<&str>)] = &[(Against, None)];

/// As before, and it is a stream, in which a mount cannot read at any place.
const STREAM: &[(Command, Option<&str>)] = &[(Mount, Some("5")), (Against, None)];

/// It lacks the metadata, and its name is that of no library of the wheel.
const LOOSE: &[(Command, Option<&str>)] = &[(Diff, None), (Against, None)];

/// A bundle without its library is no input of these, and is named so.
const BUNDLE: &[(Command, Option<&str>)] = &[
    (Inspect, Some("5")),
    (Require, Some("gfx90a: 5, gfx1013: 5")),
    (Index, Some("5")),
    (Split, Some("5")),
    (Mount, Some("5")),
    (Diff, Some("5")),
    (Verify, Some("5")),
    (Against, None),
];

/// `diff` takes two inputs, each one path.
const SEVERAL: &[(Command, Option<&str>)] = &[(Diff, None)];

/// The table.
pub(crate) const ROWS: &[Row] = &[
    fat("fat wheel", &["fat/*.whl"]).real(),
    split("directory of split wheels", &["wheels"]).real(),
    split("thin view", &["views/thin/gfx90a"]).holds(GFX90A).real(),
    split("merged view", &["views/merged/gfx90a"]).holds(GFX90A).real(),
    fat("site-packages, fat", &["site-fat"]).real(),
    split("site-packages, split", &["site-split"]).real(),
    split("output of split", &["parts"]).real(),
    split("mount point", &["mnt"]).real(),
    split("output of --format index", &["index"]).real(),
    split("simple/ of an index", &["index/simple"]).real(),
    split("output of --format thin-wheel", &["thin-wheels"]).except(WHOLES).real(),
    split("split wheels and SHA256SUMS", &["wheels-sums"]).real(),
    fat("fat wheel and SHA256SUMS", &["fat-sums"]).real(),
    fat("virtual environment, fat", &["venv-fat"]).real(),
    split("virtual environment, split", &["venv-split"]).real(),
    // Parts.
    split("host/ of a split", &["parts/host"]).holds(Holds::Host),
    split("device part of a split", &["parts/gfx90a"]).holds(Holds::Device("gfx90a")).except(PART),
    split("host wheel", &["wheels/small-1.0-py3-none-any.whl"]).holds(Holds::Host),
    split("device wheel", &["wheels/amd_small_device_gfx90a-1.0-py3-none-any.whl"])
        .holds(Holds::Device("gfx90a"))
        .except(ALONE),
    split("thin wheel", &["thin-wheels/gfx90a/small-1.0-py3-none-any.whl"]).holds(GFX90A),
    split("archive", &["parts/gfx90a/small/.kpack/small_gfx90a.kpack"]).holds(Holds::Device("gfx90a")).except(ARCHIVE),
    // Inside of a mount.
    split("host/ of a mount", &["mnt/host"]).holds(Holds::Host),
    split("device part of a mount", &["mnt/gfx90a"]).holds(Holds::Device("gfx90a")).except(PART),
    split("merged/ of a mount", &["mnt/merged/gfx90a"]).holds(GFX90A),
    split("thin/ of a mount", &["mnt/thin/gfx90a"]).holds(GFX90A),
    split("wheels/ of a mount", &["mnt/wheels"]),
    split("simple/ of a mount", &["mnt/simple"]),
    split("thin-wheels/ of a mount", &["mnt/thin-wheels"]).except(WHOLES),
    // Several.
    split("several wheels", &["wheels/*.whl"]).except(SEVERAL),
    split("host and device parts", &["parts/host", "parts/gfx1030", "parts/gfx90a"]).except(SEVERAL),
    split("host directory and a device wheel", &["parts/host", "wheels/amd_small_device_gfx90a-1.0-py3-none-any.whl"])
        .holds(GFX90A)
        .except(SEVERAL),
    // Prefixes and trees.
    fat("conda prefix, fat", &["conda-fat"]),
    split("conda prefix, split", &["conda-split"]),
    fat("install tree", &["install"]).except(ELSEWHERE),
    split("collected directory, thin", &["collected-thin"]).except(NO_METADATA),
    split("collected directory, archives", &["collected-archives"]).except(NO_METADATA),
    split("collected zip", &["collected.zip"]).except(NO_METADATA),
    split("collected tar.zst", &["collected.tar.zst"]).except(STREAM),
    fat("tar of a fat tree", &["fat.tar"]),
    split("tar of a split tree", &["split.tar"]),
    fat("zip that is no wheel", &["asset.zip"]),
    // Artifacts.
    fat("artifact", &["artifacts/x_lib_gfx90X"]).except(NO_METADATA),
    fat("directory of artifacts", &["artifacts"]).except(NO_METADATA),
    split("split artifacts", &["artifacts-split"]).except(SPLIT_ALREADY),
    // Images.
    fat("image, oci:DIR", &["oci:image"]),
    fat("image, oci:DIR:TAG", &["oci:image:x"]),
    fat("image, DIR", &["image"]),
    fat("tarred image, oci-archive:FILE", &["oci-archive:image.tar"]),
    fat("tarred image, FILE", &["image.tar"]),
    split("image for a GPU", &["oci:image-split:gfx90a"]).holds(GFX90A).except(NO_METADATA),
    // Files.
    fat("binary", &["install/lib/libplain.so"]).holds(Holds::Library("small/lib/libplain.so")).except(LOOSE),
    fat("bundle", &["one.bundle"]).holds(Holds::Objects(&[("gfx1030", 1), ("gfx90a", 1)])).except(BUNDLE),
    fat("code object", &["objects/libplain.so.0.gfx90a.hsaco"]).holds(Holds::Objects(&[("gfx90a", 1)])).except(LOOSE),
    fat("directory of code objects", &["objects"])
        .holds(Holds::Objects(&[("gfx1030", 2), ("gfx90a", 2)]))
        .except(LOOSE),
    // Named, with what unpacks them.
    unknown("docker save, old", &["saved.tar"], &["docker save|docker-archive", "skopeo copy docker-archive:"]),
    unknown("conda package", &["small-1.0-0.conda"], &["conda package", "cph "]),
    unknown("Debian package", &["small_1.0_amd64.deb"], &["Debian package|.deb", "dpkg-deb -x"]),
    unknown("RPM package", &["small-1.0-1.x86_64.rpm"], &["RPM", "rpm2cpio"]),
    unknown("source distribution", &["small-1.0.tar.gz"], &["source distribution|sdist", "tar -x|tar x|pip wheel"]),
    unknown("pieces of a collection", &["pieces"], &["collect --shared", "copy common"]),
    unknown("docker://", &["docker://docker.io/rocm/pytorch"], &["skopeo copy docker://"]),
    unknown("containers-storage:", &["containers-storage:small"], &["skopeo copy containers-storage:"]),
    unknown("text file", &["notes.txt"], &["notes.txt", "wheel"]),
    unknown("nothing of this name", &["nowhere"], &["nowhere", "no such file|does not exist|is not there"]),
    // Understood, and damaged.
    damaged("truncated wheel", &["damaged/small-1.0-py3-none-any.whl"], "small-1.0-py3-none-any.whl"),
    damaged("truncated tar", &["damaged/cut.tar"], "cut.tar"),
    damaged("truncated zip", &["damaged/cut.zip"], "cut.zip"),
    damaged("image without a list", &["damaged/image"], "index.json"),
    damaged("split with a damaged statement", &["damaged/parts"], "split.json"),
    // Understood, and nothing is there.
    nothing("empty directory", &["empty"], 0, 0),
    nothing("tree without device code", &["host-tree"], 2, 1),
    nothing("wheel without device code", &["plain-1.0-py3-none-any.whl"], 5, 1),
];
