//! Libraries with the wrappers that a situation wants, compiled by the C compiler that links Rust.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::succeeds;

/// A shared library.
pub(crate) struct Library {
    pub(crate) name: &'static str,
    /// The entry IDs of each wrapper's bundle. A target stands for the ID that clang writes.
    pub(crate) wrappers: &'static [&'static [&'static str]],
    /// The targets of code objects in its data, to which no wrapper leads.
    pub(crate) data: &'static [&'static str],
    /// What it needs.
    pub(crate) needs: &'static [&'static str],
    pub(crate) runpath: Option<&'static str>,
}

/// `e_flags` of code for a target: processors, modes and generic versions of LLVM's "User Guide for AMDGPU Backend".
fn flags(target: &str) -> u32 {
    let (processor, modes) = target.split_once(':').unwrap_or((target, ""));
    let mode = |name: &str, shift: u32| match () {
        () if modes.contains(&format!("{name}-")) => 2 << shift,
        () if modes.contains(&format!("{name}+")) => 3 << shift,
        () => 1 << shift,
    };
    match processor {
        "gfx90a" => 0x3f | mode("xnack", 8) | mode("sramecc", 10),
        "gfx942" => 0x4c | mode("xnack", 8) | mode("sramecc", 10),
        "gfx1030" => 0x36,
        "gfx1100" => 0x41,
        "gfx1151" => 0x4a,
        "gfx11-generic" => 0x54 | 1 << 24,
        "a later processor" => 0xf0,
        "gfx9-4-generic" => 0x5f | 1 << 24 | mode("xnack", 8) | mode("sramecc", 10),
        other => panic!("{other}"),
    }
}

/// The header of an AMDGPU ELF file with a table of sections, or SPIR-V. The number keeps code objects apart. `!` after a
/// target: the table is behind the end.
pub(crate) fn code(target: &str, number: u8) -> Vec<u8> {
    if let Some(target) = target.strip_suffix('!') {
        let mut code = code(target, number);
        code[42] = 1;
        return code;
    }
    if target == "amdgcnspirv" {
        return [&[0x03, 0x02, 0x23, 0x07][..], &[number; 124]].concat();
    }
    let mut code = vec![number; 192];
    code[..64].fill(0);
    code[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x04");
    (code[16], code[18], code[20], code[40], code[52], code[58], code[60]) = (3, 224, 1, 64, 64, 64, 1);
    code[48..52].copy_from_slice(&flags(target).to_le_bytes());
    code[64..128].fill(0);
    code
}

pub(crate) fn bundle(entries: &[&str], number: u8) -> Vec<u8> {
    let align = |at: usize| at.next_multiple_of(4096);
    let target = |id: &str| id.rsplit("--").next().unwrap().rsplit("hsa-").next().unwrap().to_owned();
    let id = |entry: &str| match entry {
        "amdgcnspirv" => "hip-spirv64-amd-amdhsa--amdgcnspirv".to_owned(),
        _ if entry.contains("amdgcn") => entry.to_owned(),
        _ => format!("hipv4-amdgcn-amd-amdhsa--{}", entry.trim_end_matches('!')),
    };
    let host = ("host-x86_64-unknown-linux-gnu-".to_owned(), Vec::new());
    let entries = entries.iter().map(|entry| (id(entry), code(&target(entry), number)));
    let entries: Vec<_> = std::iter::once(host).chain(entries).collect();
    let (mut table, mut body) = (Vec::new(), Vec::new());
    for (id, code) in &entries {
        let at = 4096 + align(body.len());
        table.extend([at as u64, code.len() as u64, id.len() as u64].map(u64::to_le_bytes).concat());
        table.extend(id.as_bytes());
        body.resize(align(body.len()), 0);
        body.extend(code);
    }
    let mut bundle = [b"__CLANG_OFFLOAD_BUNDLE__", &(entries.len() as u64).to_le_bytes()[..], &table].concat();
    bundle.resize(4096, 0);
    bundle.extend(body);
    bundle.resize(align(bundle.len()), 0);
    bundle
}

impl Library {
    pub(crate) const fn new(name: &'static str, wrappers: &'static [&'static [&'static str]]) -> Self {
        Self { name, wrappers, data: &[], needs: &[], runpath: None }
    }

    /// Its bytes. `scratch` is for the compiler.
    pub(crate) fn make(&self, scratch: &Path) -> Vec<u8> {
        let mut source = format!("int call_{}(void) {{ return 0; }}\n", self.name.replace(['.', '-'], "_"));
        for (number, entries) in self.wrappers.iter().enumerate() {
            let file = scratch.join(format!("bundle{number}"));
            fs::write(&file, bundle(entries, u8::try_from(number + 1).unwrap())).unwrap();
            write!(
                source,
                "__asm__(\".section .hip_fatbin,\\\"a\\\",@progbits\\n.balign 4096\\nbundle{number}: .incbin \\\"{}\\\"\\n.previous\");\n\
                 extern const char bundle{number}[] __attribute__((visibility(\"hidden\")));\n\
                 static struct {{ unsigned magic, version; const void *code, *unused; }} wrapper{number}\n\
                 __attribute__((section(\".hipFatBinSegment\"), used, aligned(8))) = {{0x48495046, 1, bundle{number}, 0}};\n",
                file.display()
            )
            .unwrap();
        }
        for (number, target) in self.data.iter().enumerate() {
            let file = scratch.join(format!("code{number}"));
            fs::write(&file, code(target, u8::try_from(number + 1).unwrap())).unwrap();
            writeln!(
                source,
                "__asm__(\".section .rodata\\n.balign 8\\n.incbin \\\"{}\\\"\\n.previous\");",
                file.display()
            )
            .unwrap();
        }
        if !self.wrappers.is_empty() {
            source += "void *__hipRegisterFatBinary(const void *);\nvoid *registered;\n\
                       __attribute__((constructor)) static void add(void) { registered = __hipRegisterFatBinary(&wrapper0); }\n";
        }
        let needs = self.needs.iter().map(|name| stub(name, scratch));
        link(self.name, &source, &needs.collect::<Vec<_>>(), self.runpath, scratch)
    }
}

/// An empty library of this name, for a linker.
fn stub(name: &str, scratch: &Path) -> PathBuf {
    let path = scratch.join(name);
    if !path.exists() {
        link(name, "", &[], None, scratch);
    }
    path
}

fn link(name: &str, source: &str, needs: &[PathBuf], runpath: Option<&str>, scratch: &Path) -> Vec<u8> {
    let (input, output) = (scratch.join(format!("{name}.c")), scratch.join(name));
    fs::write(&input, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-nostdlib", "-Wl,--no-as-needed"]).arg(format!("-Wl,-soname,{name}"));
    compiler.args(runpath.map(|path| format!("-Wl,-rpath,{path},--enable-new-dtags")));
    succeeds(compiler.arg("-o").arg(&output).arg(&input).args(needs));
    fs::read(output).unwrap()
}

/// An application that needs libraries.
pub(crate) fn application(needs: &[&str], scratch: &Path) -> Vec<u8> {
    let needs: Vec<_> = needs.iter().map(|name| stub(name, scratch)).collect();
    link("libapp.so", "int app(void) { return 0; }\n", &needs, None, scratch)
}
