//! The command line. All printing, progress bars and exit codes are here.

mod artifact_parts;
mod artifacts;
mod bare_mount;
mod bucket_index;
mod cache;
mod cat;
mod collect;
mod collect_output;
mod collecting;
mod confinement;
mod diff;
mod environment;
mod failure;
mod gate;
mod generate;
mod gpus;
mod html;
mod image_output;
mod index;
mod input;
mod inspect;
mod interrupt;
mod json;
mod kpack;
mod limits;
mod lists;
mod log;
mod ls;
mod memory;
mod mount;
mod mount8;
mod mount_reports;
mod mounted_release;
mod options;
mod output_format;
mod output_name;
mod pack;
mod package_index;
mod prepare;
mod progress;
mod recombine;
mod reference;
mod replacing;
mod said;
mod serving;
mod split;
mod split_views;
mod split_warnings;
mod status;
mod terminal;
mod thin_wheels;
mod tips;
mod unbundle;
mod verify;
mod viewed_input;
mod views;
mod why;
mod writing;

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::{ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::confinement::Opens;
use self::failure::{FAILURE, answered, code, is_broken_pipe, said_of_usage};
use self::prepare::place_of;
use crate::memory::{check_tables, limit_tables, set_up_malloc};
use crate::mount::{check_running, signals};
use crate::report::table;

/// Shows a fat ROCm wheel or install tree as if it had been split by GPU.
///
/// `kpackfs INPUT DIRECTORY` is `kpackfs mount INPUT DIRECTORY`.
///
/// A command that writes something says what it has written; -q does not, and --json prints it as JSON.
///
/// Exit codes: 0 success, 1 failure, 2 wrong command line, 5 an input is not there, or what it is was not understood. Some commands have more, which their help lists.
#[derive(Debug, Parser)]
#[command(name = "kpackfs", version = version(), max_term_width = 110, disable_version_flag = true)]
// Without a blank line, the short help fits a terminal of 24 rows.
#[command(help_template = "{about-with-newline}{usage-heading} {usage}\n\n{all-args}{after-help}")]
#[command(
    after_long_help = "Examples:\n  kpackfs inspect torch.whl\n  kpackfs mount torch.whl mnt\n  kpackfs why torch"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Keep the rights that the command does not need, and gives up otherwise (SECURITY.md)
    ///
    /// Errors name it. `kpackfs --version --verbose` prints what a command gives up on this machine.
    #[arg(long, global = true, hide = true)]
    no_confinement: bool,

    /// Show no progress, and do not say what was written
    #[arg(short, long, global = true, hide_short_help = true)]
    quiet: bool,

    /// Print version
    #[arg(short = 'V', long, action = ArgAction::Version, hide_short_help = true)]
    version: (),
}

#[derive(Debug, Subcommand)]
enum Command {
    Mount(mount::Mount),
    #[command(alias = "unmount")]
    Umount(mount::Umount),
    Status(status::StatusArguments),
    Inspect(inspect::Inspect),
    Ls(ls::Ls),
    Cat(cat::Cat),
    Split(split::Split),
    Collect(Box<collect::Collect>),
    Recombine(Box<recombine::Recombine>),
    Verify(verify::Verify),
    Why(why::Why),
    Diff(Box<diff::Compare>),
    Kpack(kpack::Kpack),
    Index(index::IndexArguments),
    Cache(cache::CacheArguments),
    Generate(generate::Generate),
}

/// The version and the commit, for people. What is written depends on the version only.
static VERSION: OnceLock<String> = OnceLock::new();

fn version() -> &'static str {
    VERSION.get().map_or(env!("CARGO_PKG_VERSION"), String::as_str)
}

/// Runs the command in the arguments. `commit` is what the program was compiled from, if that is known.
pub fn run(commit: Option<&str>) -> ExitCode {
    VERSION.get_or_init(|| described(commit));
    if let Err(error) = memory::check_address_space(0) {
        terminal::complain(&error);
        return ExitCode::from(FAILURE);
    }
    set_up_malloc();
    limit_tables(memory::MemoryOption::default().bytes());
    log::start();
    // What is larger than `ulimit -f` is then an error like a full disk, which no daemon dies of.
    signals::ignore(libc::SIGXFSZ);
    let arguments: Vec<_> = std::env::args_os().collect();
    if is_version_query(&arguments) {
        confinement::confine(&confinement::Opens::inputs(Vec::new()));
        let printed = write!(terminal::stdout(), "{}{}", Cli::command().render_version(), confinement::describe());
        return answered(printed, ExitCode::SUCCESS);
    }
    // Made once: that takes more than half of what a start costs.
    let cli = Cli::command();
    if let Some(caller) = mount8::caller(&arguments, &cli) {
        // mount(8) says nothing, either.
        said::be_quiet();
        return mount8::run(caller, arguments, &cli, |command| {
            read(&Cli::command().try_get_matches_from(command)?)?.run()
        });
    }
    terminal::fit_tables();
    let arguments = lists::bind(arguments);
    let matches = match parse(cli, &arguments) {
        Ok(matches) => matches,
        Err(error) => return said_of_usage(&error),
    };
    match read(&matches).and_then(|cli| cli.run()) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let failure = code(&error, FAILURE);
            match error.downcast::<clap::Error>() {
                Ok(of_usage) => said_of_usage(&of_usage),
                Err(error) => {
                    failure::print(&error);
                    ExitCode::from(failure)
                }
            }
        }
    }
}

/// The command of a line. Fails if a path in it leads into a mount whose daemon is stopped, of which `umount` asks nothing.
fn read(matches: &ArgMatches) -> anyhow::Result<Cli> {
    let (mut paths, mut inner) = (Vec::new(), matches.subcommand());
    while let Some((_, matches)) = inner.filter(|(name, _)| *name != "umount") {
        // Values of another type are no paths.
        let values = matches.ids().filter_map(|id| matches.try_get_many::<PathBuf>(id.as_str()).ok()?);
        paths.extend(values.flatten().map(|path| place_of(path)));
        inner = matches.subcommand();
    }
    check_running(paths.iter().map(PathBuf::as_path))?;
    Ok(Cli::from_arg_matches(matches)?)
}

fn described(commit: Option<&str>) -> String {
    let commit = commit.filter(|commit| !commit.is_empty()).map(|commit| format!(" ({commit})"));
    format!("{}{}", env!("CARGO_PKG_VERSION"), commit.unwrap_or_default())
}

/// An error has a tip.
fn parse(cli: clap::Command, arguments: &[OsString]) -> Result<ArgMatches, clap::Error> {
    cli.try_get_matches_from(arguments).or_else(|error| {
        let cli = Cli::command();
        match bare_mount::rewritten(&error, &cli, arguments) {
            Some(mount) => cli.try_get_matches_from(mount),
            None => Err(tips::improve(error, &cli, arguments)),
        }
    })
}

/// Whether the arguments are `--version --verbose`: the version, and what of the confinement is in force here.
fn is_version_query(arguments: &[OsString]) -> bool {
    let is = |argument: &OsString, names: &[&str]| names.iter().any(|name| argument == *name);
    let (version, verbose) = (&["--version", "-V"], &["--verbose"]);
    matches!(arguments, [_, one, other] if is(one, version) && is(other, verbose) || is(one, verbose) && is(other, version))
}

impl Cli {
    /// Runs the command, confined. An answer for which memory was missing is no answer.
    fn run(&self) -> anyhow::Result<ExitCode> {
        if self.no_confinement {
            confinement::turn_off();
        }
        if self.quiet {
            said::be_quiet();
        }
        let (opens, work) = self.command.parts();
        opens.iter().for_each(confinement::confine);
        let result = work();
        confinement::end();
        let code = result?;
        check_tables()?;
        Ok(code)
    }
}

impl Command {
    /// What the command opens, and its work. `None` if it reads no input, or confines itself later.
    fn parts(&self) -> (Option<Opens>, Box<dyn FnOnce() -> anyhow::Result<ExitCode> + '_>) {
        match self {
            Self::Mount(command) => (None, Box::new(|| command.run())),
            Self::Umount(command) => (None, Box::new(|| command.run())),
            Self::Status(command) => (None, Box::new(|| command.run())),
            Self::Inspect(command) => (Some(command.opens()), Box::new(|| command.run())),
            Self::Ls(command) => (Some(command.opens()), Box::new(|| command.run())),
            Self::Cat(command) => (Some(command.opens()), Box::new(|| command.run())),
            Self::Split(command) => (Some(command.opens()), Box::new(|| command.run())),
            Self::Collect(command) => (Some(command.opens()), Box::new(|| command.run())),
            Self::Recombine(command) => (command.opens(), Box::new(|| command.run())),
            Self::Verify(command) => (Some(command.opens()), Box::new(|| Ok(command.run()))),
            Self::Why(command) => (None, Box::new(|| Ok(command.run()))),
            Self::Diff(command) => (Some(command.opens()), Box::new(|| command.run())),
            Self::Kpack(command) => (Some(command.opens()), Box::new(|| command.run())),
            Self::Index(command) => (Some(command.opens()), Box::new(|| command.run())),
            Self::Cache(command) => (None, Box::new(|| command.run())),
            Self::Generate(command) => (None, Box::new(|| command.run(&Cli::command()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::Cli;

    /// More options than these are not found by a reader.
    const MOST_OPTIONS: usize = 30;
    /// Rows of `-h` on a terminal of 80 columns.
    const MOST_LINES: usize = 24;

    /// How a row begins for each alias of an option, and for each option that help omits.
    fn spellings(command: &clap::Command, rows: &mut BTreeSet<String>) {
        for argument in command.get_arguments() {
            let Some(long) = argument.get_long() else { continue };
            if argument.is_hide_set() {
                rows.insert(format!("| `--{long}` | "));
            }
            let aliases = argument.get_all_aliases().unwrap_or_default().into_iter();
            rows.extend(aliases.map(|alias| format!("| `--{alias}` | `--{long}` |")));
        }
        command.get_subcommands().for_each(|command| spellings(command, rows));
    }

    /// Scripts take the second word.
    #[test]
    fn the_commit_follows_the_version() {
        let described = super::described(Some("abc1234567"));
        assert_eq!(described.split(' ').collect::<Vec<_>>(), [env!("CARGO_PKG_VERSION"), "(abc1234567)"]);
        assert_eq!([super::described(None), super::described(Some(""))], [env!("CARGO_PKG_VERSION"); 2]);
    }

    #[test]
    fn migrating_md_lists_all_other_options() {
        let page = include_str!("../../docs/migrating.md");
        let (_, table) = page.split_once("| option | means |\n|---|---|\n").unwrap();
        let table: Vec<_> = table.lines().take_while(|line| line.starts_with('|')).collect();
        let mut rows = BTreeSet::new();
        spellings(&Cli::command(), &mut rows);
        let is_listed = |row: &String| table.iter().any(|line| line.starts_with(row));
        assert!(rows.len() == table.len() && rows.iter().all(is_listed), "the rows are {rows:#?}");
    }

    fn all_commands(command: &clap::Command) -> Vec<&clap::Command> {
        std::iter::once(command).chain(command.get_subcommands().flat_map(all_commands)).collect()
    }

    #[test]
    fn commands_have_few_options_and_a_short_help() {
        let mut cli = Cli::command();
        cli.build();
        for command in all_commands(&cli) {
            let name = command.get_name();
            let options = command.get_arguments().filter(|argument| argument.get_long().is_some());
            let shown = options.filter(|option| !option.is_hide_set() && !option.is_global_set()).count();
            assert!(shown <= MOST_OPTIONS, "{name}: {shown} options");
            let help = |width| command.clone().term_width(width).render_help().to_string();
            let rows = help(80).lines().count();
            assert!(rows <= MOST_LINES, "{name}: {rows} rows");
            let help = help(100);
            let is_continued = |line: &str| line.starts_with("           ");
            assert!(!help.lines().any(is_continued), "an argument takes several lines: {help}");
        }
    }
}
