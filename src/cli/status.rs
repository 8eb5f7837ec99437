//! `kpackfs status`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use rustix::termios::tcgetwinsize;
use serde_json::Value;

use super::table::{Style, Table, percent, size};
use super::terminal::{escaped, stdout};
use crate::disk;
use crate::memory::Parser;
use crate::mount::find_mount;
use crate::view::REPORTS;

/// Time between two updates of a live view.
const PERIOD: Duration = Duration::from_secs(1);

/// Show the work that a mount has done and what it is doing
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  kpackfs status --watch mnt")]
pub(super) struct StatusArguments {
    /// The mount point
    #[arg(value_name = "MOUNT_POINT")]
    place: PathBuf,

    /// Update each second until the mount ends
    #[arg(short, long)]
    watch: bool,

    /// Print the mount's status.json unchanged
    #[arg(long, conflicts_with = "watch")]
    json: bool,
}

impl StatusArguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let mount = find_mount(&self.place)?;
        let file = mount.mount_point.join(REPORTS).join("status.json");
        let read = || disk::read_to_string(&file, Parser::Text).with_context(|| file.display().to_string());
        let mut out = stdout();
        let text = read()?;
        if self.json {
            writeln!(out, "{}", text.trim_end())?;
            return Ok(ExitCode::SUCCESS);
        }
        let parsed = |text: &str| serde_json::from_str(text).with_context(|| file.display().to_string());
        let mut now: Value = parsed(&text)?;
        let mut before = None;
        loop {
            let mut page = Vec::new();
            show(&mut page, &mount.mount_point, &now, before.as_ref())?;
            if let (true, Ok(size)) = (self.watch, tcgetwinsize(io::stdout())) {
                // Cursor home, and clear from there (ECMA-48: CUP, ED).
                write!(out, "\x1b[H\x1b[J")?;
                page = first_rows(&page, size.ws_row.into(), size.ws_col.into());
            }
            out.write_all(&page)?;
            out.flush()?;
            if !self.watch {
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(PERIOD);
            // No file is kept open in between, so that the mount can be unmounted.
            if find_mount(&self.place).ok().as_ref() != Some(&mount) {
                return Ok(ExitCode::SUCCESS);
            }
            before = Some(std::mem::replace(&mut now, parsed(&read()?)?));
        }
    }
}

/// The part of a page that a terminal of this size shows, the last row of which is for the cursor. Longer lines go on in the next row.
fn first_rows(page: &[u8], rows: usize, columns: usize) -> Vec<u8> {
    let page = String::from_utf8_lossy(page);
    let taken = |line: &str| line.trim_end().chars().count().div_ceil(columns.max(1)).max(1);
    let all = page.split_inclusive('\n');
    if all.clone().map(taken).sum::<usize>() < rows {
        return page.into_owned().into_bytes();
    }
    let mut left = rows.saturating_sub(2);
    let fitting = all.take_while(|line| {
        let fits = taken(line) <= left;
        left = left.saturating_sub(taken(line));
        fits
    });
    let mut shown: String = fitting.collect();
    shown.push_str("… kpackfs status shows the rest\n");
    shown.into_bytes()
}

/// Prints a status. With an earlier one, also the work per second since then.
fn show(out: &mut impl Write, place: &Path, now: &Value, before: Option<&Value>) -> io::Result<()> {
    let text = |name: &str| now.get(name).and_then(Value::as_str).unwrap_or_default();
    let uptime = seconds(now);
    let input = if text("input").is_empty() { "its input" } else { text("input") };
    let line = match now.get("changed").and_then(Value::as_str) {
        Some(name) => {
            let what = if name.is_empty() { input } else { name };
            let place = place.display();
            format!(
                "{place}: not healthy: {what} has changed since it was mounted: reading it gives what it was, or fails (ESTALE). \
                 Unmount, and mount the input as it is now."
            )
        }
        None => format!("{}: healthy", place.display()),
    };
    writeln!(out, "{}", escaped(&line))?;
    show_waiting(out, now)?;
    let up = indicatif::HumanDuration(Duration::from_secs_f64(uptime));
    writeln!(out, "{}", escaped(&format!("kpackfs {}, up {up}, of {input}", text("version"))))?;
    show_transport(out, now)?;
    show_confinement(out, now)?;
    writeln!(out)?;

    archives_in_progress(now).write(out, Style::Text)?;
    work(now, before).write(out, Style::Text)?;
    show_requests(out, now)?;
    show_held(out, now)
}

/// Prints which programs wait for work.
fn show_waiting(out: &mut impl Write, now: &Value) -> io::Result<()> {
    for request in now.get("waiting").and_then(Value::as_array).into_iter().flatten() {
        let kind = request.get("kind").and_then(Value::as_str).unwrap_or_default();
        let waited = Duration::from_millis(number(request, "milliseconds").unwrap_or(0));
        writeln!(out, "A program waits for a {}: {waited:?}", escaped(kind))?;
    }
    Ok(())
}

/// Prints how requests travel.
fn show_transport(out: &mut impl Write, now: &Value) -> io::Result<()> {
    let text = |name: &str| now.get("transport")?.get(name)?.as_str();
    let through = match text("kind") {
        Some("uring") => "io_uring",
        Some(_) => "/dev/fuse",
        None => return Ok(()),
    };
    let reason = text("reason").map(|reason| format!(": {reason}")).unwrap_or_default();
    writeln!(out, "{}", escaped(&format!("Requests travel through {through}{reason}")))
}

/// Prints what the daemon has not given up.
fn show_confinement(out: &mut impl Write, now: &Value) -> io::Result<()> {
    let Some(layers) = now.get("confinement").and_then(Value::as_array) else { return Ok(()) };
    let is_in_force = |layer: &&Value| layer.get("in_force").and_then(Value::as_bool).unwrap_or_default();
    let text = |layer: &Value, name: &str| layer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let free = layers.iter().filter(|layer| !is_in_force(layer));
    let free: Vec<_> = free.map(|layer| format!("{} ({})", text(layer, "layer"), text(layer, "detail"))).collect();
    match &*free {
        _ if layers.is_empty() => Ok(()),
        [] => writeln!(out, "Confined"),
        free => writeln!(out, "{}", escaped(&format!("Confined, except: {}", free.join(", ")))),
    }
}

/// A counter of a status.
fn counter(now: &Value, name: &str) -> u64 {
    now.get("counters").and_then(|counters| number(counters, name)).unwrap_or(0)
}

/// The work so far, and per second since an earlier status.
fn work(now: &Value, before: Option<&Value>) -> Table {
    let elapsed = before.map_or(0.0, |before| seconds(now) - seconds(before));
    let rate = |group: &str, name: &str, total: u64| {
        let before = before.and_then(|before| number(before.get(group)?, name));
        let done = before.filter(|_| elapsed > 0.0).map(|before| total.saturating_sub(before))?;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "shown"
        )]
        Some((done as f64 / elapsed) as u64)
    };
    let columns = "what | so far # | per second #";
    // What has not happened would only take room, and so would what only --json and metrics are read for.
    let is_shown =
        |name: &str| name.starts_with("bytes_") || ["frames_made", "passthrough_opens", "requests"].contains(&name);
    let counters = numbers(now.get("counters")).filter(|(name, total)| *total > 0 && is_shown(name));
    let mut work = Table::of("Work", columns, counters, |(name, total)| {
        let unit = if name.starts_with("bytes_") { size } else { |number: u64| number.to_string() };
        let rate = rate("counters", name, total).map(unit).unwrap_or_default();
        [name.replace('_', " "), unit(total), rate]
    });
    let hits = counter(now, "cache_hits");
    if hits > 0 {
        work.row(["found in a cache".to_owned(), percent(hits, hits + counter(now, "frames_made")), String::new()]);
    }
    work
}

/// Prints the requests by kind, and the longest one.
fn show_requests(out: &mut impl Write, now: &Value) -> io::Result<()> {
    let by_kind = now.get("counters").and_then(|counters| counters.get("requests_by_kind"));
    let kinds = numbers(by_kind).filter(|&(_, total)| total > 0).map(|(name, total)| format!("{name} {total}"));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let longest = now.get("counters").and_then(|counters| counters.get("longest_request")?.as_str());
    let longest = longest.filter(|kind| !kind.is_empty()).map(|kind| {
        let took = Duration::from_micros(counter(now, "longest_request_microseconds"));
        format!("; the longest was a {kind} of {took:?}")
    });
    if kinds.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", escaped(&format!("Requests: {kinds}{}", longest.unwrap_or_default())))
}

/// Prints what is in use now.
fn show_held(out: &mut impl Write, now: &Value) -> io::Result<()> {
    let used = |group: &str| numbers(now.get(group)).filter(|(_, total)| *total > 0).collect::<Vec<_>>();
    let gauges = used("gauges").into_iter().map(|(name, total)| format!("{} {total}", name.replace('_', " ")));
    let memory = used("memory").into_iter().map(|(name, total)| {
        let what = if name == "capacity" { "at most".to_owned() } else { format!("for {name}") };
        format!("memory {what} {}", size(total))
    });
    writeln!(out, "{}", escaped(&format!("Now: {}", gauges.chain(memory).collect::<Vec<_>>().join(", "))))
}

/// The archives that are being made.
fn archives_in_progress(now: &Value) -> Table {
    let columns = "archive | done # | of # | #";
    Table::of("Being made", columns, now.get("making").and_then(Value::as_array).into_iter().flatten(), |archive| {
        let [done, total] = ["done", "total"].map(|name| number(archive, name).unwrap_or(0));
        let name = archive.get("archive").and_then(Value::as_str).unwrap_or_default();
        [name.to_owned(), size(done), size(total), percent(done, total)]
    })
}

fn seconds(status: &Value) -> f64 {
    status.get("uptime_seconds").and_then(Value::as_f64).filter(|seconds| *seconds >= 0.0).unwrap_or(0.0)
}

fn number(group: &Value, name: &str) -> Option<u64> {
    group.get(name)?.as_u64()
}

/// The numbers of an object, without times, which cannot be subtracted.
fn numbers(group: Option<&Value>) -> impl Iterator<Item = (&str, u64)> {
    let fields = group.and_then(Value::as_object).into_iter().flatten();
    fields
        .filter_map(|(name, value)| Some((name.as_str(), value.as_u64()?)))
        .filter(|(name, _)| !name.ends_with("seconds"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(uptime: f64, read: u64) -> Value {
        json!({
            "version": "1.0", "input": "/in/torch.whl", "uptime_seconds": uptime,
            "transport": {"kind": "dev-fuse", "reason": "it is off"},
            "confinement": [{"layer": "files", "in_force": false, "detail": "why"}],
            "counters": {
                "bytes_read": read, "frames_made": 1, "cache_hits": 3, "requests": 9,
                "requests_by_kind": {"lookup": 9, "read": 0},
                "longest_request": "read", "longest_request_microseconds": 1500,
            },
            "waiting": [{"kind": "getattr", "milliseconds": 1500}],
            "gauges": {"requests_waiting": 2, "threads": 0},
            "memory": {"capacity": 1 << 28, "frames": 2048},
            "making": [{"archive": "gfx90a/.kpack/torch_gfx90a.kpack", "done": 1 << 20, "total": 4 << 20}],
        })
    }

    fn shown(now: &Value, before: Option<&Value>) -> String {
        let mut out = Vec::new();
        show(&mut out, Path::new("/mnt"), now, before).unwrap();
        // How wide columns are is not the point.
        let text = String::from_utf8(out).unwrap();
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
    }

    #[test]
    fn everything_is_shown() {
        let text = shown(&status(61.0, 4096), None);
        for line in [
            "/mnt: healthy",
            "A program waits for a getattr: 1.5s",
            "kpackfs 1.0, up 61 seconds, of /in/torch.whl",
            "Requests travel through /dev/fuse: it is off",
            "Confined, except: files (why)",
            "bytes read 4.00 KiB",
            "found in a cache 75.0 %",
            "Requests: lookup 9; the longest was a read of 1.5ms",
            "Now: requests waiting 2, memory at most 256.00 MiB, memory for frames 2.00 KiB",
            "gfx90a/.kpack/torch_gfx90a.kpack 1.00 MiB 4.00 MiB 25.0 %",
        ] {
            assert!(text.lines().any(|other| other == line), "{line:?} in\n{text}");
        }
        assert!(!text.contains("per second") && !text.contains(" 0\n"), "{text}");
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let text = shown(&status(12.0, 6 << 20), Some(&status(10.0, 2 << 20)));
        assert!(text.contains("bytes read 6.00 MiB 2.00 MiB\n"), "{text}");
        assert!(text.contains("requests 9 0\n"), "{text}");
        assert!(!shown(&status(1.0, 1), Some(&status(1.0, 1))).contains("per second"));
    }

    #[test]
    fn a_page_fits_a_terminal() {
        let page = "line\n".repeat(40);
        let shown = String::from_utf8(first_rows(page.as_bytes(), 24, 80)).unwrap();
        assert_eq!(shown.lines().count(), 23);
        assert!(shown.ends_with("… kpackfs status shows the rest\n"));
        assert_eq!(first_rows(b"one\ntwo\n", 24, 80), b"one\ntwo\n");
        assert_eq!(first_rows(page.as_bytes(), 0, 0), "… kpackfs status shows the rest\n".as_bytes());
        let wrapped = "twelve chars\n".repeat(40);
        let lines = |columns| String::from_utf8(first_rows(wrapped.as_bytes(), 24, columns)).unwrap().lines().count();
        assert_eq!(lines(6), 12);
        assert_eq!(lines(12), 23);
    }
}
