//! Kernel databases with the names of real files.

use serde_json::json;

use super::library::{Library, code};
use super::made::Files;

pub(crate) const ROCBLAS: &str = "kern/lib/rocblas/library";
const HIPBLASLT: &str = "kern/lib/hipblaslt/library";
const MIOPEN: &str = "kern/share/miopen/db";
const IMAGES: &str = "kern/lib/aotriton.images";
pub(crate) const FALLBACK: &str = "TensileLibrary_Type_SS_Contraction_l_Alik_Bljk_Cijk_Dijk_fallback";
const TYPE: &str = "TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk";
const LT: &str = "TensileLibrary_BB_BB_HA_Bias_SAV_UA_Type_BB_HPA_Contraction_l_Ailk_Bjlk_Cijk_Dijk";

/// A library without device code.
const fn host(name: &'static str) -> Library {
    Library::new(name, &[])
}

/// A lazy catalogue that names these files.
fn lazy(names: &[String]) -> Vec<u8> {
    let row = |name: &String| json!({"library": {"type": "Placeholder", "value": name}, "predicate": 1});
    let rows: Vec<_> = names.iter().map(row).collect();
    rmp_serde::to_vec(&json!({"library": {"type": "Hardware", "rows": rows}, "version": "4.33.0"})).unwrap()
}

/// rocBLAS with code of its own for both GPUs, and a flat database for these.
pub(crate) fn rocblas(files: &mut Files, processors: &[&str]) {
    files.library(&Library::new("librocblas.so.5", &[&["gfx90a", "gfx1100"]]));
    for processor in processors {
        let own = format!("{TYPE}_{processor}");
        let catalogue = lazy(&[own.clone(), FALLBACK.to_owned()]);
        files.put(&format!("{ROCBLAS}/TensileLibrary_lazy_{processor}.dat"), catalogue);
        files.put(&format!("{ROCBLAS}/{own}.dat"), b"\x80");
        files.put(&format!("{ROCBLAS}/{own}.co"), code(processor, 20));
        files.put(&format!("{ROCBLAS}/{FALLBACK}_{processor}.hsaco"), code(processor, 21));
        files.put(&format!("{ROCBLAS}/Kernels.so-000-{processor}.hsaco"), code(processor, 22));
    }
    if !processors.is_empty() {
        files.put(&format!("{ROCBLAS}/{FALLBACK}.dat"), b"\x80");
    }
}

/// The same with a directory of its own for gfx90a, as `TheRock` builds those of gfx9.
pub(crate) fn mixed_rocblas(files: &mut Files) {
    rocblas(files, &["gfx90a", "gfx1100"]);
    for (path, _) in files.all.iter_mut().filter(|(path, _)| path.contains("gfx90a") && path.contains("/library/")) {
        *path = path.replace("/library/", "/library/gfx90a/");
    }
    let fallback = files.all.iter().find(|(path, _)| path.ends_with("fallback.dat")).unwrap().1.clone();
    files.put(&format!("{ROCBLAS}/gfx90a/{FALLBACK}.dat"), fallback);
}

/// The same for gfx90a, with helper kernels and fallbacks for each mode.
pub(crate) fn rocblas_by_mode(files: &mut Files) {
    rocblas(files, &["gfx90a"]);
    for mode in ["-xnack-", "-xnack+"] {
        files.put(&format!("{ROCBLAS}/Kernels.so-000-gfx90a{mode}.hsaco"), code(&format!("gfx90a:{}", &mode[1..]), 25));
    }
    files.all.retain(|(path, _)| !path.ends_with("Kernels.so-000-gfx90a.hsaco"));
}

/// hipBLASLt, with code of its own for both GPUs or without any, and a database for gfx90a.
pub(crate) fn hipblaslt(files: &mut Files, has_code: bool) {
    let with_code = Library::new("libhipblaslt.so.1", &[&["gfx90a", "gfx1100"]]);
    files.library(if has_code { &with_code } else { &const { host("libhipblaslt.so.1") } });
    let own = format!("{LT}_gfx90a");
    files.put(&format!("{HIPBLASLT}/TensileLibrary_lazy_gfx90a.dat"), lazy(std::slice::from_ref(&own)));
    files.put(&format!("{HIPBLASLT}/{own}.dat"), b"\x80");
    files.put(&format!("{HIPBLASLT}/{own}.co"), code("gfx90a", 23));
    files.put(&format!("{HIPBLASLT}/Kernels.so-000-gfx90a.hsaco"), code("gfx90a", 24));
}

/// MIOpen, with code of its own for both GPUs, and tuning for gfx90a.
pub(crate) fn miopen(files: &mut Files) {
    files.library(&Library::new("libMIOpen.so.1", &[&["gfx90a", "gfx1100"]]));
    for name in ["gfx90a68.db.txt", "gfx90a68.HIP.fdb.txt"] {
        files.put(&format!("{MIOPEN}/{name}"), b"key=value\n");
    }
}

/// rocFFT, with code of its own for both GPUs, and a kernel cache for gfx90a.
pub(crate) fn rocfft(files: &mut Files) {
    files.library(&Library::new("librocfft.so.0", &[&["gfx90a", "gfx1100"]]));
    files.put("kern/lib/rocfft_kernel_cache_gfx90a.db", b"SQLite format 3\0 and pages");
}

/// AOTriton, with these kernels for each GPU.
pub(crate) fn aotriton(files: &mut Files, of_gpus: &[(&str, &[&str])]) {
    files.library(&const { host("libaotriton_v2.so.0.11.1") });
    for (directory, kernels) in of_gpus {
        for kernel in *kernels {
            files.put(&format!("{IMAGES}/amd-{directory}/flash/{kernel}.zip"), b"PK\x03\x04 and more");
        }
    }
}
