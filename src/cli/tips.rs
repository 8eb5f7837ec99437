//! Tips of errors about the command line. An error has one tip at most.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use memchr::memmem;

use super::environment::is_package;
use super::prepare::is_input;
use crate::disk::parent;
use crate::gpu::TargetId;
use crate::near::near;
use crate::opened::{Named, NotUnderstood, recognise};

/// Commands of other programs, and what is used here.
const OTHER_COMMANDS: [(&[&str], &str); 7] = [
    (&["info", "show"], LOOK),
    (&["dir", "list", "tree"], "'kpackfs ls INPUT [PATH]' lists what a mount would show"),
    (&["df", "du", "size"], SIZES),
    (&["check", "test"], "'kpackfs verify INPUT' checks a split"),
    (
        &["extract", "unpack", "unzip"],
        "'kpackfs split INPUT -o DIR' writes the parts; 'kpackfs cat INPUT PATH' prints a file of them; 'kpackfs kpack extract' writes the code \
         objects of an archive",
    ),
    (&["completion", "completions"], "'kpackfs generate DIR' writes shell completions and man pages"),
    (&["version"], VERSION),
];

/// Options of other programs, and what is used here.
const OTHER_OPTIONS: [(&[&str], &str); 3] = [
    (&["-v", "--verbose"], "RUST_LOG=debug in the environment prints more; 'kpackfs --version' prints the version"),
    (&["-V", "--version"], VERSION),
    (&["-n", "--dry-run", "--dryrun"], SIZES),
];

const LOOK: &str = "'kpackfs inspect INPUT' reports what it is; 'kpackfs ls INPUT' lists its views; 'kpackfs mount INPUT DIR' shows them in the existing directory \
     DIR";
const JOIN: &str = "CONFIG is a packaging configuration, SHARDS a directory of artifacts; of a split, 'kpackfs split PARTS --view fat -o DIR' \
     joins libraries with their archives, and 'kpackfs kpack list FILE' says what is in an archive";
const ABSENT: &str = "no file has this name, and no command; 'kpackfs inspect INPUT' reports what an input is";
const PACKAGE: &str = "; if it is a package, only `kpackfs why` takes its name, and `pip show -f NAME` lists its files";
const MOUNT_OPTIONS: &str =
    "mount options are options here: '--allow-other' for '-o allow_other'; 'kpackfs INPUT DIR -o OPTIONS' takes both";
const SIZES: &str = "'kpackfs inspect --sizes INPUT' says what would be written, and writes nothing";
const VERSION: &str = "'kpackfs --version' prints it";

/// Parts of messages of HIP runtimes.
const MESSAGES: [&str; 4] = ["kernel image", "device function", "hipError", "TensileLibrary"];

/// What options that name GPUs are called in commands of kpackfs, rocm-kpack and compilers.
const GPU_OPTIONS: &str =
    "amdgpu-targets arch archs gpu gpu-arch gpu-target gpu-targets gpus offload-arch require target targets";

/// Options of kpackfs that name GPUs; the first that a command has is the one to use there.
const GPU_OPTIONS_HERE: [&str; 2] = ["gpu-targets", "target"];

/// Names what is wrong where clap cannot know it.
///
/// clap compares spellings, so it suggests `verify` for `version`, `--all` for another command's `--arch`, or that `--arch` might
/// be a file.
pub(super) fn improve(error: Error, cli: &Command, arguments: &[OsString]) -> Error {
    match error.kind() {
        ErrorKind::InvalidSubcommand => with_tip(error, |error| tip_of_command(error, cli, arguments)),
        ErrorKind::UnknownArgument => with_tip(error, |error| tip_of_option(error, innermost(cli, arguments))),
        ErrorKind::MissingRequiredArgument => match innermost(cli, arguments).get_name() {
            "mount" => of_mount_point(error),
            "collect" => with_tip(error, tip_of_app),
            "status" => with_tip(error, |_| Some("'findmnt -t fuse.kpackfs' lists the mounts".to_owned())),
            "recombine" => with_tip(error, |_| Some(JOIN.to_owned())),
            _ => error,
        },
        _ => error,
    }
}

/// What the user may have meant by a path that is not there.
pub(super) fn of_missing(error: &NotUnderstood) -> String {
    let NotUnderstood::NotThere(path) = error else { return String::new() };
    let names = std::fs::read_dir(parent(path)).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let word = path.file_name().unwrap_or_default().to_string_lossy();
    let tip = near(&word, names.filter_map(|name| name.into_string().ok())) + of_word(path);
    if tip.is_empty() && is_package(path) { PACKAGE.to_owned() } else { tip }
}

/// Whether a file has the name of a shared library. Names of images have dots as well.
pub(super) fn is_library_name(path: &Path) -> bool {
    path.file_name().is_some_and(|name| {
        let name = name.as_encoded_bytes();
        name.ends_with(b".so") || memmem::find(name, b".so.").is_some()
    })
}

/// The same for a word that is no path.
pub(super) fn of_word(word: &Path) -> &'static str {
    let word = word.to_string_lossy();
    if TargetId::typed(&word).is_ok_and(|target| target.is_known()) {
        return "; GPUs are named by an option: --target of why, --require of inspect, --gpu-targets of others";
    }
    if MESSAGES.iter().any(|part| word.contains(part)) {
        return "; of a message, `kpackfs why` names the cause in the active environment, and `kpackfs why PATH` that in a library";
    }
    if word.starts_with("file:/") {
        return "; name a file by its path, without file://";
    }
    if word.split_once(":/").is_some_and(|(scheme, _)| !scheme.is_empty() && !scheme.contains(['/', '.'])) {
        return "; of URLs, https://HOST/FILE is read, and http with --allow-http; download others";
    }
    if !word.contains('/') && is_library_name(Path::new(&*word)) {
        return "; `kpackfs why --binary NAME` looks for libraries of this file name in the active environment";
    }
    if word.contains('*') {
        return "; a shell expands \"*\" outside of quotes only, and if there are such files";
    }
    let is_image = word.rsplit_once(':').is_some_and(|(name, tag)| !name.is_empty() && !tag.contains('/'));
    let is_layout = |name: &str| matches!(recognise(Path::new(name)), Ok(Named::Image(_)));
    if word.rsplit_once(':').is_some_and(|(name, _)| is_layout(name)) {
        "; an image of a layout has oci: before it"
    } else if is_image {
        "; if it is an image, copy it into a layout (skopeo copy docker://… oci:DIR:TAG), and name that"
    } else {
        ""
    }
}

/// Whether a word is a command of other programs.
pub(super) fn is_of_others(word: &OsStr) -> bool {
    word.to_str().is_some_and(|word| find(&OTHER_COMMANDS, word).is_some())
}

fn find(table: &[(&[&str], &'static str)], word: &str) -> Option<&'static str> {
    table.iter().find(|(words, _)| words.contains(&word)).map(|(_, tip)| *tip)
}

/// Puts a tip in the place of clap's, if there is one.
fn with_tip(mut error: Error, tip: impl Fn(&Error) -> Option<String>) -> Error {
    if let Some(tip) = tip(&error) {
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Names the command that does what was meant, or one for the input that was named without a command.
fn tip_of_command(error: &Error, cli: &Command, arguments: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let command = innermost(cli, arguments);
    // clap's word has other letters than the name of a file that is not UTF-8.
    let word =
        arguments.iter().find(|word| word.to_string_lossy() == wrong.as_str()).map_or(wrong.as_ref(), |word| &**word);
    // clap looks for no similar command behind `help`.
    let meant = near(wrong, command.get_subcommands().map(Command::get_name));
    if let (Some(meant), None) = (meant.strip_prefix("; "), error.get(ContextKind::SuggestedSubcommand)) {
        return Some(meant.to_owned());
    }
    match command.get_name() {
        "kpackfs" => {}
        "kpack" => return is_input(word).then(|| "'kpackfs kpack list FILE' says what is in it".to_owned()),
        _ => return None,
    }
    let outer = command.get_subcommands().find(|outer| outer.find_subcommand(wrong).is_some());
    let whole = || Some(format!("'kpackfs {} {wrong}' does that", outer?.get_name()));
    let look = || is_input(word).then_some(LOOK).or_else(|| wrong.contains(['.', '/']).then_some(ABSENT));
    find(&OTHER_COMMANDS, wrong).map(str::to_owned).or_else(whole).or_else(|| look().map(str::to_owned))
}

/// Names what does what was meant, or the option for GPUs of this command.
fn tip_of_option(error: &Error, command: &Command) -> Option<String> {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return None };
    if !wrong.strip_prefix("--").is_some_and(|name| GPU_OPTIONS.split(' ').any(|known| known == name)) {
        let of_mount = (wrong == "-o" && command.get_name() == "mount").then_some(MOUNT_OPTIONS);
        return of_mount.or_else(|| find(&OTHER_OPTIONS, wrong)).map(str::to_owned);
    }
    let has = |name: &&&str| command.get_arguments().any(|argument| argument.get_long() == Some(**name));
    let option = GPU_OPTIONS_HERE.iter().find(has)?;
    Some(format!("GPUs are named by '--{option}' here"))
}

/// Says where the application has to be, if it was taken for a tree.
fn tip_of_app(error: &Error) -> Option<String> {
    let missing = error.get(ContextKind::InvalidArg) == Some(&ContextValue::Strings(vec!["<APP>...".to_owned()]));
    missing.then(|| "APP comes first: all words behind '--from' are trees".to_owned())
}

/// Names the mount point if there is an input only. clap takes the one argument for the last one, and misses those before it.
fn of_mount_point(mut error: Error) -> Error {
    let missing = error.get(ContextKind::InvalidArg);
    if missing == Some(&ContextValue::Strings(vec!["<INPUT>...".to_owned()])) {
        error.insert(ContextKind::InvalidArg, ContextValue::Strings(vec!["<MOUNT_POINT>".to_owned()]));
    }
    error
}

/// The command that the first arguments name.
fn innermost<'a>(cli: &'a Command, arguments: &[OsString]) -> &'a Command {
    let mut command = cli;
    for name in arguments.iter().skip(1).filter(|name| *name != "help") {
        let Some(inner) = command.find_subcommand(name) else { break };
        command = inner;
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_the_ends_of_their_names() {
        for (name, is_library) in
            [("libx.so", true), ("lib/libx.so.1.2", true), ("oci:rocm.software:v1", false), ("x.source/none", false)]
        {
            assert_eq!(is_library_name(name.as_ref()), is_library, "{name}");
        }
    }
}
