//! gfx1250-strict is a processor of its own in artifacts, though not in wheels.

use crate::artifacts::place::{Place, renamed, set};

fn shard() -> Place {
    let place = Place::new();
    let library = renamed("plain.so", &[("gfx90a", "gfx1250"), ("gfx1030", "gfx1250-strict")]);
    place.manifest("shard/x_lib_g", &["stage"]).file("shard/x_lib_g/stage/lib/x.so", library);
    // Files below `gfx1250-strict` are named after the files that they are derived from.
    for path in ["gfx1250/extop_gfx1250.co", "gfx1250-strict/extop_gfx1250.co"] {
        place.file(&format!("shard/x_lib_g/stage/lib/hipblaslt/library/{path}"), path);
    }
    place.file("shard/x_lib_g/stage/lib/libdevice_conv_operations_gfx1250_strict_xnackp.a", "strict");
    place
}

#[test]
fn it_is_kept_apart() {
    let place = shard();
    place.succeeds(&["split", "shard", "-o", "out"]);
    assert_eq!(place.names("out"), set(["x_lib_generic", "x_lib_gfx1250", "x_lib_gfx1250-strict"]));
    let archives = |part: &str| place.names(&format!("out/x_lib_{part}/stage/.kpack"));
    assert_eq!(archives("gfx1250"), set(["x_lib_gfx1250.kpack"]));
    assert_eq!(archives("gfx1250-strict"), set(["x_lib_gfx1250-strict.kpack"]));
    assert_eq!(place.files("out/x_lib_gfx1250-strict/stage/lib").len(), 2);
    assert_eq!(place.files("out/x_lib_gfx1250/stage/lib").len(), 1);
    for (wanted, part) in [("gfx1250", "x_lib_gfx1250"), ("gfx1250-strict", "x_lib_gfx1250-strict")] {
        place.succeeds(&["split", "shard", "-o", wanted, "--gpu-targets", wanted]);
        assert_eq!(place.names(wanted), set(["x_lib_generic", part]));
    }
}

#[test]
fn verify_tells_one_from_the_other_both_ways() {
    for (there, belongs) in [("gfx1250", "gfx1250-strict"), ("gfx1250-strict", "gfx1250")] {
        let place = Place::new();
        place.manifest("out/x_lib_generic", &["stage"]).file("out/x_lib_generic/stage/notes", "");
        let path = format!("stage/lib/rocblas/library/Kernels.so-000-{belongs}.hsaco");
        place.manifest(&format!("out/x_lib_{there}"), &["stage"]).file(&format!("out/x_lib_{there}/{path}"), "");
        let said = place.fails(1, &["verify", "out"]);
        let expected =
            format!("x_lib_{there}/{path}: it is for {belongs}, which belongs to {belongs} and not to {there}");
        assert!(said.contains(&expected), "{said}");
    }
}
