//! Compares the packaging hierarchy with the package that defines it, rocm-bootstrap 0.3.0.
//!
//! Needs python3 with that package, found through `PYTHONPATH` if it is not installed:
//! `pip install --target DIR rocm-bootstrap==0.3.0; PYTHONPATH=DIR cargo test --test plain hierarchy_oracle::`.
//! Without it the test is skipped, or fails if `KPACKFS_REQUIRE_ROCM_BOOTSTRAP=1`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::Command;

use kpackfs::gpu::{BUNDLES, BundleKey, Level, ModeSupport, Processor, TARGETS, TargetId};
use serde::Deserialize;

#[derive(Deserialize)]
struct Oracle {
    targets: Vec<Target>,
    bundles: Vec<Bundle>,
    aliases: BTreeMap<String, String>,
    owners: BTreeMap<String, String>,
    known: BTreeMap<String, bool>,
    versions: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    version: u32,
    xnack: String,
    chain: Vec<String>,
}

#[derive(Deserialize)]
struct Bundle {
    key: String,
    level: String,
    display_name: String,
    distribution_part: String,
    members: Vec<String>,
}

/// The hierarchy from the package. `None` if the package is missing and not required.
fn oracle() -> Option<Oracle> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hierarchy_oracle.py");
    let reason = match Command::new("python3").arg(script).output() {
        Ok(output) if output.status.success() => return Some(serde_json::from_slice(&output.stdout).unwrap()),
        Ok(output) => {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            assert_eq!(output.status.code(), Some(3), "{reason}");
            reason
        }
        Err(error) => format!("python3: {error}"),
    };
    let required = std::env::var_os("KPACKFS_REQUIRE_ROCM_BOOTSTRAP").is_some_and(|value| value == "1");
    assert!(!required, "rocm-bootstrap 0.3.0 is required: {reason}");
    // It writes past the test harness, which would capture it.
    let skipped = format!("\nSKIPPED: hierarchy_oracle needs python3 with rocm-bootstrap 0.3.0: {reason}\n");
    std::io::stderr().write_all(skipped.as_bytes()).unwrap();
    None
}

fn key(name: &str) -> BundleKey {
    name.parse().unwrap()
}

#[test]
fn the_hierarchy_is_that_of_rocm_bootstrap() {
    let Some(oracle) = oracle() else { return };

    let theirs: Vec<_> = oracle.targets.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(), theirs);
    for (ours, theirs) in TARGETS.iter().zip(&oracle.targets) {
        let xnack = match Processor::named(ours.name).unwrap().xnack {
            ModeSupport::Unsupported | ModeSupport::Unnamed => "unsupported",
            // Only ROCr turns it off.
            ModeSupport::Selectable | ModeSupport::ForcedOff => "supported",
            ModeSupport::AlwaysOn => "default_on",
        };
        assert_eq!((ours.version, xnack), (theirs.version, theirs.xnack.as_str()), "{}", theirs.name);
        assert_eq!(texts(&key(&theirs.name).packaging_chain()), theirs.chain);
    }

    // Targets with the same owner have one bundle.
    let owned: BTreeSet<_> = TARGETS.iter().map(|target| key(target.name)).collect();
    assert_eq!(oracle.bundles.len(), BUNDLES.len() + owned.len());
    for theirs in &oracle.bundles {
        let ours = key(&theirs.key);
        assert!(ours.is_known(), "{ours}");
        assert_eq!(ours.as_str(), theirs.key);
        let level = match ours.level() {
            Level::Target => "target",
            Level::SubFamily => "sub_family",
            Level::Family => "family",
        };
        assert_eq!(level, theirs.level, "{ours}");
        assert_eq!(ours.display_name(), theirs.display_name);
        assert_eq!(ours.distribution_part(), theirs.distribution_part);
        let is_member = |target: &&kpackfs::gpu::Target| key(target.name).packaging_chain().contains(&ours);
        assert_eq!(TARGETS.iter().filter(is_member).map(|target| target.name).collect::<Vec<_>>(), theirs.members);
    }

    for (alias, canonical) in &oracle.aliases {
        assert_eq!(key(alias).as_str(), canonical);
    }
    for (name, owner) in &oracle.owners {
        assert_eq!(key(name).as_str(), owner);
    }
    for (name, known) in &oracle.known {
        assert_eq!(key(name).is_known(), *known, "{name}");
    }
    for (version, name) in &oracle.versions {
        assert_eq!(TargetId::of_version(version.parse().unwrap()).to_string(), *name);
    }
}

fn texts(keys: &[BundleKey]) -> Vec<&str> {
    keys.iter().map(BundleKey::as_str).collect()
}
