//! From the arguments of mount(8) to those of `kpackfs mount`.

use std::ffi::{OsStr, OsString};

/// Options of mount(8) and fstab that concern others, or that hold for every mount of kpackfs anyway.
const IGNORED: [&str; 22] = [
    "ro", "rw", "auto", "noauto", "user", "users", "nouser", "owner", "group", "nofail", "_netdev", "defaults", "dev",
    "nodev", "suid", "nosuid", "exec", "atime", "noatime", "relatime", "async", "sync",
];

/// Options of `kpackfs mount` that take a value.
const WITH_VALUE: [&str; 10] = [
    "arch",
    "gpu-targets",
    "databases",
    "wheel-type",
    "overlay-root",
    "group-name",
    "compression",
    "compression-level",
    "memory",
    "jobs",
];

/// What mount(8) asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    source: OsString,
    directory: OsString,
    /// Whether everything but mounting is to be done.
    pub(crate) is_fake: bool,
    options: Vec<String>,
}

impl Request {
    /// Reads the arguments behind the program's name.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut names = Vec::new();
        let mut request =
            Self { source: OsString::new(), directory: OsString::new(), is_fake: false, options: Vec::new() };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("-f") => request.is_fake = true,
                // Sloppy, no mtab, verbose: all the same here.
                Some("-s" | "-n" | "-v") => {}
                Some(option @ ("-o" | "-t" | "-N")) => {
                    let value = arguments.next().ok_or_else(|| format!("{option} needs a value"))?;
                    match option {
                        "-o" => request.read_options(&value)?,
                        "-N" => return Err("-N is not supported: enter the mount namespace first".to_owned()),
                        _ => {}
                    }
                }
                Some(option) if option.starts_with('-') => return Err(format!("unknown option {option}")),
                _ => names.push(argument),
            }
        }
        let [source, directory] = <[OsString; 2]>::try_from(names)
            .map_err(|_| "usage: mount.kpackfs SOURCE DIRECTORY [-sfnv] [-o OPTIONS]".to_owned())?;
        Ok(Self { source, directory, ..request })
    }

    /// The arguments of `kpackfs`.
    pub(crate) fn to_command(&self) -> Vec<OsString> {
        let options = self.options.iter().map(OsString::from);
        let names = [OsStr::new("--"), &self.source, &self.directory].map(OsString::from);
        std::iter::once(OsString::from("mount")).chain(options).chain(names).collect()
    }

    fn read_options(&mut self, list: &OsStr) -> Result<(), String> {
        let list = list.to_str().ok_or("the options are not UTF-8")?;
        for option in split(list).iter().filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').map_or((option.as_str(), None), |(name, it)| (name, Some(it)));
            let name = name.replace('_', "-");
            match value {
                None if IGNORED.contains(&option.as_str()) => {}
                _ if name.starts_with("x-") || name.starts_with("X-") || name == "comment" => {}
                None if name == "allow-other" => self.options.push("--allow-other".to_owned()),
                Some(value) if WITH_VALUE.contains(&name.as_str()) => {
                    let name = if name == "group-name" { "group" } else { &name };
                    self.options.push(format!("--{name}={value}"));
                }
                _ => return Err(format!("unknown mount option {option}")),
            }
        }
        Ok(())
    }
}

/// Splits a list at commas; a backslash takes the next character as it is, so that values can have commas.
fn split(list: &str) -> Vec<String> {
    let mut options = vec![String::new()];
    let mut characters = list.chars();
    while let Some(character) = characters.next() {
        match (character, options.last_mut()) {
            (',', _) => options.push(String::new()),
            ('\\', Some(option)) => option.extend(characters.next()),
            (character, Some(option)) => option.push(character),
            (_, None) => {}
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use super::{Request, split};

    fn command(arguments: &[&str]) -> Result<Vec<String>, String> {
        let request = Request::parse(arguments.iter().map(Into::into))?;
        Ok(request.to_command().into_iter().map(|it| it.into_string().unwrap()).collect())
    }

    #[test]
    fn what_mount_8_passes_becomes_a_command() {
        for (arguments, expected) in [
            (&["/w.whl", "/mnt", "-o", "rw"][..], &["mount", "--", "/w.whl", "/mnt"][..]),
            (&["/w", "/m", "-v", "-o", "ro,noauto,nofail,_netdev,x-systemd.automount"], &["mount", "--", "/w", "/m"]),
            (
                &["/w", "/m", "-o", "ro,allow_other,arch=gfx942\\,gfx1100,compression_level=9"],
                &["mount", "--allow-other", "--arch=gfx942,gfx1100", "--compression-level=9", "--", "/w", "/m"],
            ),
            (&["/w", "/m", "-o", "group-name=torch"], &["mount", "--group=torch", "--", "/w", "/m"]),
        ] {
            assert_eq!(command(arguments).unwrap(), expected);
        }
        assert!(Request::parse(["/w", "/m", "-f"].map(Into::into)).unwrap().is_fake);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for (arguments, reason) in [
            (&["/w"][..], "usage"),
            (&["/w", "/m", "/x"], "usage"),
            (&["/w", "/m", "-o"], "needs a value"),
            (&["/w", "/m", "-o", "archs=gfx942"], "unknown mount option archs=gfx942"),
            (&["/w", "/m", "-o", "arch"], "unknown mount option arch"),
            (&["/w", "/m", "-x"], "unknown option -x"),
        ] {
            let error = command(arguments).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn values_can_have_commas() {
        assert_eq!(split("a,b=c\\,d,\\\\"), ["a", "b=c,d", "\\"]);
    }
}
