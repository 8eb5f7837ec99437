//! Files in which device code may be, and which are not searched.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::common::{code_object, fixture, program, succeeds};
use crate::forms::made::zipped;

#[track_caller]
fn says(place: &Path, arguments: &[&str], code: i32, words: &str) {
    let output = program().args(arguments).current_dir(place).output().unwrap();
    let said = [&*output.stdout, &*output.stderr].map(|text| String::from_utf8_lossy(text)).join("\n");
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(words), "{arguments:?}: {said}");
}

#[test]
fn archives_of_other_formats_are_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir_all(place.join("in/share")).unwrap();
    fs::write(place.join("in/share/kernels.tar"), [&[b'k'; 512], &*code_object(0x4c)].concat()).unwrap();
    says(place, &["inspect", "in"], 0, "1 archive in it is not searched (share/kernels.tar)");
    says(place, &["inspect", "in", "--require", "gfx942"], 1, "share/kernels.tar: an archive, which is not searched");
    says(place, &["why", "in", "--target", "gfx942"], 4, "share/kernels.tar (an archive, which is not searched)");
    says(place, &["diff", "in", "in"], 0, "1 archive in it is not searched (share/kernels.tar)");
}

/// Each is named as what it is, also as an input of its own.
#[test]
fn what_has_to_be_unpacked_first_is_named() {
    const RUNTIME: &[u8] = b"\x7fELF\x02\x01\x01\0AI\x02";
    const SIF: &[u8] = b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC";
    let boot_block = [&[7; 510][..], &[0x55, 0xaa]].concat();
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    for (name, magic, what) in [
        ("app.AppImage", RUNTIME, "an AppImage; run it with --appimage-extract, and name the directory"),
        ("tool", RUNTIME, "an AppImage"),
        ("rocm.tar.lz4", b"\x04\x22\x4d\x18", "compressed with lz4; decompress it with unlz4"),
        ("k.hsaco.lz4", b"\x04\x22\x4d\x18", "compressed with lz4"),
        ("root.img", b"hsqs", "a squashfs image; unpack it with unsquashfs"),
        ("x.pkg", b"xar!", "a xar archive; unpack it with xar -xf"),
        ("thin.a", b"!<thin>\n", "a thin static library, which names its object files"),
        ("x.sif", SIF, "an image of Apptainer; unpack it with apptainer build --sandbox"),
        ("x.iso", &[vec![0; 0x8001], b"CD001".to_vec()].concat(), "an ISO 9660 image; unpack it with bsdtar -xf"),
        ("hybrid", &[&boot_block[..], &vec![7; 0x7e01], b"CD001"].concat(), "an ISO 9660 image"),
        ("disk.img", &[&[0; 0x438][..], &[0x53, 0xef, 1, 0]].concat(), "an ext4 image; unpack it with debugfs -R"),
    ] {
        fs::create_dir(place.join("in")).unwrap();
        fs::write(place.join("in").join(name), [magic, &[0; 4096]].concat()).unwrap();
        says(place, &["inspect", "in"], 0, &format!("1 archive in it is not searched ({name})"));
        says(
            place,
            &["inspect", "in", "--require", "gfx942"],
            1,
            &format!("{name}: an archive, which is not searched"),
        );
        says(place, &["why", "in", "--target", "gfx942"], 4, &format!("{name} (an archive, which is not searched)"));
        says(place, &["split", "in", "-o", "out"], 1, &format!("({name})"));
        let file = format!("in/{name}");
        for command in [&["inspect"][..], &["why", "--target", "gfx942"], &["verify"], &["split", "-o", "out"]] {
            says(place, &[command, &[&*file]].concat(), 5, &format!("{file}: {what}"));
        }
        fs::remove_dir_all(place.join("in")).unwrap();
    }
}

/// They are read after they were decompressed. Object files are not, of which a kernel has thousands as modules.
#[test]
fn compressed_libraries_are_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir(place.join("in")).unwrap();
    let mut object = fixture("plain.so");
    object[16] = 1;
    for (name, bytes, is_named) in [
        ("x.so.zst", fixture("plain.so"), true),
        ("x.dll.gz", fixture("win.exe"), true),
        ("initrd", cpio(b"070701"), true),
        ("x.iso.zst", iso(), true),
        ("x.a.zst", b"!<arch>\nx.o/            ".to_vec(), true),
        ("x.zip.zst", zipped(&[("x.so", fixture("plain.so"))]), true),
        ("x.ko.zst", object, false),
        ("x.txt.zst", b"text".to_vec(), false),
    ] {
        fs::write(place.join("in").join(name), zstd::bulk::compress(&bytes, 3).unwrap()).unwrap();
        let words = if is_named { "1 archive in it is not searched" } else { "contains no device code" };
        says(place, &["inspect", "in"], 0, words);
        says(place, &["inspect", "in", "--require", "gfx942"], 1, if is_named { name } else { "Nothing has code" });
        fs::remove_file(place.join("in").join(name)).unwrap();
    }
}

/// An image of ISO 9660 begins with zeros, as an empty tar archive does.
fn iso() -> Vec<u8> {
    [&*b"\0".repeat(0x8001), b"CD001", &[0; 2048]].concat()
}

/// The header of a file in a cpio archive, of digits: cpio(5), "FORMAT".
fn cpio(magic: &[u8]) -> Vec<u8> {
    [magic, &[b'0'; 104][..]].concat()
}

#[test]
fn archives_are_known_by_what_is_in_them() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let disks = |mut zip: Vec<u8>| {
        // APPNOTE.TXT 4.3.16: the number of this volume is 4 bytes behind the signature.
        let at = zip.len() - 22 + 4;
        zip[at] = 3;
        zip
    };
    let volume = "one volume of a zip file; join all volumes with zip -s 0 a.zip --out b.zip";
    let (packed, none) = ("1 archive in it is not searched (x.so.1.bz2)", "contains no device code");
    for (bytes, in_a_tree, alone) in [
        (cpio(b"070701"), packed, "a cpio archive; unpack it with cpio -id"),
        (cpio(b"070707"), packed, "a cpio archive; unpack it with cpio -id"),
        (b"070701 part of a list\n".repeat(9), none, "no known format"),
        (b"070707".to_vec(), none, "no known format"),
        (zstd::bulk::compress(&iso(), 3).unwrap(), packed, "an ISO 9660 image"),
        (b"PK\x07\x08PK\x03\x04".to_vec(), none, volume),
        (disks(zipped(&[("x.so", fixture("plain.so"))])), packed, volume),
        (b"BZh91AY&SY".to_vec(), packed, "compressed with bzip2"),
    ] {
        let name = if bytes.starts_with(b"BZ") { "x.so.1.bz2" } else { "parts" };
        crate::common::put(place.join("in").join(name), bytes);
        says(place, &["inspect", "in"], 0, &in_a_tree.replace("x.so.1.bz2", name));
        says(place, &["inspect", &format!("in/{name}")], 5, alone);
        fs::remove_dir_all(place.join("in")).unwrap();
    }
    crate::common::put(place.join("in/x.so.patch.bz2"), b"BZh91AY&SY");
    says(place, &["inspect", "in"], 0, none);
}

/// `unzip` and tar read one of them only.
#[test]
fn what_is_joined_to_an_archive_is_not_searched() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let zip = zipped(&[("lib/x.so", fixture("plain.so"))]);
    let tar = tar([("lib/x.so", &fixture("plain.so")), ("README", b"text")]);
    let commented = [&zip[..zip.len() - 2], &[4, 0], b"text"].concat();
    let program = [&*fixture("host-only.so"), &zip, &zip].concat();
    let of_zip = "as a zip file that is joined to it";
    for (name, joined, words) in [
        ("x.zip", [&*b"s".repeat(70_000), &zip, &zip].concat(), of_zip),
        ("x.zip", [&commented, &*zip].concat(), of_zip),
        ("x.tar", tar.repeat(2), "another archive follows"),
        ("app", program, "1 archive in it is not searched (app)"),
        ("empty.zip", [zip, zipped(&[])].concat(), of_zip),
    ] {
        let file = format!("in/{name}");
        crate::common::put(place.join(&file), joined);
        says(place, &["inspect", "in"], 0, &format!("1 archive in it is not searched ({name})"));
        says(place, &["inspect", &file], 0, words);
        for input in ["in", &*file] {
            says(place, &["inspect", input, "--require", "gfx90a", "--require-judged"], 1, name);
        }
        if name != "empty.zip" {
            says(place, &["inspect", "in", "--require", "gfx90a"], 0, &format!("{name}/lib/x.so"));
            says(place, &["why", "in", "--target", "gfx90a"], 0, &format!("{name}/lib/x.so"));
        }
        fs::remove_file(place.join(file)).unwrap();
    }
}

/// The bytes of a member without a row in the directory are still there.
#[test]
fn a_zip_file_is_not_joined_to_a_member_that_was_removed() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let mut zip = zipped(&[("gone", b"text".to_vec()), ("lib/x.so", fixture("plain.so"))]);
    // APPNOTE.TXT 4.3.12 and 4.3.16: a row has 46 bytes and the name, and the end of the directory its numbers of rows at 8 and 10, its
    // length at 12 and where it begins at 16.
    let (end, removed) = (zip.len() - 22, 46 + 4);
    let field = |at: usize| u32::from_le_bytes(zip[at..at + 4].try_into().unwrap());
    let (length, start) = (field(end + 12), usize::try_from(field(end + 16)).unwrap());
    zip[end + 8..end + 12].copy_from_slice(&[1, 0, 1, 0]);
    zip[end + 12..end + 16].copy_from_slice(&(length - removed).to_le_bytes());
    zip.drain(start..start + usize::try_from(removed).unwrap());
    crate::common::put(place.join("in/x.zip"), zip);
    for input in ["in", "in/x.zip"] {
        says(place, &["inspect", input, "--require", "gfx90a", "--require-judged"], 0, "lib/x.so");
    }
}

#[test]
fn code_that_is_not_for_amd_is_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir(place.join("in")).unwrap();
    let mut cubin = code_object(0x4c);
    cubin[18] = 190;
    fs::write(place.join("in/k.cubin"), cubin).unwrap();
    let fatbin = [&b"\x50\xed\x55\xba\x01\0\x10\0\x20\0\0\0\0\0\0\0"[..], &[0; 32]].concat();
    fs::write(place.join("in/k.fatbin"), &fatbin).unwrap();
    let all = "there is device code, none of which is for AMD's GPUs: in/k.cubin (NVIDIA's cubin), in/k.fatbin (NVIDIA's code)";
    says(place, &["why", "in", "--target", "gfx942"], 4, all);
    says(place, &["why", "in", "--binary", "k.cubin", "--target", "gfx942"], 4, "GPUs: in/k.cubin (NVIDIA's cubin)\n");
    let all = "has device code, none of which is for AMD's GPUs: k.cubin (NVIDIA's cubin), k.fatbin (NVIDIA's code)";
    for (command, code) in [(&["inspect", "in"][..], 0), (&["split", "in", "-o", "out"], 1), (&["diff", "in", "in"], 0)]
    {
        says(place, command, code, all);
    }
    says(place, &["inspect", "in", "--require", "gfx942"], 1, all);
    for command in [&["inspect", "in/k.fatbin"][..], &["why", "in/k.fatbin", "--target", "gfx942"]] {
        says(place, command, 5, "in/k.fatbin: code for NVIDIA's GPUs, and none for AMD's");
    }
    // Where there is code for AMD's GPUs, that is the answer.
    fs::write(place.join("in/k.co"), code_object(0x4c)).unwrap();
    says(place, &["why", "in", "--target", "gfx942"], 0, "k.co");
    says(place, &["why", "in", "--target", "gfx1100"], 1, "k.co");
    says(place, &["inspect", "in"], 0, "k.co");
}

/// A tar archive with two files.
fn tar(files: [(&str, &[u8]); 2]) -> Vec<u8> {
    let mut made = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        made.append_data(&mut header, path, bytes).unwrap();
    }
    made.into_inner().unwrap()
}

/// kpackfs depends on nothing that writes xz.
fn xz(bytes: &[u8], preset: u8) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    let script = "import lzma, sys; data = open(sys.argv[1], 'rb').read(); open(sys.argv[1], 'wb').write(lzma.compress(data, preset=int(sys.argv[2])))";
    succeeds(Command::new("python3").args(["-c", script]).arg(file.path()).arg(preset.to_string()));
    fs::read(file.path()).unwrap()
}

/// A frame that states a window of 64 MiB.
fn long_window(bytes: &[u8]) -> Vec<u8> {
    let mut made = zstd::Encoder::new(Vec::new(), 3).unwrap();
    made.window_log(26).unwrap();
    made.write_all(bytes).unwrap();
    made.finish().unwrap()
}

#[test]
fn archives_in_an_input_are_searched() {
    let code = code_object(0x4c);
    let inner = tar([("a", b""), ("b", b"")]);
    let plain = tar([("kernels/k.co", &code), ("README", b"text")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    let gzipped = gzip.finish().unwrap();
    for (name, bytes) in [
        ("k.tar", plain.clone()),
        ("k.tgz", gzipped.clone()),
        ("k.tar.zst", zstd::bulk::compress(&plain, 3).unwrap()),
        ("k.zip", zipped(&[("kernels/k.co", code.clone())])),
        ("k.pt2", zipped(&[("kernels/k.co", code.clone())])),
        ("k.img", plain.clone()),
        ("weights.bin", gzipped),
        ("k.tzst", zstd::bulk::compress(&plain, 19).unwrap()),
        ("k.dat", xz(&plain, 6)),
        ("k.xz9", xz(&plain, 9)),
        ("k.long", long_window(&plain)),
    ] {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        fs::create_dir_all(place.join("in/share")).unwrap();
        fs::write(place.join("in/share").join(name), bytes).unwrap();
        let path = format!("share/{name}/kernels/k.co");
        says(place, &["inspect", "in", "--json"], 0, &format!("\"path\": \"{path}\""));
        says(place, &["inspect", "in", "--require", "gfx942", "--require-judged"], 0, "code for gfx942");
        says(place, &["inspect", "in", "--require", "gfx1100"], 1, "it has code for gfx942 only");
        says(place, &["why", "in", "--target", "gfx942"], 0, &path);
        says(place, &["why", "in", "--target", "gfx1100"], 1, "gfx942");
        fs::write(place.join("in/share").join(name), tar([("in.tar", &inner), ("README", b"text")])).unwrap();
        let warning = format!("1 archive in it is not searched (share/{name}/in.tar)");
        says(place, &["inspect", "in"], 0, &warning);
    }
}

/// As applications of Python and installers of games are made.
#[test]
fn what_is_behind_a_program_is_searched() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir_all(place.join("in/bin")).unwrap();
    let files = zipped(&[("kernels/k.co", code_object(0x4c))]);
    let commented = [&files[..files.len() - 2], &[4, 0], b"text"].concat();
    for (program, name) in [("host-only.so", "app"), ("plain.so", "fat.so"), ("win.exe", "x.zip")] {
        for zip in [&files, &commented] {
            fs::write(place.join("in/bin").join(name), [&*fixture(program), zip].concat()).unwrap();
            let (file, path) = (format!("in/bin/{name}"), format!("{name}/kernels/k.co"));
            for input in ["in", &*file] {
                says(place, &["inspect", input, "--json"], 0, &format!("{path}\""));
            }
            if program == "host-only.so" {
                says(place, &["inspect", "in", "--require", "gfx942"], 0, "gfx942");
                says(place, &["why", "in", "--target", "gfx942"], 0, &path);
                says(place, &["why", &file, "--target", "gfx1100"], 1, &path);
            }
        }
        fs::remove_file(place.join("in/bin").join(name)).unwrap();
    }
}

/// As `AppImage` (squashfs), makeself and `PyInstaller` make programs that unpack themselves. The cookie of the last one is 88 bytes, of which
/// the first eight are its magic (its archive/writers.py).
#[test]
fn archives_that_are_not_read_behind_programs_are_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir_all(place.join("in/bin")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar([("kernels/k.co", &code_object(0x4c)), ("README", b"text")])).unwrap();
    let gzip = gzip.finish().unwrap();
    let script = |behind: &[u8]| [b"#!/bin/sh\nexit 0\n", behind, &b"7".repeat(64 << 10)].concat();
    let plain = tar([("kernels/k.co", &code_object(0x4c)), ("README", b"text")]);
    let python = [&*b"7".repeat(64 << 10), b"MEI\x0c\x0b\x0a\x0b\x0e", &[1; 80]].concat();
    let program = |behind: &[u8]| [&*fixture("host-only.so"), behind].concat();
    for app in
        [program(&[b"hsqs", &[0; 92][..]].concat()), program(&gzip), program(&python), script(&gzip), script(&plain)]
    {
        fs::write(place.join("in/bin/app"), &app).unwrap();
        // A script alone is no input.
        let inputs = if app.starts_with(b"#!") { &["in"][..] } else { &["in", "in/bin/app"] };
        for input in inputs {
            says(place, &["inspect", input], 0, "1 archive in it is not searched");
            says(place, &["inspect", input, "--require", "gfx942"], 1, "app: an archive, which is not searched");
            says(place, &["why", input, "--target", "gfx942"], 4, "app (an archive, which is not searched)");
        }
    }
    fs::write(place.join("in/bin/app"), program(&b"\0".repeat(128 << 10))).unwrap();
    says(place, &["inspect", "in"], 0, "It contains no device code");
    says(place, &["why", "in", "--target", "gfx942"], 4, "nothing there has device code");
}

/// A zip file with one member, stored or deflated.
fn zip_of(bytes: &[u8], method: zip::CompressionMethod) -> Vec<u8> {
    let mut made = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    made.start_file("kernels/k.co", zip::write::SimpleFileOptions::default().compression_method(method)).unwrap();
    made.write_all(bytes).unwrap();
    made.finish().unwrap().into_inner()
}

#[test]
fn code_behind_a_program_is_counted_once() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir_all(place.join("in/bin")).unwrap();
    let code = code_object(0x4c);
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        // The code before the zip file belongs to the program.
        let app = [&*fixture("host-only.so"), &code, &zip_of(&code, method)].concat();
        let paths = |input: &str| -> Vec<String> {
            let output = program().args(["inspect", input, "--json"]).current_dir(place).output().unwrap();
            let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let code = report["device_code"].as_array().unwrap();
            code.iter().map(|it| format!("{} {}", it["path"].as_str().unwrap(), it["pieces"])).collect()
        };
        fs::write(place.join("in/bin/app"), &app).unwrap();
        assert_eq!(paths("in"), ["bin/app 1", "bin/app/kernels/k.co 1"], "{method}");
        fs::remove_file(place.join("in/bin/app")).unwrap();
        fs::write(place.join("in/app.tar"), tar([("app", &app), ("README", b"text")])).unwrap();
        assert_eq!(paths("in"), ["app.tar/app 1"], "{method}");
        says(place, &["inspect", "in"], 0, "1 archive in it is not searched (app.tar/app)");
        fs::remove_file(place.join("in/app.tar")).unwrap();
    }
}

/// As uv installs a package into a directory of its own.
#[test]
fn a_package_of_symlinks_is_not_said_to_have_no_code() {
    const TEXT: &str = "Metadata-Version: 2.1\nWheel-Version: 1.0\nName: p\nVersion: 1\nTag: py3-none-any\n";
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let info = place.join("in/p-1.dist-info");
    fs::create_dir_all(&info).unwrap();
    for name in ["METADATA", "WHEEL", "RECORD"] {
        fs::write(info.join(name), TEXT).unwrap();
    }
    fs::write(place.join("p.so"), fixture("plain.so")).unwrap();
    std::os::unix::fs::symlink(place.join("p.so"), place.join("in/p.so")).unwrap();
    says(
        place,
        &["split", "in", "-o", "out"],
        5,
        "symlinks that lead out of it that were not looked into (1, such as p.so)",
    );
}

/// The method of compression is one that is not read.
#[test]
fn members_that_cannot_be_read_are_named() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir_all(place.join("in")).unwrap();
    let mut zip = zip_of(&code_object(0x4c), zip::CompressionMethod::Stored);
    // APPNOTE.TXT 4.3.7 and 4.3.12: the method has two bytes, 8 and 10 bytes behind the signatures. 12 is bzip2.
    let directory = zip.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    (zip[8], zip[directory + 10]) = (12, 12);
    fs::write(place.join("in/k.zip"), zip).unwrap();
    says(place, &["inspect", "in"], 0, "not searched to the end");
    says(place, &["inspect", "in", "--require", "gfx942"], 1, "k.zip/kernels/k.co: not searched to the end");
    says(place, &["why", "in", "--target", "gfx942"], 4, "k.zip/kernels/k.co (not searched to the end)");
}

/// Image layouts call their layers by a digest.
#[test]
fn layers_in_an_image_layout_are_searched() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let blobs = place.join("in/image/blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let layer = tar([("k.co", &code_object(0x4c)), ("README", b"text")]);
    let blob = blobs.join("5e".repeat(32));
    fs::write(&blob, zstd::bulk::compress(&layer, 3).unwrap()).unwrap();
    says(place, &["inspect", "in"], 0, "/k.co");
    fs::write(&blob, zstd::bulk::compress(b"text", 3).unwrap()).unwrap();
    says(place, &["inspect", "in"], 0, "no device code");
}

#[test]
fn diff_names_code_in_xz() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir(place.join("in")).unwrap();
    fs::write(place.join("in/k.hsaco.xz"), b"\xfd7zXZ\0and more").unwrap();
    says(place, &["diff", "in", "in"], 0, "it has 1 file with device code");
    says(place, &["why", "in", "--target", "gfx942"], 4, "k.hsaco.xz (xz)");
}

/// Its parts are not where they are installed, so no library leads to its archives.
#[test]
fn a_packed_split_is_not_looked_into() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    fs::create_dir_all(place.join("in/lib")).unwrap();
    fs::write(place.join("in/lib/plain.so"), fixture("plain.so")).unwrap();
    says(place, &["split", "in", "-o", "parts"], 0, "");
    succeeds(Command::new("tar").args(["-C", "parts", "-czf", "parts.tgz", "."]).current_dir(place));
    for command in [&["inspect"][..], &["verify"], &["why", "--target", "gfx90a"], &["split", "-o", "out"]] {
        says(
            place,
            &[command, &["parts.tgz"]].concat(),
            5,
            "splits that were not looked into (1, such as .kpackfs/split.json)",
        );
    }
    says(place, &["why", "parts", "--target", "gfx90a"], 0, "plain.so");
}

/// A wheel in a tree is an archive like others.
#[test]
fn wheels_in_a_tree_are_searched() {
    let place = tempfile::tempdir().unwrap();
    let fat = fixture("plain.so");
    for name in ["sub/x.zip", "sub/x-1-py3-none-any.whl"] {
        let tree = tempfile::tempdir_in(place.path()).unwrap();
        crate::common::put(tree.path().join("liby.so"), &fat);
        crate::common::put(tree.path().join(name), zipped(&[("x/libx.so", fat.clone())]));
        let (code, said) = crate::common::ran(tree.path(), &["inspect", ".", "--require", "gfx942"]);
        assert!(code == Some(1) && said.contains(name), "{name}: {code:?} {said}");
    }
}

/// What a symlink leads to outside of a tree is looked at, and named if it has code.
#[test]
fn symlinks_out_of_a_tree_are_looked_at() {
    let place = tempfile::tempdir().unwrap();
    for (name, fixture_of) in [("plain.so", Some("plain.so")), ("host.so", Some("host-only.so")), ("text", None)] {
        crate::common::put(place.path().join("store").join(name), fixture_of.map_or_else(|| b"text".to_vec(), fixture));
    }
    let tree = place.path().join("tree");
    crate::common::put(tree.join("README"), "text");
    let link = |name| std::os::unix::fs::symlink(place.path().join("store").join(name), tree.join(name)).unwrap();
    link("host.so");
    let (code, said) = crate::common::ran(place.path(), &["inspect", "tree"]);
    assert!(code == Some(0) && said.contains("contains no device code"), "{code:?} {said}");
    for name in ["plain.so", "text"] {
        link(name);
        let (code, said) = crate::common::ran(place.path(), &["inspect", "tree"]);
        assert!(code == Some(5) && said.contains(name), "{code:?} {said}");
        fs::remove_file(tree.join(name)).unwrap();
    }
    link("plain.so");
    crate::common::put(tree.join("liby.so"), fixture("plain.so"));
    let (code, said) = crate::common::ran(place.path(), &["inspect", "tree", "--require", "gfx90a"]);
    let named = said.contains("plain.so: a symlink to the library with device code");
    assert!(code == Some(0) && named, "{code:?} {said}");
}

/// As a process of that root follows them.
#[test]
fn symlinks_of_an_unpacked_root_are_followed_in_it() {
    let place = tempfile::tempdir().unwrap();
    let (root, elsewhere) = (place.path().canonicalize().unwrap().join("root"), place.path().join("elsewhere.so"));
    for file in [root.join("opt/rocm/own.so"), root.join("srv/kpackfs.so"), elsewhere.clone()] {
        crate::common::put(file, fixture("plain.so"));
    }
    crate::common::put(root.join("etc/os-release"), "ID=demo");
    fs::create_dir(root.join("usr")).unwrap();
    for (target, from_rocm) in [(Path::new("/srv/kpackfs.so"), "root/srv/kpackfs.so"), (&elsewhere, "")] {
        let link = root.join("opt/rocm/link.so");
        std::os::unix::fs::symlink(target, &link).unwrap();
        for (input, named) in [("root/opt/rocm", from_rocm), ("root", "")] {
            let (code, said) = crate::common::ran(place.path(), &["inspect", input]);
            let is_named = said.contains("a symlink to the library with device code");
            assert!(code == Some(0) && is_named != named.is_empty() && said.contains(named), "{input}: {said}");
        }
        fs::remove_file(link).unwrap();
    }
}

/// Of a deflated library, only all of its data shows that it has wrappers.
#[test]
fn a_library_that_registers_its_code_by_dlsym_is_split_if_it_is_unpacked() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let mut library = fixture("plain.so");
    let name = b"__hipRegisterFatBinary";
    for at in memchr::memmem::find_iter(&library.clone(), name) {
        library[at + name.len() - 1] = b'!';
    }
    fs::create_dir(place.join("in")).unwrap();
    fs::write(place.join("in/plain.so"), &library).unwrap();
    fs::write(place.join("k.zip"), zipped(&[("plain.so", library)])).unwrap();
    says(place, &["inspect", "k.zip"], 0, "looked up by dlsym: then it is split if the input is unpacked first");
    says(place, &["inspect", "in"], 0, "gfx90a");
    let found = crate::common::ran(place, &["inspect", "in"]).1;
    assert!(!found.contains("by address"), "{found}");
}
