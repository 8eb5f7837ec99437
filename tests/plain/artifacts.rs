//! What commands make of artifacts: prefixes that are laid over each other, tar archives that are none, parts that are damaged.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::common::{code_object, copy_all, fixture, put_in as put, ran, succeeds};

const CONFIG: &str = r#"{
    "primary_shard": "shard",
    "architecture_groups": {"gfx9": {"architectures": ["gfx90a"]}, "gfx10": {"architectures": ["gfx1030"]}}
}"#;

/// The archive of gfx90a is in the first prefix that has code, and libraries of both lead to it.
const ARCHIVE: &str = "split/shard/blas_lib_gfx90a/a/stage/.kpack/blas_lib_gfx90a.kpack";

/// Split shards with an artifact of two prefixes, each with a library and a database.
fn shards() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let artifact = "fat/shard/blas_lib_gfx9";
    put(place.path(), &format!("{artifact}/artifact_manifest.txt"), b"a/stage\nb/stage\n");
    put(place.path(), &format!("{artifact}/a/stage/lib/libfirst.so"), &fixture("plain.so"));
    put(place.path(), &format!("{artifact}/b/stage/lib/librocblas.so.5"), &fixture("plain.so"));
    for (gpu, machine) in [("gfx1030", 0x36), ("gfx90a", 0x3f)] {
        let database = format!("{artifact}/b/stage/lib/rocblas/library");
        put(place.path(), &format!("{database}/TensileLibrary_lazy_{gpu}.dat"), b"\x80");
        put(place.path(), &format!("{database}/x_{gpu}.co"), &code_object(machine));
    }
    said(place.path(), &["split", "fat/shard", "-o", "split/shard"], 0);
    put(place.path(), "app/libapp.so", &fixture("plain.so"));
    put(place.path(), "config.json", CONFIG.as_bytes());
    place
}

#[track_caller]
fn said(place: &Path, arguments: &[&str], code: i32) -> String {
    let (status, said) = ran(place, arguments);
    assert_eq!(status, Some(code), "{arguments:?}: {said}");
    said
}

#[test]
fn prefixes_are_one_root_in_every_command() {
    let place = shards();
    said(place.path(), &["recombine", "config.json", "split", "-o", "packages"], 0);
    said(place.path(), &["verify", "split/shard"], 0);
    for input in ["fat/shard", "split/shard", "packages"] {
        said(place.path(), &["inspect", input, "--require", "gfx90a,gfx1030"], 0);
        said(place.path(), &["why", input, "--target", "gfx90a,gfx1030"], 0);
        let failed = said(place.path(), &["inspect", input, "--require", "gfx942"], 1);
        assert!(failed.contains("/lib/libfirst.so") && failed.contains("/lib/librocblas.so.5"), "{input}: {failed}");
        said(place.path(), &["why", input, "--target", "gfx942"], 1);
        let out = format!("collected/{input}");
        let include = ["--include", "librocblas.so.5", "--gpu-targets", "gfx90a", "-o", &out];
        let collected = said(place.path(), &[&["collect", "app", "--from", input][..], &include].concat(), 1);
        assert!(!collected.contains("not there") && !collected.contains("no code"), "{input}: {collected}");
        assert!(place.path().join(&out).join("lib/rocblas/library/x_gfx90a.co").is_file(), "{input}");
        said(place.path(), &["inspect", &out, "--require", "gfx90a"], 0);
    }
    // A library that another one hides.
    let hidden = "fat/shard/blas_lib_gfx9/b/stage/lib/libfirst.so";
    put(place.path(), hidden, &fixture("generic.so"));
    let warned = said(place.path(), &["inspect", "fat/shard", "--require", "gfx90a"], 0);
    assert!(warned.contains("b/stage/lib/libfirst.so: left out: a/stage/lib/libfirst.so is installed"), "{warned}");
    // Without the archive of one GPU.
    fs::remove_file(place.path().join(ARCHIVE)).unwrap();
    said(place.path(), &["inspect", "split/shard", "--require", "gfx1030"], 0);
    said(place.path(), &["inspect", "split/shard", "--require", "gfx90a"], 1);
    said(place.path(), &["why", "split/shard", "--target", "gfx90a"], 1);
}

/// A part that is not what its split wrote is in no package.
#[test]
fn packages_are_made_of_whole_parts_only() {
    let place = shards();
    let (archive, intact) = (place.path().join(ARCHIVE), fs::read(place.path().join(ARCHIVE)).unwrap());
    let database = "b/stage/lib/rocblas/library/x_gfx90a.co";
    let recombine =
        |code: i32| said(place.path(), &["recombine", "config.json", "split", "-o", "out", "--force"], code);
    recombine(0);
    let mut table = intact.clone();
    let half = intact.len() - 20;
    table[half..].fill(0xff);
    for (damaged, reason) in
        [(&[][..], "it has 0 bytes"), (&intact[..1000], "it has 1000 bytes"), (&table, "MessagePack")]
    {
        fs::write(&archive, damaged).unwrap();
        let said = recombine(1);
        assert!(said.contains("blas_lib_gfx90a.kpack: ") && said.contains(reason), "{said}");
    }
    fs::remove_file(&archive).unwrap();
    assert!(recombine(1).contains("blas_lib_gfx90a.kpack: it is missing"));
    fs::write(&archive, &intact).unwrap();
    recombine(0);
    fs::remove_file(place.path().join("split/shard/blas_lib_gfx90a").join(database)).unwrap();
    assert!(recombine(1).contains("x_gfx90a.co: it is missing"));
}

/// What a split has written, and packages would lack, is missed. What no package has, or another shard has, is not.
#[test]
fn parts_that_statements_name_are_in_packages() {
    let place = shards();
    let recombine = |code: i32, options: &[&str]| {
        said(place.path(), &[&["recombine", "config.json", "split", "-o", "out", "--force"], options].concat(), code)
    };
    let part = place.path().join("split/shard/blas_lib_gfx90a");
    let kept = place.path().join("kept");
    fs::rename(&part, &kept).unwrap();
    let lacks = recombine(1, &[]);
    assert!(lacks.contains("blas_lib_generic/.kpackfs/split.json: it names blas_lib_gfx90a"), "{lacks}");
    recombine(0, &["--exclude-targets", "gfx90a"]);
    recombine(0, &["--gpu-targets", "gfx1030"]);
    let absent = recombine(1, &["--component", "none"]);
    assert!(absent.contains("split: there is no component none; there are blas_lib"), "{absent}");
    put(place.path(), "config.json", CONFIG.replace("\"gfx90a\"", "\"gfx942\"").as_bytes());
    recombine(0, &[]);
    put(place.path(), "config.json", CONFIG.as_bytes());
    // Another shard has the same code, and one of two is enough.
    copy_all(place.path().join("split/shard"), place.path().join("split/twin"));
    copy_all(&kept, place.path().join("split/twin/blas_lib_gfx90a"));
    recombine(0, &[]);
    assert!(place.path().join("out/blas_lib_gfx9").is_dir());
    fs::remove_dir_all(place.path().join("split/twin")).unwrap();
}

/// Parts of one input fit, whatever GPUs their splits were for. A part of another build, and a copy of another part, do not.
#[test]
fn parts_of_different_splits_are_in_no_package() {
    let place = shards();
    let recombine =
        |code: i32| said(place.path(), &["recombine", "config.json", "split", "-o", "out", "--force"], code);
    let part = "split/shard/blas_lib_gfx90a";
    let replace = |by: &str| {
        fs::remove_dir_all(place.path().join(part)).unwrap();
        copy_all(place.path().join(by), place.path().join(part));
    };
    said(place.path(), &["split", "fat/shard", "-o", "same", "--gpu-targets", "gfx90a"], 0);
    replace("same/blas_lib_gfx90a");
    recombine(0);
    put(place.path(), "fat/shard/blas_lib_gfx9/a/stage/lib/libfirst.so", &fixture("mixed.so"));
    said(place.path(), &["split", "fat/shard", "-o", "other"], 0);
    replace("other/blas_lib_gfx90a");
    let differs = recombine(1);
    assert!(differs.contains("blas_lib_gfx90a: it is of the split "), "{differs}");
    replace("split/shard/blas_lib_gfx1030");
    let copied = recombine(1);
    assert!(copied.contains("manifest.json: it is that of blas_lib_gfx1030"), "{copied}");
}

/// A device part without its generic part is no fat artifact, with or without a statement, in each shard.
#[test]
fn device_parts_without_host_code_are_no_fat_artifacts() {
    let place = shards();
    copy_all(place.path().join("split/shard"), place.path().join("split/twin"));
    fs::remove_dir_all(place.path().join("split/twin/blas_lib_generic")).unwrap();
    fs::remove_dir_all(place.path().join("split/twin/blas_lib_gfx1030")).unwrap();
    for _ in ["as it was written", "as another tool writes it"] {
        for command in [
            &["recombine", "config.json", "split", "-o", "out"][..],
            &["split", "split/twin", "-o", "again"],
            &["split", "split/twin/blas_lib_gfx90a", "-o", "again"],
            &["inspect", "split/twin"],
        ] {
            let text = said(place.path(), command, 1);
            assert!(
                text.contains("blas_lib_gfx90a: it is a device part, without host code; put blas_lib_generic"),
                "{text}"
            );
        }
        let _ = fs::remove_dir_all(place.path().join("split/twin/blas_lib_gfx90a/.kpackfs"));
    }
}

/// What is called an artifact and is no tar archive is not understood, whatever the others have.
#[test]
fn an_artifact_that_is_no_archive_has_no_answer() {
    let place = shards();
    put(place.path(), "split/shard/bar_lib_gfx90a.tar.xz", b"text");
    for command in [
        &["recombine", "config.json", "split", "-o", "out"][..],
        &["inspect", "split/shard", "--require", "gfx90a"],
        &["why", "split/shard", "--target", "gfx90a"],
    ] {
        assert!(said(place.path(), command, 5).contains("bar_lib_gfx90a.tar.xz: "), "{command:?}");
    }
}

/// The name of an archive is a guess; `artifact_manifest.txt` in it is none.
#[test]
fn a_tar_archive_without_a_manifest_is_a_tree() {
    let place = tempfile::tempdir().unwrap();
    put(place.path(), "fat/lib/libfat.so", &fixture("plain.so"));
    // More than is unpacked of any other archive to recognise it.
    put(place.path(), "fat/aaa", &vec![b'a'; 3 << 20]);
    said(place.path(), &["split", "fat", "-o", "split"], 0);
    for part in ["host", "gfx90a", "gfx1030"] {
        copy_all(place.path().join("split").join(part).join("."), place.path().join("tree"));
    }
    let pack = |options: &[&str]| succeeds(Command::new("tar").args(options).current_dir(place.path()));
    for end in ["tar", "tar.gz", "tar.zst"] {
        let (tree, only) = (format!("rocm_gfx90a.{end}"), format!("only-{end}/rocm_gfx90a.{end}"));
        pack(&["-ca", "-f", &tree, "-C", "tree", "."]);
        said(place.path(), &["verify", &tree], 0);
        said(place.path(), &["inspect", &tree, "--require", "gfx90a"], 0);
        fs::create_dir(place.path().join(format!("only-{end}"))).unwrap();
        fs::rename(place.path().join(&tree), place.path().join(&only)).unwrap();
        said(place.path(), &["inspect", &format!("only-{end}")], 0);
    }
    // The manifest may come last.
    put(place.path(), "z/artifact_manifest.txt", b"stage\n");
    put(place.path(), "artifact/stage/lib/libfat.so", &fixture("plain.so"));
    put(place.path(), "artifact/stage/aaa", &vec![b'a'; 3 << 20]);
    for end in ["tar", "tar.gz"] {
        let artifact = format!("shard-{end}/x_lib_gfx9.{end}");
        fs::create_dir(place.path().join(format!("shard-{end}"))).unwrap();
        pack(&["-ca", "-f", &artifact, "-C", "artifact", "stage", "-C", "../z", "artifact_manifest.txt"]);
        let out = format!("out-{end}");
        said(place.path(), &["split", &format!("shard-{end}"), "-o", &out], 0);
        assert!(place.path().join(&out).join("x_lib_gfx90a/artifact_manifest.txt").is_file(), "{end}");
    }
}

/// A GPU for which the input has databases only.
#[test]
fn a_view_of_databases_only_has_no_code_to_find() {
    let place = tempfile::tempdir().unwrap();
    put(place.path(), "fat/lib/librocblas.so.5", &fixture("plain.so"));
    for (gpu, machine) in [("gfx908", 0x30), ("gfx90a", 0x3f)] {
        put(place.path(), &format!("fat/lib/rocblas/library/x_{gpu}.co"), &code_object(machine));
    }
    for gpu in ["gfx908", "gfx90a"] {
        said(place.path(), &["split", "fat", "--view", &format!("merged/{gpu}"), "-o", gpu], 0);
        said(place.path(), &["verify", gpu], 0);
        said(place.path(), &["verify", gpu, "--against", "fat"], 0);
        said(place.path(), &["verify", &format!("{gpu}/merged/{gpu}")], 0);
    }
    // Both in one directory, one after the other.
    said(place.path(), &["split", "fat", "--view", "merged/gfx908", "-o", "gfx90a"], 0);
    said(place.path(), &["verify", "gfx90a"], 0);
    fs::remove_dir_all(place.path().join("gfx90a/merged/gfx90a/.kpack")).unwrap();
    let found = said(place.path(), &["verify", "gfx90a"], 1);
    assert!(found.contains("[no-code]") && found.contains("1 finding"), "{found}");
    let found = said(place.path(), &["verify", "gfx90a", "--against", "fat"], 1);
    assert!(found.contains("[against-code-lost]"), "{found}");
}
