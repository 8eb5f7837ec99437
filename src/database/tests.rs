//! Real names and near misses for every handler.

use crate::gpu::Level;
use crate::source::EntryPath;
use crate::source::testing::path;

use super::{Databases, Handler, TORCH_FAT};

/// Checks that all handlers together find these targets, and that each name is claimed by `handler` alone.
fn claims(handler: Handler, table: &[(&str, &str)]) {
    for (name, arch) in table {
        let found = Databases::all().classify(&path(name));
        let found = found.unwrap_or_else(|| panic!("{name} is not claimed"));
        assert_eq!((found.handler, found.arch.to_string().as_str()), (handler, *arch), "{name}");
        let claimants: Vec<_> = Handler::ALL
            .iter()
            .filter(|other| Databases::from_names(&[other.name()]).unwrap().classify(&path(name)).is_some())
            .collect();
        assert_eq!(claimants, [&handler], "{name}");
    }
}

fn stays_in_host(names: &[&str]) {
    for name in names {
        assert_eq!(Databases::all().classify(&path(name)), None, "{name}");
    }
}

#[test]
fn tensile_libraries() {
    claims(
        Handler::Rocblas,
        &[
            ("lib/rocblas/library/TensileLibrary_gfx1100.co", "gfx1100"),
            ("lib/rocblas/library/kernel_gfx1101.hsaco", "gfx1101"),
            ("lib/rocblas/library/TensileLibrary_gfx1102.dat", "gfx1102"),
            ("lib/rocblas/library/TensileLibrary_lazy_gfx90a-xnack+.hsaco", "gfx90a:xnack+"),
            ("lib/rocblas/library/Kernels.so-000-gfx942-xnack-.hsaco", "gfx942:xnack-"),
            ("lib/rocblas/library/gfx942/TensileLibrary_Type_HH_gfx942.co", "gfx942"),
            ("usr/lib/x86_64-linux-gnu/rocblas/5/library/TensileLibrary_lazy_gfx1100.dat", "gfx1100"),
            ("usr/lib/x86_64-linux-gnu/rocblas/2.47.0/library/Kernels.so-000-gfx90a-xnack+.hsaco", "gfx90a:xnack+"),
            ("lib/rocblas/library/gfx1100/TensileLibrary_Type_HH_fallback.dat", "gfx1100"),
            ("lib/rocblas/library/gfx90a/TensileManifest.txt", "gfx90a"),
            ("lib/rocblas/library/gfx942-xnack+/TensileLibrary_fallback.dat", "gfx942:xnack+"),
            ("torch/lib/rocblas/library/Kernels.so-000-gfx906-xnack-.hsaco", "gfx906:xnack-"),
            ("torch/lib/rocblas/library/Kernels.so-000-gfx90a-xnack+.hsaco", "gfx90a:xnack+"),
            ("torch/lib/rocblas/library/Kernels.so-000-gfx803.hsaco", "gfx803"),
            ("torch/lib/rocblas/library/TensileLibrary_lazy_gfx1151.dat", "gfx1151"),
            (
                "torch/lib/rocblas/library/TensileLibrary_Type_4xi8I_HPA_Contraction_l_Ailk_Bjlk_Cijk_Dijk_CU104_gfx90a.co",
                "gfx90a",
            ),
            (
                "torch/lib/rocblas/library/TensileLibrary_Type_ZZ_Contraction_l_AlikC_BjlkC_Cijk_Dijk_fallback_gfx1100.hsaco",
                "gfx1100",
            ),
            ("lib/rocblas/library/TensileLibrary_lazy_gfx942.dat.zlib", "gfx942"),
            ("lib/rocblas/library/TensileLibrary_lazy_gfx10-3-generic.dat", "gfx10-3-generic"),
            ("lib/rocblas/library/gfx11-generic/TensileManifest.txt", "gfx11-generic"),
        ],
    );
    claims(
        Handler::Hipblaslt,
        &[
            ("torch/lib/hipblaslt/library/Kernels.so-000-gfx1200.hsaco", "gfx1200"),
            ("torch/lib/hipblaslt/library/extop_gfx942.co", "gfx942"),
            (
                "torch/lib/hipblaslt/library/TensileLibrary_BB_BB_HA_Bias_Aux_SAV_UA_Type_BB_HPA_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx950.dat",
                "gfx950",
            ),
            ("torch/lib/hipblaslt/library/TensileLibrary_lazy_gfx90a.dat", "gfx90a"),
            ("lib/hipblaslt/library/gfx942/extop_gfx942.co", "gfx942"),
            ("lib/hipblaslt/library/gfx942/hipblasltTransform_gfx942.hsaco", "gfx942"),
            ("lib/hipblaslt/library/gfx942/hipblasltExtOpLibrary_gfx942.dat", "gfx942"),
            ("lib/hipblaslt/library/gfx942/TensileLiteLibrary_lazy_gfx942_Mapping.dat", "gfx942"),
            ("lib/hipblaslt/library/gfx942/TensileLibrary_lazy_gfx942.dat.zlib", "gfx942"),
            ("lib/hipblaslt/library/TensileLiteLibrary_lazy_gfx942_Mapping.dat", "gfx942"),
            ("lib/hipblaslt/library/TensileLibrary_lazy_gfx950.dat.zlib", "gfx950"),
            ("lib/hipblaslt/library/gfx942/TensileManifest.txt", "gfx942"),
            ("lib/hipblaslt/library/gfx1250-strict/TensileLibrary_lazy_gfx1250.dat", "gfx1250-strict"),
            ("lib/hipblaslt/library/gfx1250-strict/nested/notes", "gfx1250-strict"),
        ],
    );
    claims(
        Handler::Hipsparselt,
        &[
            ("torch/lib/hipsparselt/library/extop_gfx942.co", "gfx942"),
            ("torch/lib/hipsparselt/library/Kernels.so-000-gfx950.hsaco", "gfx950"),
            ("torch/lib/hipsparselt/library/TensileLibrary_BB_BB_A_gfx942.dat", "gfx942"),
        ],
    );
    stays_in_host(&[
        "lib/other/library/TensileLibrary_gfx1100.co",
        "lib/myrocblas/library/TensileLibrary_gfx1100.co",
        "lib/rocblas/library2/TensileLibrary_gfx1100.co",
        "lib/rocblas/share/library/TensileLibrary_gfx1100.co",
        "lib/rocblas/5/lib/library/TensileLibrary_gfx1100.co",
        "lib/rocblas/library/notes_gfx1100.txt",
        "lib/rocblas/library/tuning_gfx1100.json",
        "lib/rocblas/library/gfx1100",
        "lib/rocblas/library/TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_fallback.dat",
        "lib/rocblas/library/TensileManifest.txt",
        "lib/rocblas/library/TensileLibrary_gfx90a68.co",
        "lib/rocblas/library/gfx90a:xnack+/TensileManifest.txt",
        "lib/librocblas.so.5",
        "torch/lib/hipblaslt/library/hipblasltExtOpLibrary.dat",
        "torch/lib/hipblaslt/library/hipblasltTransform.hsaco",
        "torch/lib/hipblaslt/library/TensileLiteLibrary_lazy_Mapping.dat",
        "torch/lib/hipblaslt/library/rr_custom_kernels.co",
        "torch/lib/hipsparselt/library/libhipsparselt_gfx942.so",
    ]);
}

#[test]
fn aotriton_images() {
    claims(
        Handler::Aotriton,
        &[
            ("lib/aotriton.images/amd-gfx90a/flash/attn_fwd.zip", "gfx90a"),
            ("lib/aotriton.images/amd-gfx942/flash/attn_fwd.zip", "gfx942"),
            ("lib/aotriton.images/amd-gfx950/flash/attn_fwd.zip", "gfx950"),
            ("lib/aotriton.images/amd-gfx11xx/flash/attn_fwd.zip", "gfx11"),
            ("lib/aotriton.images/amd-gfx110x/flash/attn_fwd.zip", "gfx110x"),
            ("lib/aotriton.images/amd-gfx115x/flash/affine_kernels.zip", "gfx115x"),
            ("lib/aotriton.images/amd-gfx120x/flash/debug_simulate_encoded_softmax.zip", "gfx12_0"),
            ("lib/aotriton.images/amd-gfx120x/__signature__", "gfx12_0"),
            ("torch/lib/aotriton.images/amd-gfx908/flash/x.nsv", "gfx908"),
            ("torch/lib/aotriton.images/amd-gfx1250/flash/x.nsv", "gfx1250"),
            ("torch/lib/aotriton.images/amd-gfx125x/flash/x.nsv", "gfx12_5"),
            ("torch/lib/aotriton.images/amd-gfx90x/flash/x.nsv", "gfx9_0"),
            ("torch/lib/aotriton.images/amd-gfx13xx/flash/x.nsv", "gfx13xx"),
            ("torch/lib/aotriton.images/amd-gfx9x/flash/x.nsv", "gfx9x"),
            (
                "torch/lib/aotriton.images/amd-gfx942/flash/attn_fwd/FONLY__^fp16@16,80,True,False,0,0___MI300X.aks2",
                "gfx942",
            ),
            (
                "torch/lib/aotriton.images/amd-gfx11xx/flash/attn_fwd/FONLY__\u{ff0a}bf16@16_256_F_F_3_0___gfx11xx.aks2",
                "gfx11",
            ),
        ],
    );
    stays_in_host(&[
        "lib/aotriton.images/gfx942/flash/attn_fwd.zip",
        "lib/aotriton.images/amd-common/flash/attn_fwd.zip",
        "lib/aotriton/amd-gfx942/flash/attn_fwd.zip",
        "lib/aotriton.images/amd-gfx942",
        "lib/aotriton.images/amd-gfx 942/x",
        "lib/libaotriton_v2.so.0.11.0",
    ]);
    let level = |name: &str| Databases::all().classify(&path(name)).unwrap().arch.key().level();
    assert_eq!(level("aotriton.images/amd-gfx11xx/x"), Level::Family);
    assert_eq!(level("aotriton.images/amd-gfx120x/x"), Level::SubFamily);
    assert_eq!(level("aotriton.images/amd-gfx942/x"), Level::Target);
}

#[test]
fn miopen_databases() {
    let directory = "torch/share/miopen/db/";
    let table = [
        ("gfx942.kdb", "gfx942"),
        ("gfx908.tn.model", "gfx908"),
        ("gfx942_ConvHipIgemmGroupFwdXdlops_decoder.ktn.model", "gfx942"),
        ("gfx942_ConvHipImplicitGemm3DGroupWrwXdlops_kernel_config_encoder.tn.model", "gfx942"),
        ("gfx908_ConvAsm1x1U_encoder.ktn.model", "gfx908"),
        ("gfx90a_ConvHipIgemmGroupXdlops_encoder.ktn.model", "gfx90a"),
        ("gfx90a_metadata.tn.model", "gfx90a"),
        ("gfx950_3d.tn.model", "gfx950"),
        ("gfx942_3d_metadata.tn.model", "gfx942"),
        ("gfx90878.db.txt", "gfx908"),
        ("gfx90a68.HIP.fdb.txt", "gfx90a"),
        ("gfx90a6e.HIP.fdb.txt", "gfx90a"),
        ("gfx942130.HIP.fdb.txt", "gfx942"),
        ("gfx942e4.db.txt", "gfx942"),
        ("gfx950100.db.txt", "gfx950"),
        ("gfx110136.db.txt", "gfx1101"),
        ("gfx115128.HIP.fdb.txt", "gfx1151"),
        ("gfx120020.db.txt", "gfx1200"),
        ("gfx900_56.OpenCL.fdb.txt", "gfx900"),
        ("gfx900_64.db.txt", "gfx900"),
        ("gfx906_60.OpenCL.fdb.txt", "gfx906"),
        ("gfx906_nosramecc_60.db.txt", "gfx906"),
        ("gfx803_36.OpenCL.fdb.txt", "gfx803"),
        ("gfx1030_36.db.txt", "gfx1030"),
        ("gfx103014.db.txt", "gfx1030"),
        ("gfx103614.db.txt", "gfx1036"),
        ("gfx1103c.db.txt", "gfx1103"),
        ("gfx1103_12.db.txt", "gfx1103"),
        ("gfx115210.db.txt", "gfx1152"),
        ("gfx1153.kdb", "gfx1153"),
        ("gfx90c_8.db.txt", "gfx90c"),
        ("gfx90c7.db.txt", "gfx90c"),
        ("gfx940e4.db.txt", "gfx940"),
        ("gfx941130.db.txt", "gfx941"),
        ("gfx1250100.db.txt", "gfx1250"),
        ("gfx1250-strict.kdb", "gfx1250-strict"),
        ("gfx1250-strict_64.db.txt", "gfx1250-strict"),
        ("gfx1250-strict256.HIP.fdb.txt", "gfx1250-strict"),
        ("gfx1250-strict256.db.txt", "gfx1250-strict"),
        ("gfx1250-stricte4.db.txt", "gfx1250-strict"),
        ("gfx1250-strict_ConvAsm1x1U_encoder.ktn.model", "gfx1250-strict"),
        ("gfx1250_strict.kdb", "gfx1250-strict"),
        ("gfx125180.db.txt", "gfx1251"),
        ("gfx130020.db.txt", "gfx1300"),
        ("gfx942_68.HIP.model", "gfx942"),
        ("gfx1030_36.HIP.2_19_0.udb.txt", "gfx1030"),
        ("gfx90a6e.HIP.2_19_0.ufdb.txt", "gfx90a"),
        ("sub/gfx942.kdb", "gfx942"),
    ];
    let full: Vec<_> = table.iter().map(|(name, arch)| (format!("{directory}{name}"), *arch)).collect();
    claims(Handler::Miopen, &full.iter().map(|(name, arch)| (name.as_str(), *arch)).collect::<Vec<_>>());
    claims(
        Handler::Miopen,
        &[
            ("lib/libMIOpenCKGroupedConv_gfx942.so", "gfx942"),
            ("lib/libMIOpenCKGroupedConv_gfx942-xnack+.so", "gfx942:xnack+"),
            ("lib/libMIOpenCKGroupedConv_gfx1250-strict.so.1.0", "gfx1250-strict"),
            ("bin/MIOpenCKGroupedConv_gfx942.dll", "gfx942"),
            ("lib/libMIOpenCKGroupedConv_gfx12-generic.so", "gfx12-generic"),
            ("lib/libMIOpenCKGroupedConv_gfx10-3-generic.so", "gfx10-3-generic"),
        ],
    );
    stays_in_host(&[
        "lib/libMIOpen.so",
        "lib/libMIOpen.so.1",
        "bin/MIOpen.dll",
        "lib/libMIOpenCKGroupedConv.so",
        "lib/libMIOpenCKGroupedConv_gfx942.so_",
        "lib/libMIOpenCKGroupedConv_gfx942.a",
        "lib/libMIOpenCK_gfx942.so",
        "lib/libMIOpenCK-x_gfx942.so",
        "share/other/db/gfx942.kdb",
        "share/miopen/gfx942.kdb",
        "share/miopen/db/gfx942.json",
        "share/miopen/db/generic.tn.model",
        "share/miopen/db/gfx11.kdb",
        "share/miopen/db/gfx942cu.db.txt",
        "share/miopen/db/gfx9421304.db.txt",
        "share/miopen/db/xgfx942.db.txt",
        "share/miopen/db/gfx1250-stricter.db.txt",
        "share/miopen/db/gfx1250-strict1000.db.txt",
        "lib/libMIOpenCKGroupedConv_gfx1250-strict256.so",
    ]);
}

#[test]
fn composable_kernel_libraries() {
    claims(
        Handler::Composablekernel,
        &[
            ("lib/libdevice_conv_operations_gfx942.a", "gfx942"),
            ("lib/libdevice_conv_operations_gfx950_xnackp.a", "gfx950"),
            ("lib/libdevice_conv_operations_gfx90a_xnack_.a", "gfx90a"),
            ("lib/libdevice_conv_operations_gfx942_srameccp_xnack_.a", "gfx942"),
            ("lib/libdevice_conv_operations_gfx1250_strict.a", "gfx1250-strict"),
            ("lib/libdevice_conv_operations_gfx1250_strict_xnackp.a", "gfx1250-strict"),
            ("lib/device_conv_operations_gfx942.lib", "gfx942"),
        ],
    );
    stays_in_host(&[
        "lib/libdevice_conv_operations.a",
        "lib/libdevice_conv_operations_foo.a",
        "lib/libdevice_conv_operations_xnack.a",
        "lib/libdevice_conv_operations_gfx11_generic.a",
        "lib/libdevice_conv_operations_gfx942_xnack.a",
        "lib/libdevice_conv_operations_gfx1250_strict256.a",
        "lib/libdevice_conv_operations_gfx942-xnack-.a",
        "lib/libdevice_gemm_operations_gfx942.a",
        "lib/libdevice_conv_operations_gfx942.so",
        "lib/libdevice_conv_operations_gfx942.a.bak",
        "lib/libdevice_conv_operations_gfx942.lib.a",
        "lib/xlibdevice_conv_operations_gfx942.a",
    ]);
}

#[test]
fn hip_kernel_provider_content() {
    let engines = "lib/hipdnn_plugins/engines";
    for (below, arch) in [
        ("arch_content/hip-kernel-provider/gfx942/kpack/hip_kernel_provider_gfx942.kpack", "gfx942"),
        ("arch_content/hip-kernel-provider/gfx942/kernels.json", "gfx942"),
        ("arch_content/rocke/gfx1250-strict/x/y", "gfx1250-strict"),
        ("arch_content/gfx90a-xnack+/x", "gfx90a:xnack+"),
        ("test_arch_content/a/b/c/gfx950/x", "gfx950"),
        ("arch_content/a/gfx11-generic/gfx1100/x", "gfx1100"),
    ] {
        claims(Handler::Hipkernelprovider, &[(&format!("{engines}/{below}"), arch)]);
    }
    for below in [
        "arch_content/p/gfx11-generic/x",
        "arch_content/p/gfx10-3-generic/x",
        "arch_content/p/gfx950:sramecc+:xnack-/x",
        "arch_content/p/gfx1250-b0-a0/x",
        "arch_content/p/gfx942",
        "content/p/gfx942/x",
        "sub/arch_content/p/gfx942/x",
    ] {
        stays_in_host(&[&format!("{engines}/{below}")]);
    }
    stays_in_host(&["lib/arch_content/p/gfx942/x", "lib/engines/gfx942/arch_content/x"]);
}

#[test]
fn hot_swap_translations() {
    let digest = "0123456789abcdef".repeat(4);
    let directory = "share/rocjitsu/translations/gfx1250-b0-a0/v1";
    for name in [format!("{directory}/{digest}.man"), format!("comm-libs/rccl/stage/{directory}/{digest}.obj")] {
        claims(Handler::HotswapCache, &[(&name, "gfx1250")]);
    }
    for name in [
        format!("{directory}/{digest}.txt"),
        format!("{directory}/{}.man", digest.to_uppercase()),
        format!("{directory}/{}.man", digest.get(1..).unwrap()),
        format!("{directory}/sub/{digest}.man"),
        format!("share/rocjitsu/translations/gfx1250-b0-a0/v2/{digest}.man"),
        format!("share/rocjitsu/translations/gfx1250-a0-b0/v1/{digest}.man"),
    ] {
        stays_in_host(&[&name]);
    }
}

#[test]
fn caches_of_rocfft() {
    claims(
        Handler::Rocfft,
        &[
            ("lib/rocfft_kernel_cache_gfx90a.db", "gfx90a"),
            ("lib/rocfft/rocfft_kernel_cache_gfx1201.db", "gfx1201"),
            ("bin/rocfft_kernel_cache_gfx1250-strict.db", "gfx1250-strict"),
            ("lib/rocfft_kernel_cache_gfx10-3-generic.db", "gfx10-3-generic"),
        ],
    );
    stays_in_host(&[
        "lib/rocfft/rocfft_kernel_cache.db",
        "lib/rocfft_kernel_cache_.db",
        "lib/rocfft_kernel_cache_gfx90a.db-journal",
        "lib/rocfft_kernel_cache_gfx90a_2.db",
        "lib/rocfft_kernel_cachegfx90a.db",
        "lib/xrocfft_kernel_cache_gfx90a.db",
        "lib/gfx90a/rocfft_kernel_cache.db",
    ]);
}

#[test]
fn bitcode_of_rocshmem() {
    claims(Handler::Rocshmem, &[("lib/librocshmem_device_gfx942.bc", "gfx942")]);
    stays_in_host(&[
        "lib/librocshmem_device.bc",
        "lib/librocshmem_device_gfx942.linked.bc",
        "lib/librocshmem_gfx942.bc",
        "lib/rocshmem_device_gfx942.bc",
        "lib/librocshmem_device_gfx942.a",
        "amdgcn/bitcode/oclc_isa_version_942.bc",
    ]);
}

#[test]
fn first_bytes_confirm_names() {
    use std::sync::Arc;

    use crate::resources::Resources;
    use crate::rope::{Content, Rope, Segment};
    let content = |bytes: &[u8]| -> Arc<dyn Content> { Arc::new(Rope::new([Segment::literal(bytes)]).unwrap()) };
    let sqlite = content(b"SQLite format 3\0\x10\0");
    let bitcode = content(b"BC\xc0\xde\x35");
    let (empty, text) = (content(b""), content(b"SQLite format 2 is older"));
    for (name, content, is_moved, reason) in [
        ("lib/rocfft_kernel_cache_gfx90a.db", &sqlite, true, None),
        ("lib/rocfft_kernel_cache_gfx90a.db", &text, false, Some("no SQLite file")),
        ("lib/rocfft_kernel_cache_gfx90a.db", &empty, false, Some("no SQLite file")),
        ("lib/rocfft/rocfft_kernel_cache.db", &sqlite, false, None),
        ("lib/librocshmem_device_gfx90a.bc", &bitcode, true, None),
        ("lib/librocshmem_device_gfx90a.bc", &content(&[0xde, 0xc0, 0x17, 0x0b, 0]), true, None),
        ("lib/librocshmem_device_gfx90a.bc", &text, false, Some("bitcode")),
        ("lib/notes_gfx90a.txt", &text, false, None),
    ] {
        let name = path(name);
        let found = Databases::all().of([(&name, content)], &Resources::new(1 << 20));
        assert_eq!(found.classify(&name).is_some(), is_moved, "{name}");
        let said = found.warnings().join("; ");
        match reason {
            None => assert_eq!(said, ""),
            Some(reason) => assert!(said.starts_with(&format!("{name}: it stays")) && said.contains(reason), "{said}"),
        }
    }
}

#[test]
fn the_registry_knows_its_handlers() {
    let names = <Handler as strum::VariantNames>::VARIANTS;
    let expected = [
        "rocblas",
        "hipblaslt",
        "hipsparselt",
        "aotriton",
        "miopen",
        "composablekernel",
        "hipkernelprovider",
        "hotswap_cache",
        "rocfft",
        "rocshmem",
        "codeobject",
    ];
    assert_eq!(names, expected);
    assert_eq!(Databases::from_names(names), Ok(Databases::all()));
    assert_eq!(Databases::preset(TORCH_FAT).unwrap().handlers, Handler::ALL[..5]);
    assert_eq!(Databases::preset("jax").unwrap_err().name, "jax");
    assert_eq!(Databases::from_names(&["miopen", "rocalution"]).unwrap_err().name, "rocalution");
    assert_eq!(Databases::from_names(&["miopen", "miopen"]).unwrap().handlers, [Handler::Miopen]);
}

#[test]
fn only_chosen_handlers_are_asked() {
    let kernel = path("lib/rocblas/library/x_gfx942.co");
    assert!(Databases::from_names(&["rocblas"]).unwrap().classify(&kernel).is_some());
    assert!(Databases::from_names(&["miopen"]).unwrap().classify(&kernel).is_none());
    assert!(Databases::from_names::<&str>(&[]).unwrap().classify(&kernel).is_none());
}

#[test]
fn names_that_are_not_text_stay_in_host() {
    let name = EntryPath::new(b"lib/rocblas/library/\xff_gfx942.co").unwrap();
    assert_eq!(Databases::all().classify(&name), None);
    assert_eq!(Databases::all().classify(&EntryPath::root()), None);
}

proptest::proptest! {
    #[test]
    fn any_name_is_answered(
        directory in "(rocblas/library|aotriton\\.images|miopen/db|engines/arch_content|x)",
        names in "((amd-|_|-)?(gfx)?[0-9a-fxÄ*]{0,6}(-strict|-generic|-9-generic|-xnack[+-]|:)?/){0,3}",
        file in "(lib)?(MIOpenCK|device_conv_operations_|.{0,3})_?gfx[0-9a-fxÄ]{0,8}(_?xnack[p_]|-strict)?\\.(co|kdb|so|a|db\\.txt)",
    ) {
        if let Ok(path) = EntryPath::new(format!("{directory}/{names}{file}").as_bytes())
            && let Some(found) = Databases::all().classify(&path)
        {
            // The key is safe as the name of a directory.
            let key = found.arch.key();
            proptest::prop_assert_eq!(key.as_str().parse::<crate::gpu::BundleKey>(), Ok(key.clone()));
        }
    }
}

#[test]
fn directories_of_databases() {
    use super::KernelFiles::{Any, Catalogue, Code};
    for (name, handler, directory, kind) in [
        (
            "torch/lib/rocblas/library/TensileLibrary_gfx90a.co",
            Handler::Rocblas,
            "torch/lib/rocblas/library",
            Some(Code),
        ),
        ("a_gfx942/rocblas/library/gfx942/x.dat", Handler::Rocblas, "a_gfx942/rocblas/library", Some(Catalogue)),
        ("lib/hipblaslt/library/gfx942/TensileManifest.txt", Handler::Hipblaslt, "lib/hipblaslt/library", None),
        ("lib/aotriton.images/amd-gfx11xx/flash/x.aks2", Handler::Aotriton, "lib/aotriton.images", Some(Any)),
        ("share/miopen/db/gfx942.kdb", Handler::Miopen, "share/miopen/db", Some(Any)),
        ("lib/libMIOpenCKGroupedConv_gfx942.so", Handler::Miopen, "lib", Some(Any)),
        ("lib/libdevice_conv_operations_gfx942.a", Handler::Composablekernel, "lib", Some(Any)),
        ("lib/engines/arch_content/p/gfx942/a/x", Handler::Hipkernelprovider, "lib/engines/arch_content", Some(Any)),
        ("aiter/hsa/gfx942/fmha/x.co", Handler::Codeobject, "aiter/hsa", Some(Any)),
        ("aiter/x_gfx942.co", Handler::Codeobject, "aiter", Some(Any)),
        ("x_gfx942.co", Handler::Codeobject, "", Some(Any)),
        ("lib/rocfft/rocfft_kernel_cache_gfx942.db", Handler::Rocfft, "lib/rocfft", None),
        ("lib/librocshmem_device_gfx942.bc", Handler::Rocshmem, "lib", None),
    ] {
        let (of_path, expected) = (path(name), EntryPath::root().child(directory.as_bytes()));
        assert_eq!((handler.directory(&of_path), handler.kind(&of_path)), (expected, kind), "{name}");
    }
}

#[test]
fn libraries_by_name() {
    use Handler::{Aotriton, Hipblaslt, Hipsparselt, Miopen, Rocblas};
    for (name, expected) in [
        ("librocblas.so", Some(Rocblas)),
        ("librocblas.so.5.2.70201", Some(Rocblas)),
        ("rocblas.dll", Some(Rocblas)),
        ("libhipblaslt.so.1", Some(Hipblaslt)),
        ("libhipblas.so.3", None),
        ("libhipsparselt.so.0", Some(Hipsparselt)),
        ("libMIOpen.so.1", Some(Miopen)),
        ("libMIOpenCKGroupedConv_gfx942.so", None),
        ("libaotriton_v2.so.0.11.1", Some(Aotriton)),
        ("librocfft.so.0", Some(Handler::Rocfft)),
        ("librocblas.sock", None),
        ("librocblas.so.5_gfx942.kpack", None),
        ("librocblas.a", None),
        ("rocblas.so", None),
    ] {
        assert_eq!(Handler::read_by(name).map(|it| it.0), expected, "{name}");
    }
}
