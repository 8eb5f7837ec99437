//! Converts the arguments of mount(8) to those of `kpackfs mount`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::list::split;

/// Options of mount(8), fstab and FUSE that are not for kpackfs, or that hold for every mount of kpackfs anyway: it is
/// read-only, has no devices and no set-uid programs, and checks permissions. libmount's `MNT_NOHLPS` (src/optmap.c)
/// decides which of them reach a helper.
const IGNORED: [&str; 41] = [
    "ro",
    "rw",
    "auto",
    "noauto",
    "user",
    "users",
    "nouser",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "nofail",
    "_netdev",
    "defaults",
    "dev",
    "nodev",
    "suid",
    "nosuid",
    "atime",
    "noatime",
    "diratime",
    "nodiratime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "lazytime",
    "nolazytime",
    "async",
    "sync",
    "dirsync",
    "iversion",
    "noiversion",
    "mand",
    "nomand",
    "silent",
    "loud",
    "symfollow",
    "nosymfollow",
    "default_permissions",
];

/// Options of other FUSE file systems that set owners and modes.
const OF_FILES: [&str; 5] = ["uid", "gid", "umask", "fmask", "dmask"];

/// The program that passes the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// mount(8), which calls its helper.
    Mount,
    /// mount.fuse3, or a user who mounts as with other FUSE filesystems.
    Fuse,
}

/// An option of `kpackfs mount` that can be a mount option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownOption {
    /// Its long name, without dashes before it.
    pub name: String,
    /// Whether the option takes a value.
    pub takes_value: bool,
}

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
pub struct MountRequest {
    source: OsString,
    directory: OsString,
    options: Vec<OsString>,
}

/// The arguments of a helper of mount(8), before options are looked up.
#[derive(Default)]
struct Arguments {
    names: Vec<OsString>,
    has_f: bool,
    namespace: Option<OsString>,
    lists: Vec<OsString>,
}

impl Arguments {
    fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut found = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_bytes() {
                b"-f" => found.has_f = true,
                // Sloppy (one thread in FUSE), no mtab, verbose: these change nothing here.
                b"-s" | b"-n" | b"-v" => {}
                b"-o" | b"-t" | b"-N" => {
                    let value = arguments.next().ok_or_else(|| format!("{} needs a value", argument.display()))?;
                    match argument.as_bytes() {
                        b"-o" => found.lists.push(value),
                        b"-N" => found.namespace = Some(value),
                        _ => {}
                    }
                }
                // The list may follow without a space, as getopt(3) allows.
                [b'-', b'o', list @ ..] => found.lists.push(OsStr::from_bytes(list).to_owned()),
                [b'-', _, ..] => return Err(format!("unknown option {}", argument.display())),
                _ => found.names.push(argument),
            }
        }
        Ok(found)
    }

    /// The source and the directory.
    fn names(&self) -> Option<[&OsString; 2]> {
        self.names.iter().collect::<Vec<_>>().try_into().ok()
    }
}

/// The source, if the arguments after the program's name have the form in which mount.fuse3 calls a filesystem: SOURCE
/// DIRECTORY -o OPTIONS, with other options of mount(8) between them.
pub fn fuse_source(arguments: &[OsString]) -> Option<OsString> {
    let arguments = Arguments::parse(arguments.iter().cloned()).ok().filter(|found| !found.lists.is_empty())?;
    arguments.names().map(|[source, _]| source.clone())
}

impl MountRequest {
    /// Parses the arguments after the program's name. An error names the argument.
    pub fn parse(
        caller: Caller,
        arguments: impl IntoIterator<Item = OsString>,
        known: &[KnownOption],
    ) -> Result<Self, String> {
        let arguments = Arguments::parse(arguments)?;
        let [source, directory] = arguments.names().ok_or("usage: INPUT DIRECTORY [-sfnv] [-o OPTIONS]")?;
        let (source, directory) = (source.clone(), directory.clone());
        let mut request = Self { source, directory, options: Vec::new() };
        if arguments.has_f {
            request.options.push(if caller == Caller::Mount { "--fake" } else { "--foreground" }.into());
        }
        for list in &arguments.lists {
            request.read_options(list, known)?;
        }
        request.options.extend(arguments.namespace.map(|file| concatenate("--namespace=", file.as_bytes())));
        Ok(request)
    }

    /// The arguments for `kpackfs`.
    pub fn to_command(&self) -> Vec<OsString> {
        let names = [OsStr::new("--"), &self.source, &self.directory].map(OsString::from);
        std::iter::once(OsString::from("mount")).chain(self.options.iter().cloned()).chain(names).collect()
    }

    fn read_options(&mut self, list: &OsStr, known: &[KnownOption]) -> Result<(), String> {
        let mut before = None;
        for option in split(list.as_bytes())? {
            let (name, value) = match option.iter().position(|&byte| byte == b'=') {
                Some(position) => (option.get(..position), option.get(position + 1..)),
                None => (Some(&*option), None),
            };
            let given = String::from_utf8_lossy(name.unwrap_or_default());
            match (&*given, value) {
                (name, _) if name.starts_with("x-") || name.starts_with("X-") || name == "comment" => {}
                // The last option counts, as in mount(8): `user,exec`.
                ("exec", None) => self.options.retain(|option| option != "--noexec"),
                (name, None) if IGNORED.contains(&name) => {}
                // The name of the user who mounted it.
                ("user", Some(_)) => {}
                ("remount", None) => {
                    return Err("a kpackfs cannot be remounted: unmount it and mount it again".to_owned());
                }
                _ => {
                    let argument = to_argument(&given, value, known);
                    self.options.push(argument.map_err(|reason| match &before {
                        // In `arch=gfx942,gfx1100` the comma ends the value.
                        Some(before) if value.is_none() => format!(
                            "{reason}; if it belongs to the value of {before}, put that in quotation marks: \
                             {before}=\"…,{given}\""
                        ),
                        _ => reason,
                    })?);
                }
            }
            before = value.map(|_| given.into_owned());
        }
        Ok(())
    }
}

/// An option of `kpackfs mount`. Underscores may separate the words of its name, as in `allow_other`.
fn to_argument(given: &str, value: Option<&[u8]>, known: &[KnownOption]) -> Result<OsString, String> {
    // `group` alone is an option of mount(8), and a program that rewrites lists may not see the difference.
    let name = if given == "group-name" { "group".to_owned() } else { given.replace('_', "-") };
    match (known.iter().find(|option| option.name == name), value) {
        (None, _) if OF_FILES.contains(&given) => {
            Err(format!("mount option {given}: owners and modes are those of the input, and nothing changes them"))
        }
        (None, _) => Err(format!("unknown mount option {given}; `kpackfs mount --help` lists those of kpackfs")),
        (Some(KnownOption { takes_value: true, .. }), None) => {
            Err(format!("mount option {given} needs a value: {given}=…"))
        }
        (Some(KnownOption { takes_value: false, .. }), Some(_)) => Err(format!("mount option {given} takes no value")),
        (Some(_), None) => Ok(format!("--{name}").into()),
        (Some(_), Some(value)) => Ok(concatenate(&format!("--{name}="), value)),
    }
}

fn concatenate(before: &str, value: &[u8]) -> OsString {
    OsString::from_vec([before.as_bytes(), value].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<KnownOption> {
        let known = |name: &str, takes_value| KnownOption { name: name.to_owned(), takes_value };
        let with_value = ["arch", "compression-level", "group", "log-file"].map(|name| known(name, true));
        let flags = ["allow-other", "no-cache", "noexec"].map(|name| known(name, false));
        with_value.into_iter().chain(flags).collect()
    }

    fn command(caller: Caller, arguments: &[&str]) -> Result<Vec<String>, String> {
        let request = MountRequest::parse(caller, arguments.iter().map(Into::into), &known())?;
        Ok(request.to_command().into_iter().map(|it| it.into_string().unwrap()).collect())
    }

    #[test]
    fn what_mount_8_passes_becomes_a_command() {
        for (arguments, expected) in [
            (&["/w.whl", "/mnt", "-o", "rw"][..], &["mount", "--", "/w.whl", "/mnt"][..]),
            (&["/w", "/m", "-v", "-o", "ro,noauto,nofail,_netdev,x-systemd.automount"], &["mount", "--", "/w", "/m"]),
            (
                &["/w", "/m", "-o", r"ro,allow_other,arch=gfx942\,gfx1100,compression_level=9"],
                &["mount", "--allow-other", "--arch=gfx942,gfx1100", "--compression-level=9", "--", "/w", "/m"],
            ),
            (&["/w", "/m", "-o", "rw,arch=\"gfx9,gfx1\""], &["mount", "--arch=gfx9,gfx1", "--", "/w", "/m"]),
            (&["/w", "/m", "-o", "group-name=torch,group"], &["mount", "--group=torch", "--", "/w", "/m"]),
            (&["/w", "/m", "-o", "group=torch"], &["mount", "--group=torch", "--", "/w", "/m"]),
            (&["/w", "/m", "-o", "noexec,nosuid,nodev,user=me"], &["mount", "--noexec", "--", "/w", "/m"]),
            (&["/w", "/m", "-o", "noexec,user,exec"], &["mount", "--", "/w", "/m"]),
            (&["/w", "/m", "-f", "-o", "log-file=a=b"], &["mount", "--fake", "--log-file=a=b", "--", "/w", "/m"]),
            (&["/w", "/m", "-t", "fuse.kpackfs", "-N", "/ns"], &["mount", "--namespace=/ns", "--", "/w", "/m"]),
        ] {
            assert_eq!(command(Caller::Mount, arguments).unwrap(), expected, "{arguments:?}");
        }
    }

    #[test]
    fn what_mount_fuse_passes_becomes_a_command() {
        for (arguments, expected) in [
            (&["/w", "/m", "-o", "rw,no_cache,dev,suid"][..], &["mount", "--no-cache", "--", "/w", "/m"][..]),
            (&["-f", "/w", "/m", "-oro,noexec"], &["mount", "--foreground", "--noexec", "--", "/w", "/m"]),
        ] {
            assert_eq!(command(Caller::Fuse, arguments).unwrap(), expected);
        }
    }

    #[test]
    fn the_form_of_mount_fuse_has_a_source_a_directory_and_options() {
        for (arguments, source) in [
            (&["/w", "/m", "-o", "rw"][..], Some("/w")),
            (&["-f", "w", "m", "-oro", "-s", "-t", "fuse.kpackfs", "-N", "/ns"], Some("w")),
            (&["/w", "/m"], None),
            (&["/w", "-o", "rw"], None),
            (&["/w", "/m", "/x", "-o", "rw"], None),
            (&["/w", "/m", "-o"], None),
            (&["/w", "/m", "--format", "-o", "rw"], None),
            (&["/w", "/m", "-j", "-o", "rw"], None),
            (&[], None),
        ] {
            let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
            assert_eq!(fuse_source(&arguments), source.map(OsString::from), "{arguments:?}");
        }
    }

    #[test]
    fn values_need_not_be_text() {
        let list = OsString::from_vec(b"log-file=/\xff".to_vec());
        let arguments = [OsString::from("/w"), "/m".into(), "-o".into(), list];
        let command = MountRequest::parse(Caller::Mount, arguments, &known()).unwrap().to_command();
        assert_eq!(command[1].as_bytes(), b"--log-file=/\xff");
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (arguments, reason) in [
            (&["/w"][..], "usage"),
            (&["/w", "/m", "/x"], "usage"),
            (&["/w", "/m", "-o"], "-o needs a value"),
            (&["/w", "/m", "-o", "archs=gfx942"], "unknown mount option archs; `kpackfs mount --help` lists"),
            (&["/w", "/m", "-o", "umask=022"], "mount option umask: owners and modes are those of the input"),
            (&["/w", "/m", "-o", "--arch=gfx942"], "unknown mount option --arch"),
            (&["/w", "/m", "-o", "arch=gfx942,gfx1100"], "quotation marks: arch=\"…,gfx1100\""),
            (&["/w", "/m", "-o", "arch"], "mount option arch needs a value"),
            (&["/w", "/m", "-o", "allow_other=1"], "mount option allow_other takes no value"),
            (&["/w", "/m", "-o", "rw,remount"], "cannot be remounted"),
            (&["/w", "/m", "-x"], "unknown option -x"),
        ] {
            let error = command(Caller::Mount, arguments).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
