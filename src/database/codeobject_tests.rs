//! Loose code objects in the layouts of AITER and hipDNN, and similar files.

use std::sync::Arc;

use super::{Databases, Handler};
use crate::fatbin::{CodeObject, bundle_of};
use crate::resources::Resources;
use crate::rope::{Content, Rope, Segment};
use crate::source::EntryPath;

/// `EF_AMDGPU_MACH` (LLVM, "ELF Code Object").
const GFX942: u8 = 0x4c;
const GFX950: u8 = 0x4f;
const GFX90A: u8 = 0x3f;
const GFX1100: u8 = 0x41;
const GFX11_GENERIC: u8 = 0x54;
const UNKNOWN: u8 = 0xf0;

/// An ELF header of code object version 4 with the flags of AITER's files: neither xnack nor sramecc matters.
fn code(mach: u8) -> Vec<u8> {
    code_with(mach, 0x05)
}

fn code_with(mach: u8, features: u8) -> Vec<u8> {
    let mut code = vec![0; 128];
    code[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x02");
    code[18] = 224;
    code[48] = mach;
    code[49] = features;
    code
}

/// A host library.
fn host() -> Vec<u8> {
    let mut host = code(0);
    host[18] = 62;
    host
}

fn bundle(targets: &[&str]) -> Vec<u8> {
    let object = |name: &&str| {
        let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(code(GFX942))]).unwrap());
        CodeObject::new(name.parse().unwrap(), content)
    };
    bundle_of(&targets.iter().map(object).collect::<Vec<_>>()).unwrap().to_vec().unwrap()
}

/// The target of each file, in order, or `host`; and the warnings.
fn places(databases: &Databases, files: &[(&str, Vec<u8>)]) -> (Vec<String>, Vec<String>) {
    let contents: Vec<(EntryPath, Arc<dyn Content>)> = files
        .iter()
        .map(|(path, bytes)| {
            let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(bytes.clone())]).unwrap());
            (EntryPath::new(path.as_bytes()).unwrap(), content)
        })
        .collect();
    let databases = databases.of(contents.iter().map(|(path, content)| (path, content)), &Resources::new(1 << 20));
    let place = |(path, _): &(EntryPath, Arc<dyn Content>)| {
        databases.classify(path).map_or("host".to_owned(), |found| match found.handler {
            Handler::Codeobject => found.arch.to_string(),
            other => format!("{other} {}", found.arch),
        })
    };
    (contents.iter().map(place).collect(), databases.warnings())
}

/// Checks where each file goes, and how many warnings there are.
fn check(files: &[(&str, Vec<u8>, &str)], warnings: usize) -> Vec<String> {
    let inputs: Vec<_> = files.iter().map(|(path, bytes, _)| (*path, bytes.clone())).collect();
    let (found, said) = places(&Databases::all(), &inputs);
    for ((path, _, expected), found) in files.iter().zip(found) {
        assert_eq!(found, *expected, "{path}");
    }
    assert_eq!(said.len(), warnings, "{said:?}");
    said
}

#[test]
fn code_objects_go_to_the_target_of_their_header_and_take_the_tables_of_their_directory_along() {
    let table = || b"name,bpe\n".to_vec();
    check(
        &[
            ("aiter_meta/hsa/gfx942/all_reduce.co", code(GFX942), "gfx942"),
            ("aiter_meta/hsa/gfx942/flatmm_uk_gfx9_f16f8_128x256x128_1x4x1_16x16x32.co", code(GFX942), "gfx942"),
            ("aiter_meta/hsa/gfx942/bf16gemm/bf16gemm_outf32.csv", table(), "gfx942"),
            ("aiter_meta/hsa/gfx942/bf16gemm/codegen.py", b"import os\n".to_vec(), "gfx942"),
            ("aiter_meta/hsa/gfx950/fmoe/fmoe.co", code(GFX950), "gfx950"),
            ("aiter_meta/hsa/gfx950/tiny", Vec::new(), "gfx950"),
            ("aiter_meta/hsa/codegen.py", b"import os\n".to_vec(), "host"),
            ("hip_kernel_provider/asm_kernels/gfx90a-xnack+/x.co", code_with(GFX90A, 0x07), "gfx90a:xnack+"),
            ("hip_kernel_provider/asm_kernels/gfx90a-xnack+/table.bin", table(), "gfx90a:xnack+"),
        ],
        0,
    );
}

#[test]
fn code_objects_whose_path_names_no_target_stay_in_the_host_part() {
    check(
        &[
            ("aiter/configs/gemm/aot/M=1-N=10240-K=8192/kernel.hsaco", code(GFX950), "host"),
            ("lib/xgfx942/kernel.co", code(GFX942), "host"),
            ("lib/gfx9999/kernel.co", code(GFX942), "host"),
            ("lib/gfx942/kernel.co", b"text".to_vec(), "host"),
            ("lib/gfx942.csv", b"text".to_vec(), "host"),
            ("lib/gfx1100/unknown.co", code(UNKNOWN), "host"),
            ("lib/gfx1100/module.spv", 0x0723_0203_u32.to_le_bytes().to_vec(), "host"),
        ],
        0,
    );
}

/// Debian's gcc-14-offload-amdgcn has a directory of such files for each GPU.
#[test]
fn what_a_linker_reads_stays_in_the_host_part() {
    let mut object = code(GFX1100);
    object[16] = 1;
    let library = || b"!<arch>\n".to_vec();
    check(
        &[
            ("accel/amdgcn-amdhsa/gfx1100/crt0.o", object, "host"),
            ("accel/amdgcn-amdhsa/gfx1100/libc.a", library(), "host"),
            ("kernels/gfx942/x.co", code(GFX942), "gfx942"),
            ("kernels/gfx942/libx.a", library(), "host"),
        ],
        0,
    );
}

#[test]
fn a_name_that_contradicts_the_header_is_a_warning() {
    let said = check(
        &[
            ("hsa/gfx942/wrong.co", code(GFX950), "gfx950"),
            ("hsa/gfx942/table.csv", b"a,b".to_vec(), "host"),
            ("kernels/x_gfx90a-xnack-.hsaco", code_with(GFX90A, 0x07), "gfx90a:xnack+"),
            ("kernels/gfx11-generic/x.co", code(GFX1100), "gfx1100"),
            ("kernels/gfx942/like_gfx950.co", code(GFX942), "gfx942"),
        ],
        3,
    );
    assert_eq!(said[0], "hsa/gfx942/wrong.co: its path says gfx942, but its header says gfx950, which it is taken for");
}

#[test]
fn families_name_code_but_take_nothing_along() {
    check(
        &[
            ("kernels/gfx9/x.co", code(GFX942), "gfx942"),
            ("kernels/gfx9/table.csv", b"a".to_vec(), "host"),
            ("kernels/gfx110x/x.co", code(GFX1100), "gfx1100"),
            ("kernels/x_gfx1100.hsaco", code(GFX1100), "gfx1100"),
            ("kernels/gfx1100/generic.co", code(GFX11_GENERIC), "gfx11-generic"),
            ("kernels/gfx1100/table.csv", b"a".to_vec(), "host"),
            ("kernels/amd-gfx942/x.co", code(GFX942), "gfx942"),
            ("kernels/amd-gfx942/table.csv", b"a".to_vec(), "host"),
        ],
        0,
    );
}

#[test]
fn directories_with_host_code_keep_everything_but_code_objects() {
    check(
        &[
            ("pkg/gfx942/__init__.py", Vec::new(), "host"),
            ("pkg/gfx942/sub/x.co", code(GFX942), "gfx942"),
            ("pkg/gfx942/sub/table.csv", b"a".to_vec(), "host"),
            ("build/gfx950/lib/libhost.so", host(), "host"),
            ("build/gfx950/share/x.co", code(GFX950), "gfx950"),
            ("build/gfx950/share/table.csv", b"a".to_vec(), "host"),
        ],
        0,
    );
}

#[test]
fn bundles_for_one_target_are_code_objects() {
    check(
        &[
            ("lib/gfx942/one.hsaco", bundle(&["gfx942"]), "gfx942"),
            ("lib/gfx942/modes.hsaco", bundle(&["gfx942:xnack+", "gfx942:xnack-"]), "gfx942"),
            ("lib/gfx942/host.hsaco", bundle(&["host"]), "gfx942"),
            ("lib/gfx9/host.hsaco", bundle(&["host"]), "host"),
            ("lib/gfx9/several.hsaco", bundle(&["gfx942", "gfx950"]), "host"),
            ("lib/gfx9/truncated.hsaco", bundle(&["gfx942"])[..40].to_vec(), "host"),
        ],
        0,
    );
}

#[test]
fn compressed_bundles_are_code_objects_by_their_first_block() {
    let zstd = |bytes: &[u8]| zstd::bulk::compress(bytes, 3).unwrap();
    let lib = "addons/cycles/lib";
    let said = check(
        &[
            (&format!("{lib}/kernel_gfx942.fatbin.zst"), zstd(&bundle(&["gfx942"])), "gfx942"),
            (&format!("{lib}/kernel_rt_gfx942.hipfb.zst"), zstd(&bundle(&["gfx942"])), "gfx942"),
            (&format!("{lib}/kernel_gfx90a.fatbin.zst"), zstd(&bundle(&["gfx90a:xnack+"])), "gfx90a:xnack+"),
            (&format!("{lib}/kernel_gfx1100.co.zst"), zstd(&code(GFX1100)), "gfx1100"),
            (&format!("{lib}/kernel_gfx1030.fatbin.zst"), zstd(&bundle(&["gfx942"])), "gfx942"),
            (&format!("{lib}/kernel_gfx950.fatbin.zst"), zstd(&bundle(&["gfx942", "gfx950"])), "host"),
            (&format!("{lib}/kernel_gfx906.fatbin.zst"), zstd(b"text"), "host"),
            (&format!("{lib}/kernel_not_gfx942.fatbin.zst"), bundle(&["gfx942"]), "gfx942"),
            (&format!("{lib}/kernel_gfx900.fatbin.zst"), b"text".to_vec(), "host"),
            (&format!("{lib}/kernel_gfx900.fatbin.xz"), b"\xfd7zXZ\0".to_vec(), "host"),
            (&format!("{lib}/kernel_compute_75.ptx.zst"), zstd(b"text"), "host"),
            (&format!("{lib}/kernel_sm_86.cubin.zst"), zstd(&bundle(&["gfx942"])), "host"),
            (&format!("{lib}/about_gfx942.txt.zst"), zstd(b"text"), "host"),
        ],
        5,
    );
    assert!(said[0].contains("kernel_gfx1030.fatbin.zst: its path says gfx1030, but its header says gfx942"));
    let said = |name: &str, bytes: Vec<u8>| places(&Databases::all(), &[(name, bytes)]).1.join("; ");
    for (name, bytes, reason) in [
        ("kernel_gfx950.fatbin.zst", zstd(&bundle(&["gfx942", "gfx950"])), "it has code for several GPUs"),
        ("kernel_gfx950.fatbin.zst", zstd(b"text"), "its first block shows no code for a GPU"),
        ("kernel_gfx950.fatbin.zst", b"text".to_vec(), "it is no zstd frame"),
        ("kernel_gfx950.fatbin.xz", b"text".to_vec(), "only zstd frames are looked into"),
        ("kernel_gfx950.txt.zst", zstd(b"text"), ""),
        ("kernel_gfx950.fatbin.zst", zstd(&bundle(&["gfx950"])), ""),
    ] {
        let expected =
            if reason.is_empty() { String::new() } else { format!("{name}: it stays in the host part: {reason}") };
        assert_eq!(said(name, bytes), expected);
    }
}

#[test]
fn names_decide_first_and_the_handler_can_be_switched_off() {
    let files = [
        ("lib/rocblas/library/TensileLibrary_gfx942.co", code(GFX950)),
        ("lib/rocblas/library/gfx942/fallback.dat", Vec::new()),
        ("lib/other/gfx942/x.co", code(GFX942)),
    ];
    let all = places(&Databases::all(), &files);
    assert_eq!(all, (["rocblas gfx942", "rocblas gfx942", "gfx942"].map(str::to_owned).to_vec(), Vec::new()));
    let without = places(&Databases::from_names(&["rocblas"]).unwrap(), &files);
    assert_eq!(without.0, ["rocblas gfx942", "rocblas gfx942", "host"]);
    let only = places(&Databases::from_names(&["codeobject"]).unwrap(), &files);
    assert_eq!(only.0, ["gfx950", "host", "gfx942"]);
}
