//! The situations, with what each command has to answer and why.

use std::fs::{self, File};
use std::path::Path;

use super::databases::{FALLBACK, ROCBLAS, aotriton, hipblaslt, miopen, rocblas};
use super::library::{Library, code};
use super::made::{Files, Form, named};

/// What is known of the code for the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Each library finds what it needs.
    Found,
    /// Each library works, and something is worth a remark that has this text.
    Remark(&'static str),
    /// A library finds nothing, or not what it needs.
    Lacking,
    /// There is code for the GPU, and nothing can load it.
    Unreadable,
    /// There is code that no runtime looks for, which is named with this text. There is nothing to split.
    Unreached(&'static str),
}

pub(crate) struct Situation {
    pub(crate) name: &'static str,
    /// The source of the answer: a runtime, a library, or a rule of kpackfs.
    pub(crate) reason: &'static str,
    pub(crate) gpu: &'static str,
    pub(crate) files: fn(&mut Files),
    /// What the application of `collect` needs. Without it, `collect` is not asked.
    pub(crate) needs: &'static [&'static str],
    /// What happens to the output of `split` and to what was installed.
    pub(crate) damage: Option<fn(&Path)>,
    pub(crate) verdict: Verdict,
    /// The answer once it is split, if that is another one.
    pub(crate) of_split: Option<Verdict>,
    /// Whether `verify` finds something. It judges whether a split has what its input had, and what libraries need that
    /// every GPU of the split has.
    pub(crate) is_finding: bool,
    /// The only form that there is.
    pub(crate) only: Option<Form>,
    /// Exit codes of `verify` for forms in which it has another task.
    pub(crate) verified: &'static [(Form, i32)],
    /// Commands that do not judge this, and answer as if all were there.
    pub(crate) blind: &'static [&'static str],
}

impl Situation {
    pub(super) const fn new(
        name: &'static str,
        reason: &'static str,
        gpu: &'static str,
        files: fn(&mut Files),
    ) -> Self {
        let (needs, damage, verdict): (_, Option<fn(&Path)>, _) = (&["libk.so"], None, Verdict::Found);
        Self {
            name,
            reason,
            gpu,
            files,
            needs,
            damage,
            verdict,
            of_split: None,
            is_finding: false,
            verified: &[],
            only: None,
            blind: &[],
        }
    }

    pub(super) const fn lacks(self) -> Self {
        Self { verdict: Verdict::Lacking, ..self }
    }

    pub(super) const fn remark(self, text: &'static str) -> Self {
        Self { verdict: Verdict::Remark(text), ..self }
    }

    pub(super) const fn needs(self, needs: &'static [&'static str]) -> Self {
        Self { needs, ..self }
    }

    const fn lacks_split(self) -> Self {
        Self { of_split: Some(Verdict::Lacking), ..self }
    }

    pub(super) const fn finding(self) -> Self {
        Self { is_finding: true, ..self }
    }

    pub(super) const fn damaged(self, damage: fn(&Path)) -> Self {
        Self { damage: Some(damage), ..self }.lacks().finding()
    }

    /// What a tool does to a split that still works.
    pub(super) const fn changed(self, damage: fn(&Path)) -> Self {
        Self { damage: Some(damage), ..self }.finding()
    }

    pub(super) const fn unreadable(self) -> Self {
        Self { verdict: Verdict::Unreadable, ..self }
    }

    pub(super) const fn unreached(self, text: &'static str) -> Self {
        Self { verdict: Verdict::Unreached(text), ..self }
    }

    pub(super) const fn verified(self, verified: &'static [(Form, i32)]) -> Self {
        Self { verified, ..self }
    }

    pub(super) const fn unjudged_by(self, blind: &'static [&'static str]) -> Self {
        Self { blind, ..self }
    }

    pub(super) const fn only(self, form: Form, blind: &'static [&'static str]) -> Self {
        Self { only: Some(form), blind, ..self }
    }

    /// Whether a form of the input can be in this situation.
    pub(crate) fn has(&self, form: Form) -> bool {
        let can_be = match (self.verdict, self.damage) {
            (Verdict::Unreached(_), _) => !form.is_split(),
            (_, Some(_)) => matches!(form, Form::Split | Form::Installed),
            (_, None) => true,
        };
        self.only.map_or(can_be, |only| only == form)
    }
}

type Wrappers = &'static [&'static [&'static str]];

/// One library, with these wrappers.
macro_rules! library {
    ($wrappers:expr) => {
        |files| {
            const WRAPPERS: Wrappers = &$wrappers;
            files.library(&Library::new("libk.so", WRAPPERS));
        }
    };
}

const ATTENTION: &[&str] = &["attn_fwd", "bwd_kernel_dk_dv", "bwd_kernel_dq", "bwd_preprocess"];
const FORWARD: &[&str] = &["attn_fwd"];

/// Two packages with a library each, so that each has archives of its own.
fn two_packages(files: &mut Files) {
    files.library_in("one/lib", &Library::new("libk.so", &[&["gfx90a", "gfx1100"]]));
    files.library_in("two/lib", &Library::new("libl.so", &[&["gfx90a", "gfx1100"]]));
}

pub(super) fn remove(root: &Path, part: &str) {
    let found = named(root, part);
    assert!(!found.is_empty(), "{part}: {:?}", named(root, ""));
    for path in found {
        fs::remove_file(path).unwrap();
    }
}

fn rename(root: &Path, from: &str, to: &str) {
    let found = named(root, from);
    assert!(!found.is_empty(), "{from}");
    for path in found {
        let place = path.to_str().unwrap().replace(from, to);
        fs::create_dir_all(Path::new(&place).parent().unwrap()).unwrap();
        fs::rename(path, place).unwrap();
    }
}

/// A library that loads a HIP runtime by its RUNPATH, and the text of that runtime.
fn with_runtime(files: &mut Files, text: &[u8]) {
    let library = Library::new("libk.so", &[&["gfx90a"]]);
    files.library(&Library { needs: &["libamdhip64.so.7"], runpath: Some("$ORIGIN/../rt"), ..library });
    files.put("kern/rt/libamdhip64.so.7", [b"\x7fELF of a HIP runtime: ", text].concat());
}

pub(crate) const SITUATIONS: &[Situation] = &[
    // Targets: CLR asks COMGR for the name of the device, then for its generic processor, then for SPIR-V.
    Situation::new(
        "code for the GPU",
        "CLR finds the exact ISA",
        "gfx90a",
        library!([&["gfx90a", "gfx1100"], &["gfx90a"]]),
    ),
    Situation::new("code for another GPU", "CLR: hipErrorNoBinaryForGpu", "gfx1100", library!([&["gfx90a"]])).lacks(),
    Situation::new("one of two libraries has code", "each library is loaded for itself", "gfx90a", |files| {
        files.library(&Library::new("libk.so", &[&["gfx90a"]]));
        files.library(&Library::new("libl.so", &[&["gfx1100"]]));
    })
    .needs(&["libk.so", "libl.so"])
    .lacks(),
    Situation::new("generic code only", "LLVM: gfx1151 runs gfx11-generic", "gfx1151", library!([&["gfx11-generic"]])),
    Situation::new(
        "generic code of others",
        "LLVM: gfx1151 is not of gfx9",
        "gfx1151",
        library!([&["gfx9-4-generic"]]),
    )
    .lacks(),
    Situation::new(
        "generic and own code",
        "CLR takes its own first",
        "gfx1100",
        library!([&["gfx11-generic", "gfx1100"]]),
    ),
    // No release takes SPIR-V out of archives (ROCm/rocm-systems#11040 is open).
    Situation::new("SPIR-V only", "CLR compiles it at the end", "gfx1151", library!([&["amdgcnspirv"]])).lacks_split(),
    Situation::new("SPIR-V and code of others", "the same", "gfx1151", library!([&["amdgcnspirv", "gfx90a"]]))
        .lacks_split(),
    // Modes: XNACK is off by default.
    Situation::new(
        "both modes",
        "the device is gfx90a:sramecc+:xnack-",
        "gfx90a",
        library!([&["gfx90a:xnack+", "gfx90a:xnack-"]]),
    ),
    Situation::new("XNACK off only", "that is the default", "gfx90a", library!([&["gfx90a:xnack-"]])),
    Situation::new("XNACK on only", "the default is off", "gfx90a", library!([&["gfx90a:xnack+"]])).lacks(),
    Situation::new("ECC off only", "the default is on", "gfx90a", library!([&["gfx90a:sramecc-"]])).lacks(),
    Situation::new(
        "XNACK on only, asked for",
        "the device is gfx90a:xnack+",
        "gfx90a:xnack+",
        library!([&["gfx90a:xnack+", "gfx1100"]]),
    ),
    // Wrappers: HIP loads each when a kernel of it is asked for, so the others work.
    Situation::new(
        "a wrapper has code of others only",
        "the other wrappers work",
        "gfx90a",
        library!([&["gfx90a", "gfx1100"], &["gfx1100"]]),
    )
    .remark("wrapper 1 of 2 has no code for"),
    Situation::new(
        "a wrapper is for the other mode",
        "the other wrappers work",
        "gfx90a",
        library!([&["gfx90a:xnack+"], &["gfx90a"]]),
    )
    .remark("wrapper 0 of 2 has no code for"),
    Situation::new("a wrapper without any code", "it has no kernels", "gfx90a", library!([&["gfx90a"], &[]])),
    Situation::new(
        "an entry ID with one dash",
        "COMGR wants -amdgcn-amd-amdhsa--",
        "gfx90a",
        library!([&["hipv4-amdgcn-amd-amdhsa-gfx90a"]]),
    )
    .lacks(),
    Situation::new(
        "an entry ID of OpenMP",
        "COMGR wants hip, hipv4 or hcc",
        "gfx90a",
        library!([&["openmp-amdgcn-amd-amdhsa--gfx90a"]]),
    )
    .lacks(),
    Situation::new("loose code objects", "a library opens them by their paths", "gfx90a", |files| {
        files.put("kern/hsa/gfx90a/k.co", code("gfx90a", 7));
        files.put("kern/hsa/gfx1100/k.co", code("gfx1100", 8));
    })
    .needs(&[]),
    // Databases: what each library does is in its source, which docs/databases.md names.
    Situation::new("a whole lazy catalogue", "rocBLAS loads all", "gfx90a", |files| {
        rocblas(files, &["gfx90a", "gfx1100"]);
    })
    .needs(&["librocblas.so.5"]),
    Situation::new("the catalogue of fallbacks is missing", "rocBLAS: PlaceholderLibrary fails", "gfx90a", |files| {
        rocblas(files, &["gfx90a", "gfx1100"]);
        files.all.retain(|(path, _)| !path.ends_with("fallback.dat"));
    })
    .needs(&["librocblas.so.5"])
    .lacks()
    .finding(),
    Situation::new("the code of fallbacks is missing", "rocBLAS: hipModuleLoad fails", "gfx90a", |files| {
        rocblas(files, &["gfx90a", "gfx1100"]);
        files.all.retain(|(path, _)| !path.ends_with(&format!("{FALLBACK}_gfx90a.hsaco")));
    })
    .needs(&["librocblas.so.5"])
    .lacks()
    .finding(),
    Situation::new("helper kernels are missing", "rocBLAS: initializeLazyLoading fails", "gfx90a", |files| {
        rocblas(files, &["gfx90a", "gfx1100"]);
        files.all.retain(|(path, _)| !path.ends_with("Kernels.so-000-gfx90a.hsaco"));
    })
    .needs(&["librocblas.so.5"])
    .lacks()
    .finding(),
    Situation::new("a catalogue is damaged", "rocBLAS cannot parse it", "gfx90a", |files| {
        rocblas(files, &["gfx90a", "gfx1100"]);
        let lazy = format!("{ROCBLAS}/TensileLibrary_lazy_gfx90a.dat");
        files.all.iter_mut().filter(|(path, _)| *path == lazy).for_each(|(_, bytes)| *bytes = b"<html>".to_vec());
    })
    .needs(&["librocblas.so.5"])
    .lacks()
    .finding(),
    Situation::new("no database of rocBLAS", "rocBLAS ends the process", "gfx1100", |files| {
        rocblas(files, &["gfx90a"]);
    })
    .needs(&["librocblas.so.5"])
    .lacks(),
    Situation::new("no database, and code for the GPU", "hipBLASLt is built for the GPU", "gfx1100", |files| {
        hipblaslt(files, true);
    })
    .needs(&["libhipblaslt.so.1"])
    .lacks(),
    Situation::new("no database, and nothing else", "nothing at all is never found", "gfx1100", |files| {
        hipblaslt(files, false);
    })
    .needs(&["libhipblaslt.so.1"])
    .lacks(),
    Situation::new("no images, and nothing else", "the same", "gfx1100", |files| {
        aotriton(files, &[("gfx90a", ATTENTION)]);
    })
    .needs(&["libaotriton_v2.so.0.11.1"])
    .lacks(),
    Situation::new("no images, and a library with code", "ROCm builds AOTriton for some GPUs", "gfx1100", |files| {
        files.library(&Library::new("libk.so", &[&["gfx90a", "gfx1100"]]));
        aotriton(files, &[("gfx90a", ATTENTION)]);
    })
    .needs(&["libk.so", "libaotriton_v2.so.0.11.1"]),
    Situation::new("no tuning for the GPU", "MIOpen tunes at the first use", "gfx1100", miopen)
        .needs(&["libMIOpen.so.1"]),
    Situation::new("no backward kernels for any GPU", "AOTriton is built for inference", "gfx90a", |files| {
        aotriton(files, &[("gfx90a", FORWARD), ("gfx11xx", FORWARD)]);
    })
    .needs(&["libaotriton_v2.so.0.11.1"])
    .remark("bwd_kernel_dk_dv"),
    Situation::new("backward kernels for other GPUs", "PackedKernel::open fails", "gfx90a", |files| {
        aotriton(files, &[("gfx90a", FORWARD), ("gfx11xx", ATTENTION)]);
    })
    .needs(&["libaotriton_v2.so.0.11.1"])
    .lacks(),
    Situation::new("images for a family", "AOTriton: amd-gfx11xx", "gfx1100", |files| {
        aotriton(files, &[("gfx90a", ATTENTION), ("gfx11xx", ATTENTION)]);
    })
    .needs(&["libaotriton_v2.so.0.11.1"]),
    // What happens to a split.
    Situation::new(
        "an archive is gone",
        "kpack_load_code_object finds none",
        "gfx90a",
        library!([&["gfx90a", "gfx1100"]]),
    )
    .damaged(|root| remove(root, "_gfx90a.kpack")),
    Situation::new("TR#5446: all archives of a library are gone", "the same, of one of two", "gfx90a", two_packages)
        .needs(&["libk.so", "libl.so"])
        .damaged(|root| remove(root, "two/.kpack/")),
    Situation::new(
        "RS#7645: files of one mode are gone",
        "no archive is for the mode",
        "gfx90a",
        library!([&["gfx90a:xnack+", "gfx90a:xnack-"]]),
    )
    .damaged(|root| remove(root, "_gfx90a:xnack-.kpack")),
    Situation::new("an archive is truncated", "kpack_open fails", "gfx90a", library!([&["gfx90a", "gfx1100"]]))
        .damaged(|root| {
            for path in named(root, "_gfx90a.kpack") {
                let length = path.metadata().unwrap().len();
                File::options().write(true).open(path).unwrap().set_len(length / 2).unwrap();
            }
        }),
    Situation::new("an archive of another GPU", "it offers no gfx90a", "gfx90a", library!([&["gfx90a", "gfx1100"]]))
        .damaged(|root| {
            remove(root, "_gfx90a.kpack");
            rename(root, "_gfx1100.kpack", "_gfx90a.kpack");
        }),
    Situation::new("archives without a library", "nothing loads them", "gfx90a", library!([&["gfx90a", "gfx1100"]]))
        .damaged(|root| remove(root, "libk.so")),
    Situation::new(
        "a marker that leads nowhere",
        "search paths begin at the library",
        "gfx90a",
        library!([&["gfx90a", "gfx1100"]]),
    )
    .damaged(|root| rename(root, "kern/lib/libk.so", "kern.libs/deep/er/libk.so")),
    // The runtime of the machine: other commands judge files, not what loads them.
    Situation::new("RUNPATH leads to a runtime without archives", "ROCm 7.12 reads no archives", "gfx90a", |files| {
        with_runtime(files, b"hipModuleLoad");
    })
    .needs(&[])
    .only(Form::Installed, &["require", "verify"])
    .lacks(),
    Situation::new(
        "RUNPATH leads past a runtime without archives",
        "ld.so(8): RUNPATH comes first",
        "gfx90a",
        |files| {
            with_runtime(files, b"kpack_load_code_object");
            files.put("kern/lib/libamdhip64.so.6", b"\x7fELF of a HIP runtime".to_vec());
        },
    )
    .needs(&[])
    .only(Form::Installed, &[]),
];
