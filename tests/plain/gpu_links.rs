//! Symlinks from a file of one GPU to an equal one of another GPU, as tools make them that save space (`fdupes --symlink`): each part has
//! the file itself.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;

use crate::common::{self, fixture, program, ran, succeeds};
use crate::images::layout::{Form, Layer, Layout, image};
use crate::images::unpacked::unpack;

const DATABASES: &str = "share/miopen/db";
/// A symlink, and what it leads to.
const NEXT_TO_IT: (&str, &str) = ("gfx90a68.HIP.fdb.txt", "gfx1030_36.HIP.fdb.txt");
const FROM_THE_ROOT: (&str, &str) = ("gfx90a6e.HIP.fdb.txt", "/share/miopen/db/gfx1030_36.HIP.fdb.txt");
const OF_THE_SAME_GPU: (&str, &str) = ("gfx1030_40.HIP.fdb.txt", "gfx1030_36.HIP.fdb.txt");

fn tree(place: &Path) -> PathBuf {
    let tree = place.join("tree");
    common::put(tree.join("lib/libMIOpen.so.1"), fixture("plain.so"));
    common::put(tree.join(DATABASES).join(NEXT_TO_IT.1), "x=1");
    for (link, target) in [NEXT_TO_IT, FROM_THE_ROOT, OF_THE_SAME_GPU] {
        symlink(target, tree.join(DATABASES).join(link)).unwrap();
    }
    tree
}

#[test]
fn each_part_of_a_tree_has_its_files() {
    let place = tempdir().unwrap();
    let tree = tree(place.path());
    let tar = place.path().join("tree.tar");
    succeeds(Command::new("tar").arg("-cf").arg(&tar).arg("-C").arg(&tree).arg("lib").arg("share"));
    for (number, input) in [&tree, &tar].into_iter().enumerate() {
        let [out, merged] = ["out", "merged"].map(|name| format!("{name}{number}"));
        let at = |arguments: &[&str]| {
            let (code, said) = ran(place.path(), arguments);
            assert_eq!(code, Some(0), "{arguments:?}: {said}");
        };
        let input = input.to_str().unwrap();
        at(&["split", input, "-o", &out]);
        at(&["verify", &out, "--against", input]);
        at(&["split", input, "--view", "merged/gfx90a", "-o", &merged]);
        at(&["verify", &merged, "--against", input]);
        let [part, host, merged] = [format!("{out}/gfx90a"), format!("{out}/host"), format!("{merged}/merged/gfx90a")]
            .map(|directory| place.path().join(directory).join(DATABASES));
        for (link, _) in [NEXT_TO_IT, FROM_THE_ROOT] {
            for file in [part.join(link), merged.join(link)] {
                assert!(file.symlink_metadata().unwrap().is_file(), "{}", file.display());
                assert_eq!(fs::read(file).unwrap(), b"x=1");
            }
        }
        let names: Vec<_> = fs::read_dir(host).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [OF_THE_SAME_GPU.0], "a symlink within a part");
    }
}

#[test]
fn each_image_has_its_files() {
    let place = tempdir().unwrap();
    let at = |name: &str| format!("{DATABASES}/{name}");
    let lower = Layer::new().file("lib/libMIOpen.so.1", &fixture("plain.so")).file(&at(NEXT_TO_IT.1), b"x=1");
    let upper = Layer::new().symlink(&at(NEXT_TO_IT.0), NEXT_TO_IT.1).symlink(&at(FROM_THE_ROOT.0), FROM_THE_ROOT.1);
    let same = Layer::new().symlink(&at(OF_THE_SAME_GPU.0), OF_THE_SAME_GPU.1);
    let whole = image(&place.path().join("in"), Form::Gzip, &[lower.done(), upper.done(), same.done()]);
    let out = Layout::opened(&place.path().join("out"));
    succeeds(program().arg("split").arg(whole.name("x")).args(["--format", "oci", "--no-cache", "-o"]).arg(&out.0));
    let found = unpack(&out.archives("gfx90a"));
    for (link, _) in [NEXT_TO_IT, FROM_THE_ROOT] {
        assert_eq!(found[&at(link)].content, b"x=1");
        assert!(found[&at(link)].kind.is_file());
    }
    assert!(!found.contains_key(&at(NEXT_TO_IT.1)));
    let other = unpack(&out.archives("gfx1030"));
    assert!(!other.contains_key(&at(NEXT_TO_IT.0)));
    assert_eq!(other[&at(OF_THE_SAME_GPU.0)].content, OF_THE_SAME_GPU.1.as_bytes());
}
