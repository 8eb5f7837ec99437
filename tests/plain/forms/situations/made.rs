//! Makes the forms of a situation: a wheel, the wheel unpacked, what `split` makes of it, that installed, and its mount.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;

use tempfile::TempDir;

use super::library::{Library, application};
use super::table::Situation;
use crate::common::{succeeds, umount};
use crate::forms::made::{kpackfs, zipped};

/// A form of the input of a situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Wheel,
    Unpacked,
    Split,
    Installed,
    Mounted,
}

impl Form {
    pub(crate) const ALL: [Self; 5] = [Self::Wheel, Self::Unpacked, Self::Split, Self::Installed, Self::Mounted];

    /// Whether the device code was split off.
    pub(crate) fn is_split(self) -> bool {
        matches!(self, Self::Split | Self::Installed | Self::Mounted)
    }
}

/// What a situation is made of.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) all: Vec<(String, Vec<u8>)>,
    scratch: Option<TempDir>,
}

impl Files {
    pub(crate) fn put(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.all.push((path.to_owned(), bytes.into()));
    }

    /// A library in `kern/lib`.
    pub(crate) fn library(&mut self, library: &Library) {
        self.library_in("kern/lib", library);
    }

    pub(crate) fn library_in(&mut self, directory: &str, library: &Library) {
        let scratch = self.scratch.get_or_insert_with(|| tempfile::tempdir().unwrap());
        let bytes = library.make(scratch.path());
        self.put(&format!("{directory}/{}", library.name), bytes);
    }

    /// A library as a split leaves it, without its archives.
    pub(crate) fn grafted(&mut self, directory: &str, library: &Library) {
        let scratch = self.scratch.get_or_insert_with(|| tempfile::tempdir().unwrap()).path();
        fs::write(scratch.join(library.name), library.make(scratch)).unwrap();
        succeeds(kpackfs().args(["split", library.name, "-o", "parts", "--no-cache"]).current_dir(scratch));
        let bytes = fs::read(scratch.join("parts/host").join(library.name)).unwrap();
        self.put(&format!("{directory}/{}", library.name), bytes);
    }

    /// The wheel with these files.
    fn wheel(&self) -> Vec<u8> {
        let metadata = b"Metadata-Version: 2.1\nName: kern\nVersion: 1.0\n".to_vec();
        let wheel = b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n".to_vec();
        let own = [("kern-1.0.dist-info/METADATA", metadata), ("kern-1.0.dist-info/WHEEL", wheel)];
        let mut members: Vec<_> = self.all.iter().map(|(path, bytes)| (path.as_str(), bytes.clone())).collect();
        members.extend(own);
        let record = "kern-1.0.dist-info/RECORD";
        let paths: Vec<_> = members.iter().map(|(path, _)| *path).chain([record]).collect();
        let rows = paths.join(",,\n") + ",,\n";
        members.push((record, rows.into_bytes()));
        zipped(&members)
    }
}

/// The forms of a situation, below one directory.
pub(crate) struct Made {
    root: TempDir,
    cache: TempDir,
}

impl Drop for Made {
    fn drop(&mut self) {
        umount(&self.root.path().join("mnt"));
    }
}

impl Made {
    pub(crate) fn of(situation: &Situation, can_mount: bool) -> Self {
        let [root, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let made = Self { root, cache };
        let mut files = Files::default();
        (situation.files)(&mut files);
        let wheel = made.at(Form::Wheel);
        fs::write(&wheel, files.wheel()).unwrap();
        unzip(&wheel, &made.at(Form::Unpacked));
        if situation.has(Form::Split) || situation.has(Form::Installed) {
            made.split();
        }
        if can_mount && situation.has(Form::Mounted) {
            fs::create_dir(made.at(Form::Mounted)).unwrap();
            made.run(&["mount", "kern-1.0-py3-none-any.whl", "mnt"]);
        }
        if let Some(damage) = situation.damage {
            for form in [Form::Split, Form::Installed] {
                damage(&made.at(form));
            }
        }
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir(made.root.path().join("app")).unwrap();
        fs::write(made.root.path().join("app/libapp.so"), application(situation.needs, scratch.path())).unwrap();
        made
    }

    fn split(&self) {
        self.run(&["split", "kern-1.0-py3-none-any.whl", "-o", "parts"]);
        self.run(&["split", "kern-1.0-py3-none-any.whl", "--format", "wheel", "-o", "wheels"]);
        for wheel in fs::read_dir(self.root.path().join("wheels")).unwrap() {
            unzip(&wheel.unwrap().path(), &self.at(Form::Installed));
        }
    }

    pub(crate) fn at(&self, form: Form) -> PathBuf {
        self.root.path().join(Self::name(form))
    }

    pub(crate) fn name(form: Form) -> &'static str {
        match form {
            Form::Wheel => "kern-1.0-py3-none-any.whl",
            Form::Unpacked => "unpacked",
            Form::Split => "parts",
            Form::Installed => "site",
            Form::Mounted => "mnt",
        }
    }

    /// Runs the program under test, which has to succeed.
    fn run(&self, arguments: &[&str]) {
        succeeds(kpackfs().args(arguments).current_dir(self.root.path()).env("KPACKFS_CACHE_DIR", self.cache.path()));
    }

    pub(crate) fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = kpackfs();
        for variable in ["LD_LIBRARY_PATH", "ROCM_PATH", "HSA_XNACK", "ROCM_KPACK_PATH", "ROCBLAS_TENSILE_LIBPATH"] {
            command.env_remove(variable);
        }
        command.args(arguments).current_dir(self.root.path()).env("KPACKFS_CACHE_DIR", self.cache.path());
        command.output().unwrap()
    }
}

fn unzip(wheel: &Path, to: &Path) {
    zip::ZipArchive::new(File::open(wheel).unwrap()).unwrap().extract(to).unwrap();
}

/// The files below a directory whose paths contain a text.
pub(crate) fn named(directory: &Path, part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(named(&path, part));
        } else if path.to_str().unwrap().contains(part) {
            found.push(path);
        }
    }
    found
}
