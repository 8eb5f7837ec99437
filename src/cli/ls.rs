//! `kpackfs ls`.

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use serde::Serialize;

use super::confinement::Opens;
use super::json;
use super::terminal::{escaped, stdout};
use super::viewed_input::ViewedInput;
use crate::fs::{FileKind, NodeAttributes, Unmounted, ViewedNode};
use crate::source::date;

/// List what a mount of the input would show
///
/// Each line has the name of something in a directory. With -R, with several PATHs, and for a file, it has the path.
///
/// Exit codes: 0 success, 1 a PATH is not there, 2 wrong command line, 5 the input is not there, or not understood.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  kpackfs ls torch.whl merged/gfx942/torch/lib")]
pub(super) struct Ls {
    #[command(flatten)]
    source: ViewedInput,

    /// Files and directories in the views [default: the root of the mount]
    path: Vec<OsString>,

    /// Also print permissions, size, time of change, and targets
    ///
    /// Times are in UTC. A file is made if its size is not known, such as a wheel; --json has a null then without this option.
    #[arg(short, long)]
    long: bool,

    /// Also list what is in subdirectories
    #[arg(short = 'R', long)]
    recursive: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Ls {
    pub(super) fn opens(&self) -> Opens {
        self.source.opens()
    }

    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        self.source.read(|views| {
            let named = self.path.iter().map(|path| views.find(path)).collect::<Result<Vec<_>, _>>()?;
            let mut out = BufWriter::new(stdout());
            let mut entries = Vec::new();
            let mut show = |place: &ViewedNode, is_named: bool| -> anyhow::Result<()> {
                if self.json {
                    entries.push(LsEntry::of(views, place, self.long)?);
                    return Ok(());
                }
                let is_path = is_named || self.recursive || self.path.len() > 1;
                let name = if is_path { place.path.as_bytes() } else { place.path.name() };
                self.print(views, place, name, &mut out)
            };
            let root = [Unmounted::root()];
            for place in if named.is_empty() { &root } else { named.as_slice() } {
                if views.is_directory(place) {
                    self.list(views, place, &mut show)?;
                } else {
                    show(place, true)?;
                }
            }
            if self.json {
                json::write(&mut out, &LsOutput { entries })?;
            }
            Ok(out.flush()?)
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Calls `show` for what is in a directory.
    fn list(
        &self,
        views: &Unmounted,
        directory: &ViewedNode,
        show: &mut impl FnMut(&ViewedNode, bool) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        for child in views.children(directory) {
            show(&child, false)?;
            if self.recursive && views.is_directory(&child) {
                self.list(views, &child, show)?;
            }
        }
        Ok(())
    }

    fn print(&self, views: &Unmounted, place: &ViewedNode, name: &[u8], out: &mut impl Write) -> anyhow::Result<()> {
        if self.long {
            let found = views.attributes(place, true)?;
            let (mode, time) = (permissions(&found), utc(seconds(found.time)));
            write!(out, "{mode} {:>12} {time} ", found.size.unwrap_or(0))?;
        }
        let target = views.target(place).filter(|_| self.long);
        let line = target.map_or_else(|| name.to_vec(), |target| [name, b" -> ", target].concat());
        // Programs get the bytes of a name.
        if io::stdout().is_terminal() {
            writeln!(out, "{}", escaped(&String::from_utf8_lossy(&line)))?;
        } else {
            out.write_all(&line)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}

/// What `ls --json` prints.
#[derive(Serialize)]
struct LsOutput {
    entries: Vec<LsEntry>,
}

/// A file, a directory or a symlink.
#[derive(Serialize)]
struct LsEntry {
    path: String,
    kind: &'static str,
    mode: String,
    size: Option<u64>,
    mtime: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

impl LsEntry {
    fn of(views: &Unmounted, place: &ViewedNode, is_sized: bool) -> anyhow::Result<Self> {
        let found = views.attributes(place, is_sized)?;
        let kind = found.kind.into();
        let target = views.target(place).map(|target| String::from_utf8_lossy(target).into_owned());
        let (path, mode) = (place.path.to_text().into_owned(), format!("{:04o}", found.mode));
        Ok(Self { path, kind, mode, size: found.size, mtime: seconds(found.time), target })
    }
}

/// The kind and the permissions, as in ls(1).
fn permissions(found: &NodeAttributes) -> String {
    let kind = match found.kind {
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::File => '-',
    };
    let bit = |shift: u16| found.mode >> shift & 1 == 1;
    // Of owner, group and others: the shift of its bits, and that of set-uid, set-gid or sticky with its letter.
    let triple = |(shift, special, letter): (u16, u16, char)| {
        let run = match (bit(special), bit(shift)) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        };
        [if bit(shift + 2) { 'r' } else { '-' }, if bit(shift + 1) { 'w' } else { '-' }, run]
    };
    std::iter::once(kind).chain([(6, 11, 's'), (3, 10, 's'), (0, 9, 't')].into_iter().flat_map(triple)).collect()
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> i64 {
    let signed = |seconds: u64| i64::try_from(seconds).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => signed(since.as_secs()),
        Err(before) => -signed(before.duration().as_secs()) - i64::from(before.duration().subsec_nanos() > 0),
    }
}

fn utc(seconds: i64) -> String {
    let (year, month, day) = date(seconds.div_euclid(86_400));
    let minutes = seconds.rem_euclid(86_400) / 60;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minutes / 60, minutes % 60)
}
