//! Images whose packages are split already: each GPU gets its archives and its distributions.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use base64::display::Base64Display;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kpackfs::rope::Sha256;
use tempfile::tempdir;

use crate::common::{files_below, fixture, program, succeeds};
use crate::images::layout::{Form, Layer, Layout, image};
use crate::images::unpacked::unpack;

const GPUS: [&str; 3] = ["gfx90a", "gfx1030", "gfx1100"];
const SITE: &str = "usr/lib/python3/dist-packages";

/// The files of a split tree with all its parts, below `x`.
fn split_package() -> BTreeMap<String, Vec<u8>> {
    let place = tempdir().unwrap();
    let (input, out) = (place.path().join("in"), place.path().join("out"));
    let library = input.join("x/rocblas/library");
    fs::create_dir_all(&library).unwrap();
    fs::write(input.join("x/a.so"), fixture("mixed.so")).unwrap();
    fs::write(library.join("TensileLibrary_Type_gfx90a.co"), b"90a").unwrap();
    fs::write(library.join("TensileLibrary_Type_gfx1030.co"), b"1030").unwrap();
    succeeds(program().arg("split").arg(&input).args(["--no-cache", "-o"]).arg(&out));
    let files = GPUS.iter().chain(&["host"]).flat_map(|part| files_below(&out.join(part)));
    files.map(|(path, bytes)| (path.to_str().unwrap().to_owned(), bytes)).collect()
}

fn is_of_device(name: &str) -> bool {
    name.contains("gfx")
}

/// Layers with a host distribution, and one with a distribution for each GPU. An empty runtime is none.
fn layers(runtime: &[u8]) -> Vec<Vec<u8>> {
    let package = split_package();
    let mut host = Layer::new().directory("usr");
    if !runtime.is_empty() {
        host = host.file("usr/libamdhip64.so.7", runtime);
    }
    for (name, bytes) in package.iter().filter(|(name, _)| !is_of_device(name)) {
        host = host.file(&format!("{SITE}/{name}"), bytes);
    }
    let mut devices = Layer::new().directory(&format!("{SITE}/x"));
    for gpu in GPUS {
        let info = format!("{SITE}/x_device_{gpu}-1.dist-info");
        devices = devices.directory(&info).file(&format!("{info}/METADATA"), b"Name: x");
        let licence = format!("x_device_{gpu}-1.dist-info/licenses/all/LICENSE");
        devices = devices.directory(&format!("{info}/licenses")).file(&format!("{SITE}/{licence}"), b"MIT");
        let mut record =
            format!("x_device_{gpu}-1.dist-info/METADATA,,\nx_device_{gpu}-1.dist-info/RECORD,,\n{licence},,\n");
        for (name, bytes) in package.iter().filter(|(name, _)| name.contains(gpu)) {
            devices = devices.file(&format!("{SITE}/{name}"), bytes);
            writeln!(record, "{name},,").unwrap();
        }
        devices = devices.file(&format!("{info}/RECORD"), record.as_bytes());
    }
    // A distribution of anything else stays, whatever its name is.
    let other = format!("{SITE}/other_gfx90a_tools-1.dist-info");
    let tools = Layer::new()
        .file(&format!("{other}/RECORD"), b"tools.py,,\n")
        .file(&format!("{SITE}/tools.py"), b"pass")
        // Written again by a later command.
        .file(&format!("{SITE}/x_device_gfx90a-1.dist-info/METADATA"), b"Name: x\n")
        .done();
    vec![host.done(), devices.done(), tools]
}

fn split(layout: &Layout, out: &Path, options: &[&str]) -> std::process::Command {
    let mut command = program();
    command.arg("split").arg(layout.name("x")).args(["--format", "oci", "--no-cache", "-o"]).arg(out).args(options);
    command
}

#[test]
fn each_gpu_gets_its_archives_and_distributions() {
    let place = tempdir().unwrap();
    for (runtime, options) in [(&b"kpack_load_code_object"[..], &[][..]), (b"old", &["--form", "select"])] {
        let whole = image(&place.path().join("in"), Form::Gzip, &layers(runtime));
        let out = Layout::opened(&place.path().join(options.join("")).join("out"));
        succeeds(&mut split(&whole, &out.0, options));
        for gpu in GPUS {
            let mut expected = unpack(&whole.archives("x"));
            expected.retain(|path, _| !is_of_device(path) || path.contains(gpu) || path.contains("tools"));
            let found = unpack(&out.archives(gpu));
            assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{gpu}");
            assert!(found == expected, "{gpu}");
            // The code of the database is made up.
            let (name, against) = (out.name(gpu), whole.name("x"));
            let arguments = ["verify", "--allow", "database-code", &*name, "--against", &*against];
            succeeds(program().args(arguments));
        }
        fs::remove_dir_all(place.path().join("in")).unwrap();
    }
}

/// A runtime that does not read archives needs thin binaries, and so may one that is added to an image without any.
#[test]
fn archives_become_thin_binaries_for_an_old_runtime() {
    let place = tempdir().unwrap();
    for (runtime, options) in [(&b"old"[..], &[][..]), (b"", &[]), (b"kpack_load_code_object", &["--form", "thin"])] {
        let whole = image(&place.path().join("in"), Form::Gzip, &layers(runtime));
        let out = Layout::opened(&place.path().join(options.join("")).join("out"));
        succeeds(&mut split(&whole, &out.0, options));
        let found = unpack(&out.archives("gfx90a"));
        let names: Vec<_> = found.keys().filter(|path| path.contains("gfx") || path.contains(".kpack")).collect();
        let expected = [
            // The directory of the archives, which is empty.
            format!("{SITE}/.kpack"),
            format!("{SITE}/other_gfx90a_tools-1.dist-info"),
            format!("{SITE}/other_gfx90a_tools-1.dist-info/RECORD"),
            format!("{SITE}/x/rocblas/library/TensileLibrary_Type_gfx90a.co"),
        ];
        assert_eq!(names, expected.iter().collect::<Vec<_>>());
        let library = place.path().join("a.so");
        fs::write(&library, &found[&format!("{SITE}/x/a.so")].content).unwrap();
        let said = succeeds(program().arg("inspect").arg(&library).args(["--json", "--no-cache"])).stdout;
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("gfx90a") && !said.contains("gfx1030"), "{said}");
        fs::remove_dir_all(&out.0).unwrap();
        fs::remove_dir_all(place.path().join("in")).unwrap();
    }
}

#[test]
fn archives_that_cannot_be_read_stay_with_a_warning() {
    let place = tempdir().unwrap();
    let mut layers = layers(b"kpack_load_code_object");
    let bad = Layer::new().file("opt/.kpack/bad_gfx90a.kpack", b"KPAK\x01").done();
    layers.push(bad);
    let whole = image(&place.path().join("in"), Form::Gzip, &layers);
    let out = Layout::opened(&place.path().join("out"));
    let said = succeeds(&mut split(&whole, &out.0, &[])).stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("opt/.kpack/bad_gfx90a.kpack: stays in all images"), "{said}");
    assert!(unpack(&out.archives("gfx1100")).contains_key("opt/.kpack/bad_gfx90a.kpack"));
}

/// The line of RECORD for a file.
fn line(path: &str, content: &[u8]) -> String {
    let mut sum = Sha256::default();
    sum.update(content);
    format!("{path},sha256={},{}\n", Base64Display::new(&sum.finish(), &URL_SAFE_NO_PAD), content.len())
}

/// RECORD has digests of thin binaries, and no line for databases of other GPUs.
#[test]
fn record_states_what_is_there() {
    let place = tempdir().unwrap();
    let info = "x-1.dist-info";
    let (fat, text) = (fixture("mixed.so"), b"text");
    let database = |gpu: &str| format!("x/rocblas/library/TensileLibrary_Type_{gpu}.co");
    let [one, other] = ["gfx90a", "gfx1030"].map(|gpu| line(&database(gpu), gpu.as_bytes()));
    let script = line("../../../bin/x", b"script");
    let record =
        [line("x/a.so", &fat), one.clone(), other, line("x/text", text), script.clone(), format!("{info}/RECORD,,\n")]
            .concat();
    let wheel = Layer::new()
        .file(&format!("{SITE}/x/a.so"), &fat)
        .file(&format!("{SITE}/x/text"), text)
        .file(&format!("{SITE}/{}", database("gfx90a")), b"gfx90a")
        .file(&format!("{SITE}/{}", database("gfx1030")), b"gfx1030")
        .file(&format!("{SITE}/{info}/RECORD"), record.as_bytes())
        .done();
    let whole = image(&place.path().join("in"), Form::Gzip, &[wheel]);
    let out = Layout::opened(&place.path().join("out"));
    succeeds(split(&whole, &out.0, &[]).args(["--gpu-targets", "gfx90a"]));
    let files = unpack(&out.archives("gfx90a"));
    let thin = &files[&format!("{SITE}/x/a.so")].content;
    assert_ne!(*thin, fat);
    let expected =
        [line("x/a.so", thin), one, line("x/text", text), script.clone(), format!("{info}/RECORD,,\n")].concat();
    assert_eq!(String::from_utf8_lossy(&files[&format!("{SITE}/{info}/RECORD")].content), expected);

    // These lines are no findings, unless a file is another one.
    let against = |image: &Layout, tag: &str| {
        let mut verify = program();
        verify.args(["verify", &image.name(tag), "--thin", "gfx90a", "--against", &whole.name("x")]);
        String::from_utf8(verify.output().unwrap().stdout).unwrap()
    };
    let said = against(&out, "gfx90a");
    assert!(said.contains("\n1 finding; ") && said.contains("[database-code]"), "{said}");
    for (number, (right, other)) in [(line("x/a.so", thin), "x/a.so"), (script, "../../../bin/x")].iter().enumerate() {
        let changed = expected.replace(right, &line(other, b"other"));
        let layer = files.iter().filter(|(_, file)| file.kind.is_file()).fold(Layer::new(), |layer, (path, file)| {
            layer.file(path, if path.ends_with("RECORD") { changed.as_bytes() } else { &file.content })
        });
        let wrong = image(&place.path().join(number.to_string()), Form::Gzip, &[layer.done()]);
        let said = against(&wrong, "x");
        assert!(said.contains(&format!("{info}/RECORD: its bytes differ")), "{said}");
    }
}

/// In thin form nothing says any more that a distribution is split.
#[test]
fn thin_distributions_do_not_state_a_split() {
    let place = tempdir().unwrap();
    let info = format!("{SITE}/x-1.dist-info");
    let mut layers = layers(b"old");
    let record = "a.so,,\nx/a.so,,\nx-1.dist-info/kpackfs.json,,\nx-1.dist-info/kpackfs-manifest.json,,\nx-1.dist-info/RECORD,,\n";
    let host = Layer::new()
        .file(&format!("{info}/kpackfs.json"), b"{}")
        .file(&format!("{info}/kpackfs-manifest.json"), b"{}")
        .file(&format!("{info}/RECORD"), record.as_bytes())
        .done();
    layers.push(host);
    let whole = image(&place.path().join("in"), Form::Gzip, &layers);
    let out = Layout::opened(&place.path().join("out"));
    succeeds(&mut split(&whole, &out.0, &[]));
    let files = unpack(&out.archives("gfx90a"));
    assert!(!files.contains_key(&format!("{info}/kpackfs-manifest.json")));
    let statement = &files[&format!("{info}/kpackfs.json")].content;
    assert!(String::from_utf8_lossy(statement).contains("\"thin/gfx90a\""));
    let thin = &files[&format!("{SITE}/x/a.so")].content;
    let expected =
        ["a.so,,\n", &line("x/a.so", thin), &line("x-1.dist-info/kpackfs.json", statement), "x-1.dist-info/RECORD,,\n"]
            .concat();
    assert_eq!(String::from_utf8_lossy(&files[&format!("{info}/RECORD")].content), expected);
}
