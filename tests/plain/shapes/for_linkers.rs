//! LLVM bitcode, and object files for Windows, which linkers read.

use kpackfs::devicecode::{DeviceCodePlace, DeviceForm};
use kpackfs::split::Fate;

use crate::common::{self, fixture, program};
use crate::shapes::bundle_files::{bundle, three};
use crate::shapes::device_code::{only, search};
use crate::shapes::made_code::{static_library, with_data, zstd};

/// Appends a number as so many bits, the lowest first.
fn put(bits: &mut Vec<bool>, number: u64, width: u32) {
    bits.extend((0..width).map(|bit| number >> bit & 1 == 1));
}

/// The same in pieces of some bits, each of which says whether another one follows.
fn put_variable(bits: &mut Vec<bool>, mut number: u64, width: u32) {
    let more = 1 << (width - 1);
    while number >= more {
        put(bits, more | (number % more), width);
        number /= more;
    }
    put(bits, number, width);
}

/// A block with this ID, whose abbreviation IDs have `inner` bits, in one where they have `width`. It has two words.
fn put_block(bits: &mut Vec<bool>, id: u64, width: u32, inner: u64) {
    put(bits, 1, width);
    put_variable(bits, id, 8);
    put_variable(bits, inner, 4);
    bits.resize(bits.len().next_multiple_of(32), false);
    put(bits, 2, 32);
}

/// LLVM bitcode up to its triple, and nothing behind that ("LLVM Bitcode File Format").
fn bitcode(triple: &str) -> Vec<u8> {
    bitcode_behind(1, triple)
}

/// The same with so many values in a record before it.
fn bitcode_behind(values: usize, triple: &str) -> Vec<u8> {
    let mut bits = Vec::new();
    put(&mut bits, 0xDEC0_4342, 32);
    put_block(&mut bits, 13, 2, 5);
    put(&mut bits, u64::MAX, 64);
    put_block(&mut bits, 8, 2, 3);
    for (code, values) in [(1, vec![2; values]), (2, triple.bytes().collect())] {
        put_block(&mut bits, 17, 3, 4);
        put(&mut bits, 0x1234_5678, 64);
        put(&mut bits, 3, 3);
        put_variable(&mut bits, code, 6);
        put_variable(&mut bits, values.len() as u64, 6);
        for value in values {
            put_variable(&mut bits, u8::into(value), 6);
        }
    }
    let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
    bits.chunks(8).map(byte).collect()
}

/// A static library with long names between headers and content, as BSD writes them.
fn bsd_library(member: &[u8]) -> Vec<u8> {
    let size = member.len() + 24;
    let header = format!("{:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", "#1/24", 0, 0, 0, 644);
    [b"!<arch>\n", header.as_bytes(), b"a-longer-name-of-unit.o\0", member].concat()
}

#[test]
fn bitcode_is_named_by_its_triple() {
    for (triple, form) in [
        ("amdgcn-amd-amdhsa", DeviceForm::Bitcode),
        ("amdgcn--", DeviceForm::Bitcode),
        ("x86_64-unknown-linux-gnu", DeviceForm::HostBitcode),
        ("aarch64-pc-windows-msvc19.33.0", DeviceForm::HostBitcode),
        ("nvptx64-nvidia-gpulibs", DeviceForm::NvidiaFatbin),
        ("spir64-unknown-unknown", DeviceForm::Sycl),
    ] {
        let module = bitcode(triple);
        let size = u32::try_from(module.len()).unwrap();
        let fields = [0x0B17_C0DE, 0, 20, size, 7].map(u32::to_le_bytes).concat();
        let wrapped = [fields, module.clone()].concat();
        for (name, bytes, place, size) in [
            ("unit.o", module.clone(), DeviceCodePlace::File, module.len()),
            ("unit.bc", wrapped.clone(), DeviceCodePlace::File, wrapped.len()),
            ("unit.a", static_library(&[b"text", &module]), DeviceCodePlace::Object, module.len()),
            ("wrapped.a", static_library(&[&wrapped, b"text"]), DeviceCodePlace::Object, wrapped.len()),
            ("bsd.a", bsd_library(&module), DeviceCodePlace::Object, module.len()),
        ] {
            let (fate, found) = only(name, bytes);
            assert_eq!((fate, found.form, found.place), (Fate::Stays, form, place), "{triple} in {name}");
            assert_eq!((found.pieces, found.size), (1, size as u64), "{triple} in {name}");
            assert_eq!((found.targets.len(), found.unknown.code_objects), (0, 1), "{triple} in {name}");
        }
        let (_, found) = only("unit.bc.zst", zstd(&module, true));
        assert_eq!(found.form, form, "{triple}");
        // COMGR has AMD's device libraries in its data.
        let in_data = search(&[("module.so", with_data(&module)), ("frame.so", with_data(&zstd(&module, true)))]);
        assert!(in_data.is_empty(), "{triple}: {in_data:?}");
    }
    for damaged in [
        &b"BC\xc0\xde"[..],
        &[b"BC\xc0\xde", &[0xff; 4096][..]].concat(),
        &[b"\xde\xc0\x17\x0b", &[0xff; 64][..]].concat(),
        // Only 64 KiB are read.
        &bitcode_behind(100_000, "amdgcn-amd-amdhsa"),
    ] {
        assert_eq!(only("unit.o", damaged.to_vec()).1.form, DeviceForm::HostBitcode);
    }
}

/// Compilers read AMD's device libraries. What `-flto` wrote may have code that nobody has seen.
#[test]
fn device_libraries_need_no_judgement() {
    let place = tempfile::tempdir().unwrap();
    common::put(place.path().join("libx.so"), fixture("plain.so"));
    let judged = |name: &str, triple: &str| {
        let file = place.path().join(name);
        common::put(&file, bitcode(triple));
        let arguments = ["inspect", "--no-cache", "--require", "gfx90a", "--require-judged"];
        let output = program().args(arguments).arg(place.path()).output().unwrap();
        std::fs::remove_file(file).unwrap();
        output.status.code()
    };
    assert_eq!(judged("amdgcn/bitcode/ocml.bc", "amdgcn-amd-amdhsa"), Some(0));
    assert_eq!(judged("unit.o", "amdgcn-amd-amdhsa"), Some(1));
    assert_eq!(judged("unit.bc", "x86_64-unknown-linux-gnu"), Some(1));
}

/// `-flto` writes it for each file of a host. It may have code, and is none.
#[test]
fn bitcode_of_a_host_is_called_unsearched() {
    let place = tempfile::tempdir().unwrap();
    common::put(place.path().join("unit.o"), bitcode("x86_64-unknown-linux-gnu"));
    let output = program().args(["inspect", "--no-cache"]).arg(place.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("1 file with LLVM bitcode of a host is not searched (unit.o)"), "{said}");
}

/// Those of other machines and of programs are none: they have no sections, or an optional header.
#[test]
fn object_files_for_windows_are_searched() {
    let code = bundle(&three(), 4096);
    let header = |machine: u16, sections: u16, optional: u16| {
        let fields = [machine, sections, 0, 0, 0, 0, 0, 0, optional, 0].map(u16::to_le_bytes).concat();
        [fields, vec![0; 40], code.clone()].concat()
    };
    let class = b"\xc7\xa1\xba\xd1\xee\xba\xa9\x4b\xaf\x20\xfa\xf6\x6a\xa4\xdc\xb8";
    let many = [&b"\0\0\xff\xff\x02\0\x64\x86\0\0\0\0"[..], class, &[0; 60], &code].concat();
    for (name, bytes) in [
        ("x86_64.obj", header(0x8664, 1, 0)),
        ("mingw.o", header(0x8664, 10, 0)),
        ("arm.obj", header(0xAA64, 300, 0)),
        ("x86.obj", header(0x14C, 1, 0)),
        ("many.obj", many),
    ] {
        let (fate, found) = only(name, bytes);
        let expected = (Fate::Stays, DeviceForm::Bundle, DeviceCodePlace::Object, code.len() as u64);
        assert_eq!((fate, found.form, found.place, found.size), expected, "{name}");
        assert_eq!(found.targets.len(), 3, "{name}");
    }
    for other in [header(0x8664, 0, 0), header(0x8664, 1, 240), header(0x8665, 1, 0)] {
        assert!(search(&[("other", other)]).is_empty());
    }
}
