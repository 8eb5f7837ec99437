use proptest::prelude::*;

use super::Metadata;
use crate::gpu::BundleKey;
use crate::source::EntryPath;
use crate::wheel::Devices;

const HEADER: &str = "Metadata-Version: 2.1\nName: Torch\nVersion: 2.10.0+rocm7.1\n";

fn parse(text: &[u8]) -> Metadata {
    Metadata::parse(text.to_vec(), &EntryPath::root()).unwrap()
}

fn key(name: &str) -> BundleKey {
    name.parse().unwrap()
}

fn devices(keys: &[&str]) -> Devices {
    Devices::new("amd-torch-device", keys.iter().map(|name| key(name))).unwrap()
}

fn inserted(text: &str, keys: &[&str]) -> Vec<String> {
    let edited = String::from_utf8(parse(text.as_bytes()).host(&devices(keys)).bytes).unwrap();
    let lines = edited.strip_prefix(text.strip_suffix("\nbody\n").unwrap()).unwrap();
    lines.strip_suffix("\nbody\n").unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_target_has_an_extra_in_both_spellings() {
    let lines = inserted(&format!("{HEADER}\nbody\n"), &["gfx11", "gfx110x", "gfx1100", "gfx942", "gfx12_0"]);
    let require = |part: &str, extra: &str| {
        format!("Requires-Dist: amd-torch-device-{part}==2.10.0+rocm7.1; extra == \"{extra}\"")
    };
    let mut expected = vec!["Requires-Dist: rocm-bootstrap".to_owned()];
    for (name, parts) in [
        ("gfx1100", &["gfx1100", "gfx110x", "gfx11"][..]),
        ("gfx942", &["gfx942"]),
        ("all", &["gfx11", "gfx1100", "gfx110x", "gfx12-0", "gfx942"]),
    ] {
        for extra in [name.to_owned(), format!("device-{name}")] {
            expected.push(format!("Provides-Extra: {extra}"));
            expected.extend(parts.iter().map(|part| require(part, &extra)));
        }
    }
    assert_eq!(lines, expected);
}

#[test]
fn extras_have_the_normal_form() {
    let lines = inserted(&format!("{HEADER}\nbody\n"), &["gfx13_0"]);
    assert!(lines.contains(&"Provides-Extra: device-gfx13-0".to_owned()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("extra == \"gfx13_0")));
}

#[test]
fn extras_that_are_declared_are_left_alone() {
    let text =
        format!("{HEADER}provides-extra: ALL\nProvides-Extra: device_gfx942\nRequires-Dist: ROCm_bootstrap\n\nbody\n");
    let metadata = parse(text.as_bytes());
    let edited = metadata.host(&devices(&["gfx942"]));
    let lines = inserted(&text, &["gfx942"]);
    let extras: Vec<_> = lines.iter().filter(|line| line.starts_with("Provides-Extra")).collect();
    assert_eq!(extras, ["Provides-Extra: gfx942", "Provides-Extra: device-all"]);
    assert!(!lines.iter().any(|line| line.contains("bootstrap")));
    assert_eq!(edited.warnings.len(), 2, "{:?}", edited.warnings);
    assert!(edited.warnings[0].contains("device-gfx942") && edited.warnings[1].contains("extra all "));
}

/// Two warnings that point at each other's extra would send the user in a circle.
#[test]
fn if_both_spellings_are_declared_one_warning_says_what_to_require() {
    let text = format!("{HEADER}Provides-Extra: gfx942\nProvides-Extra: device-gfx942\n\nbody\n");
    let edited = parse(text.as_bytes()).host(&devices(&["gfx942"]));
    let of_target: Vec<_> = edited.warnings.iter().filter(|warning| warning.contains("gfx942")).collect();
    assert_eq!(of_target.len(), 1, "{of_target:?}");
    assert!(of_target[0].contains("gfx942 and device-gfx942") && of_target[0].contains("amd-torch-device-gfx942"));
    assert!(!of_target[0].contains("installs the device code"), "{of_target:?}");
}

#[test]
fn a_variant_chooses_by_property() {
    let text = format!("{HEADER}\nbody\n");
    let metadata = parse(text.as_bytes());
    let devices = devices(&["gfx1100", "gfx11", "gfx803"]);
    let targets = [&key("gfx1100")];
    let variant = String::from_utf8(metadata.variant(&devices, &targets).bytes).unwrap();
    let host = String::from_utf8(metadata.host(&devices).bytes).unwrap();
    let marker = "\"amd :: gfx_arch :: gfx1100\" in variant_properties";
    let lines: String = ["gfx1100", "gfx11"]
        .map(|part| format!("Requires-Dist: amd-torch-device-{part}==2.10.0+rocm7.1; {marker}\n"))
        .concat();
    assert_eq!(variant, host.replace("\nbody\n", &format!("{lines}\nbody\n")));
    assert!(!host.contains("variant_properties"));
}

/// METADATA without the lines that a splitter has added.
fn without_added(text: &str) -> String {
    let metadata = parse(text.as_bytes());
    String::from_utf8(metadata.without(&metadata.added(), &EntryPath::root()).unwrap().bytes()).unwrap()
}

#[test]
fn what_a_splitter_added_is_found() {
    let own = format!("{HEADER}Provides-Extra: all\nRequires-Dist: numpy; extra == \"all\"\n");
    let fat = format!("{own}\nbody\n");
    let host =
        String::from_utf8(parse(fat.as_bytes()).host(&devices(&["gfx1201", "gfx12_0", "gfx803"])).bytes).unwrap();
    assert_eq!(without_added(&host), fat);
    let added = parse(host.as_bytes()).added();
    let expected = ["amd-torch-device-gfx12-0", "amd-torch-device-gfx1201", "amd-torch-device-gfx803"];
    assert_eq!(added.devices().collect::<Vec<_>>(), expected);
    assert_eq!(added.prefix().as_deref(), Some("amd-torch-device"));
    // In the form of split_python_wheels.
    let lines = "Requires-Dist: rocm-bootstrap\nProvides-Extra: device-gfx942\n\
        Requires-Dist: amd_torch_device_gfx942 == 2.10.0+rocm7.1; extra == \"device-gfx942\"\nProvides-Extra: device-all\n\
        Requires-Dist: amd_torch_device_gfx942 == 2.10.0+rocm7.1; extra == \"device-all\"\n";
    assert_eq!(without_added(&format!("{own}{lines}\nbody\n")), fat);
    // Lines that are not at the end, or require another version, were not added by a splitter; neither was a single
    // requirement.
    let other = "Requires-Dist: x\n";
    let bootstrap = "Requires-Dist: rocm-bootstrap\n";
    let later = lines.replace("2.10.0", "2.11.0");
    for text in [format!("{own}{lines}{other}\nbody\n"), format!("{own}{bootstrap}\n"), format!("{own}{later}\n"), fat]
    {
        assert_eq!(without_added(&text), text);
    }
}

#[test]
fn pins_are_exact_and_unconditional() {
    let requires = [
        ("Torch==2.10.0+rocm7.1", Some(("torch", "2.10.0+rocm7.1"))),
        ("rocm_sdk.device == 7.1", Some(("rocm-sdk-device", "7.1"))),
        ("a (==1)", Some(("a", "1"))),
        ("a===1", Some(("a", "1"))),
        ("a==1; extra == \"all\"", None),
        ("a>=1,==1.*", None),
        ("a[b]==1", None),
        ("a~=1", None),
        ("a", None),
    ];
    for (line, expected) in requires {
        let metadata = parse(format!("{HEADER}Requires-Dist: {line}\n\nRequires-Dist: b==1\n").as_bytes());
        let pins: Vec<_> = metadata.pins().collect();
        let expected: Vec<_> = expected.map(|(name, version)| (name.to_owned(), version)).into_iter().collect();
        assert_eq!(pins, expected, "{line}");
    }
}

#[test]
fn device_metadata() {
    let text = format!(
        "{HEADER}License-Expression: BSD-3-Clause\nLicense: ignored\nClassifier: License :: OSI Approved\n\nbody"
    );
    let metadata = parse(text.as_bytes());
    let devices = devices(&["gfx1201", "gfx12_0", "gfx11"]);
    let requires = ["rocm-sdk-device-@GFXARCH@ == 7.1".to_owned(), "numpy".to_owned()];
    let device = |name: &str| metadata.device(&devices, &key(name), &requires, &[], &["LICENSE".to_owned()]).unwrap();
    let header = |text: &str| text.split("\n\n").next().unwrap().lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        header(&device("gfx1201")),
        [
            "Name: amd-torch-device-gfx1201",
            "Version: 2.10.0+rocm7.1",
            "Summary: AMD device kernels (gfx1201) for Torch",
            "Description-Content-Type: text/markdown",
            "License-Expression: BSD-3-Clause",
            "License-File: LICENSE",
            "Requires-Dist: Torch==2.10.0+rocm7.1",
            "Requires-Dist: rocm-sdk-device-gfx1201 == 7.1",
            "Requires-Dist: numpy",
            "Requires-Dist: amd-torch-device-gfx12-0==2.10.0+rocm7.1",
        ]
    );
    let family = header(&device("gfx11"));
    assert_eq!(family[2], "Summary: AMD device kernels (RDNA3) for Torch");
    assert_eq!(&family[6..], ["Requires-Dist: Torch==2.10.0+rocm7.1", "Requires-Dist: numpy"]);
    assert_eq!(header(&device("gfx12_0")).last().unwrap(), "Requires-Dist: numpy");
    assert!(metadata.device(&devices, &key("gfx942"), &[], &[], &[]).is_err());
    assert!(metadata.device(&devices, &key("gfx11"), &["a\nName: b".to_owned()], &[], &[]).is_err());
}

#[test]
fn older_licence_fields() {
    let with = |lines: &str| {
        let metadata = parse(format!("{HEADER}{lines}\n").as_bytes());
        metadata.device(&devices(&["gfx942"]), &key("gfx942"), &[], &[], &[]).unwrap()
    };
    let text = with("License: BSD-3\nClassifier: Topic :: X\nClassifier: License :: OSI Approved :: BSD License\n");
    assert!(text.contains("\nLicense: BSD-3\nClassifier: License :: OSI Approved :: BSD License\nRequires"), "{text}");
    assert!(!with("License: whole\n text\n").contains("License:"));
}

#[test]
fn unusable_metadata_is_refused() {
    for text in [
        "",
        "\nName: x\nVersion: 1\n",
        "Name: x\n\n",
        "Version: 1\n",
        "Name: a b\nVersion: 1\n",
        "Name: a\nVersion: 1; x\n",
    ] {
        assert!(Metadata::parse(text.into(), &EntryPath::root()).is_err(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn every_other_byte_is_kept(
        crlf in any::<bool>(),
        summary in "[^\r\n]{0,20}",
        body in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..80)),
    ) {
        let newline = if crlf { "\r\n" } else { "\n" };
        let mut text = format!("{HEADER}Summary: {summary}\n\tfolded\u{2028}\x0c\u{85}\n").replace('\n', newline).into_bytes();
        let end = text.len();
        if let Some(body) = &body {
            text.extend_from_slice(newline.as_bytes());
            text.extend(body);
        }
        let metadata = parse(&text);
        let edited = metadata.host(&devices(&["gfx942"])).bytes;
        let added = edited.len() - text.len();
        prop_assert_eq!(&edited[..end], &text[..end]);
        prop_assert_eq!(&edited[end + added..], &text[end..]);
        let lines = std::str::from_utf8(&edited[end..end + added]).unwrap();
        prop_assert!(lines.starts_with("Requires-Dist: rocm-bootstrap") && lines.ends_with(newline));
        prop_assert_eq!(lines.matches('\n').count(), lines.matches(newline).count());
        let host = parse(&edited);
        prop_assert_eq!(host.without(&host.added(), &EntryPath::root()).unwrap().bytes(), text);
    }
}
