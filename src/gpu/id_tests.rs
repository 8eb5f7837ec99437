//! Tests of target IDs.

use super::{TARGETS, TargetId, TargetIdError};

fn target(text: &str) -> TargetId {
    text.parse().unwrap()
}

#[test]
fn names_are_taken_apart_and_written_again() {
    for (text, processor, features) in [
        ("gfx942", "gfx942", &[][..]),
        ("gfx90a:sramecc+:xnack-", "gfx90a", &["sramecc+", "xnack-"]),
        ("gfx9-4-generic:xnack+", "gfx9-4-generic", &["xnack+"]),
        ("amdgcnspirv", "amdgcnspirv", &[]),
        ("gfx1250-strict", "gfx1250-strict", &[]),
        ("gfx12_0", "gfx12_0", &[]),
    ] {
        let target = target(text);
        assert_eq!(target.processor(), processor);
        assert_eq!(target.features().collect::<Vec<_>>(), features);
        assert_eq!(target.to_string(), text);
        assert_eq!(target.without_features().to_string(), processor);
    }
    assert!(target("gfx10-3-generic:xnack+").is_generic() && !target("gfx1250-strict").is_generic());
}

#[test]
fn features_are_sorted_and_users_need_no_lower_case() {
    for (text, canonical) in [
        ("gfx90a:xnack-:sramecc+", "gfx90a:sramecc+:xnack-"),
        ("gfx90a-xnack--sramecc+", "gfx90a:sramecc+:xnack-"),
        ("gfx9999:xnack+:future-", "gfx9999:future-:xnack+"),
    ] {
        assert_eq!(target(text).to_string(), canonical);
        assert_eq!(TargetId::typed(&text.to_uppercase()), Ok(target(canonical)));
    }
}

#[test]
fn modes_that_target_ids_cannot_name_are_dropped() {
    for (text, canonical, impossible) in [
        ("gfx1250:xnack+", "gfx1250", None),
        ("gfx1250-strict:xnack+", "gfx1250-strict", None),
        ("gfx1251:xnack-", "gfx1251:xnack-", Some("xnack-")),
        ("gfx12-5-generic:xnack-", "gfx12-5-generic:xnack-", Some("xnack-")),
        ("gfx1030:xnack+", "gfx1030", None),
        ("gfx1100:sramecc-:xnack-", "gfx1100", None),
        ("gfx900:sramecc+:xnack-", "gfx900:xnack-", None),
        ("gfx90c:xnack-", "gfx90c:xnack-", None),
        ("gfx942:xnack+", "gfx942:xnack+", None),
        ("gfx942-xnack+", "gfx942:xnack+", None),
        ("gfx90a-sramecc+-xnack-", "gfx90a:sramecc+:xnack-", None),
        ("gfx1250-strict-xnack+", "gfx1250-strict", None),
        ("gfx1250:future+", "gfx1250:future+", None),
        ("gfx9999:xnack+", "gfx9999:xnack+", None),
    ] {
        let target = target(text);
        assert_eq!((target.to_string().as_str(), target.impossible_feature()), (canonical, impossible), "{text}");
    }
    assert!(target("gfx1172").is_known() && target("amdgcnspirv").is_known() && !target("gfx9999").is_known());
    assert!("gfx1250:xnack+:xnack-".parse::<TargetId>().is_err());
}

#[test]
fn names_that_do_not_belong_into_paths_are_refused() {
    for text in ["", ":xnack+", ".", "..", "gfx90a/..", "gfx90a\0", "GFX90A", "gfx90a-", "-gfx", "gfx90a ", "gfx\u{e4}"]
    {
        assert_eq!(text.parse::<TargetId>(), Err(TargetIdError::Processor(text.to_owned())), "{text:?}");
    }
    for text in ["gfx90a:", "gfx90a:xnack", "gfx90a:+", "gfx90a:xnack+:", "gfx90a:xnack++", "gfx90a:../x+"] {
        assert_eq!(text.parse::<TargetId>(), Err(TargetIdError::Feature(text.to_owned())), "{text:?}");
    }
    let twice = "gfx90a:xnack+:xnack-".to_owned();
    assert_eq!(twice.parse::<TargetId>(), Err(TargetIdError::DuplicateFeature(twice)));
    let many = "gfx90a:a+:b+:c+:d+:e+".to_owned();
    assert_eq!(many.parse::<TargetId>(), Err(TargetIdError::TooManyFeatures(many)));
    assert_eq!("g".repeat(129).parse::<TargetId>(), Err(TargetIdError::TooLong(129)));
}

#[test]
fn runtimes_look_up_the_most_specific_code_first_and_generic_code_last() {
    for (text, candidates) in [
        (
            "gfx942:sramecc+:xnack-",
            &[
                "gfx942:sramecc+:xnack-",
                "gfx942:sramecc+",
                "gfx942:xnack-",
                "gfx942",
                "gfx9-4-generic:sramecc+:xnack-",
                "gfx9-4-generic:sramecc+",
                "gfx9-4-generic:xnack-",
                "gfx9-4-generic",
            ][..],
        ),
        ("gfx90a:xnack+", &["gfx90a:xnack+", "gfx90a"]),
        ("gfx1100", &["gfx1100", "gfx11-generic"]),
        ("gfx11-generic", &["gfx11-generic"]),
        ("gfx1250-strict", &["gfx1250-strict"]),
        ("gfx1250", &["gfx1250", "gfx12-5-generic"]),
        ("gfx1250:xnack-", &["gfx1250:xnack-"]),
        ("gfx1251", &["gfx1251"]),
        ("gfx1170", &["gfx1170"]),
        ("x:a+:b+:c+", &["x:a+:b+:c+", "x:a+:b+", "x:a+:c+", "x:b+:c+", "x:a+", "x:b+", "x:c+", "x"]),
    ] {
        let found: Vec<_> = target(text).candidates().iter().map(ToString::to_string).collect();
        assert_eq!(found, candidates, "{text}");
    }
}

#[test]
fn versions_name_processors() {
    for target in TARGETS.iter().filter(|target| target.name != "gfx1250-strict") {
        assert_eq!(TargetId::of_version(target.version).to_string(), target.name);
    }
    for (version, name) in [
        (130_100, "gfx1310"),
        (80003, "gfx803"),
        (90400, "gfx940"),
        (90015, "gfx90f"),
        (130_000, "gfx1300"),
        (0, "gfx000"),
    ] {
        assert_eq!(TargetId::of_version(version).to_string(), name);
    }
}
