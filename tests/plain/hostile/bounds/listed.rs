//! Inputs with many entries: directories, zip files, tar archives.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::Costly;
use super::binaries::library;
use crate::common::zeros;

pub(super) fn directory(place: &Path, scale: usize) -> Costly {
    let (tree, count) = (place.join("tree"), 2000 * scale);
    for directory in 0..count / 200 {
        let directory = tree.join(directory.to_string());
        fs::create_dir_all(&directory).unwrap();
        for number in 0..200 {
            fs::write(directory.join(format!("{number}{}", "x".repeat(200))), "x").unwrap();
        }
    }
    Costly::new(tree, count as u64 + count as u64 / 200, 210 * count as u64)
}

/// A directory of packages with what pip left of many upgrades.
pub(super) fn leftovers(place: &Path, scale: usize) -> Costly {
    let (site, count) = (place.join("site"), 8000 * scale);
    fs::create_dir_all(site.join("x-1.dist-info")).unwrap();
    fs::write(site.join("x.so"), library()).unwrap();
    for number in 0..count {
        fs::create_dir(site.join(format!("~{number}"))).unwrap();
    }
    Costly::new(site, count as u64, 8 * count as u64)
}

/// A wheel of stored members (APPNOTE.TXT 4.3): their name and content. The number of members in its end may be another one.
pub(super) fn wheel(place: &Path, members: impl Iterator<Item = (String, Vec<u8>)>, claimed: Option<u64>) -> PathBuf {
    wheel_at(place.join("x-1.0-py3-none-any.whl"), members, claimed)
}

fn wheel_at(path: PathBuf, members: impl Iterator<Item = (String, Vec<u8>)>, claimed: Option<u64>) -> PathBuf {
    let mut file = BufWriter::new(File::create(&path).unwrap());
    let (mut at, mut directory, mut count) = (0_u64, Vec::new(), 0_u64);
    for (name, bytes) in members {
        let deflated = if bytes.len() > 1 << 20 { miniz(&bytes) } else { None };
        let (method, stored) = deflated.as_ref().map_or((0_u16, &bytes), |packed| (8, packed));
        let sizes = [stored.len(), bytes.len()].map(|size| u32::try_from(size).unwrap().to_le_bytes()).concat();
        let common = [
            &[20, 0, 0, 0][..],
            &method.to_le_bytes(),
            &[0, 0x60, 0x5d, 0x58],
            &crc32fast::hash(&bytes).to_le_bytes(),
            &sizes,
            &u16::try_from(name.len()).unwrap().to_le_bytes(),
            &[0; 2],
        ]
        .concat();
        let header = [b"PK\x03\x04", &common[..], name.as_bytes()].concat();
        directory.extend([b"PK\x01\x02\x14\x03", &common[..], &[0; 6]].concat());
        directory.extend((0o100_644_u32 << 16).to_le_bytes());
        directory.extend([&u32::try_from(at).unwrap().to_le_bytes()[..], name.as_bytes()].concat());
        file.write_all(&header).unwrap();
        file.write_all(stored).unwrap();
        at += (header.len() + stored.len()) as u64;
        count += 1;
    }
    file.write_all(&directory).unwrap();
    let (start, claimed) = (at, claimed.unwrap_or(count));
    let end = start + directory.len() as u64;
    let mut zip64 = [b"PK\x06\x06", &44_u64.to_le_bytes()[..], &[45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    for field in [claimed, claimed, directory.len() as u64, start] {
        zip64.extend(field.to_le_bytes());
    }
    zip64.extend([b"PK\x06\x07\0\0\0\0", &end.to_le_bytes()[..], &[1, 0, 0, 0]].concat());
    zip64.extend([b"PK\x05\x06\0\0\0\0", &[0xff; 12][..], &[0; 2]].concat());
    file.write_all(&zip64).unwrap();
    path
}

fn miniz(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

/// The members of a wheel's dist-info, with these instead of the usual ones.
pub(super) fn dist_info(others: &[(&str, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let usual = [
        ("METADATA", b"Metadata-Version: 2.1\nName: x\nVersion: 1.0\n".to_vec()),
        ("WHEEL", b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n".to_vec()),
        ("RECORD", Vec::new()),
    ];
    let is_other = |name: &str| others.iter().any(|(other, _)| *other == name);
    let usual = usual.into_iter().filter(|(name, _)| !is_other(name));
    usual.chain(others.to_vec()).map(|(name, bytes)| (format!("x-1.0.dist-info/{name}"), bytes)).collect()
}

/// Wheels that do not belong together, each with device code, a text that is deflated, and what other wheels have.
pub(super) fn wheels(place: &Path, scale: usize) -> Costly {
    let (directory, count) = (place.join("wheels"), 100 + 20 * scale);
    fs::create_dir_all(&directory).unwrap();
    for number in 0..count {
        let name = format!("w{number}");
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n").into_bytes();
        let info =
            dist_info(&[("METADATA", metadata)]).into_iter().map(|(path, bytes)| (path.replacen('x', &name, 1), bytes));
        let files = [(format!("{name}/{name}.so"), library()), (format!("{name}/text.py"), b"x = 1\n".repeat(1 << 18))];
        wheel_at(directory.join(format!("{name}-1.0-py3-none-any.whl")), files.into_iter().chain(info), None);
    }
    let entries = 12 * count as u64;
    Costly::new(directory, entries, 40 * entries)
}

pub(super) fn members(place: &Path, scale: usize) -> Costly {
    let count = 20_000 * scale;
    let files = (0..count).map(|number| (format!("x/{}/member-{number}.py", number % 100), Vec::new()));
    let members = files.chain([("x/x.so".to_owned(), library())]).chain(dist_info(&[]));
    Costly::new(wheel(place, members, None), count as u64 + 110, 25 * count as u64)
}

pub(super) fn claimed_members(place: &Path, _: usize) -> Costly {
    let members = (0..600).map(|number| (format!("x/{number}"), Vec::new())).chain(dist_info(&[]));
    Costly::new(wheel(place, members, Some(1_000_000)), 610, 20_000)
}

/// A header of a tar archive (POSIX.1-2001), for content of this size.
pub(super) fn header(kind: ::tar::EntryType, name: &str, size: u64) -> ::tar::Header {
    let mut header = ::tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_path(name).unwrap();
    header.set_mode(0o644);
    header.set_size(size);
    header.set_cksum();
    header
}

pub(super) fn long_names(place: &Path, scale: usize) -> Costly {
    let (path, count) = (place.join("x.tar"), 2000 * scale);
    let mut tar = ::tar::Builder::new(BufWriter::new(File::create(&path).unwrap()));
    let directory = ["y".repeat(250), "z".repeat(250)].concat();
    let directory = format!("{directory:.250}");
    for number in 0..count {
        let name = format!("{}{number}", format!("{directory}/").repeat(15));
        let mut header = header(::tar::EntryType::Regular, "x", 0);
        tar.append_data(&mut header, &name, &[][..]).unwrap();
    }
    tar.into_inner().unwrap().flush().unwrap();
    Costly::new(path, count as u64, 3800 * count as u64)
}

/// No file system has such targets.
pub(super) fn long_targets(place: &Path, scale: usize) -> Costly {
    let path = place.join("x.tar.gz");
    let file = BufWriter::new(File::create(&path).unwrap());
    let mut tar = ::tar::Builder::new(flate2::write::GzEncoder::new(file, flate2::Compression::fast()));
    let target = "x/".repeat(400_000);
    for number in 0..100 + 20 * scale {
        let mut header = header(::tar::EntryType::Symlink, "x", 0);
        tar.append_link(&mut header, number.to_string(), &target).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap().flush().unwrap();
    Costly::new(path, 1, 0)
}

pub(super) fn hard_links(place: &Path, scale: usize) -> Costly {
    let (path, count, library) = (place.join("x.tar"), 4000 * scale, library());
    let mut tar = ::tar::Builder::new(BufWriter::new(File::create(&path).unwrap()));
    tar.append(&header(::tar::EntryType::Regular, "lib/a.so", library.len() as u64), &library[..]).unwrap();
    for number in 0..count {
        let mut header = header(::tar::EntryType::Link, &format!("lib/{number}.so"), 0);
        header.set_link_name("lib/a.so").unwrap();
        header.set_cksum();
        tar.append(&header, &[][..]).unwrap();
    }
    tar.into_inner().unwrap().flush().unwrap();
    Costly::new(path, count as u64, 12 * count as u64)
}

/// A tar archive each byte of which is a gzip file of its own.
pub(super) fn gzip_members(place: &Path, scale: usize) -> Costly {
    let (path, count) = (place.join("x.tar.gz"), 20_000 * scale);
    let size = u64::try_from(count).unwrap();
    let mut tar = ::tar::Builder::new(Vec::new());
    tar.append(&header(::tar::EntryType::Regular, "data", size), &vec![1; count][..]).unwrap();
    let mut file = BufWriter::new(File::create(&path).unwrap());
    for byte in tar.into_inner().unwrap() {
        let mut encoder = flate2::write::GzEncoder::new(&mut file, flate2::Compression::none());
        encoder.write_all(&[byte]).unwrap();
        encoder.finish().unwrap();
    }
    file.flush().unwrap();
    // 200 bytes are kept of a gzip member.
    Costly { tables: 200 * size, ..Costly::new(path, 1, 4) }
}

/// 160 MB of zeros in a frame of some KB.
pub(super) fn window(place: &Path, _: usize) -> Costly {
    let path = place.join("x.tar.zst");
    let mut encoder = zstd::Encoder::new(File::create(&path).unwrap(), 1).unwrap();
    encoder.window_log(27).unwrap();
    let size = 160 << 20;
    let mut tar = ::tar::Builder::new(encoder);
    tar.append(&header(::tar::EntryType::Regular, "zeros", size), zeros(size)).unwrap();
    tar.into_inner().unwrap().finish().unwrap();
    Costly { window: 128 << 20, ..Costly::new(path, 1, 5) }
}

/// The same of xz, whose encoder would take more memory than the test allows.
pub(super) fn xz_window(place: &Path, _: usize) -> Costly {
    const MAKE: &str = "import io, lzma, sys, tarfile
filters = [{'id': lzma.FILTER_LZMA2, 'dict_size': 128 << 20, 'mode': lzma.MODE_FAST, 'mf': lzma.MF_HC3, 'nice_len': 273}]
member = tarfile.TarInfo('zeros')
member.size = 160 << 20
with lzma.open(sys.argv[1], 'wb', filters=filters) as out, tarfile.open(fileobj=out, mode='w|') as tar:
    tar.addfile(member, open('/dev/zero', 'rb'))
";
    let path = place.join("x.tar.xz");
    assert!(std::process::Command::new("python3").args(["-c", MAKE]).arg(&path).status().unwrap().success());
    Costly { window: 128 << 20, ..Costly::new(path, 1, 5) }
}
