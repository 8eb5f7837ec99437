//! Runs each command on an input, and reduces what it said to a short answer.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Output;

use rocm_kpack::Archive;
use serde_json::Value;

use crate::common::umount;
use crate::forms::made::{Place, kpackfs};
use crate::forms::reader::{Counts, target_of_code_object};

/// A GPU for which each library of the fat wheels has code, and one for which none has.
pub(crate) const PRESENT: &str = "gfx90a";
pub(crate) const ABSENT: &str = "gfx1013";

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Inspect,
    Require,
    Split,
    Mount,
    Why,
    Diff,
    Verify,
    Against,
    Index,
    Collect,
}

impl Command {
    pub(crate) const ALL: [Self; 10] = [
        Self::Inspect,
        Self::Require,
        Self::Split,
        Self::Mount,
        Self::Why,
        Self::Diff,
        Self::Verify,
        Self::Against,
        Self::Index,
        Self::Collect,
    ];
}

/// What a command did: a short answer, which is compared, and its whole text.
pub(crate) struct Seen {
    pub(crate) answer: String,
    pub(crate) said: String,
}

/// Numbers by target as they are in answers.
pub(crate) fn written(counts: &Counts) -> String {
    let texts: Vec<_> = counts.iter().map(|(target, count)| format!("{target}={count}")).collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(" ") }
}

/// Asks one command. `scratch` is an empty directory for its output.
pub(crate) fn ask(command: Command, place: &Place, inputs: &[String], scratch: &Path) -> Seen {
    let asked = Asked { place, inputs, scratch };
    match command {
        Command::Inspect => asked.inspect(),
        Command::Require => asked.require(),
        Command::Split => asked.split(),
        Command::Mount => asked.mount(),
        Command::Why => asked.why(),
        Command::Diff => asked.diff(),
        Command::Verify => asked.verify(&[]),
        Command::Against => asked.verify(&["--against", place.fat()]),
        Command::Index => asked.index(),
        Command::Collect => asked.collect(),
    }
}

struct Asked<'a> {
    place: &'a Place,
    inputs: &'a [String],
    scratch: &'a Path,
}

fn text(output: &Output) -> String {
    [&*output.stdout, &*output.stderr].map(|text| String::from_utf8_lossy(text)).join("\n")
}

fn code(output: &Output) -> String {
    output.status.code().map_or_else(|| "killed".to_owned(), |code| code.to_string())
}

fn json(output: &Output) -> Option<Value> {
    serde_json::from_slice(&output.stdout).ok()
}

impl Asked<'_> {
    fn run(&self, before: &[&str], after: &[&str]) -> Output {
        let mut command = kpackfs();
        command.args(before).args(self.inputs).args(after);
        command.current_dir(self.place.root()).env("KPACKFS_CACHE_DIR", self.place.cache()).output().unwrap()
    }

    fn inspect(&self) -> Seen {
        let (report, tables) = (self.run(&["inspect", "--json"], &[]), self.run(&["inspect"], &[]));
        let mut answer = code(&report);
        if code(&tables) != answer {
            answer = format!("{answer} (without --json {})", code(&tables));
        }
        if let Some(report) = json(&report) {
            let mut counts = Counts::new();
            add_reports(&report, &mut counts);
            answer = format!("{answer} {}", written(&counts));
        }
        Seen { answer, said: text(&report) + &text(&tables) }
    }

    fn require(&self) -> Seen {
        let asked = [PRESENT, ABSENT].map(|gpu| (gpu, self.run(&["inspect", "--require", gpu], &[])));
        let answers = asked.each_ref().map(|(gpu, output)| format!("{gpu}: {}", code(output)));
        Seen { answer: answers.join(", "), said: asked.map(|(_, output)| text(&output)).join("\n") }
    }

    fn split(&self) -> Seen {
        let out = self.scratch.join("out");
        let output = self.run(&["split", "-o", out.to_str().unwrap()], &[]);
        self.of_archives(&output, &out)
    }

    fn mount(&self) -> Seen {
        let point = self.scratch.join("mnt");
        fs::create_dir(&point).unwrap();
        let output = self.run(&["mount"], &[point.to_str().unwrap()]);
        let seen = self.of_archives(&output, &point);
        umount(&point);
        seen
    }

    /// The answer of a command that made archives.
    fn of_archives(&self, output: &Output, out: &Path) -> Seen {
        let mut archives = BTreeMap::new();
        add_archives(out, &mut archives);
        let mut counts = Counts::new();
        for (target, count) in archives.into_values().flatten() {
            *counts.entry(target).or_default() += count;
        }
        let mut answer = code(output);
        if output.status.success() {
            let libraries = self.place.libraries().keys().filter_map(|path| path.rsplit('/').next());
            let hosts = libraries.filter(|library| has_host(out, library)).count();
            answer = format!("{answer} {}, {hosts} hosts", written(&counts));
        }
        Seen { answer, said: text(output) }
    }

    fn why(&self) -> Seen {
        let asked = [PRESENT, ABSENT].map(|gpu| (gpu, self.run(&["why", "--json", "--target", gpu], &[])));
        let answers = asked.each_ref().map(|(gpu, output)| {
            let status = json(output).and_then(|answer| Some(answer["status"].as_str()?.to_owned()));
            match status.filter(|_| output.status.code() != Some(5)) {
                Some(status) => format!("{gpu}: {} {status}", code(output)),
                None => format!("{gpu}: {}", code(output)),
            }
        });
        Seen { answer: answers.join(", "), said: asked.map(|(_, output)| text(&output)).join("\n") }
    }

    fn diff(&self) -> Seen {
        let output = self.run(&["diff", "--json", self.place.fat()], &[]);
        let mut answer = code(&output);
        if let Some(report) = json(&output) {
            let objects = &report["code_objects"];
            let count = |amount: &Value| amount["count"].as_u64().map_or("?".to_owned(), |count| count.to_string());
            let [same, changed] = [&objects["same"], &objects["changed"]["after"]].map(count);
            let [added, removed] = [&objects["added"], &objects["removed"]].map(count);
            answer = format!("{answer} same={same} changed={changed} added={added} removed={removed}");
        }
        Seen { answer, said: text(&output) }
    }

    fn verify(&self, more: &[&str]) -> Seen {
        let output = self.run(&["verify", "--json"], more);
        let findings = json(&output).and_then(|report| report["counts"]["findings"].as_u64());
        let findings = findings.map(|count| format!(" findings={count}")).unwrap_or_default();
        Seen { answer: code(&output) + &findings, said: text(&output) }
    }

    fn collect(&self) -> Seen {
        let output = self.run(&["collect", "host-tree/lib/a.so", "--gpu-targets", PRESENT, "--from"], &[]);
        Seen { answer: code(&output), said: text(&output) }
    }

    fn index(&self) -> Seen {
        let output = self.run(&["index"], &[]);
        Seen { answer: code(&output), said: text(&output) }
    }
}

/// Adds up the code objects by GPU, of one report or of those for several distributions or artifacts.
fn add_reports(report: &Value, counts: &mut Counts) {
    let Some(device) = report.get("device").and_then(Value::as_object) else {
        let lists = report.as_object().into_iter().flat_map(|fields| fields.values()).filter_map(Value::as_array);
        lists.flatten().for_each(|report| add_reports(report, counts));
        return;
    };
    let mut add = |gpu: &str, count: Option<u64>| {
        if let Some(count @ 1..) = count {
            *counts.entry(gpu.to_owned()).or_default() += usize::try_from(count).unwrap();
        }
    };
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for (gpu, part) in device {
        for archive in list(&part["archives"]) {
            add(gpu, archive["code_objects"].as_u64());
        }
        // Code objects that are files are a kernel database.
        if report["databases"].get("codeobject").is_some() {
            add(gpu, part["database_files"].as_u64());
        }
    }
    for bundle in list(&report["embedded"]) {
        for gpu in list(&bundle["targets"]).iter().filter_map(Value::as_str) {
            add(gpu, bundle["bundles"].as_u64());
        }
    }
}

/// Whether a library is in a host part, in the place where it is installed from there.
fn has_host(directory: &Path, library: &str) -> bool {
    let is_host = |name: &str| name == "host" || name.ends_with("_generic");
    let is_other = |name: &str| name.starts_with("gfx") || ["merged", "thin", "device", "fat"].contains(&name);
    fs::read_dir(directory).into_iter().flatten().any(|entry| {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        match entry.file_type().unwrap().is_dir() {
            true if is_host(&name) => holds(&path, library, &|name| is_host(name) || is_other(name)),
            true => !is_other(&name) && has_host(&path, library),
            false => false,
        }
    })
}

/// Whether a file of this name is below a directory, not counting directories that are left out.
fn holds(directory: &Path, file: &str, is_left_out: &dyn Fn(&str) -> bool) -> bool {
    fs::read_dir(directory).into_iter().flatten().any(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            !is_left_out(&name) && holds(&entry.path(), file, is_left_out)
        } else {
            name == file
        }
    })
}

/// Numbers of code objects in the archives below a directory, and code objects that are files. Views repeat both under the
/// same name.
fn add_archives(directory: &Path, archives: &mut BTreeMap<String, Vec<(String, usize)>>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        let kind = entry.file_type().unwrap();
        let end = path.extension().and_then(OsStr::to_str).filter(|_| kind.is_file() && !archives.contains_key(&name));
        if kind.is_dir() {
            add_archives(&path, archives);
        } else if end == Some("kpack") {
            let toc = Archive::open(&*fs::read(&path).unwrap()).unwrap().toc().unwrap();
            let targets = toc.toc.values().flat_map(|objects| objects.keys().cloned());
            archives.insert(name, targets.map(|target| (target, 1)).collect());
        } else if end == Some("hsaco") {
            let target = target_of_code_object(&fs::read(&path).unwrap());
            archives.insert(name, Vec::from_iter(target.map(|target| (target.to_owned(), 1))));
        }
    }
}
