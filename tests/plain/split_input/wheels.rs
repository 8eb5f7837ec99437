//! Several wheels of one split.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kpackfs::join::{self, join};
use kpackfs::metrics::Progress;
use kpackfs::opened::{self, Named};
use kpackfs::resources::Resources;
use kpackfs::source::Input;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::{All, FIXTURES, Trees, code_of, expected, options, same};

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
    let joined = join(&mut input, &resources, &Progress::default());
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
    let Named::Wheels(found) = opened::recognise(&at("a")).unwrap() else { panic!() };
    assert_eq!(found.wheels, [host, device]);
    assert!(matches!(opened::recognise(place.path()), Ok(Named::Tree)));
}

/// Runs kpackfs. Returns its stderr.
#[track_caller]
pub(super) fn run(arguments: &[&str], inputs: &[PathBuf]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(arguments).args(inputs).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stdout));
    said
}

/// A fat wheel and its split.
pub(super) struct Wheels {
    place: TempDir,
    pub(super) fat: PathBuf,
}

const METADATA: &str = "Requires-Dist: numpy\nProvides-Extra: all\nRequires-Dist: sympy; extra == \"all\"\n";

impl Wheels {
    fn new() -> Self {
        Self::with(METADATA, &[])
    }

    /// A wheel with this METADATA, and its split with these options.
    pub(super) fn with(metadata: &str, options: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let fixture = |name: &str| fs::read(Path::new(FIXTURES).join(name)).unwrap();
        let files = [
            ("torch/__init__.py", Vec::new()),
            ("torch/lib/plain.so", fixture("plain.so")),
            ("torch/lib/features.so", fixture("features.so")),
            ("torch/lib/compressed.so", fixture("compressed.so")),
            ("torch/lib/win.dll", fixture("win.dll")),
            ("torch/lib/host-only.so", fixture("host-only.so")),
            ("torch/lib/rocblas/library/TensileLibrary_gfx90a.dat", b"\x91\xaafor gfx90a".to_vec()),
            ("Fat_Torch-2.10.0+rocm7.1.data/data/share/deep/mixed.so", fixture("mixed.so")),
            ("Fat_Torch-2.10.0+rocm7.1.data/scripts/small.so", fixture("small.so")),
            ("Fat_Torch-2.10.0+rocm7.1.data/headers/plain-bfd.so", fixture("plain-bfd.so")),
        ];
        let fat = wheel(place.path(), "Fat_Torch", "2.10.0+rocm7.1", metadata, &files);
        let wheels = Self { place, fat };
        let options: Vec<_> = ["--format", "wheel"].iter().chain(options).copied().collect();
        wheels.again(std::slice::from_ref(&wheels.fat), "split", &options);
        wheels
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// The wheels in a directory.
    pub(super) fn in_directory(&self, name: &str) -> Vec<PathBuf> {
        let mut wheels: Vec<_> = fs::read_dir(self.at(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        wheels.sort();
        wheels
    }

    /// Splits wheels again.
    pub(super) fn again(&self, wheels: &[PathBuf], name: &str, options: &[&str]) -> String {
        let output = text(&self.at(name));
        let arguments: Vec<_> = ["split", "--output", &output].into_iter().chain(options.iter().copied()).collect();
        run(&arguments, wheels)
    }
}

pub(super) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// The members of a wheel.
fn unzipped(wheel: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut zip = zip::ZipArchive::new(fs::File::open(wheel).unwrap()).unwrap();
    let mut members = BTreeMap::new();
    for number in 0..zip.len() {
        let mut member = zip.by_index(number).unwrap();
        let mut bytes = Vec::new();
        member.read_to_end(&mut bytes).unwrap();
        members.insert(member.name().unwrap().into_owned(), bytes);
    }
    members
}

/// The line of a RECORD about a file.
pub(super) fn described(name: &str, bytes: &[u8]) -> String {
    let mut digest = [0; 43];
    URL_SAFE_NO_PAD.encode_slice(Sha256::digest(bytes), &mut digest).unwrap();
    format!("{name},sha256={},{}", std::str::from_utf8(&digest).unwrap(), bytes.len())
}

/// The same, after checking that the wheel's RECORD describes all of its members.
#[track_caller]
pub(super) fn members(wheel: &Path) -> BTreeMap<String, Vec<u8>> {
    let members = unzipped(wheel);
    let (path, record) = members.iter().find(|(path, _)| path.ends_with(".dist-info/RECORD")).unwrap();
    let rows = members.iter().filter(|(name, _)| *name != path).map(|(name, bytes)| described(name, bytes));
    let expected: BTreeSet<_> = rows.chain([format!("{path},,")]).collect();
    let found: BTreeSet<_> = std::str::from_utf8(record).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(found, expected, "{}", wheel.display());
    members
}

/// The code in a wheel.
fn code(wheel: &Path) -> All {
    let resources = Resources::new(64 << 20);
    code_of(&Input::open(wheel, &resources).unwrap(), &resources)
}

/// The members of a wheel, except libraries and files that say how it was made.
fn others(wheel: &Path) -> BTreeMap<String, Vec<u8>> {
    let is_other = |name: &String| {
        let is_library = [".so", ".dll"].iter().any(|end| name.ends_with(end));
        !is_library && !["/RECORD", "/WHEEL", "/kpackfs.json"].iter().any(|end| name.ends_with(end))
    };
    unzipped(wheel).into_iter().filter(|(name, _)| is_other(name)).collect()
}

/// The names of members that differ.
pub(super) fn differing(one: &BTreeMap<String, Vec<u8>>, other: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    names.into_iter().filter(|name| one.get(*name) != other.get(*name)).cloned().collect()
}

#[test]
fn the_fat_wheel_comes_back() {
    let wheels = Wheels::new();
    let said = wheels.again(&wheels.in_directory("split"), "fat", &["--format", "wheel", "--view", "fat"]);
    assert!(!said.contains("not given"), "{said}");
    let [fat] = wheels.in_directory("fat").try_into().unwrap();
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_lowercase();
    assert_eq!(name(&fat), name(&wheels.fat));
    let members = members(&fat);
    let lower = |members: BTreeMap<String, Vec<u8>>| -> BTreeMap<String, Vec<u8>> {
        members.into_iter().map(|(name, bytes)| (name.replace("Fat_Torch", "fat_torch"), bytes)).collect()
    };
    assert_eq!(differing(&lower(others(&fat)), &lower(others(&wheels.fat))), Vec::<String>::new());
    assert!(!members.keys().any(|name| name.contains("device") || name.contains(".kpack")), "{:?}", members.keys());
    same(&code(&fat), &code(&wheels.fat));
    // The result is the same from a directory of the wheels, and in a mount.
    wheels.again(&[wheels.at("split")], "other", &["--view", "fat-wheel", "--view", "fat"]);
    let other = wheels.at("other/fat-wheel").join(fat.file_name().unwrap());
    assert!(fs::read(other).unwrap() == fs::read(&fat).unwrap());
    let unpacked = super::files(&wheels.at("other/fat"));
    assert_eq!(differing(&unpacked, &members), Vec::<String>::new());
}

#[test]
fn wheels_of_a_split_are_the_same_wheels() {
    let wheels = Wheels::new();
    let split = wheels.in_directory("split");
    wheels.again(&split, "again", &["--format", "wheel"]);
    let again = wheels.in_directory("again");
    let names =
        |wheels: &[PathBuf]| -> Vec<_> { wheels.iter().map(|path| path.file_name().unwrap().to_owned()).collect() };
    assert_eq!(names(&again), names(&split));
    assert!(again.len() > 3);
    for (one, other) in split.iter().zip(&again) {
        assert_eq!(differing(&members(one), &members(other)), Vec::<String>::new(), "{}", one.display());
    }
    run(&["verify", "--against", &text(&wheels.fat)], &[wheels.at("again")]);
}

/// The wheel's own extras are kept. Device code then has the other spelling, or no extra at all.
#[test]
fn a_wheel_may_have_extras_for_gpus_itself() {
    let wheels = Wheels::with(
        "Provides-Extra: Device_GFX90A\nRequires-Dist: foo==1; extra == \"device-gfx90a\"\nProvides-Extra: device-all\n\
         Provides-Extra: gfx1030\nProvides-Extra: device-gfx1030\n",
        &[],
    );
    run(&["verify", "--against", &text(&wheels.fat)], &[wheels.at("split")]);
    for (gpu, installed) in [
        ("gfx90a", "Fat_Torch[gfx90a]"),
        ("gfx1030", "amd-fat-torch-device-gfx1030"),
        ("gfx1100", "Fat_Torch[device-gfx1100]"),
    ] {
        let name = format!("amd_fat_torch_device_{gpu}-2.10.0+rocm7.1");
        let wheel = wheels.at("split").join(format!("{name}-py3-none-linux_x86_64.whl"));
        let metadata = String::from_utf8(members(&wheel)[&format!("{name}.dist-info/METADATA")].clone()).unwrap();
        assert!(metadata.contains(&format!("pip install \"{installed}==2.10.0+rocm7.1\"")), "{metadata}");
    }
}

#[test]
fn a_variant_wheel_is_a_copy_of_its_host_wheel() {
    let wheels = Wheels::with(METADATA, &["--generate-variant-wheel"]);
    run(&["inspect", "--require", "gfx90a"], &[wheels.at("split")]);
    let said = wheels.again(&[wheels.at("split")], "fat", &["--format", "wheel", "--view", "fat"]);
    assert!(said.contains("-variant.whl: left out, since"), "{said}");
    let [fat] = wheels.in_directory("fat").try_into().unwrap();
    same(&code(&fat), &code(&wheels.fat));
    // So is a second one, if there is no wheel without a variant.
    let host = wheels.at("split").join(fat.file_name().unwrap());
    let second = PathBuf::from(text(&host).replace(".whl", "-second.whl"));
    fs::rename(&host, &second).unwrap();
    let said = run(&["inspect", "--require", "gfx90a"], &[wheels.at("split")]);
    assert!(said.contains("-variant.whl: left out, since"), "{said}");
    fs::rename(&second, &host).unwrap();
    // Another variant is another wheel.
    let variant = PathBuf::from(text(&host).replace(".whl", "-other.whl"));
    fs::copy(wheel(wheels.place.path(), "fat_torch", "2.10.0+rocm7.1", "", &[]), &variant).unwrap();
    let mut split = Command::new(env!("CARGO_BIN_EXE_kpackfs"));
    split.args(["split", "--view", "fat", "--output"]).args([wheels.at("none"), wheels.at("split")]);
    let output = split.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("-other.whl") && said.contains("name one of them"), "{said}");
}

#[test]
fn device_wheels_may_be_packaged_in_another_way() {
    let wheels = Wheels::new();
    let options = ["--format", "wheel", "--gpu-targets", "gfx90a", "--device-package-prefix", "own"];
    wheels.again(&wheels.in_directory("split"), "own", &options);
    let own = wheels.in_directory("own");
    let [host, device] = &*own else { panic!("{own:?}") };
    assert!(device.to_str().unwrap().contains("own_gfx90a"), "{}", device.display());
    let host = members(host);
    let metadata = String::from_utf8(host["fat_torch-2.10.0+rocm7.1.dist-info/METADATA"].clone()).unwrap();
    assert!(metadata.contains("own-gfx90a==2.10.0+rocm7.1") && !metadata.contains("amd-fat-torch"), "{metadata}");
    run(&["verify"], &own);
    // The names of the earlier split are the default.
    wheels.again(&own, "again", &["--format", "wheel"]);
    assert!(wheels.in_directory("again").iter().any(|path| path.to_str().unwrap().contains("own_gfx90a")));
}

#[test]
fn thin_wheels_of_a_split_have_the_code_of_those_of_the_fat_wheel() {
    let wheels = Wheels::new();
    let options = ["--format", "thin-wheel", "--view", "gfx90a", "--view", "gfx1030+gfx90a"];
    wheels.again(&wheels.in_directory("split"), "of-split", &options);
    wheels.again(std::slice::from_ref(&wheels.fat), "of-fat", &options);
    for gpus in ["gfx90a", "gfx1030+gfx90a"] {
        let [one] = wheels.in_directory(&format!("of-split/{gpus}")).try_into().unwrap();
        let [other] = wheels.in_directory(&format!("of-fat/{gpus}")).try_into().unwrap();
        members(&one);
        assert_eq!(differing(&others(&one), &others(&other)), Vec::<String>::new());
        same(&code(&one), &code(&other));
        run(&["verify"], &[one]);
    }
}

#[test]
fn a_fat_wheel_without_all_device_wheels_is_said_to_lack_code() {
    let wheels = Wheels::new();
    let split = wheels.in_directory("split");
    let is_given = |path: &&PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("fat_torch-") || name.contains("gfx90a")
    };
    let given: Vec<_> = split.iter().filter(is_given).cloned().collect();
    let said = wheels.again(&given, "fat", &["--format", "wheel", "--view", "fat"]);
    assert!(said.contains("amd-fat-torch-device-gfx1030") && said.contains("lacks this code"), "{said}");
    let [fat] = wheels.in_directory("fat").try_into().unwrap();
    let code = code(&fat);
    let targets: BTreeSet<_> = code.values().flatten().flat_map(BTreeMap::keys).collect();
    assert!(targets.iter().all(|target| target.starts_with("gfx90a")) && !targets.is_empty(), "{targets:?}");
}

#[test]
fn a_directory_of_one_wheel_is_that_wheel() {
    let wheels = Wheels::new();
    let alone = wheels.at("alone");
    fs::create_dir(&alone).unwrap();
    fs::copy(&wheels.fat, alone.join(wheels.fat.file_name().unwrap())).unwrap();
    fs::write(alone.join("index.html"), "the page of an index").unwrap();
    wheels.again(&[alone], "again", &["--format", "wheel"]);
    let bytes = |name: &str| -> BTreeMap<_, _> {
        let all = wheels.in_directory(name);
        all.iter().map(|path| (path.file_name().unwrap().to_owned(), fs::read(path).unwrap())).collect()
    };
    assert!(bytes("split").len() > 1 && bytes("again") == bytes("split"));
}

#[test]
fn what_are_not_device_wheels_of_one_host_wheel_is_a_tree() {
    let wheels = Wheels::new();
    let split = wheels.in_directory("split");
    let stranger = wheel(wheels.place.path(), "y", "1", "Requires-Dist: fat-torch==2.10.0+rocm7.1\n", &[]);
    let several: Vec<_> = split.iter().cloned().chain([stranger]).collect();
    let output = text(&wheels.at("out"));
    let arguments = ["split", "--output", &output, "--format", "wheel"];
    let done = Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(arguments).args(&several).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && said.contains("device wheels that its extras require"), "{said}");
    wheels.again(&several, "tree", &["--view", "fat"]);
    assert!(wheels.at("tree/fat/y-1.dist-info").is_dir());
    // A fat wheel is not a split wheel.
    let arguments = ["split", "--output", &output, "--format", "wheel", "--view", "fat"];
    let done = Command::new(env!("CARGO_BIN_EXE_kpackfs")).args(arguments).arg(&wheels.fat).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && said.contains("is not split"), "{said}");
}
