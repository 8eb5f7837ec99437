//! Damaged offload bundles.

use std::fs;
use std::path::Path;
use std::thread;

use crate::common::{program, succeeds};
use crate::damage::inputs::{Damage, FORMS, Form, TARGETS, compressed, tree};
use crate::damage::sessions::{Mode, Session};

/// Memory with which a bundle is decompressed as a whole, and with which only a decoder's window fits.
const WHOLE: u64 = 64 << 20;
const STREAMED: u64 = 400_000;

/// Damage with a place, and the targets whose code ends before it.
const PLACES: [(Damage, [bool; 3]); 5] = [
    (Damage::None, [true; 3]),
    (Damage::Block(20), [false; 3]),
    (Damage::Block(50), [true, false, false]),
    (Damage::Block(90), [true, true, false]),
    (Damage::Cut(50), [true, false, false]),
];

/// The order of two readers; `None` if they read at the same time.
const ORDERS: [Option<[&str; 2]>; 3] = [Some(["gfx906", "gfx942"]), Some(["gfx942", "gfx906"]), None];

fn modes() -> impl Iterator<Item = Mode> {
    let all = [1, 4].into_iter().flat_map(|threads| [WHOLE, STREAMED].map(|memory| (threads, memory)));
    all.flat_map(|(threads, memory)| [false, true].map(|has_cache| Mode { threads, memory, has_cache }))
}

/// What the readers of all archives got: the bytes, or the message.
fn read(session: &Session, order: Option<[&str; 2]>) -> Vec<Result<Vec<u8>, String>> {
    let archive = |target: &str| session.archive(target).map_err(|error| error.to_string());
    match order {
        Some(order) => order.iter().for_each(|target| drop(archive(target))),
        None => thread::scope(|scope| {
            for target in ["gfx906", "gfx942"] {
                scope.spawn(move || drop(session.archive(target)));
            }
        }),
    }
    TARGETS.map(archive).into()
}

/// The archives of the bundle without damage.
fn sound(place: &Path) -> Vec<Vec<u8>> {
    let input = tree(place, compressed(Form::Zstd, Damage::None));
    let session = Session::new(&input, place, Mode { threads: 1, memory: WHOLE, has_cache: false });
    TARGETS.map(|target| session.archive(target).unwrap()).into()
}

fn check(found: &[Result<Vec<u8>, String>], (sound, is_served): (&[Vec<u8>], [bool; 3]), what: &str) {
    for (((found, sound), is_served), target) in found.iter().zip(sound).zip(is_served).zip(TARGETS) {
        match found {
            Ok(bytes) => assert!(is_served && bytes == sound, "{what}: {target} is served"),
            Err(message) => {
                assert!(!is_served, "{what}: {target}: {message}");
                let names = ["lib/x.so: offload bundle at 0x", "(wrapper 0): damaged behind byte ", "; no code for "];
                assert!(names.iter().all(|name| message.contains(name)), "{what}: {message}");
                assert!(message.ends_with(target), "{what}: {message}");
            }
        }
    }
}

/// The columns of the table: everything that must not make a difference.
#[test]
fn what_ends_before_damage_is_served_in_all_cases() {
    let place = tempfile::tempdir().unwrap();
    let sound = sound(place.path());
    for form in FORMS {
        for (damage, is_served) in PLACES {
            let input = tree(place.path(), compressed(form, damage));
            let mut messages = None;
            for mode in modes() {
                for order in ORDERS {
                    let what = format!("{form:?} {damage:?} {mode:?} {order:?}");
                    let cache = tempfile::tempdir().unwrap();
                    let session = Session::new(&input, cache.path(), mode);
                    let found = read(&session, order);
                    check(&found, (&sound, is_served), &what);
                    let errors: Vec<_> = found.into_iter().map(Result::err).collect();
                    assert_eq!(*messages.get_or_insert_with(|| errors.clone()), errors, "{what}");
                    session.end();
                    check(&read(&Session::new(&input, cache.path(), mode), order), (&sound, is_served), &what);
                }
            }
        }
    }
}

/// Damage is found once, however often it is read.
#[test]
fn known_damage_costs_nothing() {
    let place = tempfile::tempdir().unwrap();
    for form in FORMS {
        let input = tree(place.path(), compressed(form, Damage::Block(50)));
        for memory in [WHOLE, STREAMED] {
            let session = Session::new(&input, place.path(), Mode { threads: 2, memory, has_cache: false });
            assert!(session.archive("gfx942").is_err(), "{form:?}");
            // Without a frame store, what is before the damage is compressed in advance, which this waits for.
            assert!(session.archive("gfx906").is_ok(), "{form:?}");
            let before = session.decompressed();
            for target in ["gfx942", "gfx90a", "gfx942"] {
                assert!(session.archive(target).is_err(), "{form:?} {target}");
            }
            assert_eq!(session.decompressed(), before, "{form:?}");
        }
    }
}

/// A mount does not start a pass to find it. Once it is found, nothing is served any more, also by the next mount.
#[test]
fn damage_without_a_place_is_served_until_it_is_found() {
    let place = tempfile::tempdir().unwrap();
    let sound = sound(place.path());
    for (form, damage) in FORMS.into_iter().flat_map(|form| [(form, Damage::Checksum), (form, Damage::Excess)]) {
        for mode in modes() {
            let what = format!("{form:?} {damage:?} {mode:?}");
            let is_void = |session: &Session| {
                for target in TARGETS {
                    let error = session.archive(target).err().unwrap().to_string();
                    assert!(error.contains("damaged at an unknown place: "), "{what}: {error}");
                }
            };
            let (input, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let input_place = tree(input.path(), compressed(form, damage));
            let session = Session::new(&input_place, cache.path(), mode);
            // Without a frame store, the rest is compressed in advance, and damage may be found at any time.
            let first = session.archive("gfx906");
            assert!(first.as_ref().map_or(!mode.has_cache, |bytes| *bytes == sound[0]), "{what}: {:?}", first.err());
            assert!(session.archive("gfx942").is_err(), "{what}");
            is_void(&session);
            session.end();
            let session = Session::new(&input_place, cache.path(), mode);
            let before = session.decompressed();
            if mode.has_cache {
                is_void(&session);
                assert_eq!(session.decompressed(), before, "{what}: it is in the index");
            }
        }
    }
}

/// Commands that write find damage everywhere, whatever they write.
#[test]
fn split_and_index_fail_by_name() {
    let place = tempfile::tempdir().unwrap();
    for form in FORMS {
        for damage in [Damage::Block(90), Damage::Cut(50), Damage::Checksum] {
            let input = tree(place.path(), compressed(form, damage));
            let output = place.path().join("out");
            let no_cache = || {
                let mut command = program();
                command.env("KPACKFS_CACHE_DIR", place.path().join("cache"));
                command
            };
            let mut all = no_cache();
            all.arg("split").arg(&input).arg("-o").arg(&output);
            let mut one = no_cache();
            one.arg("split").arg(&input).arg("-o").arg(&output).args(["--gpu-targets", "gfx906"]);
            let mut raw = no_cache();
            raw.arg("split").arg(&input).arg("-o").arg(&output).args([
                "--gpu-targets",
                "gfx906",
                "--compression",
                "none",
            ]);
            let mut index = no_cache();
            index.arg("index").arg(&input);
            for mut command in [one, raw, all, index] {
                let ended = command.output().unwrap();
                let message = String::from_utf8_lossy(&ended.stderr);
                assert_eq!(ended.status.code(), Some(1), "{command:?}: {message}");
                let names = ["lib/x.so: offload bundle at 0x", "(wrapper 0): damaged "];
                assert!(names.iter().all(|name| message.contains(name)), "{command:?}: {message}");
                assert!(!output.join("host").exists(), "{command:?}");
            }
        }
        let input = tree(place.path(), compressed(form, Damage::None));
        let output = tempfile::tempdir().unwrap();
        succeeds(program().arg("split").arg(&input).arg("-o").arg(output.path()).args(["--gpu-targets", "gfx906"]));
    }
}

/// Damage that commands find, and none.
const FOUND: [Damage; 5] = [Damage::None, Damage::Block(20), Damage::Block(90), Damage::Cut(50), Damage::Checksum];

/// Packages from several shards, one of which is fat and damaged.
#[test]
fn recombine_fails_by_name() {
    for (form, damage) in FORMS.into_iter().flat_map(|form| FOUND.map(|damage| (form, damage))) {
        let place = tempfile::tempdir().unwrap();
        let at = |path: &str| place.path().join(path);
        let input = tree(place.path(), compressed(form, damage));
        fs::create_dir_all(at("shards/a/x_lib_gfx9")).unwrap();
        fs::rename(input, at("shards/a/x_lib_gfx9/stage")).unwrap();
        fs::write(at("shards/a/x_lib_gfx9/artifact_manifest.txt"), "stage").unwrap();
        // The code of the first target is before most damage.
        let config = r#"{"primary_shard": "a", "architecture_groups": {"all": {"architectures": ["gfx906"]}}}"#;
        fs::write(at("config.json"), config).unwrap();
        let mut recombine = program();
        recombine.args(["recombine", "config.json", "shards", "-o", "out"]).current_dir(place.path());
        let ended = recombine.env("KPACKFS_CACHE_DIR", at("cache")).output().unwrap();
        let message = String::from_utf8_lossy(&ended.stderr);
        let is_sound = damage == Damage::None;
        assert_eq!(ended.status.code(), Some(i32::from(!is_sound)), "{form:?} {damage:?}: {message}");
        let names = ["lib/x.so: offload bundle at 0x", "(wrapper 0): damaged "];
        assert!(is_sound || names.iter().all(|name| message.contains(name)), "{form:?} {damage:?}: {message}");
        assert_eq!(at("out/x_lib_all").exists(), is_sound, "{form:?} {damage:?}");
    }
}

/// A damaged thin tree, and a split that is compared with a damaged fat tree.
#[test]
fn verify_finds_damage_by_name() {
    for form in FORMS {
        let (place, split) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let input = tree(place.path(), compressed(form, Damage::None));
        succeeds(program().arg("split").arg(&input).arg("-o").arg(split.path()));
        for damage in FOUND {
            let input = tree(place.path(), compressed(form, damage));
            let mut thin = program();
            thin.arg("verify").arg(&input).args(["--thin", "gfx906"]);
            let mut against = program();
            against.arg("verify").arg(split.path()).arg("--against").arg(&input);
            for (mut command, has_other_findings) in [(thin, true), (against, false)] {
                let ended = command.output().unwrap();
                let said = String::from_utf8_lossy(&ended.stdout);
                let (is_sound, what) = (damage == Damage::None, format!("{form:?} {damage:?} {command:?}: {said}"));
                assert_eq!(ended.status.code(), Some(i32::from(has_other_findings || !is_sound)), "{what}");
                let names = ["lib/x.so: wrapper 0: ", "offload bundle at 0x", ": damaged "];
                assert!(names.iter().all(|name| said.contains(name)) != is_sound, "{what}");
            }
        }
    }
}
