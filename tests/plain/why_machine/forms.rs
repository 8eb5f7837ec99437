//! Each form of an input has the answer that the fat wheel has. What was split, packed or installed holds the same code.

use std::process::Command;

use serde_json::Value;

use super::situations::Place;
use super::{KPACKFS, fixture};
use crate::common::succeeds;

/// Makes the forms of `fat`, which has one library with code for gfx1030 and gfx90a, next to those of [`Place`].
const MAKE: &str = r#"
set -e
for format in index thin-wheel; do "$KPACKFS" split fat -o $format --format $format; done
"$KPACKFS" split fat -o whole --view merged/gfx1030 --view thin/gfx1030 --view thin/gfx90a
mkdir one sums packages conda conda/conda-meta conda/lib layout
python3 -c 'import shutil; shutil.make_archive("fat", "zip", "fat"); shutil.make_archive("fat", "gztar", "fat")'
cp fat.zip one/demo-1.0-py3-none-any.whl
cp -a wheels/. sums
for place in one sums; do (cd $place; sha256sum *.whl > SHA256SUMS; echo text > README.md); done
cp -a "env/$SITE" venv-site
mkdir -p venv/lib/python3.11/site-packages
echo 'home = /usr/bin' > venv/pyvenv.cfg
cp -a venv venv-added
cp -a venv-site/. venv/lib/python3.11/site-packages
echo ../../../../venv-site > venv-added/lib/python3.11/site-packages/more.pth
cp fat/demo/lib/plain.so conda/lib/libplain.so
echo > conda/conda-meta/history
mkdir -p artifacts/demo_lib_gfx90X/stage/lib
cp fat/demo/lib/plain.so artifacts/demo_lib_gfx90X/stage/lib
echo stage > artifacts/demo_lib_gfx90X/artifact_manifest.txt
"$KPACKFS" split artifacts -o artifacts-split
"$KPACKFS" kpack extract dirs/gfx1030/demo/.kpack/*.kpack -o objects
"$KPACKFS" kpack extract dirs/gfx90a/demo/.kpack/*.kpack -o objects
mkdir host-only && cp "$HOST_ONLY" host-only && echo text > host-only/a && echo text > host-only/b
echo text > text
cat > layout.py <<'END'
import hashlib, json, os, tarfile
os.makedirs("layout/blobs/sha256")
def blob(data, kind, **more):
    digest = hashlib.sha256(data).hexdigest()
    open(f"layout/blobs/sha256/{digest}", "wb").write(data)
    return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data), **more}
tarfile.open("layer.tar", "w").add("fat", "opt")
layer = open("layer.tar", "rb").read()
config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}
config = blob(json.dumps(config).encode(), "config.v1+json")
manifest = {"schemaVersion": 2, "config": config, "layers": [blob(layer, "layer.v1.tar")]}
name = {"org.opencontainers.image.ref.name": "latest"}
manifest = blob(json.dumps(manifest).encode(), "manifest.v1+json", annotations=name)
json.dump({"schemaVersion": 2, "manifests": [manifest]}, open("layout/index.json", "w"))
json.dump({"imageLayoutVersion": "1.0.0"}, open("layout/oci-layout", "w"))
END
python3 layout.py
"#;

/// The arguments, and the number of look-ups that find code for gfx1030.
const FORMS: &[(&str, usize)] = &[
    ("one/demo-1.0-py3-none-any.whl", 1),
    ("fat", 1),
    ("dirs", 1),
    ("dirs/host dirs/gfx1030 dirs/gfx90a", 1),
    ("wheels", 1),
    ("wheels/demo-1.0-py3-none-any.whl wheels/amd_demo_device_gfx1030-1.0-py3-none-any.whl", 1),
    ("index", 1),
    ("index/simple", 1),
    ("thin-wheel", 1),
    ("whole", 1),
    ("one", 1),
    ("sums", 1),
    ("venv", 1),
    ("venv-added", 1),
    ("conda", 1),
    ("artifacts", 1),
    ("artifacts/demo_lib_gfx90X", 1),
    ("artifacts-split", 1),
    ("layout", 1),
    ("oci:layout", 1),
    ("oci:layout:latest", 1),
    ("fat.tar.gz", 1),
    // Each wrapper's code.
    ("objects", 2),
    ("index thin-wheel one", 3),
];

fn made() -> Place {
    let place = Place::new();
    let mut make = Command::new("sh");
    make.args(["-c", MAKE]).env("KPACKFS", KPACKFS).env("HOST_ONLY", fixture("host-only.so"));
    succeeds(make.env("SITE", "lib/python3.11/site-packages").current_dir(place.at("")));
    place
}

fn sentence(answer: &Value) -> &str {
    answer["sentence"].as_str().unwrap()
}

#[test]
fn each_form_has_the_answer_of_the_fat_wheel() {
    let place = made();
    for (named, count) in FORMS {
        let answer = place.why(&[], &format!("--target gfx1030 {named}"));
        let context = format!("{named}: {answer:#}");
        assert_eq!(answer["status"], "found", "{context}");
        let lookups = answer["lookups"].as_array().unwrap();
        assert_eq!(lookups.len(), *count, "{context}");
        assert!(lookups.iter().all(|lookup| lookup["with_code"] == lookup["wrappers"]), "{context}");
        let answer = place.why(&[], &format!("--target gfx942 {named}"));
        assert_eq!(
            (&answer["status"], answer["causes"][0]["paths"].is_null()),
            (&"no-code".into(), false),
            "{answer:#}"
        );
    }
    let of_thin = place.why(&[], "--target gfx942 thin-wheel");
    assert!(
        sentence(&of_thin).ends_with("the split has nothing for gfx942; it has something for gfx1030, gfx90a"),
        "{of_thin:#}"
    );
    // Of a directory with views for one GPU each, every GPU has its own.
    assert_eq!(place.why(&[], "--target gfx1030,gfx90a whole")["lookups"].as_array().unwrap().len(), 2);
}

#[test]
fn what_has_no_code_says_what_was_looked_at_and_what_is_not_understood_is_named() {
    let place = made();
    for (named, status, expected) in [
        (
            "host-only",
            "nothing",
            "host-only: nothing there has device code, or wrappers with code or archives: 3 files, 1 binary",
        ),
        ("--binary host-only.so host-only", "nothing", "and only those called host-only.so are wanted"),
        (
            "--binary x.so fat",
            "unknown",
            "--binary x.so: no file in fat is called so: 4 files, 1 binary; give the name",
        ),
        ("--binary METADATA wheels", "nothing", "and only those called METADATA are wanted"),
        ("--binary METADATA layout", "nothing", "and only those called METADATA are wanted"),
        ("--binary METADATA fat.tar.gz", "nothing", "and only those called METADATA are wanted"),
        ("--binary x.so layout", "unknown", "--binary x.so: no file in layout is called so: "),
        ("text", "unknown", "text: a file of no known format"),
        ("text fat", "unknown", "text: a file of no known format"),
        ("docker://x", "unknown", "skopeo copy docker://x"),
        ("oci:nowhere", "unknown", "nowhere"),
    ] {
        let answer = place.why(&[], &format!("--target gfx1030 {named}"));
        assert_eq!(answer["status"], status, "{named}: {answer:#}");
        assert!(sentence(&answer).contains(expected), "{named}: {answer:#}");
        assert_eq!(sentence(&answer).contains("device code"), status == "nothing", "{answer:#}");
    }
}

/// A code object in gzip, which no runtime looks up.
#[test]
fn code_that_programs_load_themselves_is_judged() {
    let place = Place::new();
    let mut object = b"\x7fELF\x02\x01\x01\x40\x02".to_vec();
    object.resize(256, 0);
    // ET_DYN, EM_AMDGPU, the end of the file, EF_AMDGPU_MACH_AMDGCN_GFX942 (LLVM's ELF.h).
    object[16..20].copy_from_slice(&[3, 0, 224, 0]);
    object[40..48].copy_from_slice(&256_u64.to_le_bytes());
    object[48] = 0x4c;
    std::fs::create_dir(place.at("other")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut gzip, &object).unwrap();
    std::fs::write(place.at("other/kernels.bin"), gzip.finish().unwrap()).unwrap();
    let answer = place.why(&[], "--target gfx942 other");
    assert!(answer["status"] == "found" && sentence(&answer).contains("gfx942"), "{answer:#}");
    assert_eq!(place.why(&[], "--target gfx1100 other")["status"], "no-code");
}
