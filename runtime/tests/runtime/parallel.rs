//! Many threads on one archive and one cache.

use std::fs;
use std::path::Path;

use rocm_kpack::{Archive, ArchiveFile, Cache, Environment, Marker, Scheme, toc_key};

use crate::archives::archive;

const THREADS: usize = 8;
const OBJECTS: usize = 100;

/// A code object of some KB, different from all others.
fn code(number: usize) -> Vec<u8> {
    (0..2000 + number * 17).flat_map(|at| (at * (number + 1)).to_le_bytes()).collect()
}

#[test]
fn all_threads_get_the_right_code() {
    let directory = tempfile::tempdir().unwrap();
    for scheme in [Scheme::None, Scheme::ZstdPerKernel] {
        let codes: Vec<_> = (0..OBJECTS).map(|number| (toc_key("lib/x.so", number), code(number))).collect();
        let entries: Vec<_> = codes.iter().map(|(name, code)| (name.as_str(), "gfx942", code.as_slice())).collect();
        let path = directory.path().join(format!("{}_gfx942.kpack", scheme.name()));
        fs::write(&path, archive(scheme, &["gfx942"], &entries)).unwrap();
        let file = Archive::open(ArchiveFile::open(&path).unwrap()).unwrap();
        let cache = Cache::new(Environment::default());
        let marker = Marker {
            kpack_search_paths: vec![format!("{}_@GFXARCH@.kpack", scheme.name())],
            kernel_name: "lib/x.so".to_owned(),
        };
        let binary = directory.path().join("libx.so");
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (codes, file, cache, marker, binary) = (&codes, &file, &cache, &marker, &binary);
                scope.spawn(move || {
                    for step in 0..OBJECTS {
                        let number = (step + thread * 31) % OBJECTS;
                        let (name, code) = &codes[number];
                        assert!(file.get(name, "gfx942").unwrap().as_ref() == Some(code));
                        let index = u32::try_from(number).unwrap();
                        assert!(&cache.load(marker, binary, index, &["gfx942:xnack-"]).unwrap() == code);
                    }
                });
            }
        });
    }
}

/// A mapped file and the same bytes in memory give the same results. (The tests of mounts cover files that are not
/// mapped.)
#[test]
fn a_file_and_its_bytes_say_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.kpack");
    let bytes = archive(Scheme::ZstdPerKernel, &["gfx942"], &[("x#0", "gfx942", &code(3)), ("y#0", "gfx942", b"")]);
    fs::write(&path, &bytes).unwrap();
    let file = Archive::open(ArchiveFile::open(Path::new(&path)).unwrap()).unwrap();
    let memory = Archive::open(bytes.as_slice()).unwrap();
    for name in ["x#0", "y#0", "z#0"] {
        assert_eq!(file.get(name, "gfx942").unwrap(), memory.get(name, "gfx942").unwrap());
    }
    assert_eq!(file.toc().unwrap().encode(), memory.toc().unwrap().encode());
}
