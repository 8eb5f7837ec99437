//! Situations of code that no wrapper leads to, of code that nothing can load, and of splits that tools changed.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use super::databases::{ROCBLAS, hipblaslt, mixed_rocblas, rocblas, rocblas_by_mode, rocfft};
use super::library::{Library, bundle, code};
use super::made::{Files, Form, named};
use super::table::{Situation, remove};

const BOTH: Library = Library::new("libk.so", &[&["gfx90a", "gfx1100"]]);

/// A library without wrappers whose data has code.
const fn data(targets: &'static [&'static str]) -> Library {
    Library { data: targets, ..Library::new("libd.so", &[]) }
}

/// The files of Blender's Cycles for some GPUs.
fn cycles(files: &mut Files) {
    for gpu in ["gfx90a", "gfx1100"] {
        let bundle = zstd::bulk::compress(&bundle(&[gpu], 30), 3).unwrap();
        files.put(&format!("kern/cycles/lib/kernel_{gpu}.fatbin.zst"), bundle);
    }
}

/// Loose code objects in the directories of both GPUs.
fn loose(files: &mut Files, for_gfx90a: &str, for_gfx1100: &str) {
    files.put("kern/hsa/gfx90a/k.co", code(for_gfx90a, 7));
    files.put("kern/hsa/gfx1100/k.co", code(for_gfx1100, 8));
}

/// A static library (ar(5)) whose only member is a code object.
fn static_library(files: &mut Files) {
    let code = code("gfx90a", 9);
    let header = format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "k.o/", 0, 0, 0, 644, code.len());
    files.put("kern/lib/libk.a", [b"!<arch>\n", header.as_bytes(), &code].concat());
}

/// Replaces the bytes of a file of rocBLAS for gfx90a.
fn replace(files: &mut Files, name: &str, bytes: &[u8]) {
    let path = format!("{ROCBLAS}/{name}");
    let found = files.all.iter_mut().find(|(of, _)| *of == path).unwrap();
    found.1 = bytes.to_vec();
}

/// Changes all files whose paths contain a text.
fn change(root: &Path, part: &str, change: impl Fn(&mut Vec<u8>)) {
    let found = named(root, part);
    assert!(!found.is_empty(), "{part}");
    for path in found {
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }
}

/// What `llvm-strip --strip-sections` leaves: no table of sections.
fn strip(library: &mut [u8]) {
    library[40..48].fill(0);
    library[60..64].fill(0);
}

/// The wrapper with this magic.
fn bytes_of<'a>(library: &'a mut [u8], magic: &[u8]) -> &'a mut [u8] {
    let at = (0..library.len()).find(|&at| library[at..].starts_with(magic)).unwrap();
    &mut library[at..at + 24]
}

/// Writes a text over another one of the same length, wherever that is.
fn exchange(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    let places: Vec<_> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(old)).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + old.len()].copy_from_slice(new);
    }
}

pub(crate) const OTHER_FORMS: &[Situation] = &[
    // No runtime looks for such code: `why` and `--require` judge it, and `collect` does not search for it.
    Situation::new("code objects in data", "a program loads them by address", "gfx90a", |files| {
        files.library(&data(&["gfx90a", "gfx1100"]));
    })
    .needs(&["libd.so"])
    .unreached("no wrapper leads to it"),
    Situation::new("code objects of others in data", "a program finds none", "gfx1030", |files| {
        files.library(&data(&["gfx90a", "gfx1100"]));
    })
    .needs(&["libd.so"])
    .lacks()
    .only(Form::Wheel, &["collect"]),
    Situation::new("code objects of others in data, unpacked", "the same", "gfx1030", |files| {
        files.library(&data(&["gfx90a", "gfx1100"]));
    })
    .needs(&["libd.so"])
    .lacks()
    .only(Form::Unpacked, &["collect"]),
    Situation::new("a static library", "a linker reads it", "gfx90a", static_library)
        .needs(&[])
        .unreached("linkers read it"),
    Situation::new("a static library of others", "what is linked with it has no code", "gfx1100", static_library)
        .needs(&[])
        .lacks()
        .only(Form::Unpacked, &[]),
    Situation::new("files of Blender", "Cycles opens lib/kernel_<gpu>.fatbin.zst", "gfx90a", cycles).needs(&[]),
    Situation::new("files of Blender for others", "Cycles finds none, and compiles none", "gfx1030", cycles)
        .needs(&[])
        .lacks(),
    // Triton's cache has a directory for each kernel, which names no GPU (triton/runtime/cache.py).
    Situation::new("files without a name of a GPU", "only the program knows", "gfx90a", |files| {
        files.put("kern/cache/A/add.hsaco", code("gfx90a", 7));
        files.put("kern/cache/A/mul.hsaco", code("gfx1100", 8));
        files.put("kern/cache/B/sub.hsaco", code("gfx1100", 9));
    })
    .needs(&[])
    .remark("B/sub.hsaco")
    .only(Form::Unpacked, &[]),
    Situation::new("a file for several others", "only the program knows", "gfx90a", |files| {
        files.put("kern/cache/A/add.hsaco", code("gfx90a", 7));
        files.put("kern/cache/B/all.hsaco", bundle(&["gfx1030", "gfx1100"], 9));
    })
    .needs(&[])
    .remark("B/all.hsaco")
    .only(Form::Unpacked, &[]),
    Situation::new("files without a name of a GPU, for others", "the program finds none", "gfx942", |files| {
        files.put("kern/cache/A/add.hsaco", code("gfx90a", 7));
        files.put("kern/cache/A/mul.hsaco", code("gfx1100", 8));
    })
    .needs(&[])
    .lacks()
    .only(Form::Wheel, &[]),
    Situation::new("loose code objects of others", "the library finds no file", "gfx1030", |files| {
        loose(files, "gfx90a", "gfx1100");
    })
    .needs(&[])
    .lacks(),
    // A kernel family that is absent as a whole is a remark.
    Situation::new("code objects of others beside a library", "only the program knows", "gfx1100", |files| {
        files.library(&BOTH);
        files.put("kern/hsa/gfx90a/k.co", code("gfx90a", 7));
        files.put("kern/hsa/gfx942/k.co", code("gfx942", 8));
    })
    .remark("codeobject has no files for gfx1100")
    .unjudged_by(&["why", "collect"]),
    Situation::new("a static library of others beside a library", "only its linker knows", "gfx1100", |files| {
        files.library(&BOTH);
        static_library(files);
    }),
    Situation::new("a cache of rocFFT", "rocFFT reads it", "gfx90a", rocfft).needs(&["librocfft.so.0"]),
    Situation::new("no cache of rocFFT", "rocFFT compiles what is missing", "gfx1100", rocfft)
        .needs(&["librocfft.so.0"]),
    Situation::new("a database of both layouts", "rocBLAS looks in library/<gpu> first", "gfx90a", mixed_rocblas)
        .needs(&["librocblas.so.5"]),
    Situation::new("a database of both layouts, flat", "then in library", "gfx1100", mixed_rocblas)
        .needs(&["librocblas.so.5"]),
    Situation::new("a split library without archives", "auditwheel copies no archives", "gfx90a", |files| {
        files.library(&BOTH);
        files.grafted("kern.libs", &Library::new("libg.so", &[&["gfx90a", "gfx1100"]]));
    })
    .needs(&["libk.so", "libg.so"])
    .lacks()
    .finding()
    // Nobody may have installed device wheels. Else it is said that the library finds no archive.
    .verified(&[(Form::Wheel, 1), (Form::Unpacked, 1), (Form::Installed, 0)]),
    // Code that nothing can load: its headers reach past its end. A wheel is verified as a whole.
    Situation::new("truncated code", "hipErrorInvalidImage", "gfx90a", |files| {
        files.library(&Library::new("libk.so", &[&["gfx90a!", "gfx1100"]]));
    })
    .unreadable(),
    Situation::new("truncated code of a second wrapper", "the same, for its kernels", "gfx90a", |files| {
        files.library(&Library::new("libk.so", &[&["gfx90a", "gfx1100"], &["gfx90a!", "gfx1100"]]));
    })
    .unreadable(),
    Situation::new("truncated generic code", "gfx1151 takes it", "gfx1151", |files| {
        files.library(&Library::new("libk.so", &[&["gfx11-generic!", "gfx90a"]]));
    })
    .unreadable(),
    Situation::new("truncated code of others", "it is not loaded", "gfx90a", |files| {
        files.library(&Library::new("libk.so", &[&["gfx90a", "gfx1100!"]]));
    }),
    Situation::new("a truncated code object", "hipErrorInvalidImage", "gfx90a", |files| {
        loose(files, "gfx90a!", "gfx1100");
    })
    .needs(&[])
    .unreadable()
    .verified(&[(Form::Wheel, 1)]),
    Situation::new("a truncated code object of others", "it is not loaded", "gfx90a", |files| {
        loose(files, "gfx90a", "gfx1100!");
    })
    .needs(&[])
    .verified(&[(Form::Wheel, 1)]),
    Situation::new("a truncated code object for all GPUs", "nothing says which program opens it", "gfx90a", |files| {
        files.library(&BOTH);
        files.put("kern/kernel.hsaco", code("gfx90a!", 7));
    })
    .unjudged_by(&["why", "collect"])
    .lacks(),
    Situation::new("a code object of rocBLAS is truncated", "hipModuleLoad fails", "gfx90a", |files| {
        rocblas(files, &["gfx90a", "gfx1100"]);
        replace(files, "Kernels.so-000-gfx90a.hsaco", &code("gfx90a!", 22));
    })
    .needs(&["librocblas.so.5"])
    .lacks()
    .verified(&[(Form::Wheel, 1)]),
    Situation::new("a code object of rocBLAS is a bundle in part", "hipModuleLoad fails", "gfx90a", |files| {
        rocblas(files, &["gfx90a", "gfx1100"]);
        replace(files, "Kernels.so-000-gfx90a.hsaco", &bundle(&["gfx90a"], 22)[..200]);
    })
    .needs(&["librocblas.so.5"])
    .lacks()
    .verified(&[(Form::Wheel, 1)]),
    Situation::new("a catalogue of rocBLAS is truncated", "msgpack fails", "gfx90a", |files| {
        rocblas(files, &["gfx90a", "gfx1100"]);
        replace(files, "TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx90a.dat", b"\x81");
    })
    .needs(&["librocblas.so.5"])
    .lacks()
    .verified(&[(Form::Wheel, 1)]),
    Situation::new(
        "a library without code of its own",
        "hipBLASLt's files have other names for each GPU",
        "gfx90a",
        |files| {
            hipblaslt(files, false);
            files.put("kern/lib/hipblaslt/library/TensileLibrary_Type_SS_gfx1100.co", code("gfx1100", 26));
        },
    )
    .needs(&["libhipblaslt.so.1"]),
    // Of a split, its input may have none either.
    Situation::new("the database of rocBLAS is gone", "rocBLAS ends the process", "gfx90a", |files| {
        rocblas(files, &[]);
    })
    .needs(&["librocblas.so.5"])
    .lacks()
    .verified(&[(Form::Installed, 1)]),
    Situation::new("the database of hipBLASLt is gone", "it has code for the GPU", "gfx1100", |files| {
        hipblaslt(files, true);
        files.all.retain(|(path, _)| !path.contains("/library/"));
    })
    .needs(&["libhipblaslt.so.1"])
    .lacks()
    .verified(&[(Form::Installed, 1)]),
    Situation::new("the database of rocBLAS was deleted", "rocBLAS ends the process", "gfx90a", |files| {
        rocblas(files, &["gfx90a"]);
    })
    .needs(&["librocblas.so.5"])
    .damaged(|root| remove(root, "/library/")),
    Situation::new("all catalogues of rocBLAS were deleted", "nothing leads to the code", "gfx90a", |files| {
        rocblas(files, &["gfx90a"]);
    })
    .needs(&["librocblas.so.5"])
    .damaged(|root| remove(root, ".dat")),
    Situation::new("a bundle of rocBLAS is damaged for others", "its code for the GPU is whole", "gfx90a", |files| {
        rocblas(files, &["gfx90a", "gfx1100"]);
        replace(files, "Kernels.so-000-gfx90a.hsaco", &bundle(&["gfx90a", "gfx1030!"], 22));
    })
    .needs(&["librocblas.so.5"]),
    Situation::new("a later processor", "there will be processors that kpackfs does not know", "gfx90a", |files| {
        rocblas(files, &["gfx90a", "gfx1100"]);
        replace(files, "Kernels.so-000-gfx90a.hsaco", &code("a later processor", 22));
    })
    .needs(&["librocblas.so.5"]),
    // What tools do to a split: RECORD and manifests state other bytes then (docs/tools.md).
    Situation::new("a tool appends to the library", "loaders read no more than its segments", "gfx90a", |files| {
        files.library(&BOTH);
    })
    .changed(|root| change(root, "libk.so", |bytes| bytes.extend(b"a signature"))),
    Situation::new("the table of sections is stripped", "loaders read segments only", "gfx90a", |files| {
        files.library(&BOTH);
    })
    .changed(|root| change(root, "libk.so", |library| strip(library))),
    Situation::new("stripped and broken", "its marker names no archive", "gfx90a", |files| files.library(&BOTH))
        .damaged(|root| {
            change(root, "libk.so", |bytes| {
                strip(bytes);
                exchange(bytes, b"@GFXARCH@", b"@GFXARHC@");
            });
        }),
    Situation::new("no wrapper is left", "runtimes look for their magic", "gfx90a", |files| files.library(&BOTH))
        .damaged(|root| change(root, "libk.so", |bytes| exchange(bytes, b"HIPK", b"KPIH")))
        .unreadable(),
    Situation::new("the section of wrappers is lost", "its siblings have theirs", "gfx90a", |files| {
        files.library(&BOTH);
        files.library(&Library::new("libl.so", &[&["gfx90a"]]));
    })
    .needs(&["libk.so", "libl.so"])
    .damaged(|root| change(root, "libk.so", |bytes| exchange(bytes, b".hipFatBinSegment", b".hipFatBinRemoved")))
    .unreadable(),
    Situation::new("the section of wrappers is empty", "the same", "gfx90a", |files| {
        files.library(&BOTH);
        files.library(&Library::new("libl.so", &[&["gfx90a"]]));
    })
    .needs(&["libk.so", "libl.so"])
    .damaged(|root| change(root, "libk.so", |bytes| bytes_of(bytes, b"HIPK").fill(0)))
    .unreadable(),
    Situation::new("a marker has another name", "archives have nothing under it", "gfx90a", |files| {
        files.library(&BOTH);
    })
    .damaged(|root| change(root, "libk.so", |bytes| exchange(bytes, b"/libk.so", b"/libl.so"))),
    Situation::new("a manifest lists nothing", "it lacks the split library", "gfx90a", |files| files.library(&BOTH))
        .changed(|root| {
            for part in ["manifests/host.json", "kern-1.0.dist-info/kpackfs-manifest.json"] {
                for path in named(root, part) {
                    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
                    *manifest.get_mut("files").unwrap() = serde_json::json!([]);
                    fs::File::create(path).unwrap().write_all(manifest.to_string().as_bytes()).unwrap();
                }
            }
        }),
    Situation::new("RS#7645: Tensile's files of one mode are gone", "helpers need XNACK on", "gfx90a", rocblas_by_mode)
        .needs(&["librocblas.so.5"])
        .damaged(|root| remove(root, "Kernels.so-000-gfx90a-xnack-.hsaco")),
];
