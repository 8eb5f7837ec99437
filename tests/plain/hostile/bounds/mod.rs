//! The bound on memory, for every parser: the most expensive input, legal or not, that a few MB can be.
//!
//! RSS ≤ max(`--memory`, the largest window) + tables + 48 MiB; tables = 400 bytes for each member, wrapper, code
//! object, entry of an archive and link, the bytes of their names, and changed headers of binaries, at most half of
//! `--memory`. No command takes more than a minute of two processors. An input whose tables need more is refused with the
//! memory that it needs.
//!
//! The test runs a part of the table. `scripts/check-bounds` runs all of it: `KPACKFS_BOUNDS=all`.

mod archives;
mod binaries;
mod images;
mod listed;
mod texts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kpackfs::memory::Parser;

use crate::common::{can_mount, skipped};

/// What a process may take in addition, in KiB.
const BESIDES: u64 = 48 << 10;

/// KiB for threads and allocators, above what the program has when it starts. Without optimization its code alone is
/// 27 MiB, twice that of a release. Each of 16 threads has the last 64 KiB of a program.
const AT_WORK: u64 = 29 << 10;

/// Seconds of processors that a command may take: a minute of two. On a busy machine it takes longer.
const MOST_TIME: f64 = 120.0;

/// Seconds after which it hangs.
const MOST_PATIENCE: u32 = 900;

/// What is run on an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Inspect,
    Split,
    Mount,
    Verify,
    Why,
    Diff,
    List,
    Recombine,
    /// The input is application and tree.
    Collect,
    /// The runtime library opens an archive and looks up a code object.
    Runtime,
    /// A package index of a directory of wheels.
    Release,
    /// A mount whose wheels are deflated.
    MountDeflated,
    /// New images.
    Images,
    /// New images in the layout that the input is compared with.
    AddTo,
}

use Action::{
    AddTo, Collect, Diff, Images, Inspect, List, Mount, MountDeflated, Recombine, Release, Runtime, Split, Verify, Why,
};

/// An input in a directory of its own.
struct Costly {
    /// What the commands are run on.
    path: PathBuf,
    /// Bytes of its tables by the formula.
    tables: u64,
    /// Bytes of its largest window.
    window: u64,
    /// What `diff` compares it with, and the layout that images are added to, if that is not the input itself.
    before: Option<PathBuf>,
}

impl Costly {
    fn new(path: PathBuf, entries: u64, names: u64) -> Self {
        Self { path, tables: 400 * entries + names, window: 0, before: None }
    }
}

/// A parser and an input that is expensive for it. The number is how many times more entries the whole table has.
type Row = (Parser, &'static str, fn(&Path, usize) -> Costly, &'static [Action]);

const ALL: &[Action] = &[Inspect, Split, Mount, Verify, Why, Diff, Collect];

const ROWS: [Row; 43] = [
    (Parser::Directories, "a directory of many files", listed::directory, ALL),
    (Parser::Directories, "what pip left of many upgrades", listed::leftovers, &[Verify, Why]),
    (Parser::CentralDirectory, "many members", listed::members, ALL),
    (Parser::CentralDirectory, "a directory that claims a million members", listed::claimed_members, ALL),
    (Parser::CentralDirectory, "many wheels", listed::wheels, &[Release]),
    (Parser::CentralDirectory, "many wheels in a mount", listed::wheels, &[MountDeflated]),
    (Parser::Tar, "names of 4 KB", listed::long_names, ALL),
    (Parser::Tar, "symlinks with targets of 1 MB", listed::long_targets, &[Inspect, Split, Mount]),
    (Parser::Tar, "many layers", images::layers, &[Images]),
    (Parser::Tar, "hard links to one library", listed::hard_links, ALL),
    (Parser::Tar, "gzip members of a byte", listed::gzip_members, ALL),
    (Parser::TarWindow, "a window of 128 MiB", listed::window, &[Inspect, Split, Mount]),
    (Parser::TarWindow, "a window of 128 MiB of xz", listed::xz_window, &[Inspect, Split, Mount]),
    (Parser::Elf, "as many sections as there may be", binaries::sections, ALL),
    (Parser::Elf, "as many wrappers as there may be", binaries::wrappers, ALL),
    (Parser::Pe, "65,535 sections", binaries::pe_sections, ALL),
    (Parser::Bundle, "tables of 4,096 entries", binaries::large_tables, ALL),
    (Parser::Bundle, "tables in the IDs of others", binaries::nested_tables, ALL),
    (Parser::DeviceCode, "offload binaries for many targets", binaries::offload_binaries, ALL),
    (Parser::DeviceCode, "frames around frames", binaries::frames, &[Inspect, Split, Mount]),
    (Parser::CodeObject, "symbols that share a name", binaries::symbols, ALL),
    (Parser::Archive, "many entries", archives::entries, &[Inspect, Split, Mount, Verify, Why, Diff, List, Runtime]),
    (Parser::Archive, "a name of 50 MB", archives::long_name, &[Inspect, Verify, List, Runtime]),
    (Parser::Archive, "a sparse tail of 4 TB", archives::sparse, &[Inspect, Verify, List, Runtime]),
    (Parser::Record, "lines without files", texts::record, ALL),
    (Parser::RecordLines, "lines of an installation", texts::installed, &[Verify]),
    (Parser::Metadata, "a version of 100 MB", texts::metadata, ALL),
    (Parser::Text, "a WHEEL of 100 MB", texts::wheel_file, ALL),
    (Parser::Statement, "a statement of 100 MB", texts::statement, &[Inspect, Verify, Why, Diff]),
    (Parser::Manifest, "a manifest of many code objects", texts::manifest, &[Inspect, Verify, Diff]),
    (Parser::ArtifactManifest, "a manifest of many prefixes", texts::artifact_manifest, &[Inspect, Split, Verify]),
    (Parser::Kpm, "a list of parts of some MB", texts::kpm, &[Recombine]),
    (Parser::Index, "an index of some MB that becomes large", texts::index, &[Inspect, Split]),
    (Parser::FrameSegment, "a segment of many frames", texts::segment, &[Split]),
    (Parser::Catalogue, "a catalogue that becomes 1 GB", texts::catalogue, &[Why]),
    (Parser::ImageDocument, "a configuration of nested arrays", images::configuration, &[Inspect, Split, Why]),
    (Parser::ImageDocument, "an index of many annotations", images::annotations, &[Inspect, Split, Why]),
    (Parser::ImageList, "many images with large configurations", images::many, &[AddTo]),
    (Parser::ImageList, "large indexes in indexes", images::nested, &[Inspect]),
    (Parser::ImageList, "many large manifests", images::manifests, &[Inspect]),
    (Parser::LayerHeaders, "extended attributes of libraries", images::attributes, &[Images]),
    (Parser::Imports, "as many names of libraries as there may be", binaries::imports, &[Collect]),
    (Parser::Collection, "a statement of many GPUs", texts::collection, &[Verify]),
];

/// Runs a command, or a mount of which all is read, and prints exit code, peak memory in KiB, and seconds of processors.
const MEASURE: &str = r#"
import os, resource, signal, subprocess, sys, time
mode, place, most, *command = sys.argv[1:]
began = time.monotonic()
running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(place + "/said", "wb"), stdin=subprocess.DEVNULL)
def rest(): return max(0.1, float(most) - (time.monotonic() - began))
try:
    if mode == "mount":
        there = command[-1]
        while running.poll() is None and not os.path.ismount(there) and rest() > 1: time.sleep(0.01)
        read = 0
        for at, _, files in os.walk(there):
            for name in files[:200]:
                if running.poll() is not None or read > 64 << 20 or time.monotonic() - began > 55: break
                try:
                    with open(os.path.join(at, name), "rb") as file: read += len(file.read(1 << 20))
                except OSError: pass
        running.send_signal(signal.SIGTERM)
    code = running.wait(rest())
except subprocess.TimeoutExpired:
    running.kill()
    running.wait()
    code = "timeout"
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_maxrss, round(used.ru_utime + used.ru_stime, 1))
"#;

/// What a command took.
struct Measured {
    code: String,
    /// KiB.
    peak: u64,
    seconds: f64,
    said: String,
}

fn measured(place: &Path, is_mount: bool, command: &[String]) -> Measured {
    let mut measure = Command::new("python3");
    measure.args(["-c", MEASURE, if is_mount { "mount" } else { "run" }]).arg(place).arg(MOST_PATIENCE.to_string());
    measure.args(command).env("KPACKFS_CACHE_DIR", place.join("cache")).env("KPACKFS_ROCM", place);
    let output = measure.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let fields: Vec<_> = printed.split_whitespace().collect();
    let [code, peak, seconds] = fields[..] else { panic!("{}", String::from_utf8_lossy(&output.stderr)) };
    let said = String::from_utf8_lossy(&fs::read(place.join("said")).unwrap()).into_owned();
    Measured { code: code.to_owned(), peak: peak.parse().unwrap(), seconds: seconds.parse().unwrap(), said }
}

/// The program under test; `KPACKFS` names another one.
fn program() -> String {
    std::env::var("KPACKFS").unwrap_or_else(|_| env!("CARGO_BIN_EXE_kpackfs").to_owned())
}

/// The arguments for an action, and MiB of its budget if it has no option for that.
fn command(action: Action, place: &Path, costly: &Costly, memory: u64, jobs: u64) -> (Vec<String>, u64) {
    let [out, config] = ["out", "config.json"].map(|name| place.join(name).display().to_string());
    let before = costly.before.as_ref().unwrap_or(&costly.path).display().to_string();
    let input = costly.path.display().to_string();
    let [memory_text, jobs] = [memory, jobs].map(|number| number.to_string());
    let limits = ["--memory", &memory_text, "--jobs", &jobs];
    let (words, own): (Vec<&str>, u64) = match action {
        Inspect => ([&["inspect"], &limits[..], &[&input]].concat(), memory),
        Split => ([&["split", "--force"], &limits[..], &["-o", &out, &input]].concat(), memory),
        Mount => ([&["mount", "--foreground"], &limits[..], &[&input, &out]].concat(), memory),
        Verify => ([&["verify"], &limits[..], &[&input]].concat(), memory),
        Why => ([&["why", "--target", "gfx942"], &limits[..2], &[&input]].concat(), memory),
        Diff => ([&["diff"], &limits[..], &[&before, &input]].concat(), memory),
        List => ([&["kpack", "list"], &limits[..2], &[&input]].concat(), memory),
        Collect => {
            let gpu = ["--gpu-targets", "gfx942", "--force", "-o", &out];
            ([&["collect"], &limits[..], &gpu, &[&input, "--from", &input]].concat(), memory)
        }
        Recombine => ([&["recombine", "--force"], &limits[..], &["-o", &out, &config, &input]].concat(), memory),
        Runtime => (vec![], 0),
        Release => ([&["split", "--force", "--format", "index"], &limits[..], &["-o", &out, &input]].concat(), memory),
        MountDeflated => {
            ([&["mount", "--foreground", "--deflate", "6"], &limits[..], &[&input, &out]].concat(), memory)
        }
        Images => ([&["split", "--force", "--format", "oci"], &limits[..], &["-o", &out, &input]].concat(), memory),
        AddTo => {
            let layout = ["--add-to", &before, &input];
            ([&["split", "--force", "--format", "oci"], &limits[..], &layout].concat(), memory)
        }
    };
    if action == Runtime {
        let test = std::env::current_exe().unwrap().display().to_string();
        return (
            ["env", &format!("KPACKFS_BOUNDS_ARCHIVE={input}"), &test, "--exact", LOOK_UP, "--ignored"]
                .map(str::to_owned)
                .into(),
            0,
        );
    }
    (std::iter::once(program()).chain(words.into_iter().map(str::to_owned)).collect(), own)
}

/// The test that stands for a program with the runtime library.
const LOOK_UP: &str = "hostile::bounds::the_runtime_library_looks_up";

#[test]
#[ignore = "run by the table, in a process of its own"]
fn the_runtime_library_looks_up() {
    let archive = PathBuf::from(std::env::var_os("KPACKFS_BOUNDS_ARCHIVE").unwrap());
    if let Ok(archive) = rocm_kpack::ArchiveFile::open(&archive).and_then(rocm_kpack::Archive::open) {
        let name = archive.names().unwrap().next();
        name.map(|name| archive.get(name, "gfx942"));
    }
}

/// Fails with all rows that break the bound.
fn check(rows: &[&Row], scale: usize, settings: &[(u64, u64)], is_chosen: impl Fn(Action, &[Action]) -> bool) {
    let (mut broken, mounts) = (Vec::new(), can_mount());
    let empty = tempfile::tempdir().unwrap();
    let started = measured(empty.path(), false, &[program(), "--version".to_owned()]);
    let besides = BESIDES.max(started.peak + AT_WORK);
    for (parser, name, make, actions) in rows {
        let place = tempfile::tempdir().unwrap();
        let costly = make(place.path(), scale);
        let is_mount = |action| matches!(action, Mount | MountDeflated);
        for &action in actions.iter().filter(|it| is_chosen(**it, actions) && (mounts || !is_mount(**it))) {
            for &(memory, jobs) in settings {
                let out = place.path().join("out");
                fs::remove_dir_all(&out).ok();
                if is_mount(action) {
                    fs::create_dir_all(&out).unwrap();
                }
                let (words, memory) = command(action, place.path(), &costly, memory, jobs);
                let ended = measured(place.path(), is_mount(action), &words);
                // Commands without the option have its default.
                let most_tables = if memory == 0 { u64::MAX } else { memory << 19 };
                let bound = (memory << 10).max(costly.window >> 10) + (costly.tables.min(most_tables) >> 10) + besides;
                let Measured { code, peak, seconds, said } = ended;
                let first = said.lines().last().unwrap_or_default();
                let line = format!(
                    "{parser:?}, {name}: {action:?} --memory {memory} -j {jobs}: exit {code}, {peak} KiB of {bound}, {seconds} s: {first:.160}"
                );
                println!("{line}");
                let is_ended = code.parse::<u8>().is_ok_and(|code| code <= 5);
                if peak > bound || seconds > MOST_TIME || !is_ended || said.contains("panicked") {
                    broken.push(line);
                }
            }
        }
    }
    assert!(broken.is_empty(), "{} of the rows break the bound:\n{}", broken.len(), broken.join("\n"));
}

/// A parser has to be in the table.
#[test]
fn every_parser_has_a_row() {
    for parser in Parser::all() {
        assert!(ROWS.iter().any(|(of, ..)| *of == parser), "{parser:?} has no row");
    }
}

/// The fuzz target of a parser; `None` for those whose bytes are no format of ours: names of a directory, texts that a
/// library parses, and catalogues, of which strings are read.
fn fuzz_target(parser: Parser) -> Option<&'static str> {
    Some(match parser {
        Parser::Directories | Parser::Text | Parser::Catalogue => return None,
        Parser::CentralDirectory => "wheel",
        Parser::Tar | Parser::TarWindow => "tar",
        Parser::Elf | Parser::Imports => "elf",
        Parser::Pe => "coff",
        Parser::Bundle => "bundle",
        Parser::Archive => "split_input",
        Parser::Record | Parser::RecordLines | Parser::Metadata => "dist_info",
        Parser::Statement => "statement",
        Parser::Collection => "collection",
        Parser::Manifest => "part_manifest",
        Parser::ArtifactManifest => "artifact_manifest",
        Parser::Kpm => "kpm",
        Parser::ImageDocument | Parser::ImageList | Parser::LayerHeaders => "image",
        Parser::CodeObject => "pack",
        Parser::DeviceCode => "device_code",
        Parser::Index => "index_file",
        Parser::FrameSegment => "frame_segment",
    })
}

#[test]
fn every_parser_of_a_format_has_a_fuzz_target() {
    for target in Parser::all().filter_map(fuzz_target) {
        assert!(crate::hostile::TARGETS.iter().any(|(name, _)| *name == target), "{target}");
        assert!(Path::new("fuzz/fuzz_targets").join(target).with_extension("rs").exists(), "{target}");
    }
}

/// One setting, and the commands that read most, or the only one.
#[test]
fn memory_is_bounded_for_the_most_expensive_inputs() {
    let is_one = |action, actions: &[Action]| {
        matches!(action, Inspect | Why | Runtime | Recombine | Verify) || actions == [action]
    };
    check(&ROWS.iter().collect::<Vec<_>>(), 1, &[(16, 16)], is_one);
}

#[test]
fn memory_is_bounded_for_all_inputs_and_commands() {
    if std::env::var_os("KPACKFS_BOUNDS").is_none() {
        return skipped("KPACKFS_BOUNDS is not set; scripts/check-bounds runs the whole table of memory bounds");
    }
    let only = std::env::var("KPACKFS_BOUNDS_ONLY").unwrap_or_default();
    let rows: Vec<_> = ROWS.iter().filter(|(parser, ..)| format!("{parser:?}").contains(&only)).collect();
    assert!(!rows.is_empty(), "there is no parser {only}");
    check(&rows, 10, &[(16, 1), (16, 16), (64, 1), (64, 16)], |_, _| true);
}
