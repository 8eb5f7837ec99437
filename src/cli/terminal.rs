//! Text for a terminal. Names come from inputs, and may contain sequences that move the cursor, rename the window or
//! forge a line.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use anstyle::AnsiColor;
use rustix::termios::tcgetwinsize;

use super::table::Style;

pub(super) use crate::report::escaped;
use crate::report::fit;

/// The most characters of a message. Paths can be megabytes long.
const LONGEST: usize = 600;

/// The longest word that is omitted as a whole, though only a part of it is in the middle: names of files may be longer.
const LONGEST_LEFT_OUT: usize = LONGEST / 8;

/// Fits tables in the terminal, if stdout is one.
pub(super) fn fit_tables() {
    if io::stdout().is_terminal()
        && let Ok(size) = tcgetwinsize(io::stdout())
    {
        fit(size.ws_col.into());
    }
}

/// A verdict for stdout: green or red on a terminal, unless the environment forbids colours.
pub(super) fn verdict(text: &str, is_good: bool) -> String {
    let colour = if is_good { AnsiColor::Green } else { AnsiColor::Red };
    if AutoStream::choice(&io::stdout()) == ColorChoice::Never {
        return text.to_owned();
    }
    let painted = colour.on_default().bold();
    format!("{painted}{text}{painted:#}")
}

/// The beginning of a line with a verdict.
pub(super) fn passed(is_good: bool, style: Style) -> String {
    let text = if is_good { "Passed" } else { "Failed" };
    match style {
        Style::Text => verdict(text, is_good),
        Style::Markdown => text.to_owned(),
    }
}

/// Prints a warning on stderr.
pub(super) fn warn(text: &str) {
    print_error(&format!("kpackfs: warning: {}", message(&text)));
}

/// Prints a note on stderr.
pub(super) fn note(text: &str) {
    print_error(&format!("kpackfs: note: {}", message(&text)));
}

/// Prints a message on stderr.
pub(super) fn complain(text: &impl Display) {
    print_error(&format!("kpackfs: {}", message(text)));
}

/// What answers are printed to. Its errors name it.
pub(super) fn stdout() -> impl Write {
    Stdout(io::stdout().lock())
}

struct Stdout(io::StdoutLock<'static>);

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| of_stdout(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| of_stdout(&error))
    }
}

fn of_stdout(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("standard output: {error}"))
}

/// Prints a line on stderr. A reader that has gone and a full disk change neither what is done nor the exit code.
pub(super) fn print_error(line: &str) {
    writeln!(io::stderr(), "{}", escaped(line)).ok();
}

/// A message: escaped, and with its middle omitted if it is too long, between words unless those there are long.
pub(super) fn message(text: &impl Display) -> String {
    let text = text.to_string();
    let text = escaped(&text);
    let count = text.chars().count();
    if count <= LONGEST {
        return text.into_owned();
    }
    let half = LONGEST / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    let is_short = |word: &str| word.chars().count() <= LONGEST_LEFT_OUT;
    let head = head.rsplit_once(' ').filter(|(_, word)| is_short(word)).map_or(&*head, |(words, _)| words);
    let tail = tail.split_once(' ').filter(|(word, _)| is_short(word)).map_or(&*tail, |(_, words)| words);
    let left_out = count - head.chars().count() - tail.chars().count();
    format!("{head} […{left_out} characters…] {tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor() {
        for (text, expected) in [
            ("libx ä 日本.so", "libx ä 日本.so"),
            ("a\nb\r\tc", r"a\nb\r\tc"),
            ("\u{1b}]0;title\u{7}", r"\u{1b}]0;title\u{7}"),
            ("\u{9b}31m\u{7f}", r"\u{9b}31m\u{7f}"),
            ("gpj.\u{202e}so", r"gpj.\u{202e}so"),
        ] {
            assert_eq!(escaped(text), expected);
            assert_eq!(message(&text), expected);
        }
    }

    #[test]
    fn long_messages_lose_their_middle() {
        let text = format!("begin{}end", "/d".repeat(100_000));
        let short = message(&text);
        assert!(
            short.starts_with("begin/d") && short.ends_with("/dend") && short.contains("[…199408 characters…]"),
            "{short}"
        );
        assert!(short.len() < LONGEST + 100);
        let names = message(&"a/name/of/a/file ".repeat(100));
        assert!(names.contains("file […") && names.contains("…] a/name"), "{names}");
    }
}
