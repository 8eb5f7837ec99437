//! `docs/cli.md`: the help of every command on one page. Options that several commands have are described once.

use std::fmt::Write;

use clap::{Arg, Command};

const HEAD: &str = "# Commands and options

<!-- Made by scripts/make-cli-page from the program itself. -->

The text of `kpackfs COMMAND --help` for each command. Options that several commands have are described in
[Common options](#common-options).
[migrating.md](migrating.md#other-options) lists other spellings of options, and those that help omits because a message names them.
";

/// Columns of the page's blocks.
const WIDTH: usize = 110;

/// The headings of options that several commands have, and a command that has all under each.
const COMMON: [(&str, &str); 4] = [("Split", "split"), ("Wheels", "split"), ("Resources", "split"), ("Mount", "mount")];

fn is_under(argument: &Arg, heading: &str) -> bool {
    argument.get_help_heading() == Some(heading)
}

fn is_common(argument: &Arg) -> bool {
    COMMON.iter().any(|(heading, _)| is_under(argument, heading)) && !argument.is_hide_set()
}

/// The page for a command line.
pub(super) fn page(cli: &Command) -> String {
    let mut cli = cli.clone().term_width(WIDTH);
    cli.build();
    let mut page = HEAD.to_owned();
    sections(&cli, &mut page);
    let common = COMMON.map(|(heading, command)| common_options(&cli, heading, command)).concat();
    block(&mut page, "Common options", &common);
    page
}

/// Adds the sections of a command and of those below it.
fn sections(command: &Command, page: &mut String) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let mut help = help_of(command, |argument| !is_common(argument));
    let common = command.get_arguments().filter(|argument| is_common(argument)).filter_map(Arg::get_long);
    let names: Vec<_> = common.map(|name| format!("--{name}")).collect();
    if !names.is_empty() {
        // Writing to a String does not fail.
        let _ = write!(help, "\nCommon options: {}\n", names.join(" "));
    }
    block(page, &format!("`{}`", command.get_bin_name().unwrap_or(command.get_name())), &help);
    command.get_subcommands().for_each(|command| sections(command, page));
}

/// The options under a heading, as a command has them.
fn common_options(cli: &Command, heading: &str, command: &str) -> String {
    let help = cli.find_subcommand(command).map(|command| help_of(command, |argument| is_under(argument, heading)));
    let text = help.unwrap_or_default();
    let (_, options) = text.split_once(&format!("\n{heading}:\n")).unwrap_or_default();
    let (options, _) = options.split_once("\nExample").unwrap_or((options, ""));
    format!("{heading}:\n{options}\n")
}

/// The help of a command with some of its arguments.
fn help_of(command: &Command, is_shown: impl Fn(&Arg) -> bool) -> String {
    let shown = |argument: Arg| if is_shown(&argument) { argument } else { argument.hide(true) };
    command.clone().mut_args(shown).render_long_help().to_string()
}

fn block(page: &mut String, title: &str, text: &str) {
    let lines = text.lines().map(|line| line.trim_end().to_owned() + "\n").collect::<String>();
    let _ = write!(page, "\n## {title}\n\n```text\n{}\n```\n", lines.trim());
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::CommandFactory;

    use crate::cli::Cli;

    #[test]
    fn cli_md_is_the_help_of_all_commands() {
        let written = fs::read_to_string("docs/cli.md").unwrap_or_default();
        let page = super::page(&Cli::command());
        assert!(page.matches("\n## `kpackfs").count() > 12, "{page}");
        assert!(page.matches("\n      --device-package-prefix <").count() == 1, "{page}");
        assert!(written == page, "docs/cli.md is not what the program says: run scripts/make-cli-page");
    }
}
