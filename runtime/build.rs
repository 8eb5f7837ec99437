//! Sets the name under which HIP looks for the shared library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librocm_kpack.so.0");
}
