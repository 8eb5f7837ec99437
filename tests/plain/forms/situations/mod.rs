//! Situations of device code, in each form, asked of each command that judges: what is found, what deserves a remark and
//! what is missing is the same everywhere, with the same exit code.
//!
//! The expected answers follow from what runtimes and libraries do, which each row names. `SITUATION=text` keeps the rows
//! whose name has that text.

mod databases;
mod library;
mod made;
mod other_forms;
mod table;

use std::process::Output;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::common::can_mount;
use made::{Form, Made};
use other_forms::OTHER_FORMS;
use table::{SITUATIONS, Situation, Verdict};

/// The commands, as rows name them.
const COMMANDS: [&str; 4] = ["why", "require", "verify", "collect"];

/// Situations that are asked at the same time.
const THREADS: usize = 2;

/// A command that was asked about a form.
struct Cell {
    command: &'static str,
    form: Form,
    /// What is wrong with its answer.
    fault: Option<String>,
}

fn ask(made: &Made, situation: &Situation, command: &str, form: Form) -> Output {
    let (place, gpu) = (Made::name(form), situation.gpu);
    let processor = gpu.split(':').next().unwrap();
    made.ask(&match command {
        "why" => vec!["why", place, "--target", gpu],
        "require" => vec!["inspect", place, "--require", gpu],
        "verify" => vec!["verify", place],
        _ => vec!["collect", "app/libapp.so", "--from", place, "--gpu-targets", processor],
    })
}

/// The exit code and a text that a command has to give; `None` if it is not asked.
fn expected(situation: &Situation, command: &str, form: Form) -> Option<(i32, Option<&'static str>)> {
    let verdict = situation.of_split.filter(|_| form.is_split()).unwrap_or(situation.verdict);
    if let Some((_, code)) = situation.verified.iter().find(|(of, _)| *of == form && command == "verify") {
        return Some((*code, None));
    }
    let verdict = if situation.blind.contains(&command) { Verdict::Found } else { verdict };
    Some(match (command, verdict) {
        ("why", Verdict::Unreadable) => (3, None),
        ("why", Verdict::Unreached(text)) => (0, Some(text)),
        ("verify", Verdict::Unreached(_)) => (2, Some("nothing there was split")),
        // A wheel is checked as a whole. What else is of no split is not, and it says so.
        ("verify", _) if form == Form::Wheel && situation.is_finding => (1, None),
        ("verify", _) if !form.is_split() => (2, Some("nothing there was split")),
        ("verify", _) => (i32::from(situation.is_finding), None),
        ("collect", _) if situation.needs.is_empty() || situation.gpu.contains(':') => return None,
        (_, Verdict::Found | Verdict::Unreached(_)) => (0, None),
        // It reads the archives of wanted GPUs only, and knows nothing of what others have.
        ("collect", Verdict::Remark(text)) if form.is_split() && text.starts_with("wrapper") => (0, None),
        (_, Verdict::Remark(text)) => (0, Some(text)),
        (_, Verdict::Lacking | Verdict::Unreadable) => (1, None),
    })
}

fn fault(output: &Output, (code, text): (i32, Option<&str>)) -> Option<String> {
    let said = [&*output.stdout, &*output.stderr].map(|text| String::from_utf8_lossy(text)).join("\n");
    let lines: Vec<_> = said.lines().filter(|line| !line.trim().is_empty()).take(4).collect();
    let excerpt = format!("\n        {}", lines.join("\n        "));
    if output.status.code() != Some(code) {
        return Some(format!("exit code {:?} instead of {code}{excerpt}", output.status.code()));
    }
    let is_said = text.is_none_or(|text| text.split('|').any(|text| said.contains(text)));
    (!is_said).then(|| format!("it does not say {text:?}{excerpt}"))
}

fn cells(situation: &Situation, can_mount: bool) -> Vec<Cell> {
    let made = Made::of(situation, can_mount);
    let forms = Form::ALL.into_iter().filter(|form| situation.has(*form) && (can_mount || *form != Form::Mounted));
    let cells = forms.flat_map(|form| COMMANDS.map(|command| (command, form)));
    let cells = cells.filter_map(|(command, form)| {
        let expected = expected(situation, command, form)?;
        Some(Cell { command, form, fault: fault(&ask(&made, situation, command, form), expected) })
    });
    cells.collect()
}

#[test]
fn commands_judge_device_code_alike() {
    let wanted = std::env::var("SITUATION").unwrap_or_default();
    let rows: Vec<_> =
        SITUATIONS.iter().chain(OTHER_FORMS).filter(|situation| situation.name.contains(&wanted)).collect();
    let (next, can_mount, wrong) = (AtomicUsize::new(0), can_mount(), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(situation) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for Cell { command, form, fault } in cells(situation, can_mount) {
                        let Some(text) = fault else { continue };
                        let reason = situation.reason;
                        wrong
                            .lock()
                            .unwrap()
                            .push(format!("{}, {command}, {form:?} ({reason}): {text}", situation.name));
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(wrong.is_empty(), "{} cells:\n{}", wrong.len(), wrong.join("\n"));
}
