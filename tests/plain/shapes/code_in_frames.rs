//! Device code in frames and offload binaries: where each ends, what is damaged, and what searching costs.

use kpackfs::devicecode::{CodeFrame, DeviceCodePlace, DeviceForm};

use super::bundle_files::{bundle, code, three};
use super::device_code::{only, search};
use super::made_code::{GFX90A, GFX942, code_object, offload_binary, with_data, zstd};
use crate::common::gzip;

/// An offload binary that is cut, or whose table is elsewhere, is not judged if it is a file, and no code in data.
#[test]
fn a_damaged_offload_binary_is_not_judged() {
    let object = code_object(GFX942, 3000);
    for version in 1..=4_u32 {
        let whole = offload_binary(version.min(3), &[("amdgcn-amd-amdhsa", "gfx942", &object)], None);
        let mut elsewhere = whole.clone();
        elsewhere[4..8].copy_from_slice(&version.to_le_bytes());
        elsewhere[16..24].copy_from_slice(&(1_u64 << 40).to_le_bytes());
        for bytes in [whole[..whole.len() - 1].to_vec(), whole[..20].to_vec(), elsewhere] {
            let length = bytes.len() as u64;
            let (_, found) = only("kernels.bin", bytes.clone());
            assert_eq!(
                (found.form, found.place, found.size),
                (DeviceForm::OffloadBinary, DeviceCodePlace::File, length)
            );
            assert_eq!((found.targets.len(), found.unknown.code_objects), (0, 1), "version {version}, {length} bytes");
            let data = with_data(&[&b"data"[..], &bytes].concat());
            assert!(
                search(&[("data.so", data)])
                    .iter()
                    .all(|file| file.staying().all(|it| it.form != DeviceForm::OffloadBinary))
            );
        }
    }
}

/// clang-offload-packager writes one for each image, in the order of its arguments.
#[test]
fn offload_binaries_that_follow_each_other_are_one_file() {
    let [one, other] = [GFX942, GFX90A].map(|number| code_object(number, 300));
    let of = |triple: &str, arch: &str, image: &[u8]| offload_binary(2, &[(triple, arch, image)], None);
    let amd = [of("amdgcn-amd-amdhsa", "gfx942", &one), of("amdgcn-amd-amdhsa", "gfx90a", &other)].concat();
    let nvidia = of("nvptx64-nvidia-cuda", "sm_80", b"cubin");
    let host = of("x86_64-unknown-linux-gnu", "", b"host");
    for bytes in [amd.clone(), [&*nvidia, &amd].concat(), [&*host, &amd, &nvidia].concat()] {
        let length = bytes.len() as u64;
        let (_, found) = only("kernels.out", bytes);
        assert_eq!((found.form, found.size), (DeviceForm::OffloadBinary, length));
        assert_eq!(found.targets.keys().map(ToString::to_string).collect::<Vec<_>>(), ["gfx90a", "gfx942"]);
    }
    assert_eq!(only("kernels.out", [&*host, &nvidia].concat()).1.form, DeviceForm::NvidiaFatbin);
}

#[test]
fn an_offload_binary_without_code_for_amd_is_that_of_others() {
    let nvidia = ("nvptx64-nvidia-cuda", "sm_90", &b"cubin"[..]);
    let intel = ("spir64-unknown-unknown", "generic", &b"SPIR-V"[..]);
    let amd = ("spirv64-amd-amdhsa", "amdgcnspirv", &b"SPIR-V"[..]);
    for (images, form) in [
        (&[nvidia][..], DeviceForm::NvidiaFatbin),
        (&[nvidia, intel], DeviceForm::NvidiaFatbin),
        (&[intel], DeviceForm::Sycl),
        (&[intel, amd, nvidia], DeviceForm::OffloadBinary),
    ] {
        let bytes = offload_binary(2, images, None);
        let length = bytes.len() as u64;
        let (_, file) = only("kernels.bin", bytes.clone());
        let (_, data) = only("data.so", with_data(&[&b"data"[..], &bytes].concat()));
        assert_eq!([file.form, data.form], [form; 2], "{images:?}");
        assert_eq!([file.size, data.size], [length; 2]);
        assert_eq!(file.targets.len(), usize::from(form.is_amd()));
    }
}

/// The code of a whole file may be in several frames, each of which states its size. That of data is in one.
#[test]
fn only_files_have_code_in_several_frames() {
    let (raw, object) = (bundle(&three(), 4096), code_object(GFX942, 5000));
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], &[1, 0, 0, 0]].concat();
    for (whole, at) in [(&raw, 50), (&raw, 5000), (&object, 4000)] {
        let parts = [&whole[..at], &whole[at..]];
        let frames = parts.map(|part| zstd(part, true));
        for file in [frames.concat(), [&skipped[..], &frames.join(&skipped[..])].concat(), parts.map(gzip).concat()] {
            let (_, found) = only("kernels.bin", file.clone());
            assert_eq!((found.pieces, found.size), (1, file.len() as u64), "cut at {at}");
        }
        // Nothing follows that is a frame.
        for file in [frames[0].clone(), [&frames[0][..], b"other bytes"].concat()] {
            assert!(search(&[("cut.zst", file)]).is_empty(), "cut at {at}");
        }
        assert!(search(&[("data.so", with_data(&frames.concat()))]).is_empty(), "cut at {at}");
    }
    let data = [&raw[..50], &raw[50..]].map(gzip).concat();
    assert!(search(&[("data.so", with_data(&data))]).is_empty());
    let one_and_other = [zstd(&object, true), zstd(&raw, true)].concat();
    let found = search(&[("data.so", with_data(&one_and_other))]);
    assert_eq!(found[0].staying().map(|it| it.pieces).sum::<u64>(), 2);
}

/// Many small frames, with code and with other data, and much gzip: all of it is searched.
#[test]
fn a_search_of_real_code_finishes() {
    let small: Vec<_> = (0..500).map(|at| zstd(&code_object([GFX942, GFX90A][at % 2], 4096 + at), true)).collect();
    let texts: Vec<_> = (0..2000).map(|at| zstd(format!("<svg>{at}</svg>").as_bytes(), true)).collect();
    let mut large = code_object(GFX942, 3 << 20);
    let runs = code(7, (3 << 20) / 24).into_iter().enumerate();
    let runs = runs.flat_map(|(at, byte)| [byte ^ (at * at / 7).to_le_bytes()[0]; 24]);
    large.iter_mut().skip(4096).zip(runs).for_each(|(byte, run)| *byte = run);
    let large = gzip(&large);
    for (pieces, expected, frame) in [
        (small.clone(), 500, CodeFrame::Zstd),
        ([texts, small[..1].to_vec()].concat(), 1, CodeFrame::Zstd),
        (vec![large; 25], 25, CodeFrame::Gzip),
    ] {
        let (_, found) = only("data.so", with_data(&pieces.concat()));
        assert_eq!((found.pieces, &found.frames[..]), (expected, &[frame][..]));
    }
}

/// A file whose beginning decodes to nothing without end is not one without code.
#[test]
fn a_file_that_costs_too_much_is_not_searched_to_the_end() {
    let found = search(&[("code.gz", gzip(b"\x28\xb5\x2f\xfd\x00\x58"))]);
    assert!(found.len() == 1 && found[0].is_unfinished && found[0].found.is_empty(), "{found:?}");
}
