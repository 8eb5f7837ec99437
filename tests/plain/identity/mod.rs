//! Processors have the same names wherever a target is read, and what is not understood takes nothing with it.
//!
//! Libraries are made from a fixture by patching entry IDs and `e_flags`.

mod entry_ids;
mod facts;
mod library;

use std::collections::BTreeSet;
use std::fs;

use facts::{ProcessorFact, processors};
use kpackfs::kpack::BundleJobs;
use kpackfs::metrics::Progress;
use kpackfs::resources::Resources;
use kpackfs::source::Input;
use kpackfs::split::{Plan, PlanOptions, Targets};
use library::{ANY, BundleEntry, OFF, ON, Place, UNSUPPORTED, code};

/// The targets as a set.
fn set<T: ToString>(names: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    names.into_iter().map(|name| name.to_string()).collect()
}

/// The name of code for a processor in a mode.
fn name(fact: &ProcessorFact, xnack: u32) -> String {
    let modifier = match (fact.xnack, xnack) {
        ("modes", ON) => ":xnack+",
        ("modes" | "on", OFF) => ":xnack-",
        _ => "",
    };
    format!("{}{modifier}", fact.name)
}

/// A plan of the tree for one target.
fn plan_for(place: &Place, target: &str) -> Plan {
    let resources = Resources::new(16 << 20);
    let input = Input::open(&place.at("tree"), &resources).unwrap();
    let targets = Targets { wanted: Some(vec![target.parse().unwrap()]), ..Targets::default() };
    let options = PlanOptions { targets, ..PlanOptions::default() };
    let plan = Plan::make(&input, &options, &BundleJobs::new(&resources), &Progress::default()).unwrap();
    plan.check_selection().unwrap();
    plan
}

/// Checks what verify says of a split: code that needs XNACK, for each processor without it, and nothing else. The tree has it
/// so.
fn check_verified(place: &Place, split: &str, facts: &[ProcessorFact], xnack: u32) {
    let verified = place.run(&["verify", split, "--against", "tree", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(report["findings"].as_array().unwrap(), &[] as &[serde_json::Value]);
    let of_processor = |note: &serde_json::Value| {
        let (place, reason) = note.as_str()?.split_once(": its header says xnack+, and ")?;
        let name = place.rsplit(' ').next()?.to_owned();
        assert_eq!(reason, format!("{name} has no such mode; the input of the split has it so"));
        Some(name)
    };
    let found: BTreeSet<_> = report["notes"].as_array().unwrap().iter().filter_map(of_processor).collect();
    let lacking = facts.iter().filter(|fact| fact.xnack == "-" && xnack == ON).map(|fact| fact.name);
    assert_eq!(found, set(lacking));
}

/// Checks everything that reads targets, for all processors in one mode. Returns the number of checks.
fn check_all(facts: &[ProcessorFact], xnack: u32) -> usize {
    let names: Vec<_> = facts.iter().map(|fact| name(fact, xnack)).collect();
    let entries = names.iter().zip(facts).map(|(name, fact)| BundleEntry::new(name, fact.number, xnack));
    let place = Place::new(&entries.collect::<Vec<_>>());
    let mut checks = 0;

    // split, verify, and the same split of the joined library
    let said = place.succeeds(&["split", "tree", "-o", "out"]);
    assert!(!said.contains("warning"), "{said}");
    check_verified(&place, "out", facts, xnack);
    place.install();
    assert_eq!(place.archives("out"), set(&names));
    place.succeeds(&["split", "site", "-o", "again"]);
    check_verified(&place, "again", facts, xnack);
    assert_eq!(place.archives("again"), set(&names));
    place.succeeds(&["split", "site", "-o", "joined", "--view", "fat"]);
    let sorted = |path: &str| {
        let mut wrappers = place.entries(path);
        for entries in &mut wrappers {
            entries.sort();
        }
        wrappers
    };
    assert_eq!(sorted("joined/fat/lib/libx.so"), sorted("tree/lib/libx.so"));
    checks += 3 * names.len();

    // kpack create
    fs::create_dir(place.at("code")).unwrap();
    for (name, fact) in names.iter().zip(facts) {
        fs::write(place.at(&format!("code/{name}.co")), code(u32::from(fact.number) | xnack, name)).unwrap();
    }
    place.succeeds(&["kpack", "create", "code", "-o", "created"]);
    assert_eq!(place.archives("created"), set(&names));
    checks += names.len();

    // why, for the fat and the split library
    let asked: Vec<_> = names.iter().map(String::as_str).collect();
    for (found, text) in place.why(&asked) {
        assert_eq!(found, vec![true; names.len()], "{text}");
        checks += names.len();
    }

    // thin and merged views
    let is_gpu = |fact: &&ProcessorFact| !fact.name.ends_with("-generic") && !fact.name.ends_with("-strict");
    let gpus: Vec<_> = facts.iter().filter(is_gpu).collect();
    for (fact, name) in gpus.iter().map(|fact| (fact, self::name(fact, xnack))) {
        let archives: Vec<_> =
            plan_for(&place, fact.name).archives.iter().map(|archive| archive.path.to_string()).collect();
        let is_it = |path: &String| path.ends_with(&format!("_{name}.kpack"));
        assert!(archives.iter().any(is_it), "--gpu-targets {}: {archives:?}", fact.name);
        checks += 1;
    }
    for kind in ["thin", "merged"] {
        let views: Vec<_> = gpus.iter().map(|fact| format!("{kind}/{}", fact.name)).collect();
        let options = views.iter().flat_map(|view| ["--view", view]);
        let command: Vec<_> = ["split", "tree", "-o", kind].into_iter().chain(options).collect();
        place.succeeds(&command);
        for (fact, view) in gpus.iter().zip(&views) {
            let view = format!("{kind}/{view}");
            let there = match kind {
                "thin" => place.targets(&format!("{view}/lib/libx.so")),
                _ => place.archives(&view),
            };
            assert!(there.contains(&name(fact, xnack)), "{view}: {there:?}");
            // Other code is that of its revisions, and generic code.
            let is_related =
                |target: &&String| target.split([':', '-']).next() == Some(fact.name) || target.contains("generic");
            assert!(there.iter().all(|target| is_related(&target)), "{view}: {there:?}");
            checks += 1;
        }
    }
    checks
}

/// Every processor, in each XNACK setting. No compiler records that XNACK is on where there is none. 0.2.0 called code for gfx1250 with XNACK on
/// `gfx1250:xnack+`: its verify called a split wrong that had it, which was unreadable for all GPUs when joined.
#[test]
fn processors_have_one_name_wherever_a_target_is_read() {
    let facts = processors();
    let mut checks = 0;
    for xnack in [UNSUPPORTED, ANY, ON] {
        // A table of more entries would exceed the 4096 bytes that runtimes read.
        for facts in facts.chunks(32) {
            checks += check_all(facts, xnack);
        }
    }
    let selectable: Vec<_> = facts.into_iter().filter(|fact| fact.xnack == "modes").collect();
    checks += check_all(&selectable, OFF);
    assert!(checks >= 120, "{checks}");
}

/// Good entries, and one for a target that no GPU has.
fn with_impossible(entry: BundleEntry) -> (Place, Vec<String>) {
    let facts: Vec<_> = processors().into_iter().filter(|fact| fact.name.starts_with("gfx1")).take(12).collect();
    let mut entries: Vec<_> = facts.iter().map(|fact| BundleEntry::new(fact.name, fact.number, ANY)).collect();
    entries.insert(5, entry);
    let names: Vec<_> = facts.iter().map(|fact| fact.name.to_owned()).collect();
    assert!(names.len() == 12 && !names.contains(&"gfx1250".to_owned()));
    (Place::new(&entries), names)
}

/// Code that needs XNACK off is impossible on gfx1250: it is kept and named, and serves no GPU. The other twelve are
/// not concerned.
#[test]
fn code_that_no_gpu_runs_is_kept_and_serves_none() {
    let (place, names) = with_impossible(BundleEntry::new("gfx1250:xnack-", 0x49, OFF));
    let said = place.split();
    assert_eq!(said.matches("code for gfx1250:xnack- is kept and serves no GPU").count(), 1, "{said}");
    let all = set(names.iter().map(String::as_str).chain(["gfx1250:xnack-"]));
    assert_eq!(place.archives("out"), all);
    place.succeeds(&["split", "site", "-o", "joined", "--view", "fat"]);
    assert_eq!(place.targets("joined/fat/lib/libx.so"), all);
    let mut asked: Vec<_> = names.iter().map(String::as_str).collect();
    asked.push("gfx1250");
    for (found, text) in place.why(&asked) {
        assert_eq!(found, [vec![true; 12], vec![false]].concat(), "{text}");
    }
    let views: Vec<_> = names.iter().map(|name| format!("thin/{name}")).collect();
    let options = views.iter().flat_map(|view| ["--view", view]);
    place.succeeds(&["split", "tree", "-o", "thin"].into_iter().chain(options).collect::<Vec<_>>());
    for name in &names {
        assert!(place.targets(&format!("thin/thin/{name}/lib/libx.so")).contains(name));
    }
    assert!(!place.run(&["split", "tree", "-o", "none", "--view", "thin/gfx1250"]).status.success());
}

/// A header that says so, under a plain entry ID. Only the joined library shows it.
#[test]
fn code_that_no_gpu_runs_takes_nothing_with_it() {
    let (place, names) = with_impossible(BundleEntry::new("gfx1250", 0x49, OFF));
    place.succeeds(&["split", "tree", "-o", "out"]);
    let verified = place.run(&["verify", "out"]);
    let said = String::from_utf8(verified.stdout).unwrap();
    assert!(verified.status.success() && said.contains("for gfx1250: it is code for gfx1250:xnack-"), "{said}");
    assert_eq!(said.matches("it is code for").count(), 2, "{said}");
    place.install();
    place.succeeds(&["split", "site", "-o", "joined", "--view", "fat"]);
    let all = set(names.iter().map(String::as_str).chain(["gfx1250:xnack-"]));
    assert_eq!(place.targets("joined/fat/lib/libx.so"), all);
}

/// gfx1250 falls back to gfx12-5-generic, gfx1251 to nothing, and gfx1170 to gfx11-7-generic once a pull request is
/// merged.
#[test]
fn fallbacks_are_those_of_runtimes() {
    let generic = [("gfx12-5-generic", 0x5b, ON), ("gfx11-7-generic", 0x62, UNSUPPORTED), ("gfx11-generic", 0x54, ANY)];
    let entries = generic.map(|(name, number, xnack)| BundleEntry::new(name, number, xnack));
    let place = Place::new(&entries);
    place.split();
    let asked = ["gfx1250", "gfx1151", "gfx1250-strict", "gfx1251", "gfx1170", "gfx1310"];
    for (found, text) in place.why(&asked) {
        assert_eq!(found, [true, true, false, false, false, false], "{text}");
        assert!(text.contains("needs a HIP runtime that has ROCm/rocm-systems#11977"), "{text}");
    }
    // The generic code is in the package of the family.
    assert_eq!(place.archives("out/gfx12_5"), set(["gfx12-5-generic"]));
    assert_eq!(place.archives("out/gfx11-7-generic"), set(["gfx11-7-generic"]));
    place.succeeds(&["split", "tree", "-o", "some", "--gpu-targets", "gfx1250"]);
    assert_eq!(place.archives("some"), set(["gfx12-5-generic"]));
    place.succeeds(&["split", "tree", "-o", "views", "--view", "thin/gfx1250", "--view", "merged/gfx1250"]);
    assert_eq!(place.targets("views/thin/gfx1250/lib/libx.so"), set(["gfx12-5-generic"]));
    assert_eq!(place.archives("views/merged/gfx1250"), set(["gfx12-5-generic"]));
    for view in ["thin/gfx1251", "thin/gfx1170"] {
        assert!(!place.run(&["split", "tree", "-o", "none", "--view", view]).status.success(), "{view}");
    }
}

/// A runtime calls a GPU gfx1250-strict or gfx1250, and finds code of that name only. 0.2.0 said that a fat library has
/// code for one if it has some for the other.
#[test]
fn strict_code_is_found_alike_in_both_forms() {
    for (target, number, found) in [("gfx1250", 0x49, [true, false]), ("gfx1250-strict", 0xeb, [false, true])] {
        let place = Place::new(&[BundleEntry::new(target, number, ON), BundleEntry::new("gfx90a", 0x3f, ANY)]);
        place.split();
        for (is_found, text) in place.why(&["gfx1250", "gfx1250-strict"]) {
            assert_eq!(is_found, found, "{text}");
            let command = if found[0] { "unset HSA_DISABLE_GFX12_STRICT" } else { "export HSA_DISABLE_GFX12_STRICT=0" };
            assert!(text.contains(command), "{text}");
        }
        // Whichever name a runtime uses: a thin view has both.
        place.succeeds(&["split", "tree", "-o", "thin", "--view", "thin/gfx1250"]);
        assert_eq!(place.targets("thin/thin/gfx1250/lib/libx.so"), set([target]));
    }
}

/// The HSA runtime turns XNACK off there, and its names do not say so.
#[test]
fn a_gpu_without_modes_is_asked_for_by_its_bare_name() {
    let entries =
        [("gfx90c:xnack-", OFF), ("gfx909", ANY)].map(|(target, xnack)| BundleEntry::new(target, 0x32, xnack));
    let entries = [entries[0].clone(), BundleEntry { flags: 0x31 | ANY, ..entries[1].clone() }];
    let place = Place::new(&entries);
    place.split();
    for (found, text) in place.why(&["gfx90c", "gfx909", "gfx90c:xnack-"]) {
        assert_eq!(found, [false, true, true], "{text}");
        assert!(!text.contains("calls itself gfx90"), "{text}");
    }
}

/// A processor that is not known is a part of its own, and is named once.
#[test]
fn unknown_processors_are_parts_of_their_own() {
    let entries = [("gfx9999:xnack+", 0xf0 | ON), ("gfx9999", 0xf0), ("gfx1030", 0x36)];
    let entry = |(target, flags): (&str, u32)| BundleEntry { flags, ..BundleEntry::new(target, 0, 0) };
    let place = Place::new(&entries.map(entry));
    let said = place.split();
    assert_eq!(said.matches("gfx9999 is a processor that kpackfs does not know").count(), 1, "{said}");
    assert_eq!(place.archives("out/gfx9999"), set(["gfx9999:xnack+", "gfx9999"]));
    for (found, text) in place.why(&["gfx9999:xnack+", "gfx9999", "gfx1030", "gfx9998"]) {
        assert_eq!(found, [true, true, true, false], "{text}");
    }
}

/// As `CMake` writes lists, as shells do, and as options of kpackfs.
#[test]
fn lists_of_targets_have_three_forms() {
    let entries = [("gfx942:xnack+", 0x4c | ON), ("gfx1030", 0x36), ("gfx1100", 0x41)];
    let entry = |(target, flags): (&str, u32)| BundleEntry { flags, ..BundleEntry::new(target, 0, 0) };
    let place = Place::new(&entries.map(entry));
    for (number, lists) in [
        &["--gpu-targets=gfx942;gfx1030"][..],
        &["--gpu-targets", "gfx942;gfx1030;"],
        &["--gpu-targets=gfx942 gfx1030"],
        &["--gpu-targets", "gfx942-xnack+", "gfx1030"],
        &["--gpu-targets=gfx942:xnack+,gfx1030"],
        &["--exclude-targets=gfx1100;gfx906"],
    ]
    .into_iter()
    .enumerate()
    {
        let out = format!("out{number}");
        let output = place.run(&[&["split", "tree", "-o", &out], lists].concat());
        if lists[0].contains("gfx906") {
            assert!(
                String::from_utf8_lossy(&output.stderr).contains("--exclude-targets gfx906: the input has nothing")
            );
            continue;
        }
        assert!(output.status.success(), "{lists:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(place.archives(&out), set(["gfx942:xnack+", "gfx1030"]), "{lists:?}");
    }
}
