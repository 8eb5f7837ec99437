use super::{KnownExtras, Metadata, PartExtra, StatedExtras};
use crate::gpu::BundleKey;
use crate::source::EntryPath;

fn metadata(fields: &str) -> Metadata {
    let text = format!("Metadata-Version: 2.1\nName: demo\nVersion: 1\n{fields}\nbody\n");
    Metadata::parse(text.into_bytes(), &EntryPath::root()).unwrap()
}

fn known(stated: &[&str]) -> KnownExtras {
    stated.iter().map(|text| text.parse::<StatedExtras>().unwrap()).collect()
}

#[test]
fn a_part_requires_an_extra_that_exists() {
    let (known_extra, unchecked) = (
        |name: &str| Some(PartExtra::Known(name.to_owned())),
        |name: &str| Some(PartExtra::Unchecked(name.to_owned())),
    );
    let missing = |name: &str| Some(PartExtra::Missing(name.to_owned()));
    let all = "Requires-Dist: rocm[device-all]";
    let some = "Requires-Dist: rocm[Device_gfx942, device-gfx11]";
    let stated = &["ROCM=libraries,device_gfx942,device-gfx12-0"][..];
    for (field, stated, key, expected) in [
        (all, &[][..], "gfx942", unchecked("device-gfx942")),
        (all, &[], "gfx90a:xnack-", unchecked("device-gfx90a")),
        (all, &[], "amdgcnspirv", unchecked("device-amdgcnspirv")),
        (all, &[], "gfx12_0", None),
        (all, &["other=a"], "gfx942", unchecked("device-gfx942")),
        (all, stated, "gfx942", known_extra("device-gfx942")),
        (all, stated, "gfx1100", missing("device-gfx1100")),
        (all, stated, "gfx1201", known_extra("device-gfx12-0")),
        (all, stated, "gfx12_0", known_extra("device-gfx12-0")),
        (all, &["rocm="], "gfx942", missing("device-gfx942")),
        // The fat wheel names them itself.
        (some, &[], "gfx942", known_extra("Device_gfx942")),
        (some, &[], "gfx1100", known_extra("device-gfx11")),
        (some, &[], "gfx90a", missing("device-gfx90a")),
        (some, &[], "gfx12", None),
        (some, stated, "gfx1100", missing("device-gfx1100")),
    ] {
        let metadata = metadata(&format!("{field}\n"));
        let requirement = metadata.split_requirements().next().unwrap();
        let key: BundleKey = key.parse().unwrap();
        assert_eq!(requirement.extra(&key, &known(stated)), expected, "{field} {stated:?} {key}");
    }
}

#[test]
fn what_the_wheel_requires_of_itself_stays() {
    assert_eq!(metadata("Requires-Dist: Demo[device-all]; extra == \"all\"\n").gpu_requirements().count(), 0);
}

#[test]
fn extras_are_stated_by_name() {
    for text in ["rocm", "=a", "rocm=a]", "rocm=a;b", "ro cm=a", "rocm==7.14", "rocm=a\nb"] {
        assert!(text.parse::<StatedExtras>().is_err(), "{text}");
    }
    assert_eq!("ROCm_x=A, b_c".parse::<StatedExtras>().unwrap(), "rocm-x=a,,b.c".parse().unwrap());
}

/// A statement comes from a file that anybody may have written.
#[test]
fn only_what_was_replaced_is_restored() {
    let fat =
        metadata("Requires-Dist: a\nrequires-dist: rocm[device-all,x]==7\r\nRequires-Dist: rocm[device-gfx942]\n");
    let host = fat.for_host().unwrap();
    let old = fat.replaced_fields();
    assert_eq!(old, ["requires-dist: rocm[device-all,x]==7", "Requires-Dist: rocm[device-gfx942]"]);
    assert_eq!(host.restored(&old).unwrap().unwrap().bytes(), fat.bytes());
    assert_eq!(host.restored(&[]).unwrap().unwrap().bytes(), host.bytes());
    let reversed: Vec<_> = old.iter().rev().cloned().collect();
    for old in [
        &reversed[..],
        &["Requires-Dist: rocm[device-all]==8".to_owned()],
        &["Requires-Dist: a".to_owned()],
        &["Requires-Dist: rocm[device-gfx942]\nName: other".to_owned()],
        &["Requires-Dist: rocm[device-gfx942]\r\n\r\nbody".to_owned()],
        &["Requires-Dist: rocm[device-gfx942]\r; x".to_owned()],
        &[String::new()],
    ] {
        assert!(host.restored(old).unwrap().is_none(), "{old:?}");
    }
}

#[test]
fn a_thin_wheel_requires_the_extras_of_its_gpus() {
    let fat =
        metadata("Requires-Dist: rocm[Libraries, device-all]==7.14.*; extra == 'rocm'\nRequires-Dist: b[device-all]\n");
    let thin = |gpus: &str, stated: &[&str]| {
        let thin = fat.for_gpus(&gpus.parse().unwrap(), &known(stated)).unwrap();
        thin.requirements().map(str::to_owned).collect::<Vec<_>>()
    };
    let rocm = |extras: &str| format!("rocm[Libraries{extras}]==7.14.*; extra == 'rocm'");
    assert_eq!(thin("gfx942", &[]), [rocm(",device-gfx942"), "b[device-gfx942]".to_owned()]);
    let both = thin("gfx1100+gfx1101", &["rocm=device-gfx11", "b=device-gfx1101"]);
    assert_eq!(both, [rocm(",device-gfx11"), "b[device-gfx1101]".to_owned()]);
    assert_eq!(thin("gfx90a:xnack++gfx90a:xnack-", &["b="]), [rocm(",device-gfx90a"), "b".to_owned()]);
}
