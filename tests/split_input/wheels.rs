//! Several wheels that belong together.

use std::fs;
use std::path::{Path, PathBuf};

use kpackfs::join::{self, join};
use kpackfs::resources::Resources;

use super::{All, Trees, code_of, expected, options, same};

/// A wheel with files and METADATA.
fn wheel(place: &Path, name: &str, version: &str, metadata: &str, files: &[(&str, Vec<u8>)]) -> PathBuf {
    let path = place.join(format!("{name}-{version}-py3-none-linux_x86_64.whl"));
    let mut zip = zip::ZipWriter::new(fs::File::create(&path).unwrap());
    let info = format!("{name}-{version}.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}\n");
    let wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n";
    let own = [
        (format!("{info}/METADATA"), metadata.into_bytes()),
        (format!("{info}/WHEEL"), wheel.into()),
        (format!("{info}/RECORD"), Vec::new()),
    ];
    let options = zip::write::SimpleFileOptions::default();
    for (path, bytes) in files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.clone())).chain(own) {
        zip.start_file(path, options).unwrap();
        std::io::Write::write_all(&mut zip, &bytes).unwrap();
    }
    zip.finish().unwrap();
    path
}

#[test]
fn a_host_wheel_and_its_device_wheels_are_one_tree() {
    let trees = Trees::new(&options());
    let part = |key: &str, path: &str| fs::read(trees.at("out").join(key).join(path)).unwrap();
    let (requires, at) = ("Requires-Dist: x==1\n", trees.place.path());
    let host = [("lib/plain.so", part("host", "lib/plain.so"))];
    let host = wheel(at, "x", "1", "", &host);
    let gfx90a = [("d-1.data/platlib/.kpack/rocm_gfx90a.kpack", part("gfx90a", ".kpack/rocm_gfx90a.kpack"))];
    let gfx90a = wheel(at, "d", "1", requires, &gfx90a);
    let gfx1030 = [(".kpack/rocm_gfx1030.kpack", part("gfx1030", ".kpack/rocm_gfx1030.kpack"))];
    let gfx1030 = wheel(at, "e", "1", requires, &gfx1030);
    let resources = Resources::new(64 << 20);
    let mut input = join::open_wheels(&[host, gfx90a, gfx1030], &resources).unwrap();
    let joined = join(&mut input, &resources, &join::Progress::default());
    assert_eq!(joined.warnings, Vec::<String>::new());
    let expected = All::from([("plain.so".to_owned(), expected()["plain.so"].clone())]);
    same(&code_of(&input, &resources), &expected);
}

#[test]
fn wheels_that_do_not_belong_together_are_named() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| {
        let place = place.path().join(name);
        fs::create_dir_all(&place).unwrap();
        place
    };
    let text = |bytes: &str| vec![("x/notes", bytes.as_bytes().to_vec())];
    let host = wheel(&at("a"), "x", "1.0+rocm7", "", &text("one"));
    let device = wheel(&at("a"), "x_device", "1.0+rocm7", "Requires-Dist: x==1.0+rocm7\n", &[]);
    let other = wheel(&at("b"), "x_device", "2.0", "Requires-Dist: x==2.0\n", &[]);
    let stranger = wheel(&at("b"), "y", "1.0", "", &[]);
    let conflict = wheel(&at("c"), "x_device", "1.0+rocm7", "Requires-Dist: x==1.0+rocm7\n", &text("two"));
    let check = |wheels: &[&PathBuf], named: &PathBuf, reason: &str| {
        let wheels: Vec<_> = wheels.iter().map(|path| (*path).clone()).collect();
        let error = join::open_wheels(&wheels, &Resources::new(16 << 20)).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains(named.to_str().unwrap()), "{error}");
    };
    assert!(join::open_wheels(&[host.clone(), device.clone()], &Resources::new(16 << 20)).is_ok());
    let prefix = wheel(&at("d"), "x_device", "1", "Requires-Dist: x==1.*\n", &[]);
    assert!(join::open_wheels(&[host.clone(), prefix], &Resources::new(16 << 20)).is_ok());
    check(&[&host, &other], &other, "it requires x 2.0");
    check(&[&host, &device, &stranger], &stranger, "neither requires");
    check(&[&host, &device, &conflict], &conflict, "both are x_device");
    check(&[&host, &conflict], &conflict, "their content differs");
    check(&[&host, &place.path().to_owned()], &place.path().to_owned(), "this is none");
    assert_eq!(join::wheels_in(&at("a")).unwrap(), [host, device]);
    assert_eq!(join::wheels_in(place.path()).unwrap(), Vec::<PathBuf>::new());
}
