//! Makes the forms: a fat wheel, what the program under test makes of it, and what others do.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zip::write::SimpleFileOptions;

use crate::common::{self, can_mount, fixture, program, succeeds, umount};
use crate::forms::others;
use crate::forms::reader::{self, Counts};
use crate::forms::rows::Row;

/// A directory with all forms, and the mount of one of them. It ends with this value.
pub(crate) struct Place {
    root: TempDir,
    /// The path of the fat wheel below the root.
    fat: String,
    cache: TempDir,
    libraries: BTreeMap<String, Counts>,
    counts: Counts,
    is_mounted: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_mounted {
            umount(&self.root.path().join("mnt"));
        }
    }
}

/// The program under test, or another build of it for a comparison.
pub(crate) fn kpackfs() -> Command {
    std::env::var_os("FORMS_PROGRAM").map_or_else(program, Command::new)
}

/// A file of the wheel: its path and its bytes.
pub(crate) type Member = (&'static str, Vec<u8>);

/// The files of the fat wheel. Each library has code for gfx90a, and one has none for gfx1030.
pub(crate) fn members() -> Vec<Member> {
    let mut members = vec![
        ("small/__init__.py", Vec::new()),
        ("small/lib/libplain.so", fixture("plain.so")),
        ("small/lib/libccob.so", fixture("ccob-mixed.so")),
        ("small/lib/libasan.so", fixture("asan.so")),
        ("small/lib/libhost.so", fixture("host-only.so")),
        ("small/lib/rocblas/library/TensileLibrary_gfx90a.dat", b"\x91\xaafor gfx90a".to_vec()),
        ("small/lib/rocblas/library/TensileLibrary_gfx1030.dat", b"\x91\xabfor gfx1030".to_vec()),
        ("small-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: small\nVersion: 1.0\n".to_vec()),
        ("small-1.0.dist-info/WHEEL", b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n".to_vec()),
    ];
    let record = "small-1.0.dist-info/RECORD";
    let paths: Vec<_> = members.iter().map(|(path, _)| *path).chain([record]).collect();
    members.push((record, (paths.join(",,\n") + ",,\n").into_bytes()));
    members
}

/// A zip archive of some files.
pub(crate) fn zipped(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (path, bytes) in members {
        zip.start_file(*path, SimpleFileOptions::default().unix_permissions(0o644)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

impl Place {
    /// All forms of a small wheel.
    pub(crate) fn make() -> Self {
        let place = Self::of_wheel("small-1.0-py3-none-any.whl", &zipped(&members()));
        others::trees(&place);
        others::artifacts(&place);
        others::images(&place);
        others::files(&place);
        others::packages(&place);
        others::collected(&place);
        others::empty(&place);
        others::damaged(&place);
        place
    }

    /// The forms of a wheel that the first table has.
    pub(crate) fn of_wheel(name: &str, wheel: &[u8]) -> Self {
        let libraries = reader::code_of_wheel(wheel);
        let mut counts = Counts::new();
        for (target, count) in libraries.values().flatten() {
            *counts.entry(target.clone()).or_default() += count;
        }
        let [root, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut place = Self { root, fat: format!("fat/{name}"), cache, libraries, counts, is_mounted: false };
        place.write(&place.fat, wheel);
        place.split();
        place.sums();
        place.installed();
        place.is_mounted = can_mount();
        if place.is_mounted {
            fs::create_dir(place.at("mnt")).unwrap();
            place.runs(&["mount", &place.fat, "mnt"]);
        }
        place
    }

    pub(crate) fn fat(&self) -> &str {
        &self.fat
    }

    /// The inputs of a row, with the names of wheels for `*.whl`.
    pub(crate) fn inputs(&self, row: &Row) -> Vec<String> {
        let inputs = row.inputs.iter().map(|&input| match input.strip_suffix("/*.whl") {
            Some(directory) => self.names(directory).iter().map(|name| format!("{directory}/{name}")).collect(),
            None => vec![input.to_owned()],
        });
        inputs.flatten().collect()
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn cache(&self) -> &Path {
        self.cache.path()
    }

    /// The code objects of each library of the fat wheel.
    pub(crate) fn libraries(&self) -> &BTreeMap<String, Counts> {
        &self.libraries
    }

    /// The code objects of the fat wheel.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether what a row names can be made on this machine.
    pub(crate) fn can_make(&self, row: &Row) -> bool {
        self.is_mounted || !row.inputs.iter().any(|input| Path::new(input).starts_with("mnt"))
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn write(&self, path: &str, bytes: &[u8]) {
        common::put(self.at(path), bytes);
    }

    /// Runs the program under test, which has to succeed.
    pub(crate) fn runs(&self, arguments: &[&str]) {
        succeeds(kpackfs().args(arguments).current_dir(self.root()).env("KPACKFS_CACHE_DIR", self.cache()));
    }

    /// The names of the files in a directory.
    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(directory)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What `split` writes.
    fn split(&self) {
        self.runs(&["split", &self.fat, "-o", "parts"]);
        self.runs(&["split", &self.fat, "-o", "views", "--view", "merged/gfx90a", "--view", "thin/gfx90a"]);
        for (format, directory) in [("wheel", "wheels"), ("index", "index"), ("thin-wheel", "thin-wheels")] {
            self.runs(&["split", &self.fat, "--format", format, "-o", directory]);
        }
    }

    /// Wheels as on a page of releases, next to a list of their digests.
    fn sums(&self) {
        for (from, to) in [("fat", "fat-sums"), ("wheels", "wheels-sums")] {
            let mut sums = Vec::new();
            for name in self.names(from) {
                let bytes = fs::read(self.at(from).join(&name)).unwrap();
                let digest =
                    Sha256::digest(&bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
                writeln!(sums, "{digest}  {name}").unwrap();
                self.write(&format!("{to}/{name}"), &bytes);
            }
            self.write(&format!("{to}/SHA256SUMS"), &sums);
        }
    }

    /// Unpacks the wheels of a directory as an installer does.
    pub(crate) fn install(&self, wheels: &str, to: &str) {
        for wheel in self.names(wheels) {
            let file = File::open(self.at(wheels).join(wheel)).unwrap();
            zip::ZipArchive::new(file).unwrap().extract(self.at(to)).unwrap();
        }
    }

    /// Installed wheels: site-packages alone, and in a virtual environment.
    fn installed(&self) {
        for (from, name) in [("fat", "fat"), ("wheels", "split")] {
            self.install(from, &format!("site-{name}"));
            self.install(from, &format!("venv-{name}/lib/python3.12/site-packages"));
            self.write(&format!("venv-{name}/pyvenv.cfg"), b"home = /usr/bin\nversion = 3.12.0\n");
        }
    }
}
