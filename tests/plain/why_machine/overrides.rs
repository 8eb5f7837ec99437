//! `HSA_OVERRIDE_GFX_VERSION`: each effect on a library with code for gfx1030 and gfx90a, and the command that mends it.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{KPACKFS, fixture};

/// KFD nodes: a CPU, then GPUs of these versions.
fn topology(versions: &[u32]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (number, version) in [0].iter().chain(versions).enumerate() {
        let node = place.path().join("nodes").join(number.to_string());
        fs::create_dir_all(&node).unwrap();
        let simds = if *version == 0 { 0 } else { 4 };
        fs::write(node.join("properties"), format!("simd_count {simds}\ngfx_target_version {version}\n")).unwrap();
    }
    place
}

fn why(topology: &TempDir, script: &str, arguments: &str) -> Value {
    let script = format!("{script}\nexec \"$KPACKFS\" why --json --topology=\"$TOPOLOGY\" {arguments}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env("KPACKFS", KPACKFS).env("TOPOLOGY", topology.path());
    let output = shell.env("LIBRARY", fixture("plain.so")).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(output.status.code(), Some(i32::from(answer.get("found") != Some(&Value::Bool(true)))), "{answer}");
    answer
}

/// GPUs, the environment, whether code is found, what the sentence says, and the command.
type Case = (&'static [u32], &'static str, bool, &'static str, Option<&'static str>);

const CASES: &[Case] = &[
    (&[100_300, 90_010], "", true, "is found", None),
    // A GPU without code takes that of another one.
    (
        &[100_301],
        "",
        false,
        "as a last resort, HSA_OVERRIDE_GFX_VERSION=10.3.0 makes runtimes take it for a gfx1030",
        None,
    ),
    (&[100_301], "HSA_OVERRIDE_GFX_VERSION=10.3.0", true, "code for gfx1030 is found", None),
    (&[100_300, 100_301], "", false, "as a last resort, HSA_OVERRIDE_GFX_VERSION_2=10.3.0 makes", None),
    (&[100_300, 100_301], "HSA_OVERRIDE_GFX_VERSION_2=10.3.0", true, "is found", None),
    // gfx908 and gfx90a have code for instructions that the other one lacks.
    (&[90_008], "", false, "the library holds its code itself, and only for gfx1030 and gfx90a", None),
    // The variable hides code.
    (
        &[100_300],
        "HSA_OVERRIDE_GFX_VERSION=10.3.1",
        false,
        "HSA_OVERRIDE_GFX_VERSION=10.3.1 makes runtimes take the gfx1030 for a gfx1031, and there is code for gfx1030",
        Some("unset HSA_OVERRIDE_GFX_VERSION"),
    ),
    (
        &[100_300, 90_010],
        "HSA_OVERRIDE_GFX_VERSION_2=9.0.8",
        false,
        "HSA_OVERRIDE_GFX_VERSION_2=9.0.8 makes runtimes take the gfx90a for a gfx908",
        Some("unset HSA_OVERRIDE_GFX_VERSION_2"),
    ),
    (
        &[100_300],
        "HSA_OVERRIDE_GFX_VERSION_1=10.3.1 HSA_OVERRIDE_GFX_VERSION=10.3.2",
        false,
        "HSA_OVERRIDE_GFX_VERSION_1=10.3.1 makes",
        Some("export HSA_OVERRIDE_GFX_VERSION_1=10.3.0"),
    ),
    (&[100_302], "HSA_OVERRIDE_GFX_VERSION=10.3.1", false, "take the gfx1032 for that, which has no code either", None),
    // rocm-bootstrap chooses packages by its own variable, which HIP ignores.
    (
        &[100_301],
        "ROCM_BOOTSTRAP_FORCE_GFX_ARCH=gfx1030",
        false,
        "; ROCM_BOOTSTRAP_FORCE_GFX_ARCH=gfx1030 makes installers choose packages for that, and HIP ignores it",
        None,
    ),
    (&[100_300], "ROCM_BOOTSTRAP_FORCE_GFX_ARCH=gfx942", true, "code for gfx1030 is found", None),
    // It leaves no GPU.
    (
        &[100_300],
        "HSA_OVERRIDE_GFX_VERSION=gfx1030",
        false,
        "runtimes find no GPU: HSA_OVERRIDE_GFX_VERSION=gfx1030 is not three decimal numbers",
        Some("unset HSA_OVERRIDE_GFX_VERSION"),
    ),
    (&[90_010], "HSA_OVERRIDE_GFX_VERSION=9.0.a", false, "(gfx90a is 9.0.10)", Some("unset HSA_OVERRIDE_GFX_VERSION")),
    (
        &[90_010, 100_300],
        "HSA_OVERRIDE_GFX_VERSION_2=10.3.0.0 HIP_VISIBLE_DEVICES=0",
        false,
        "runtimes find no GPU: HSA_OVERRIDE_GFX_VERSION_2=10.3.0.0 is not three",
        Some("unset HSA_OVERRIDE_GFX_VERSION_2"),
    ),
    (
        &[110_000],
        "HSA_OVERRIDE_GFX_VERSION=10.3.0",
        false,
        "is of another generation than the gfx1100: runtimes with ROCm/rocm-systems#5686",
        Some("unset HSA_OVERRIDE_GFX_VERSION"),
    ),
    (
        &[100_300],
        "HSA_OVERRIDE_GFX_VERSION=10.3.9",
        false,
        "names no GPU that runtimes know, so they leave out the gfx1030",
        Some("unset HSA_OVERRIDE_GFX_VERSION"),
    ),
    // Devices are counted without the GPU that is left out.
    (
        &[100_300, 90_010],
        "HSA_OVERRIDE_GFX_VERSION_1=10.3.9 HIP_VISIBLE_DEVICES=0",
        true,
        "code for gfx90a is found",
        None,
    ),
    (
        &[100_300],
        "HSA_OVERRIDE_GFX_VERSION=",
        true,
        "HSA_OVERRIDE_GFX_VERSION is set and empty, with which runtimes before ROCm/rocm-systems#5686",
        Some("unset HSA_OVERRIDE_GFX_VERSION"),
    ),
];

#[test]
fn each_effect_is_named_and_mended() {
    for (versions, environment, found, sentence, command) in CASES {
        let topology = topology(versions);
        let script = if environment.is_empty() { String::new() } else { format!("export {environment}") };
        let answer = why(&topology, &script, "\"$LIBRARY\"");
        let context = format!("{versions:?} {environment}: {answer}");
        assert_eq!((answer["found"].as_bool(), answer["command"].as_str()), (Some(*found), *command), "{context}");
        assert!(answer["sentence"].as_str().unwrap().contains(sentence), "{context}");
        // Code for gfx1100 is not there.
        if let Some(command) = command.filter(|_| *versions != [110_000]) {
            let mended = why(&topology, &format!("{script}\n{command}"), "\"$LIBRARY\"");
            assert_eq!(
                (mended["found"].as_bool(), &mended["command"]),
                (Some(true), &Value::Null),
                "{context}: {mended}"
            );
        }
    }
}

/// Names on the command line are those that runtimes use, whatever this machine has.
#[test]
fn named_targets_are_not_renamed() {
    let topology = topology(&[100_300]);
    for value in ["10.3.1", "x", ""] {
        let answer =
            why(&topology, &format!("export HSA_OVERRIDE_GFX_VERSION={value}"), "--target gfx1030 \"$LIBRARY\"");
        assert_eq!((answer["found"].as_bool(), &answer["command"]), (Some(true), &Value::Null), "{answer}");
    }
    let of = |targets: &str| why(&topology, "", &format!("--target {targets} \"$LIBRARY\""))["sentence"].to_string();
    assert!(of("gfx1031").contains("HSA_OVERRIDE_GFX_VERSION=10.3.0 makes"));
    // The nodes of several GPUs are not known, and the variable without a number concerns all.
    assert!(!of("gfx1030,gfx1031").contains("last resort"));
}

/// The environment is that of the process, and not that of `why`.
#[test]
fn the_environment_of_a_process_counts() {
    let topology = topology(&[100_300]);
    let mut process =
        Command::new("sleep").arg("3600").env("HSA_OVERRIDE_GFX_VERSION", "1030").stdin(Stdio::null()).spawn().unwrap();
    for target in ["", "--target gfx1030"] {
        let answer =
            why(&topology, "export HSA_OVERRIDE_GFX_VERSION=10.3.0", &format!("{target} --pid {}", process.id()));
        let sentence = answer["sentence"].as_str().unwrap();
        assert!(sentence.contains("runtimes find no GPU: HSA_OVERRIDE_GFX_VERSION=1030 is not three"), "{answer}");
    }
    process.kill().unwrap();
    process.wait().unwrap();
}

/// A machine without a GPU installs packages by that variable, and `auto` finds nothing there.
#[test]
fn without_a_gpu_the_variable_of_installers_is_named() {
    let said = |value: &str| {
        let mut command = Command::new(KPACKFS);
        command.args(["why", "--topology", "/nowhere"]).arg(fixture("plain.so"));
        let output = command.env("ROCM_BOOTSTRAP_FORCE_GFX_ARCH", value).output().unwrap();
        assert_eq!(output.status.code(), Some(4));
        String::from_utf8(output.stderr).unwrap()
    };
    let named = said("gfx942,gfx1100");
    assert!(
        named.contains("does not follow ROCM_BOOTSTRAP_FORCE_GFX_ARCH; name them (--target gfx942,gfx1100)"),
        "{named}"
    );
    assert!(!said("").contains("BOOTSTRAP"));
}
