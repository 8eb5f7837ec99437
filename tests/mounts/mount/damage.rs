//! Input that cannot be mounted, and damaged input.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{can_mount, program, succeeds};
use crate::mount::mounts::{Mount, fat, has, survey};

const WHEEL: &str = "demo-1.0-py3-none-any.whl";

/// Makes a wheel of two libraries, one stored and one deflated, and a text.
const MAKE: &str = r"
import sys, zipfile
name, fixtures = sys.argv[1:]
with zipfile.ZipFile(name, 'w') as wheel:
    wheel.write(fixtures + '/plain.so', 'demo/lib/deflated.so', zipfile.ZIP_DEFLATED)
    wheel.write(fixtures + '/mixed.so', 'demo/lib/stored.so', zipfile.ZIP_STORED)
    wheel.writestr('demo/text', 'a text that is deflated ' * 999, zipfile.ZIP_DEFLATED)
    wheel.writestr('demo/__init__.py', '')
    wheel.writestr('demo-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n')
    wheel.writestr('demo-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr('demo-1.0.dist-info/RECORD', '')
    for member in wheel.infolist():
        # The data begins behind the local header, whose extra field is empty here.
        print(member.filename, member.header_offset + 30 + len(member.filename), member.compress_size)
";

#[test]
fn a_damaged_member_is_an_error_of_its_own() {
    if !can_mount() || !has("python3") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let wheel = directory.path().join(WHEEL);
    let made = succeeds(Command::new("python3").args(["-c", MAKE]).arg(&wheel).arg("tests/fixtures")).stdout;
    let healthy = Mount::new(&wheel, &[]).unwrap();
    let before = survey(&healthy.at("host"));
    assert!(before.keys().any(|path| path == Path::new("demo/lib/stored.so")));
    drop(healthy);

    let made = String::from_utf8(made).unwrap();
    let place = made.lines().find_map(|line| line.strip_prefix("demo/text ")).unwrap();
    let [offset, size] = place.split(' ').map(|number| number.parse::<usize>().unwrap()).collect::<Vec<_>>()[..] else {
        panic!("{place}")
    };
    let mut bytes = fs::read(&wheel).unwrap();
    bytes[offset..offset + size].iter_mut().for_each(|byte| *byte ^= 0xa5);
    fs::write(&wheel, bytes).unwrap();

    let mount = Mount::new(&wheel, &[]).unwrap();
    for _ in 0..2 {
        let error = fs::read(mount.at("host/demo/text")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    }
    // The input's RECORD has no digests. So a digest that is asked for must be computed.
    let record = Path::new("demo-1.0.dist-info/RECORD");
    let error = fs::read(mount.at("host").join(record)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    for (path, entry) in before.iter().filter(|(path, _)| ![record, Path::new("demo/text")].contains(&path.as_path())) {
        let place = mount.at("host").join(path);
        assert!(place.is_dir() || fs::read(&place).unwrap() == entry.3, "{}", path.display());
    }
    assert!(!survey(&mount.at("gfx90a")).is_empty());
}

#[test]
fn what_is_no_input_is_named() {
    let place = tempfile::tempdir().unwrap();
    let not_a_wheel = place.path().join("broken.whl");
    fs::write(&not_a_wheel, "this is no zip file").unwrap();
    let mount_point = tempfile::tempdir().unwrap();
    for (input, options) in
        [(not_a_wheel, &[][..]), (place.path().join("nothing"), &["-f"]), ("Cargo.toml".into(), &[])]
    {
        let mut command = program();
        let output = command.arg("mount").args(options).arg(&input).arg(mount_point.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{text}");
        assert!(text.contains(input.file_name().unwrap().to_str().unwrap()), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn foreign_mounts_are_left_alone() {
    let place = tempfile::tempdir().unwrap();
    for path in [place.path(), Path::new("/proc"), &place.path().join("nothing")] {
        let output = program().arg("umount").arg(path).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(path.file_name().unwrap().to_str().unwrap()), "{text}");
    }
    assert!(Path::new("/proc/self").exists());
    let fat = fat();
    let Some(mount) = Mount::new(fat.path(), &[]) else { return };
    assert_eq!(program().arg("umount").arg(mount.at("host")).output().unwrap().status.code(), Some(1));
    succeeds(program().arg("umount").arg(mount.path()));
    assert!(!mount.at("host").exists());
}
