//! Gives the shared library the name under which HIP looks for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librocm_kpack.so.0");
}
