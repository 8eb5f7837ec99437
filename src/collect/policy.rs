//! Libraries that every system has, so that a result leaves them out.

use crate::binary::LinkedMachine;

/// The libraries of `manylinux_2_39` in auditwheel 6.8.2 (`policy/manylinux-policy.json`, `lib_whitelist`), the same as of
/// `manylinux_2_28`.
const MANYLINUX: [&str; 24] = [
    "libatomic.so.1",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libm.so.6",
    "libmvec.so.1",
    "libanl.so.1",
    "libdl.so.2",
    "librt.so.1",
    "libc.so.6",
    "libnsl.so.1",
    "libutil.so.1",
    "libpthread.so.0",
    "libX11.so.6",
    "libXext.so.6",
    "libXrender.so.1",
    "libICE.so.6",
    "libSM.so.6",
    "libGL.so.1",
    "libgobject-2.0.so.0",
    "libgthread-2.0.so.0",
    "libglib-2.0.so.0",
    "libresolv.so.2",
    "libexpat.so.1",
    "libz.so.1",
];

/// The loaders of glibc (`sysdeps/*/shlib-versions`), which auditwheel does not list since it never collects them.
const LOADERS: [&str; 3] = ["ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "ld-linux-riscv64-lp64d.so.1"];

/// DLLs of Windows itself. Names of API sets begin with `api-ms-win-` or `ext-ms-` ("Windows API sets" of Microsoft).
const WINDOWS: [&str; 38] = [
    "advapi32.dll",
    "bcrypt.dll",
    "bcryptprimitives.dll",
    "cfgmgr32.dll",
    "comctl32.dll",
    "comdlg32.dll",
    "crypt32.dll",
    "d3d11.dll",
    "d3d12.dll",
    "dbghelp.dll",
    "dnsapi.dll",
    "dwmapi.dll",
    "dxgi.dll",
    "gdi32.dll",
    "imm32.dll",
    "iphlpapi.dll",
    "kernel32.dll",
    "mswsock.dll",
    "msvcrt.dll",
    "ntdll.dll",
    "ole32.dll",
    "oleaut32.dll",
    "opengl32.dll",
    "pdh.dll",
    "powrprof.dll",
    "psapi.dll",
    "rpcrt4.dll",
    "secur32.dll",
    "setupapi.dll",
    "shell32.dll",
    "shlwapi.dll",
    "ucrtbase.dll",
    "user32.dll",
    "userenv.dll",
    "uxtheme.dll",
    "version.dll",
    "winmm.dll",
    "ws2_32.dll",
];

/// The rule by which a library is left out; `None` if the policy does not list it.
pub(super) fn rule(name: &[u8], machine: LinkedMachine) -> Option<&'static str> {
    let name = std::str::from_utf8(name).ok()?;
    if machine == LinkedMachine::Pe {
        let name = name.to_ascii_lowercase();
        let is_set = name.starts_with("api-ms-win-") || name.starts_with("ext-ms-");
        return (is_set || WINDOWS.contains(&name.as_str())).then_some("a part of Windows");
    }
    if MANYLINUX.contains(&name) {
        return Some("every Linux system has it (auditwheel's policy manylinux_2_28)");
    }
    LOADERS.contains(&name).then_some("the loader of the system")
}
