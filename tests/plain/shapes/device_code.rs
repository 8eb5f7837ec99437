//! Device code in other forms than behind wrappers: each form is found in each place, with its bytes and targets.

use std::fs;

use kpackfs::binary::{data_ranges, marker};
use kpackfs::devicecode::{CodeFrame, CodeOfForm, DeviceCodePlace, DeviceForm};
use kpackfs::join::Joined;
use kpackfs::kpack::Compression;
use kpackfs::metrics::Progress;
use kpackfs::resources::Resources;
use kpackfs::source::Input;
use kpackfs::split::{CodeOfFile, Fate, device_code};
use strum::VariantArray;

use crate::common::{fixture, gzip, program};
use crate::shapes::bundle_files::{bundle, code, compressed, three};
use crate::shapes::made_code::{
    GFX90A, GFX942, GFX1100, OFFLOADING, PROGBITS, code_object, offload_binary, static_library, with_data,
    with_section, zlib, zstd,
};
use crate::shapes::shown::{Shown, content};

/// What is found in files of a tree.
pub(super) fn search(files: &[(&str, Vec<u8>)]) -> Vec<CodeOfFile> {
    let fat = tempfile::tempdir().unwrap();
    fs::create_dir(fat.path().join("lib")).unwrap();
    for (name, bytes) in files {
        fs::write(fat.path().join("lib").join(name), bytes).unwrap();
    }
    let shown = Shown::tree(fat, Compression::default());
    let resources = Resources::new(64 << 20);
    let input = Input::open(shown.fat.path(), &resources).unwrap();
    device_code(&input, &Joined::default(), &shown.plan, &resources, &Progress::default())
}

/// The only code that is found in a file.
pub(super) fn only(name: &str, bytes: Vec<u8>) -> (Fate, CodeOfForm) {
    let mut found = search(&[(name, bytes)]);
    assert!(found.len() == 1 && found[0].found.len() == 1 && !found[0].is_unfinished, "{name}: {found:?}");
    found.remove(0).found.remove(0)
}

fn targets(found: &CodeOfForm) -> Vec<String> {
    found.targets.keys().map(ToString::to_string).collect()
}

#[test]
fn each_form_is_found_in_each_place() {
    use CodeFrame::{Gzip, Zstd};
    use DeviceForm::{Bundle, CodeObject, CompressedBundle, OffloadBinary};
    let raw = bundle(&three(), 4096);
    let object = code_object(GFX942, 5000);
    let offload = |version, pack| {
        let (one, other) = (code_object(GFX90A, 3000), code_object(GFX1100, 1000));
        let images = [("amdgcn-amd-amdhsa", "gfx90a:xnack-", &*one), ("nvptx64-nvidia-cuda", "sm_90", b"cubin")];
        let more = [("amdgpu-amd-amdhsa", "gfx1100", &*other)];
        offload_binary(
            version,
            &[&images[..=usize::from(version > 1)], &more[..usize::from(version > 1)]].concat(),
            pack,
        )
    };
    let three_gpus: &[&str] = &["gfx1030", "gfx1100", "gfx90a:xnack-"];
    let forms = [
        (raw.clone(), Bundle, vec![], three_gpus, 21000),
        (compressed(&raw), CompressedBundle, vec![], three_gpus, 21000),
        (object.clone(), CodeObject, vec![], &["gfx942"][..], 5000),
        (offload(1, None), OffloadBinary, vec![], &["gfx90a:xnack-"], 3000),
        (offload(2, None), OffloadBinary, vec![], &["gfx1100", "gfx90a:xnack-"], 4000),
        (offload(3, None), OffloadBinary, vec![], &["gfx1100", "gfx90a:xnack-"], 4000),
        (offload(3, Some(|bytes| zstd(bytes, true))), OffloadBinary, vec![], &["gfx1100", "gfx90a:xnack-"], 4000),
        (offload(3, Some(zlib)), OffloadBinary, vec![], &["gfx1100", "gfx90a:xnack-"], 4000),
        (zstd(&raw, true), Bundle, vec![Zstd], three_gpus, 21000),
        (zstd(&compressed(&raw), false), CompressedBundle, vec![Zstd], three_gpus, 21000),
        (gzip(&object), CodeObject, vec![Gzip], &["gfx942"], 5000),
        (gzip(&zstd(&offload(2, None), false)), OffloadBinary, vec![Gzip, Zstd], &["gfx1100", "gfx90a:xnack-"], 4000),
    ];
    for (bytes, form, frames, gpus, code_size) in forms {
        let what = format!("{form:?} in {frames:?}");
        let padded = [&b"some data"[..], &bytes, &[1; 100]].concat();
        let relocatable = with_section(1, ".data", (PROGBITS, 3), &padded);
        let offloading = with_section(3, ".llvm.offloading", (OFFLOADING, 0), &padded);
        for (name, file, place) in [
            ("code.bin", bytes.clone(), DeviceCodePlace::File),
            ("data.so", with_data(&padded), DeviceCodePlace::Data),
            ("offloading.so", offloading, DeviceCodePlace::Data),
            ("bundles.so", with_section(3, ".hip_fatbin", (PROGBITS, 2), &padded), DeviceCodePlace::Data),
            ("object.o", relocatable.clone(), DeviceCodePlace::Object),
            ("static.a", static_library(&[b"text", &relocatable]), DeviceCodePlace::Object),
        ] {
            let (fate, found) = only(name, file);
            assert_eq!((fate, found.place, found.form), (Fate::Stays, place, form), "{what} in {name}");
            assert_eq!((&found.frames, found.pieces, found.size), (&frames, 1, bytes.len() as u64), "{what} in {name}");
            assert_eq!(targets(&found), gpus, "{what} in {name}");
            let size: u64 = found.targets.values().map(|amount| amount.code_size).sum();
            assert_eq!((size, found.unknown.code_objects), (code_size, 0), "{what} in {name}");
        }
    }
}

/// LLVM bitcode is no code object: in an offload binary, in a bundle, and in sections of objects, whose names have the targets.
#[test]
fn bitcode_is_for_a_linker() {
    let bitcode = [&b"BC\xc0\xde"[..], &code(5, 3000)].concat();
    let image = |gpu| ("amdgcn-amd-amdhsa", gpu, &*bitcode);
    let offload = offload_binary(2, &[image("gfx90a"), image("gfx1100")], None);
    let ids = ["hip-amdgcn-amd-amdhsa--gfx90a", "hip-amdgcn-amd-amdhsa--gfx1100"];
    let bundle = bundle(&ids.map(|id| (id, bitcode.clone())), 4096);
    let [one, other] = ids.map(|id| {
        let name = format!("__CLANG_OFFLOAD_BUNDLE__{id}");
        with_section(1, &name, (PROGBITS, 0), &bitcode)
    });
    for (name, bytes, pieces) in [
        ("new.o", with_section(1, ".llvm.offloading", (OFFLOADING, 0), &offload), 1),
        ("emitted.bc", bundle.clone(), 1),
        ("emitted.bc.zst", zstd(&bundle, true), 1),
        ("emitted.bc.gz", gzip(&bundle), 1),
        ("compressed.bc", compressed(&bundle), 1),
        ("compressed.bc.zst", zstd(&compressed(&bundle), false), 1),
        ("old.a", static_library(&[&one, &other]), 2),
    ] {
        let (fate, found) = only(name, bytes);
        assert_eq!((fate, found.form, found.pieces), (Fate::Stays, DeviceForm::Bitcode, pieces), "{name}");
        assert_eq!(targets(&found), ["gfx1100", "gfx90a"], "{name}");
    }
}

/// What is not seen, or empty, may be code.
#[test]
fn bitcode_in_front_decides_for_no_other_code() {
    let bitcode = [&b"BC\xc0\xde"[..], &code(5, 3000)].concat();
    let long = [&bitcode[..], &code(6, 300 << 10)].concat();
    let [one, two, three] = ["gfx90a", "gfx1030", "gfx1100"].map(|gpu| format!("hip-amdgcn-amd-amdhsa--{gpu}"));
    let zeros = bundle(&[(&*one, bitcode), (&*two, vec![0; 64]), (&*three, code_object(0x41, 3000))], 4096);
    let unseen = bundle(&[(&*one, long), (&*three, code_object(0x41, 3000))], 4096);
    for (name, bytes, form) in [
        ("zeros", zeros.clone(), DeviceForm::Bundle),
        ("zeros.ccob", compressed(&zeros), DeviceForm::CompressedBundle),
        ("unseen.ccob", compressed(&unseen), DeviceForm::CompressedBundle),
        ("unseen.zst", zstd(&unseen, true), DeviceForm::Bundle),
    ] {
        assert_eq!(only(name, bytes).1.form, form, "{name}");
    }
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("unseen.hsaco"), compressed(&unseen)).unwrap();
    for (gpu, status) in [("gfx90a", 1), ("gfx1100", 0)] {
        let mut inspect = program();
        inspect.args(["inspect", "--no-cache", ".", "--require", gpu]).current_dir(place.path());
        assert_eq!(inspect.output().unwrap().status.code(), Some(status), "{gpu}");
    }
}

/// Of a compressed bundle, only the beginning is looked at.
#[test]
fn bitcode_serves_no_gpu_whatever_is_around_it() {
    let place = tempfile::tempdir().unwrap();
    let bitcode = [&b"BC\xc0\xde"[..], &code(5, 3000)].concat();
    let ids = ["hip-amdgcn-amd-amdhsa--gfx90a", "hip-amdgcn-amd-amdhsa--gfx1100"];
    let raw = bundle(&ids.map(|id| (id, bitcode.clone())), 4096);
    for (name, bytes) in [("raw.bc", raw.clone()), ("compressed.bc", compressed(&raw))] {
        fs::write(place.path().join(name), bytes).unwrap();
        let why = program().args(["why", name, "--target", "gfx90a"]).current_dir(place.path()).output().unwrap();
        let said = String::from_utf8_lossy(&why.stderr).into_owned();
        assert!(said.contains("it is LLVM bitcode, which was not linked"), "{name}: {said}");
        assert_eq!(why.status.code(), Some(3), "{name}");
    }
}

/// clang-offload-bundler calls a section of an object file after each entry.
#[test]
fn sections_of_objects_are_of_each_kind_of_offloading() {
    for (id, form, gpus) in [
        ("openmp-amdgcn-amd-amdhsa--gfx90a", DeviceForm::Bitcode, &["gfx90a"][..]),
        ("sycl-amdgcn-amd-amdhsa--gfx1100", DeviceForm::Bitcode, &["gfx1100"]),
        ("sycl-spir64-unknown-unknown", DeviceForm::Sycl, &[]),
        ("openmp-nvptx64-nvidia-cuda--sm_80", DeviceForm::NvidiaFatbin, &[]),
    ] {
        let name = format!("__CLANG_OFFLOAD_BUNDLE__{id}");
        let (fate, found) = only("old.o", with_section(1, &name, (PROGBITS, 0), b"BC\xc0\xde"));
        assert_eq!((fate, found.form, found.pieces), (Fate::Stays, form, 1), "{id}");
        assert_eq!(targets(&found), gpus, "{id}");
    }
}

/// Bytes that only look like code are none, and neither are pieces of code inside of other code.
#[test]
fn what_only_looks_like_code_is_none() {
    let object = code_object(GFX942, 5000);
    let mut x86 = object.clone();
    x86[18] = 62;
    let host = offload_binary(2, &[("x86_64-unknown-linux-gnu", "", b"object")], None);
    let four = (0..4).fold(object.clone(), |bytes, _| zstd(&bytes, true));
    for data in [
        x86,
        host,
        object[..4000].to_vec(),
        zstd(b"no code, but enough of it to be some", true),
        gzip(b"no code"),
        b"\x28\xb5\x2f\xfd\x1f\x8b\x08CCOB\x10\xff\x10\xad\x7fELF__CLANG_OFFLOAD_BUNDLE__".repeat(1000),
    ] {
        let found = search(&[("data.so", with_data(&[&b"some data"[..], &data, &[0; 99]].concat()))]);
        assert!(found.is_empty(), "{found:?} in {:?}", &data[..data.len().min(80)]);
    }
    assert!(search(&[("four.bin", four)]).is_empty(), "compressions are looked through three deep");
    // An executable section and debug information are no data. What a tool has added is some.
    for (name, flags, expected) in [(".text", 6, 0), (".debug_info", 0, 0), (".kernels", 0, 1)] {
        assert_eq!(search(&[("code.so", with_section(3, name, (PROGBITS, flags), &object))]).len(), expected, "{name}");
    }
    let behind = [with_section(3, ".text", (PROGBITS, 6), b"code"), object].concat();
    assert_eq!(only("code.so", behind).1.place, DeviceCodePlace::Unloaded);
}

/// Thousands of code objects are added up by target. Some have processors that nobody knows.
#[test]
fn code_objects_in_data_are_added_up() {
    let mut data = Vec::new();
    for number in 0..300 {
        data.extend(code_object([GFX942, GFX90A, 0xfe][number % 3], 4096 + number));
    }
    let (fate, found) = only("mojo.so", with_data(&data));
    assert_eq!((fate, found.pieces, found.size), (Fate::Stays, 300, data.len() as u64));
    let amounts: Vec<_> = found.targets.iter().map(|(target, it)| (target.to_string(), it.code_objects)).collect();
    assert_eq!(amounts, [("gfx90a".to_owned(), 100), ("gfx942".to_owned(), 100)]);
    assert_eq!(found.unknown.code_objects, 100);
}

/// NVIDIA's code has its size in its header, wherever it is. What is in it is not searched.
#[test]
fn code_of_nvidia_is_named_by_its_size() {
    let object = code_object(GFX942, 5000);
    let mut cubin = object.clone();
    cubin[18] = 190;
    let fat = [&b"\x50\xed\x55\xba\x01\0\x10\0"[..], &5000_u64.to_le_bytes(), &object].concat();
    for (piece, form) in [(&cubin, DeviceForm::NvidiaCubin), (&fat, DeviceForm::NvidiaFatbin)] {
        let twice = [b"some data", &piece[..], &[0; 99], piece].concat();
        for (bytes, place, pieces) in [
            (piece.clone(), DeviceCodePlace::File, 1),
            (with_data(&twice), DeviceCodePlace::Data, 2),
            (with_section(1, ".data", (PROGBITS, 3), &twice), DeviceCodePlace::Object, 2),
        ] {
            let (fate, found) = only("x.bin", bytes);
            assert_eq!((fate, found.form, found.place), (Fate::Stays, form, place));
            assert_eq!((found.pieces, found.size), (pieces, pieces * piece.len() as u64), "{form:?} {place:?}");
            assert!(found.targets.is_empty() && !found.form.is_amd());
        }
        assert!(search(&[("torn.so", with_data(&piece[..piece.len() - 4000]))]).is_empty());
    }
}

/// What its headers show: NVIDIA's code, UPX, and wrappers of a split library. A file without section headers is searched as a
/// whole.
#[test]
fn headers_and_names_show_other_forms() {
    let (_, found) = only("cuda.so", with_section(3, ".nv_fatbin", (PROGBITS, 2), &code(1, 777)));
    assert_eq!((found.form, found.size, targets(&found)), (DeviceForm::NvidiaFatbin, 777, vec![]));
    let bundled = bundle(&three(), 8);
    let sycl =
        |target: &str| with_section(3, &format!("__CLANG_OFFLOAD_BUNDLE__sycl-{target}"), (PROGBITS, 2), &bundled);
    for (target, form) in
        [("spir64", DeviceForm::Sycl), ("spir64_gen", DeviceForm::Sycl), ("amdgcn", DeviceForm::Bundle)]
    {
        let (_, found) = only("sycl.so", sycl(target));
        assert_eq!(
            (found.form, found.place, found.size),
            (form, DeviceCodePlace::Data, bundled.len() as u64),
            "{target}"
        );
    }
    let mut packed = with_data(b"data");
    packed.truncate(packed.len() - 3 * 64);
    packed[40..48].fill(0);
    packed[58..64].fill(0);
    let sectionless = [&packed[..], &[0; 100], &code_object(GFX942, 200)].concat();
    packed.extend([&[0; 10_000][..], b"UPX!\x0d\x16", &[0; 30]].concat());
    let (_, found) = only("packed", packed.clone());
    assert_eq!((found.form, found.place, found.size), (DeviceForm::Upx, DeviceCodePlace::File, packed.len() as u64));
    let (_, found) = only("sectionless.so", sectionless);
    assert_eq!(
        (found.form, found.place, targets(&found)),
        (DeviceForm::CodeObject, DeviceCodePlace::Data, vec!["gfx942".to_owned()])
    );
    for (name, bytes, form) in [
        ("rocfft_kernel_cache.db", &b"SQLite format 3\0 and pages"[..], DeviceForm::KernelCache),
        ("kernel.hsaco.xz", b"\xfd7zXZ\0 and blocks", DeviceForm::Xz),
        ("kernel.co.bz2", b"BZh9 and blocks", DeviceForm::Bzip2),
        ("kernel.hipfb.lzma", b"\x5d\0\0\x80\0 and more", DeviceForm::Lzma),
    ] {
        assert_eq!(only(name, bytes.to_vec()).1.form, form, "{name}");
    }
    assert!(search(&[("other.db", b"SQLite format 3\0 and pages".to_vec())]).is_empty());
    let library = kpackfs::binary::FatBinary::scan(&content(fixture("plain.so"))).unwrap().unwrap();
    let names = marker("lib/split.so", &["../.kpack/fft_lib_@GFXARCH@.kpack".to_owned()]);
    let split = crate::shapes::shown::whole(&library.rewrite(&names).unwrap());
    let found = search(&[("split.so", split)]);
    assert_eq!(found[0].found[0].1.form, DeviceForm::SplitMarker);
    assert_eq!(found[0].archives, ["../.kpack/fft_lib_@GFXARCH@.kpack"]);
}

/// The code behind wrappers is split, and that of one GPU in a file which names it is moved. Code in the data of the same library
/// stays.
#[test]
fn each_code_has_its_fate() {
    let files = [
        ("plain.so", fixture("plain.so")),
        ("compressed.so", fixture("compressed.so")),
        ("kernel_gfx942.co", code_object(GFX942, 3000)),
        ("kernel.co", code_object(GFX942, 4000)),
    ];
    let found = search(&files);
    let fates: Vec<_> = found
        .iter()
        .flat_map(|file| file.found.iter().map(|(fate, it)| (file.path.to_string(), *fate, it.place, it.form)))
        .collect();
    let expected = [
        ("lib/compressed.so", Fate::Split, DeviceCodePlace::Wrapper, DeviceForm::CompressedBundle),
        ("lib/kernel.co", Fate::Stays, DeviceCodePlace::File, DeviceForm::CodeObject),
        ("lib/kernel_gfx942.co", Fate::Moved, DeviceCodePlace::File, DeviceForm::CodeObject),
        ("lib/plain.so", Fate::Split, DeviceCodePlace::Wrapper, DeviceForm::Bundle),
    ];
    assert_eq!(fates, expected.map(|(path, fate, place, form)| (path.to_owned(), fate, place, form)));
}

/// Bundles in data sections are counted. Bytes that only look like a bundle are not, and neither are bundles inside
/// other bundles or inside device code.
#[test]
fn bundles_without_wrappers_are_counted() {
    let inner = bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx906", code(5, 300))], 1);
    let mut entries = three();
    entries.push(("hipv4-amdgcn-amd-amdhsa--gfx942", inner));
    let [raw, packed] = [bundle(&entries, 4096), compressed(&bundle(&three()[..2], 4096))];
    // Magics alone, and a bundle that crosses the boundary between two reads of the search.
    let mut data = b"__CLANG_OFFLOAD_BUNDLE__CCOB".repeat(100);
    data.resize((1 << 20) - 10, 1);
    data.extend(&raw);
    data.extend(&packed);
    data.extend([2; 100]);
    let found = search(&[("data.so", with_data(&data))]);
    let [file] = &found[..] else { panic!("{found:?}") };
    let sizes: Vec<_> = file.staying().map(|found| (found.form, found.pieces, found.size)).collect();
    let expected = [(DeviceForm::Bundle, raw.len()), (DeviceForm::CompressedBundle, packed.len())];
    assert_eq!(sizes, expected.map(|(form, size)| (form, 1, size as u64)));
    let gpus: Vec<_> = file.staying().map(targets).collect();
    assert_eq!(gpus, [vec!["gfx1030", "gfx1100", "gfx90a:xnack-", "gfx942"], vec!["gfx90a:xnack-"]]);
}

/// Each entry of such a table is the beginning of another table, and none has code; and each frame holds as much as a block can.
#[test]
fn a_search_ends() {
    let mut unit = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
    for field in [4096_u64, 0, 0, 32] {
        unit.extend(field.to_le_bytes());
    }
    // Each table takes the units after it for ids. There are 75,000 tables of 224 KiB.
    let tables = unit.repeat((4 << 20) / unit.len());
    // A block that repeats a byte for 128 KiB (RFC 8878, 3.1.1.2).
    let frame = b"\x28\xb5\x2f\xfd\x00\x58\x03\x00\x10\x00";
    let frames = frame.repeat((4 << 20) / frame.len());
    for data in [tables, frames] {
        let found = search(&[("data.so", with_data(&data))]);
        let [file] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (file.path.to_string().as_str(), &file.found[..], file.is_unfinished),
            ("lib/data.so", &[][..], true)
        );
    }
}

#[test]
fn a_library_with_data_is_one() {
    let library = content(with_data(b"data"));
    let ranges = data_ranges(&library).unwrap();
    assert_eq!(ranges.iter().map(|range| range.end - range.start).collect::<Vec<_>>(), [4]);
}

/// The page has a row for each form.
#[test]
fn the_page_has_all_forms() {
    let page = fs::read_to_string("docs/forms.md").unwrap();
    for form in DeviceForm::VARIANTS {
        let is_row = |line: &&str| line.starts_with(&format!("| {} |", form.name()));
        assert_eq!(page.lines().filter(is_row).count(), 1, "{}", form.name());
        let magic = String::from_utf8_lossy(form.magic());
        let is_text = magic.len() > 4 && magic.chars().all(|letter| letter.is_ascii_graphic());
        assert!(!is_text || page.contains(&format!("`{magic}`")), "{}", form.name());
    }
}
