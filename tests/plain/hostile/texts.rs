//! Markers, dist-info files and mount options, malformed in every way.

use kpackfs::binary::marker;
use kpackfs::source::EntryPath;
use kpackfs::split::PartManifest;
use kpackfs::wheel::{Claims, Metadata, WheelFile, WheelName};

use crate::hostile::{Kind, memory};

pub(crate) fn markers() -> Vec<Kind> {
    let good = marker("lib/x.so", &["../.kpack/x_@GFXARCH@.kpack".to_owned()]);
    let name = |rest: &[u8]| [b"\x82\xABkernel_name\xA1x\xB2kpack_search_paths", rest].concat();
    vec![
        ("good", good.clone()),
        ("something behind", [&*good, b"\xC1"].concat()),
        ("empty", Vec::new()),
        ("truncated", good[..good.len() - 1].to_vec()),
        ("a map of 4 G pairs", vec![0xDF, 0xFF, 0xFF, 0xFF, 0xFF]),
        ("a name of 4 GB", b"\x82\xABkernel_name\xDB\xFF\xFF\xFF\xFF".to_vec()),
        ("no paths", name(b"\x90")),
        ("4 G paths", name(b"\xDD\xFF\xFF\xFF\xFF")),
        ("a path that is a number", name(b"\x91\x01")),
        ("a path that is not UTF-8", name(b"\x91\xA1\xFF")),
        ("a name twice", b"\x83\xABkernel_name\xA1x\xABkernel_name\xA1y\xB2kpack_search_paths\x90".to_vec()),
        ("other keys", [&b"\x83\xA1z\x92\x81\x01\x02\xC0"[..], &name(b"\x90")[1..]].concat()),
        ("endless depth", [&b"\x83\xA1z"[..], &[0x91; 3000]].concat()),
    ]
}

pub(crate) fn dist_info() -> Vec<Kind> {
    let metadata = |rest: &str| format!("Metadata-Version: 2.1\nName: x\nVersion: 1\n{rest}").into_bytes();
    let wheel = |rest: &str| format!("Wheel-Version: 1.0\n{rest}").into_bytes();
    let digest = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";
    let set = |tag: &str| {
        vec![tag; 300].iter().enumerate().map(|(at, tag)| format!("{tag}{at}")).collect::<Vec<_>>().join(".")
    };
    vec![
        ("empty", Vec::new()),
        ("METADATA", metadata("License-File: LICENCE\n\nText\n")),
        (
            "METADATA by Windows",
            metadata("License: a\n b\n\nText\n")
                .iter()
                .flat_map(|&byte| if byte == b'\n' { vec![b'\r', byte] } else { vec![byte] })
                .collect(),
        ),
        ("METADATA without an end", b"Name: x\nVersion: 1".to_vec()),
        ("METADATA without a body, folded", metadata("Description: a\n\tb\n  c")),
        ("METADATA that goes on behind no header", metadata("no header\nRequires-Dist: y\n")),
        ("METADATA that is not UTF-8", [&*metadata("Author: "), b"\xFF\xFE\n"].concat()),
        ("METADATA with lines in its name", b"Name: x\n y\nVersion: 1\n".to_vec()),
        ("METADATA with lines in its version", b"Name: x\nVersion: 1\n Requires-Dist: evil\n".to_vec()),
        ("METADATA with lines in a licence", metadata("License-Expression: MIT\x0BRequires-Dist: evil\n")),
        (
            "METADATA with all extras",
            metadata(
                "Provides-Extra: all\nProvides-Extra: device_all\nProvides-Extra: gfx90a\nRequires-Dist: rocm-bootstrap\n",
            ),
        ),
        ("METADATA of a long version", format!("Name: x\nVersion: {}\n", "1".repeat(2000)).into_bytes()),
        ("METADATA of version 1.0", b"Metadata-Version: 1.0\nName: x\nVersion: 1\n".to_vec()),
        ("WHEEL", wheel("Root-Is-Purelib: true\nTag: py3-none-any\nBuild: 2\n")),
        ("WHEEL without tags", wheel("")),
        ("WHEEL without an end", b"Wheel-Version: 1.0\nTag: py3-none-any".to_vec()),
        ("WHEEL of version 2", b"Wheel-Version: 2.0\n".to_vec()),
        ("WHEEL of folded tags", wheel("Tag: py3-none-any\n py2-none-any\n")),
        ("WHEEL of no tags", wheel("Tag: a\nTag: a-b\n")),
        ("WHEEL of empty tags", wheel("Tag: --\nTag: .-.-.\n")),
        ("WHEEL of 27 million tags", wheel(&format!("Tag: {}-{}-{}\n", set("a"), set("b"), set("c")))),
        ("RECORD", format!("a,sha256={digest},0\nx-1.dist-info/RECORD,,\n").into_bytes()),
        ("RECORD of quoted names", format!("\"a,b\",sha256={digest},0\n\"c\"\"d\",sha256={digest},7\n").into_bytes()),
        ("RECORD without an end of a name", format!("\"a,sha256={digest},0\nb,,\n").into_bytes()),
        ("RECORD of false digests", b"a,sha256=,0\nb,md5=abc,1\nc,sha256=AAAA,2\n".to_vec()),
        (
            "RECORD of false sizes",
            format!("a,sha256={digest},-1\nb,sha256={digest},99999999999999999999\n").into_bytes(),
        ),
        ("RECORD of names twice", format!("a,sha256={digest},0\na,sha256={digest},1\n").into_bytes()),
        ("a manifest", manifest(&entries(1))),
        ("a manifest of endless depth", manifest(&"[".repeat(3000))),
        ("a manifest of false numbers", manifest(&entries(1).replace('9', "-9"))),
        ("a manifest of short digests", manifest(&entries(1).replace("ff\"", "\""))),
        ("a manifest of one file twice", manifest(&[entries(1), entries(2)].join(","))),
    ]
}

fn manifest(files: &str) -> Vec<u8> {
    format!(r#"{{"json_version":1,"split_id":"x","part":"gfx942","digest":"xxh3-128","files":[{files}]}}"#).into_bytes()
}

/// An archive of a manifest with this number of entries.
fn entries(count: usize) -> String {
    let sum = "00112233445566778899aabbccddeeff";
    let entries = vec![format!(r#"["x.so#0","gfx942",9,"{sum}"]"#); count].join(",");
    format!(r#"{{"path":"x.kpack","size":9,"digest":"{sum}","entries":[{entries}]}}"#)
}

pub(crate) fn mount_options() -> Vec<Kind> {
    vec![
        ("good", b"/w.whl\0/mnt\0-o\0ro,nofail,arch=gfx942\\,gfx1100,memory=9".to_vec()),
        ("empty", Vec::new()),
        ("one name", b"/w.whl".to_vec()),
        ("three names", b"a\0b\0c".to_vec()),
        ("names that look like options", b"--\0-o".to_vec()),
        ("an option without a value", b"a\0b\0-o".to_vec()),
        ("options of kpackfs itself", b"a\0b\0--foreground".to_vec()),
        ("a value that looks like an option", b"a\0b\0-o\0arch=--foreground".to_vec()),
        ("a name that is not UTF-8", b"\xFF\0/mnt\xFE\0-o\0ro".to_vec()),
        ("options that are not UTF-8", b"a\0b\0-o\0arch=\xFF".to_vec()),
        ("an option that nobody knows", b"a\0b\0-o\0xyz=1".to_vec()),
        ("a backslash at the end", b"a\0b\0-o\0arch=x\\".to_vec()),
        ("a value with everything", b"a\0b\0-o\0group_name=a b=c\\,d\\\\e\nf".to_vec()),
        ("commas only", b"a\0b\0-o\0,,,".to_vec()),
        ("a group by its other name", b"a\0b\0-o\0group-name=x\0-o\0group=x".to_vec()),
    ]
}

pub(crate) fn ring_requests() -> Vec<Kind> {
    let of = |operation: u8, payload_size: u8, argument: &[u8], payload: &[u8]| {
        let mut bytes = vec![0; kpackfs::fs::HEADER];
        (bytes[4], bytes[16], bytes[272]) = (operation, 1, payload_size);
        bytes[128..][..argument.len()].copy_from_slice(argument);
        [&bytes, payload].concat()
    };
    vec![
        ("lookup", of(1, 4, b"", b"lib\0")),
        ("a name without an end", of(1, 3, b"", b"lib")),
        ("a name that is longer than the payload", of(1, 100, b"", b"lib\0")),
        ("getxattr", of(22, 18, &[100], b"user.kpackfs.kind\0")),
        ("read", of(15, 0, &[0xFF; 24], b"")),
        ("a header that ends early", vec![1; 20]),
    ]
}

/// Small texts that would expand to much memory.
#[test]
fn texts_are_bounded() {
    let path = EntryPath::root();
    let fields = "a:\n".repeat(70_000);
    let error = Metadata::parse(format!("Name: x\nVersion: 1\n{fields}").into_bytes(), &path).unwrap_err();
    assert!(error.to_string().contains("more than 65536 fields"), "{error}");
    let error = WheelFile::parse(format!("Wheel-Version: 1.0\n{fields}").into_bytes(), &path).unwrap_err();
    assert!(error.to_string().contains("more than 65536 fields"), "{error}");
    for (name, version) in [("x".repeat(256), "1".to_owned()), ("x".to_owned(), "1".repeat(256))] {
        let error = Metadata::parse(format!("Name: {name}\nVersion: {version}\n").into_bytes(), &path).unwrap_err();
        assert!(error.to_string().contains("longer than 255"), "{error}");
    }
    let set = (0..300).map(|at| format!("a{at}")).collect::<Vec<_>>().join(".");
    let most = memory::most_during(|| {
        let error = WheelName::of_unpacked("x-1.dist-info", &[format!("{set}-{set}-{set}")], None).unwrap_err();
        assert!(error.to_string().contains("4096 tags"), "{error}");
    });
    assert!(most < 1 << 20, "{most}");
    let digest = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";
    let line = format!("a,sha256={digest},0\n");
    let a = EntryPath::new(b"a").unwrap();
    assert!(Claims::parse(line.as_bytes()).get(&a).is_some());
    let most = memory::most_during(|| {
        let claims = Claims::parse((line + &"b\n".repeat(1 << 20)).as_bytes());
        assert!(claims.get(&a).is_none(), "too many lines");
    });
    assert!(most < 16 << 20, "{most}");
    // A manifest takes at most a few times its length.
    let named = |count: usize| {
        String::from_utf8(manifest(""))
            .unwrap()
            .replace("{\"json", &format!("{{\"parts\":[{}],\"json", vec!["\"\""; count].join(",")))
    };
    assert_eq!(PartManifest::parse(named(4096).as_bytes()).unwrap().parts.len(), 4096);
    for text in [named(1 << 20).into_bytes(), manifest(&entries(100_000))] {
        let most = memory::most_during(|| drop(PartManifest::parse(&text)));
        assert!(most < 4 * text.len(), "{most} for {}", text.len());
    }
}
