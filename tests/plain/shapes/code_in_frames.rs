//! Device code in offload binaries and frames: what is damaged, and what searching costs.

use kpackfs::devicecode::{DeviceCodePlace, DeviceForm};

use super::device_code::{GFX942, code_object, offload_binary, only, search, with_data};
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
    let nvidia = offload_binary(2, &[("nvptx64-nvidia-cuda", "sm_90", b"cubin")], None);
    assert!(search(&[("nvidia.bin", nvidia)]).is_empty());
}

/// A file whose beginning decodes to nothing without end is not one without code.
#[test]
fn a_file_that_costs_too_much_is_not_searched_to_the_end() {
    let found = search(&[("code.gz", gzip(b"\x28\xb5\x2f\xfd\x00\x58"))]);
    assert!(found.len() == 1 && found[0].is_unfinished && found[0].found.is_empty(), "{found:?}");
}
