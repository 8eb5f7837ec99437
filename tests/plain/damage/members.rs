//! Members of wheels: deflated ones of one chunk and of many, and stored ones, with damage in front, in the middle and
//! behind. Damage has a place if the decoder meets it, and none if only the CRC-32 shows it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use crate::common::mounts::Mount;
use crate::common::{fixture, program};
use crate::damage::support::{Member, deflate, noise, write_wheel};

const WHEEL: &str = "demo-1.0-py3-none-any.whl";
const RECORD: &str = "host/demo-1.0.dist-info/RECORD";

/// Members of one chunk and of many (`CHUNK` in `src/source/chunks.rs`).
const SMALL: usize = 100_000;
const LARGE: usize = 3 << 20;
const CHUNK: usize = 256 << 10;

/// The kernel reads whole pages.
const PAGE: usize = 4096;

/// What a mount serves of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// The pages that end at or before this offset.
    Before(usize),
    /// Everything up to the last chunk, until that is read; then nothing, also in later sessions with the index.
    UntilPassed,
    /// Everything, until its digest is asked for; then the same.
    UntilHashed,
}

/// A row of the table.
struct Row {
    member: Member,
    /// What the stream contains.
    content: Vec<u8>,
    served: Served,
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for (kind, size, seed) in [("small", SMALL, 3), ("large", LARGE, 4)] {
        let content = noise(size, seed);
        let member = |name: &str, packed| Member {
            name: format!("demo/{kind}-{name}.txt"),
            packed,
            deflated: true,
            size,
            crc32: crc32fast::hash(&content),
        };
        // Blocks are short, so that a large member has checkpoints.
        let ends: Vec<_> = (0..size).step_by(50_001).skip(1).chain([size - 100]).collect();
        let (packed, places) = deflate(&content, &ends);
        for (name, number) in
            [("front", None), ("middle", Some((ends.len() - 1) / 2)), ("behind", Some(ends.len() - 1))]
        {
            let (end, place) = number.map_or((0, 0), |number| (ends[number], places[number]));
            let row = |name: &str, packed, served| {
                let content = content.clone();
                Row { member: member(name, packed), content, served }
            };
            let mut invalid = packed.clone();
            // The reserved type of blocks (RFC 1951, section 3.2.3).
            invalid[place] = 7;
            rows.push(row(&format!("invalid-{name}"), invalid, Served::Before(end)));
            rows.push(row(&format!("short-{name}"), packed[..place].to_vec(), Served::Before(end)));
        }
        for (name, at) in [("front", 0), ("middle", size / 2), ("behind", size - 1)] {
            let mut changed = content.clone();
            changed[at] ^= 1;
            let packed = deflate(&changed, &ends).0;
            rows.push(Row { member: member(name, packed), content: changed, served: Served::UntilPassed });
        }
    }
    let content = noise(LARGE, 5);
    for (name, at) in [("front", 0), ("middle", LARGE / 2), ("behind", LARGE - 1)] {
        let mut changed = content.clone();
        changed[at] ^= 1;
        let mut member = Member::new(&format!("demo/stored-{name}.bin"), &content, false);
        member.packed.clone_from(&changed);
        rows.push(Row { member, content: changed, served: Served::UntilHashed });
    }
    rows
}

fn write(place: &Path, rows: Vec<Row>) -> (PathBuf, Vec<(String, Vec<u8>, Served)>) {
    let wheel = place.join(WHEEL);
    let mut members = vec![Member::new("demo/lib/plain.so", &fixture("plain.so"), true)];
    let mut table = Vec::new();
    for Row { member, content, served } in rows {
        table.push((format!("host/{}", member.name), content, served));
        members.push(member);
    }
    write_wheel(&wheel, &members);
    (wheel, table)
}

/// Whether a page can be read. What is served is exact.
fn reads(mount: &Mount, name: &str, content: &[u8], page: usize) -> bool {
    let offset = page * PAGE;
    let length = PAGE.min(content.len() - offset);
    match mount.read(name, offset as u64, length) {
        Ok(bytes) => {
            assert!(bytes == content[offset..offset + length], "{name} at {offset}");
            true
        }
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::EIO), "{name} at {offset}: {error}");
            false
        }
    }
}

/// Pages around the damage, and far from it.
fn pages(content: &[u8], place: usize) -> Vec<usize> {
    let last = (content.len() - 1) / PAGE;
    let here = place / PAGE;
    let pages = [0, here / 2, here.saturating_sub(1), here, here + 1, here + CHUNK / PAGE, last];
    let mut pages = pages.map(|page| page.min(last)).to_vec();
    pages.dedup();
    pages
}

/// Reads all rows with a place in one order, by one thread or by many at once.
fn check_places(mount: &Mount, table: &[(String, Vec<u8>, Served)], is_reversed: bool, has_threads: bool) {
    for (name, content, served) in table {
        let &Served::Before(place) = served else { continue };
        let mut pages = pages(content, place);
        if is_reversed {
            pages.reverse();
        }
        let check = |page: usize| {
            let is_before = ((page + 1) * PAGE).min(content.len()) <= place;
            assert_eq!(reads(mount, name, content, page), is_before, "page {page} of {name}, damaged at {place}");
        };
        if has_threads {
            thread::scope(|scope| pages.iter().for_each(|&page| drop(scope.spawn(move || check(page)))));
        } else {
            pages.into_iter().for_each(check);
        }
    }
}

fn inflated(mount: &Mount) -> u64 {
    mount.status()["counters"]["bytes_inflated"].as_u64().unwrap()
}

/// The last column of the table: nothing of these members is served, and nothing is inflated to find that out.
fn check_nothing(mount: &Mount, table: &[(String, Vec<u8>, Served)], of: Served) {
    let before = inflated(mount);
    for (name, content, _) in table.iter().filter(|(_, _, served)| *served == of) {
        for page in pages(content, content.len() / 2) {
            assert!(!reads(mount, name, content, page), "page {page} of {name}");
        }
    }
    assert_eq!(inflated(mount), before);
}

#[test]
fn what_precedes_damage_is_served_in_every_order() {
    let place = tempfile::tempdir().unwrap();
    let (wheel, table) = write(place.path(), rows());
    let cache = place.path().join("cache");
    let with_cache = ["--cache-dir", cache.to_str().unwrap()];
    for options in [&["--no-cache"][..], &with_cache] {
        for (is_reversed, has_threads) in [(false, false), (true, false), (false, true), (true, true)] {
            let Some(mount) = Mount::new(&wheel, options) else { return };
            check_places(&mount, &table, is_reversed, has_threads);
            let before = inflated(&mount);
            for (name, content, served) in &table {
                if let &Served::Before(place) = served {
                    let after = (place / PAGE).min((content.len() - 1) / PAGE);
                    assert!(!reads(&mount, name, content, after));
                }
            }
            assert_eq!(inflated(&mount), before, "the answer is remembered");
            mount.end();
        }
    }
}

#[test]
fn the_log_names_member_reason_and_place() {
    let place = tempfile::tempdir().unwrap();
    let row = rows().into_iter().find(|row| row.member.name.contains("large-short-middle")).unwrap();
    let (wheel, table) = write(place.path(), vec![row]);
    let Some(mount) = Mount::new(&wheel, &["--no-cache"]) else { return };
    let [(name, content, Served::Before(damaged))] = &*table else { panic!() };
    assert!(!reads(&mount, name, content, (content.len() - 1) / PAGE));
    let reason =
        format!("large-short-middle.txt: the compressed data ends too early, at byte {damaged} of the content");
    assert!(mount.log().contains(&reason), "{}", mount.log());
    mount.end();
}

#[test]
fn a_wrong_checksum_is_an_error_once_a_whole_pass_has_seen_it() {
    let place = tempfile::tempdir().unwrap();
    let (wheel, table) = write(place.path(), rows());
    let cache = place.path().join("cache");
    let with_cache = ["--cache-dir", cache.to_str().unwrap()];
    for options in [&["--no-cache"][..], &with_cache] {
        for round in 0..2 {
            let Some(mount) = Mount::new(&wheel, options) else { return };
            if round == 1 && options.len() > 1 {
                check_nothing(&mount, &table, Served::UntilPassed);
                check_nothing(&mount, &table, Served::UntilHashed);
                mount.end();
                continue;
            }
            for (name, content, served) in &table {
                let last = (content.len() - 1) / PAGE;
                match served {
                    Served::Before(_) => {}
                    // Its only chunk is a whole pass.
                    Served::UntilPassed if content.len() == SMALL => assert!(!reads(&mount, name, content, 0)),
                    Served::UntilPassed => {
                        assert!([0, last / 2].iter().all(|&page| reads(&mount, name, content, page)), "{name}");
                        assert!(!reads(&mount, name, content, last), "{name}");
                    }
                    Served::UntilHashed => {
                        assert!([last, 0, last / 2].iter().all(|&page| reads(&mount, name, content, page)), "{name}");
                    }
                }
            }
            check_nothing(&mount, &table, Served::UntilPassed);
            ask_for_digests(&mount);
            check_nothing(&mount, &table, Served::UntilHashed);
            mount.end();
        }
    }
}

/// Reads the digests in RECORD of the host part one by one. They are computed, since RECORD of the input has none. With
/// `O_DIRECT` each request has the size that was asked for, so an error concerns one of them.
fn ask_for_digests(mount: &Mount) {
    let record = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(mount.at(RECORD)).unwrap();
    let size = record.metadata().unwrap().len();
    let failures = (0..size).step_by(16).filter(|&offset| record.read_at(&mut [0; 16], offset).is_err()).count();
    assert!(failures > 0);
}

/// Commands that read all of a wheel fail, and name the member.
#[test]
fn commands_name_the_damaged_member() {
    for row in rows().into_iter().chain(damaged_libraries()) {
        let place = tempfile::tempdir().unwrap();
        let name = row.member.name.clone();
        let (wheel, _) = write(place.path(), vec![row]);
        let cache = place.path().join("cache");
        let output = place.path().join("output");
        let split = |format: &str| {
            let mut command = program();
            command.args(["split", "--no-cache", "--format", format, "-o"]).arg(&output).arg(&wheel);
            command
        };
        let mut index = program();
        index.arg("index").arg("--cache-dir").arg(&cache).arg(&wheel);
        let mut verify = program();
        verify.arg("verify").arg(&wheel);
        for mut command in [split("directory"), split("wheel"), split("thin-wheel"), index, verify] {
            let found = command.output().unwrap();
            let text = [&*found.stdout, &*found.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            assert_eq!(found.status.code(), Some(1), "{command:?}: {text}");
            assert!(text.contains(&name), "{command:?}: {text}");
        }
        assert!(fs::read_dir(&output).map_or(0, Iterator::count) == 0, "{name}: nothing is written");
    }
}

#[test]
fn a_library_whose_first_byte_cannot_be_read_may_lack_code() {
    let place = tempfile::tempdir().unwrap();
    let wheel = place.path().join(WHEEL);
    let members = ["demo/lib/whole.so", "demo/lib/other.so"].map(|name| Member::new(name, &fixture("plain.so"), true));
    write_wheel(&wheel, &members);
    let sound = fs::read(&wheel).unwrap();
    let header = sound.windows(17).rposition(|bytes| bytes == b"demo/lib/other.so").unwrap() - 46;
    // APPNOTE.TXT 4.4.4 and 4.4.5: encrypted, and packed by bzip2.
    for (at, bit, code) in [(8, 0, 0), (8, 1, 3), (10, 4, 3)] {
        let mut bytes = sound.clone();
        bytes[header + at] |= bit;
        fs::write(&wheel, bytes).unwrap();
        let mut collect = program();
        collect.arg("collect").arg(&wheel).args(["--gpu-targets", "gfx90a", "--from"]).arg(&wheel);
        let mut explain = program();
        explain.args(["why", "--target", "gfx90a"]).arg(&wheel);
        // The wheel has no HIP runtime.
        for (mut command, wanted) in [(explain, code), (collect, 1)] {
            let found = command.output().unwrap();
            let text = String::from_utf8([found.stdout, found.stderr].concat()).unwrap();
            assert_eq!(found.status.code(), Some(wanted), "{command:?}: {text}");
            assert!(
                code == 0 || text.contains("demo/lib/other.so: it is encrypted") || text.contains("method 12"),
                "{text}"
            );
        }
    }
}

/// A library with device code, whose host part does not contain the damaged byte.
fn damaged_libraries() -> Vec<Row> {
    let content = fixture("mixed.so");
    let mut changed = content.clone();
    let code = changed.windows(8).position(|bytes| bytes == b"__CLANG_").unwrap() + 5000;
    changed[code] ^= 1;
    [true, false]
        .into_iter()
        .map(|deflated| {
            let mut member = Member::new("demo/lib/damaged.so", &content, deflated);
            member.packed = Member::new("", &changed, deflated).packed;
            Row { member, content: changed.clone(), served: Served::UntilPassed }
        })
        .collect()
}
