//! What `scripts/install` installs.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::sandbox::{has, program};
use crate::common::links::dead_links;

/// Installs below a directory, as for the Debian package.
fn install(destination: &Path) {
    let mut install = Command::new("scripts/install");
    install.args(["--runtime".as_ref(), program().as_os_str()]).env("DESTDIR", destination).env("PREFIX", "/usr");
    // Cargo puts the program next to the tests. A release build would take minutes.
    install
        .env("SBINDIR", "/usr/sbin")
        .env("KPACKFS_RUNTIME", std::env::current_exe().unwrap().with_file_name("librocm_kpack.so"));
    succeeds(&mut install);
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn everything_is_in_its_place() {
    let directory = tempfile::tempdir().unwrap();
    install(directory.path());
    let usr = directory.path().join("usr");
    for name in ["mount.kpackfs", "mount.fuse.kpackfs"] {
        assert_eq!(fs::read_link(usr.join("sbin").join(name)).unwrap(), Path::new("/usr/bin/kpackfs"));
    }
    for path in [
        "bin/kpackfs",
        "lib/librocm_kpack.so.0",
        "share/bash-completion/completions/kpackfs",
        "share/doc/kpackfs/docs/mounting.md",
        "share/doc/kpackfs/systemd/kpackfs@.service",
        "share/fish/vendor_completions.d/kpackfs.fish",
        "share/man/man1/kpackfs-mount.1",
        "share/man/man8/mount.fuse.kpackfs.8",
        "share/zsh/site-functions/_kpackfs",
    ] {
        assert!(fs::metadata(usr.join(path)).unwrap().len() > 10, "{path}");
    }
    let pc = fs::read_to_string(usr.join("lib/pkgconfig/rocm_kpack.pc")).unwrap();
    assert!(pc.lines().any(|line| line == "prefix=/usr"), "{pc}");
    let page = fs::read_to_string(usr.join("share/man/man8/mount.kpackfs.8")).unwrap();
    for option in ["arch", "gpu\\-targets", "cache\\-dir", "log\\-file", "allow\\-other"] {
        assert!(page.contains(&format!("\n\\fB{option}\\fR")), "{option}");
    }
    assert!(!usr.join("share/man/man1/kpackfs-generate.1").exists());
    assert_eq!(dead_links(&usr.join("share/doc/kpackfs")), Vec::<String>::new());
    succeeds(Command::new("bash").arg("-n").arg(usr.join("share/bash-completion/completions/kpackfs")));
}

#[test]
fn manual_pages_render_without_warnings() {
    if !has("groff") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    succeeds(Command::new(program()).arg("generate").arg(directory.path()));
    let mut pages = 0;
    for section in ["man1", "man8"] {
        for page in fs::read_dir(directory.path().join("man").join(section)).unwrap() {
            let page = page.unwrap().path();
            let mut groff = Command::new("groff");
            groff.args(["-man", "-ww", "-z", "-Kutf8"]).arg(&page).current_dir(directory.path().join("man"));
            assert_eq!(succeeds(&mut groff), "");
            let text = fs::read_to_string(&page).unwrap();
            let mut options = text.split("\n.TP\n").skip(1);
            let bare = options.find(|option| option.trim_end().lines().count() < 2);
            assert_eq!(bare, None, "{}: an option without a sentence", page.display());
            pages += 1;
        }
    }
    assert!(pages > 10);
    let page = |path: &str| fs::read_to_string(directory.path().join("man").join(path)).unwrap();
    assert!(page("man8/mount.kpackfs.8").contains("[possible values: xxh3, sha256, none]"));
    let split = page("man1/kpackfs-split.1");
    let (_, values) = split.split_once("Possible values:").unwrap();
    assert!(values.contains("thin\\-wheel: "), "{split}");
}

#[test]
fn systemd_takes_the_example_units() {
    if !has("systemd-analyze") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    install(directory.path());
    // Instances need a name. The program must be found where it was installed.
    let units = directory.path().join("usr/share/doc/kpackfs/systemd");
    let service = fs::read_to_string(units.join("kpackfs@.service")).unwrap();
    let here = service.replace("/usr/bin", directory.path().join("usr/bin").to_str().unwrap());
    fs::write(units.join("kpackfs@opt-torch.service"), here).unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]).env("SYSTEMD_UNIT_PATH", format!("{}:", units.display()));
    for unit in ["opt-torch.mount", "opt-torch.automount", "kpackfs@opt-torch.service"] {
        verify.arg(units.join(unit));
    }
    assert_eq!(succeeds(&mut verify), "");
}
