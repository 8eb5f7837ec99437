//! Forms of requirements with extras for GPUs: what the host wheel and a device wheel have instead, compared with
//! Python's `packaging`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use kpackfs::source::EntryPath;
use kpackfs::wheel::{KnownExtras, Metadata};

use crate::common::skipped;

/// A field of the fat wheel, the field of the host wheel, and the requirement of the device wheel for gfx942.
const FORMS: [(&str, &str, Option<&str>); 45] = [
    ("rocm[device-all]", "rocm", Some("rocm[device-gfx942]")),
    ("rocm[libraries,device-all]==7.14.*", "rocm[libraries]==7.14.*", Some("rocm[device-gfx942]==7.14.*")),
    ("rocm[device-all,libraries]==7.14.*", "rocm[libraries]==7.14.*", Some("rocm[device-gfx942]==7.14.*")),
    ("rocm[a,device-all,b]>=7,<8", "rocm[a,b]>=7,<8", Some("rocm[device-gfx942]>=7,<8")),
    ("rocm [ a , device-all ] >= 7", "rocm[a] >= 7", Some("rocm[device-gfx942] >= 7")),
    ("rocm [device-all] >= 7", "rocm >= 7", Some("rocm[device-gfx942] >= 7")),
    ("ROCm[Libraries,DEVICE-ALL]~=7.14", "ROCm[Libraries]~=7.14", Some("ROCm[device-gfx942]~=7.14")),
    ("rocm[device_all]", "rocm", Some("rocm[device-gfx942]")),
    ("rocm[Device.All]", "rocm", Some("rocm[device-gfx942]")),
    ("rocm[device-all,device-all]", "rocm", Some("rocm[device-gfx942]")),
    ("rocm[device-all,device-gfx90a]", "rocm", Some("rocm[device-gfx942]")),
    ("rocm[device-gfx90a,device-gfx942]==7", "rocm==7", Some("rocm[device-gfx942]==7")),
    ("rocm[Device_GFX942]==7", "rocm==7", Some("rocm[Device_GFX942]==7")),
    ("rocm[device-gfx90a]==7", "rocm==7", None),
    // The family of gfx942, and another one.
    ("rocm[device-gfx9,device-gfx90a]!=7.1", "rocm!=7.1", Some("rocm[device-gfx9]!=7.1")),
    ("rocm[device-gfx11]!=7.1", "rocm!=7.1", None),
    ("rocm[device-all]===7", "rocm===7", Some("rocm[device-gfx942]===7")),
    ("rocm[device-all](>=7)", "rocm(>=7)", Some("rocm[device-gfx942](>=7)")),
    ("rocm.sdk_x[device-all]", "rocm.sdk_x", Some("rocm.sdk_x[device-gfx942]")),
    (
        "rocm[device-all]; os_name == 'posix'",
        "rocm; os_name == 'posix'",
        Some("rocm[device-gfx942]; os_name == 'posix'"),
    ),
    (
        "rocm[device-all]==7; sys_platform == 'linux' or sys_platform == 'win32'",
        "rocm==7; sys_platform == 'linux' or sys_platform == 'win32'",
        Some("rocm[device-gfx942]==7; sys_platform == 'linux' or sys_platform == 'win32'"),
    ),
    (
        "rocm[device-all] ;(os_name=='a' or os_name=='b') and python_version>'3'",
        "rocm ;(os_name=='a' or os_name=='b') and python_version>'3'",
        Some("rocm[device-gfx942] ;(os_name=='a' or os_name=='b') and python_version>'3'"),
    ),
    // A name that only looks like that of the variable.
    (
        "rocm[device-all]; os_name == 'extra'",
        "rocm; os_name == 'extra'",
        Some("rocm[device-gfx942]; os_name == 'extra'"),
    ),
    (
        "rocm[device-all]; \"extra == 'x'\" != os_name",
        "rocm; \"extra == 'x'\" != os_name",
        Some("rocm[device-gfx942]; \"extra == 'x'\" != os_name"),
    ),
    (
        "rocm[device-all] @ https://example.com/rocm.tar.gz",
        "rocm @ https://example.com/rocm.tar.gz",
        Some("rocm[device-gfx942] @ https://example.com/rocm.tar.gz"),
    ),
    (
        "rocm[a,device-all]@https://example.com/rocm.tar.gz;extra ; os_name == 'a'",
        "rocm[a]@https://example.com/rocm.tar.gz;extra ; os_name == 'a'",
        Some("rocm[device-gfx942]@https://example.com/rocm.tar.gz;extra ; os_name == 'a'"),
    ),
    ("rocm[device-all] @ file:///x[1].whl", "rocm @ file:///x[1].whl", Some("rocm[device-gfx942] @ file:///x[1].whl")),
    ("rocm[a,\n  device-all]==7", "rocm[a]==7", Some("rocm[device-gfx942]==7")),
    ("rocm[device-all]\n\t>=7,\n <8", "rocm\n\t>=7,\n <8", Some("rocm[device-gfx942] >=7, <8")),
    ("\n rocm[device-all]", "\n rocm", Some("rocm[device-gfx942]")),
    ("rocm\t[device-all]\t>=7", "rocm\t>=7", Some("rocm[device-gfx942]\t>=7")),
    // A device wheel cannot depend on extras of its host wheel.
    ("rocm[device-all]; extra == 'rocm'", "rocm[device-all]; extra == 'rocm'", None),
    ("rocm[device-all]; os_name=='a' or 'x'==extra", "rocm[device-all]; os_name=='a' or 'x'==extra", None),
    ("rocm[device-all] @ https://x/y ; extra=='a'", "rocm[device-all] @ https://x/y ; extra=='a'", None),
    // No extras for GPUs.
    ("rocm", "rocm", None),
    ("rocm==7; os_name == '[device-all]'", "rocm==7; os_name == '[device-all]'", None),
    ("rocm[libraries]", "rocm[libraries]", None),
    ("rocm[]", "rocm[]", None),
    ("rocm[all,gfx942]", "rocm[all,gfx942]", None),
    ("rocm[device-allocator,device-cpu,device]", "rocm[device-allocator,device-cpu,device]", None),
    // Not understood.
    ("rocm[device-all", "rocm[device-all", None),
    ("rocm[device-all,]", "rocm[device-all,]", None),
    ("rocm[device-all] 7", "rocm[device-all] 7", None),
    ("-rocm[device-all]", "-rocm[device-all]", None),
    ("rocm[device-all]==7\r; x", "rocm[device-all]==7\r; x", None),
];

/// METADATA with these values of fields.
fn metadata(values: &[&str], newline: &str) -> Metadata {
    let fields: Vec<_> = values.iter().map(|value| format!("Requires-Dist: {value}\n")).collect();
    let fields = fields.concat();
    let text = format!("Metadata-Version: 2.1\nName: demo\n{fields}Version: 1\n\nRequires-Dist: rocm[device-all]\n");
    Metadata::parse(text.replace('\n', newline).into_bytes(), &EntryPath::root()).unwrap()
}

#[test]
fn host_and_device_wheels_share_a_requirement() {
    let key = "gfx942".parse().unwrap();
    for newline in ["\n", "\r\n"] {
        for (fat, host, device) in FORMS {
            let made = metadata(&[fat], newline);
            let is_same = |made: &Metadata, expected: &str| made.bytes() == metadata(&[expected], newline).bytes();
            assert!(is_same(&made.for_host().unwrap(), host), "{fat:?}: {:?}", made.for_host().unwrap());
            let device: Vec<_> = device.map(str::to_owned).into_iter().collect();
            assert_eq!(made.device_requirements(&key, &KnownExtras::default()), device, "{fat:?}");
        }
        let all = metadata(&FORMS.map(|(fat, ..)| fat), newline);
        let host = all.for_host().unwrap();
        assert_eq!(host.bytes(), metadata(&FORMS.map(|(_, host, _)| host), newline).bytes());
        assert_eq!(host.restored(&all.replaced_fields()).unwrap().unwrap().bytes(), all.bytes());
    }
}

/// `packaging`, or pip's copy of it, reads the same distribution, specifiers, URL and marker, and other extras.
#[test]
fn packaging_agrees() {
    let changed: Vec<_> = FORMS.into_iter().filter(|(fat, host, _)| fat != host).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/requirements_oracle.py");
    let command = Command::new("python3").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match command {
        Ok(child) => child,
        Err(error) => return skipped(&format!("python3: {error}; requirements are not compared with packaging")),
    };
    child.stdin.take().unwrap().write_all(&serde_json::to_vec(&changed).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.code() == Some(77) {
        return skipped("python3 has neither packaging nor pip; requirements are not compared with packaging");
    }
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{} forms agree\n", changed.len()));
}
