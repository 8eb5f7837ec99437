//! `kpackfs generate`: the files of an installation other than the program, for `scripts/install`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::Resettable;
use clap::{Arg, ArgAction, Args, Command, Id};
use clap_complete::{Shell, generate};
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use super::{mount8, reference};
use crate::disk;
use crate::memory::Parser;

/// Hand-written sections.
const KPACKFS_1: &str = include_str!("../../packaging/man/kpackfs.1");
const MOUNT_KPACKFS_8: &str = include_str!("../../packaging/man/mount.kpackfs.8");

/// Where the mount options are inserted in mount.kpackfs(8).
const OPTIONS: &str = ".\\\" OPTIONS\n";

/// Write man pages, shell completions and the page of all options into a directory, in the layout of /usr/share
#[derive(Debug, Args)]
#[command(hide = true)]
pub(super) struct Generate {
    /// An existing or new directory
    directory: PathBuf,
}

impl Generate {
    pub(super) fn run(&self, cli: &Command) -> anyhow::Result<ExitCode> {
        let below = |path: &str| {
            let path = self.directory.join(path);
            fs::create_dir_all(&path).with_context(|| path.display().to_string()).map(|()| path)
        };
        manuals(cli, &below("man/man1")?, &below("man/man8")?).context("man pages")?;
        let shells = [
            // The file name under which bash-completion finds the completions of `kpackfs`.
            (Shell::Bash, "bash-completion/completions", "kpackfs"),
            (Shell::Zsh, "zsh/site-functions", "_kpackfs"),
            (Shell::Fish, "fish/vendor_completions.d", "kpackfs.fish"),
        ];
        for (shell, place, name) in shells {
            fs::write(below(place)?.join(name), completions(shell, cli))?;
        }
        fs::write(below("doc/kpackfs/docs")?.join("cli.md"), reference::page(cli))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn completions(shell: Shell, cli: &Command) -> String {
    let mut made = Vec::new();
    generate(shell, &mut offered(cli), "kpackfs", &mut made);
    let made = String::from_utf8_lossy(&made).into_owned();
    if shell == Shell::Bash { offering_files(&made) } else { made }
}

fn manuals(cli: &Command, commands: &Path, administration: &Path) -> anyhow::Result<()> {
    clap_mangen::generate_to(with_all_sentences(cli.clone()), commands)?;
    let main = commands.join("kpackfs.1");
    let page = disk::read_to_string(&main, Parser::Text)?;
    fs::write(&main, page + KPACKFS_1)?;
    let (before, after) = MOUNT_KPACKFS_8.split_once(OPTIONS).context("mount.kpackfs.8 has no place for options")?;
    fs::write(administration.join("mount.kpackfs.8"), [before, &mount_options(cli), after].concat())?;
    // The same program under the name of the other file system type.
    fs::write(administration.join("mount.fuse.kpackfs.8"), ".so man8/mount.kpackfs.8\n")?;
    Ok(())
}

/// `clap_complete` offers all options for an empty word, so that Bash offers no files.
const OFFER_FILES: &str = r#"
_kpackfs_or_files() {
    _kpackfs "$@"
    [[ -n ${COMP_WORDS[COMP_CWORD]} || " ${COMPREPLY[*]}" = *' '[!-]* ]] || COMPREPLY=()
}
"#;

fn offering_files(completions: &str) -> String {
    let (functions, registration) = completions.split_once("\nif [[ \"${BASH_VERSINFO").unwrap_or((completions, ""));
    let registration = registration.replace("complete -F _kpackfs ", "complete -F _kpackfs_or_files ");
    format!("{functions}{OFFER_FILES}\nif [[ \"${{BASH_VERSINFO{registration}")
}

/// `clap_mangen` leaves out the description of an option that short help omits, and that an argument may be repeated.
fn with_all_sentences(command: Command) -> Command {
    let whole = |argument: Arg| {
        let argument = argument.hide_short_help(false);
        let repeats = argument.is_positional() && matches!(argument.get_action(), ArgAction::Append);
        let name = argument.get_value_names().and_then(|names| names.first()).map(|name| format!("{name}..."));
        match name.filter(|_| repeats) {
            // clap takes static names only.
            Some(name) => argument.value_name(&*name.leak()),
            None => argument,
        }
    };
    command.mut_args(whole).mut_subcommands(with_all_sentences)
}

/// The command line that completions offer: `clap_complete` would offer what help omits, too.
fn offered(command: &Command) -> Command {
    // clap takes static names only.
    let name: &'static str = command.get_name().to_owned().leak();
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    // What arguments say of each other may name one that is left out.
    let none = || Resettable::<Id>::Reset;
    let alone =
        |argument: &Arg| argument.clone().requires(none()).conflicts_with(none()).required_unless_present(none());
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let about = command.get_about().cloned().unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    let offers = Command::new(name).about(about).version(version).disable_version_flag(true);
    offers.args(shown.map(alone)).subcommands(commands.map(offered))
}

/// The options of `kpackfs mount` as mount options.
fn mount_options(cli: &Command) -> String {
    let mut page = Roff::new();
    for argument in mount8::arguments(cli) {
        let mut head: Vec<Inline> = vec![bold(argument.get_long().unwrap_or_default())];
        let takes_value = argument.get_action().takes_values();
        if takes_value {
            let value =
                argument.get_value_names().and_then(|names| names.first()).map_or("VALUE", |name| name.as_str());
            head.extend([roman("="), italic(value)]);
        }
        let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let values: Vec<_> = argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        if takes_value && !values.is_empty() {
            help = format!("{help} [possible values: {}]", values.join(", "));
        }
        page.control("TP", []).text(head).text([roman(help)]);
    }
    page.to_roff()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// The options of a command and of those below it, and whether a help shows them.
    fn options<'a>(command: &'a Command, known: &mut BTreeMap<&'a str, bool>) {
        for argument in command.get_arguments() {
            let Some(long) = argument.get_long() else { continue };
            *known.entry(long).or_default() |= !argument.is_hide_set();
        }
        let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
        commands.for_each(|command| options(command, known));
    }

    #[test]
    fn completions_offer_what_help_shows() {
        let (cli, mut known) = (Cli::command(), BTreeMap::new());
        let made = completions(Shell::Bash, &cli);
        let words: BTreeSet<_> = made.split([' ', '"', ')', '\n']).filter_map(|word| word.strip_prefix("--")).collect();
        options(&cli, &mut known);
        for (name, is_shown) in known {
            assert_eq!(words.contains(name), is_shown, "{name}");
        }
    }
}
