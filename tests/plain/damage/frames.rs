//! Damaged zstd frames in archives of split input.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kpackfs::rope::Content;
use kpackfs::source::{EntryKind, EntryPath};

use crate::common::{program, succeeds};
use crate::damage::inputs::{Damage, Form, TARGETS, compressed, tree, zstd_blocks};
use crate::damage::sessions::{Mode, Session};

/// Bytes of a piece that is read at a time.
const PIECE: usize = 50_000;

/// The split of a sound tree, installed: the host part with all archives.
fn installed(place: &Path) -> PathBuf {
    let input = tree(place, compressed(Form::Zstd, Damage::None));
    let (output, installed) = (place.join("out"), place.join("installed"));
    succeeds(program().arg("split").arg(&input).arg("-o").arg(&output));
    fs::create_dir_all(installed.join("lib")).unwrap();
    fs::create_dir_all(installed.join(".kpack")).unwrap();
    fs::copy(output.join("host/lib/x.so"), installed.join("lib/x.so")).unwrap();
    for target in TARGETS {
        for archive in fs::read_dir(output.join(target).join(".kpack")).unwrap() {
            let archive = archive.unwrap();
            fs::copy(archive.path(), installed.join(".kpack").join(archive.file_name())).unwrap();
        }
    }
    installed
}

/// The library, joined.
fn library(session: &Session) -> Arc<dyn Content> {
    match &session.input.entry(&EntryPath::new(b"lib/x.so").unwrap()).unwrap().kind {
        EntryKind::File { content, .. } => Arc::clone(content),
        other => panic!("{other:?}"),
    }
}

/// Which pieces of the fat library can be read, in this order.
fn served(session: &Session, sound: &[u8], pieces: &[usize]) -> Vec<bool> {
    let content = library(session);
    let mut served = vec![false; pieces.len()];
    for &number in pieces {
        let expected = sound.chunks(PIECE).nth(number).unwrap();
        let mut bytes = vec![0; expected.len()];
        served[number] = content.read_at((number * PIECE) as u64, &mut bytes).is_ok();
        assert!(!served[number] || bytes == expected, "piece {number}");
    }
    served
}

#[test]
fn blocks_before_damage_of_a_frame_are_served_in_all_cases() {
    let place = tempfile::tempdir().unwrap();
    let installed = installed(place.path());
    let mode = Mode { threads: 1, memory: 64 << 20, has_cache: false };
    let content = library(&Session::new(&installed, place.path(), mode));
    let sound = content.to_vec().unwrap();
    let forwards: Vec<_> = (0..sound.len().div_ceil(PIECE)).collect();
    let backwards: Vec<_> = forwards.iter().rev().copied().collect();

    damage_third_block(&installed);
    let mut expected = None;
    for memory in [64 << 20, 200_000] {
        for has_cache in [false, true] {
            for order in [&forwards, &backwards] {
                let cache = tempfile::tempdir().unwrap();
                let mode = Mode { threads: 2, memory, has_cache };
                for _ in 0..2 {
                    let session = Session::new(&installed, cache.path(), mode);
                    let served = served(&session, &sound, order);
                    assert_eq!(*expected.get_or_insert_with(|| served.clone()), served, "{memory} {has_cache}");
                    session.end();
                }
            }
        }
    }
    // Two blocks of 128 KiB of the second of three code objects of 400,000 bytes, and the whole others.
    let lost: Vec<_> =
        expected.unwrap().iter().enumerate().filter(|(_, is_served)| !**is_served).map(|it| it.0).collect();
    assert!((3..=4).contains(&lost.len()) && lost.is_sorted(), "{lost:?}");
    assert!(lost[0] * PIECE > 400_000 + (2 << 17) - PIECE, "{lost:?}");
}

/// Damages the code of the second target: the third of four blocks.
fn damage_third_block(installed: &Path) {
    let mut archives = fs::read_dir(installed.join(".kpack")).unwrap().map(|entry| entry.unwrap().path());
    let archive = archives.find(|path| path.to_str().unwrap().contains("gfx90a")).unwrap();
    let mut bytes = fs::read(&archive).unwrap();
    let frame = bytes.windows(4).position(|window| window == [0x28, 0xB5, 0x2F, 0xFD]).unwrap();
    let (blocks, _) = zstd_blocks(&bytes[frame..]);
    bytes[frame + blocks[2]] |= 6;
    fs::write(&archive, bytes).unwrap();
}

#[test]
fn commands_name_the_damaged_frame() {
    let place = tempfile::tempdir().unwrap();
    let installed = installed(place.path());
    let output = place.path().join("again");
    let commands: [(&str, Vec<&Path>); 3] = [
        ("split", vec![&installed, Path::new("-o"), &output]),
        ("index", vec![&installed]),
        ("verify", vec![&installed]),
    ];
    succeeds(program().arg("verify").arg(&installed));
    damage_third_block(&installed);
    for (command, arguments) in commands {
        let ended = program().arg(command).args(arguments).env("KPACKFS_CACHE_DIR", place.path()).output().unwrap();
        let said = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(ended.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains(".kpack/rocm_gfx90a.kpack: lib/x.so#0 for gfx90a: "), "{command}: {said}");
        assert!(said.contains("Data corruption detected"), "{command}: {said}");
        assert!(!output.join("host").exists(), "{command}");
    }
}
