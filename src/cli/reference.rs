//! `docs/cli.md`: the help of every command on one page, so that options are described in one place only.

use std::fmt::Write;

const HEAD: &str = "# Commands and options

<!-- Made by scripts/make-cli-page from the program itself. -->

The text of `kpackfs COMMAND --help` for each command.
[migrating.md](migrating.md#other-spellings) lists other spellings of options.
";

/// Columns of the page's blocks.
const WIDTH: usize = 110;

/// The page for a command line.
pub(super) fn page(cli: &clap::Command) -> String {
    let mut cli = cli.clone().term_width(WIDTH);
    cli.build();
    let mut page = HEAD.to_owned();
    sections(&mut cli, &mut page);
    page
}

fn sections(command: &mut clap::Command, page: &mut String) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let lines = help.lines().map(|line| line.trim_end().to_owned() + "\n").collect::<String>();
    // Writing to a String does not fail.
    let _ = write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", lines.trim_end());
    command.get_subcommands_mut().for_each(|command| sections(command, page));
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
        assert!(written == page, "docs/cli.md is not what the program says: run scripts/make-cli-page");
    }
}
