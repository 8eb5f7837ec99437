//! Commands that install packages into the directory of a library's package.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::origin::{PackageOrigin, directory_of, wheel_in};
use super::wanted::{WantedPackages, exact};
use crate::disk;
use crate::memory::Parser;
use crate::text::quoted;

/// How packages get into a directory of packages.
pub(super) struct Installer {
    pub(super) site: PathBuf,
    /// `PYTHON -m pip install`, or the same for uv. `None` if no command is known.
    start: Option<String>,
    is_uv: bool,
    /// The command of the package manager that installed it and also installs what is not Python. Others are not to write over its files.
    manager: Option<&'static str>,
    /// Whether the file system lets nobody install there.
    is_read_only: bool,
    /// Whether an installer put the package there. Unpacked wheels have no `INSTALLER`.
    pub(super) has_installed: bool,
    prefix: Option<PathBuf>,
    /// The package of a library that is a symlink into a cache, where no runtime finds archives. Copies are to replace it.
    linked: Option<(String, String)>,
}

/// What package managers write to `INSTALLER` (Recording installed projects), and the commands of conda, Fedora and Debian.
const MANAGERS: [(&str, &str); 3] = [("conda", "conda"), ("rpm", "dnf"), ("debian", "apt")];

/// What fixes a problem with packages.
pub(super) struct Remedy {
    pub(super) command: Option<String>,
    /// What to add to the reason: the source, or what to do without a command.
    pub(super) advice: String,
}

impl Installer {
    /// The installer of the package with this `*.dist-info` directory. `linked` is that package, if it is a symlink into a cache.
    pub(super) fn of(dist_info: &Path, linked: Option<(String, String)>) -> Self {
        let site = dist_info.parent().unwrap_or(Path::new("")).to_owned();
        let name = disk::read_to_string(&dist_info.join("INSTALLER"), Parser::Text).ok();
        let is_uv = name.as_ref().is_some_and(|name| name.trim() == "uv");
        let is_it = |(manager, _): &(&str, &str)| name.as_ref().is_some_and(|name| name.trim() == *manager);
        let manager = MANAGERS.into_iter().find(is_it).map(|(_, command)| command);
        let prefix = site.ancestors().nth(3).filter(|_| python_of(&site).is_some()).map(Path::to_owned);
        let python = prefix.as_ref().and_then(|prefix| interpreter(prefix, python_of(&site)?));
        let is_read_only = is_read_only(&site);
        let start = match &python {
            _ if name.is_none() || is_read_only => None,
            Some(python) if is_uv => Some(format!("uv pip install --python {}", quoted(python))),
            Some(python) if site.join("pip").is_dir() => Some(format!("{} -m pip install", quoted(python))),
            Some(python) => Some(format!("pip --python {} install", quoted(python))),
            None if is_of_user(&site) => python_of(&site).map(|python| format!("{python} -m pip install --user")),
            // pip replaces whole directories there (`pip install --target`), and so removes what it is to add to.
            None => Some(format!("uv pip install --target {}", quoted(&site))),
        };
        // It was installed with this option, or in a release of the system that did not need it.
        let option = if (python.is_some() || is_of_user(&site)) && is_managed(python.as_deref(), &site) {
            " --break-system-packages"
        } else {
            ""
        };
        let start = start.map(|start| start + option);
        let (is_uv, has_installed) = (is_uv || python.is_none(), name.is_some());
        Self { site, start, is_uv, manager, is_read_only, has_installed, prefix, linked }
    }

    /// Installs packages that a host package names. `of` is the `*.dist-info` directory of a package that came from the
    /// same source.
    pub(super) fn add(&self, wanted: &WantedPackages, of: &Path, name: &str) -> Remedy {
        if self.linked.is_some() {
            return self.renew(&wanted.packages, of, name);
        }
        // The host package is there, and an index would be asked for what it lacks on purpose.
        self.remedy(&wanted.packages, "--no-deps ", of, name)
    }

    /// Installs packages again, without what they require.
    pub(super) fn renew(&self, packages: &BTreeSet<(String, String)>, of: &Path, name: &str) -> Remedy {
        let packages: BTreeSet<_> = packages.iter().chain(&self.linked).cloned().collect();
        let option = match (self.is_uv, &self.linked) {
            // uv makes links to files in its cache. What damaged a file in place damaged the cache, too.
            (true, None) => "--reinstall --no-deps --no-cache ",
            (true, Some(_)) => "--reinstall --no-deps --no-cache --link-mode copy ",
            (false, _) => "--force-reinstall --no-deps ",
        };
        self.remedy(&packages, option, of, name)
    }

    fn remedy(&self, packages: &BTreeSet<(String, String)>, option: &str, of: &Path, name: &str) -> Remedy {
        let requirements: Vec<_> = packages.iter().map(exact).collect();
        let what = requirements.iter().map(|it| format!("'{it}'")).collect::<Vec<_>>().join(" ");
        let plain = requirements.join(", ");
        let without = |advice: String| Remedy { command: None, advice };
        if self.is_read_only {
            return without(format!(
                "; {} is on a read-only file system: install {plain} where it comes from, from where you have {name}",
                self.site.display()
            ));
        }
        if let Some(manager) = self.manager {
            return without(format!("; {manager} installed {name}: install its package that has {plain} by {manager}"));
        }
        let Some(start) = &self.start else {
            let names: Vec<_> = packages.iter().map(|(name, version)| format!("{name} {version}")).collect();
            return without(format!(
                "; the wheel was unpacked, not installed: unpack {} over it, or install {plain} from where you have {name}",
                names.join(", ")
            ));
        };
        let of_files = |directory: &Path| {
            let files: Vec<_> = packages.iter().map(|package| wheel_in(directory, package)).collect::<Option<_>>()?;
            let files: Vec<_> = files.iter().map(quoted).collect();
            Some(Remedy { command: Some(format!("{start} {option}{}", files.join(" "))), advice: String::new() })
        };
        let tool = if self.is_uv { "uv" } else { "pip" };
        let of_index = |index: &str| Remedy {
            command: Some(format!("{start} {option}{what}")),
            advice: format!(" ({tool} is configured to use {index})"),
        };
        match PackageOrigin::of(of, self.prefix.as_deref(), self.is_uv) {
            PackageOrigin::Directory(directory) => of_files(&directory).unwrap_or_else(|| {
                without(format!(
                    "; {name} came from {}, which has no such wheel: install {plain} from where you have it",
                    directory.display()
                ))
            }),
            PackageOrigin::Url(url) => without(format!("; {name} came from {url}: install {plain} from there")),
            PackageOrigin::Configured(sources) => {
                let found = sources.iter().filter_map(|source| directory_of(source)).find_map(|it| of_files(&it));
                let index = || sources.iter().find(|source| directory_of(source).is_none());
                found.or_else(|| Some(of_index(index()?))).unwrap_or_else(|| {
                    without(format!(
                        "; nothing says from where {name} came, and a public index may have another package of that \
                         name: install {plain} from where you have it, into {}",
                        self.site.display()
                    ))
                })
            }
        }
    }
}

/// The version in the path of a directory of packages: `python3.12` in `PREFIX/lib/python3.12/site-packages`.
fn python_of(site: &Path) -> Option<&str> {
    let is_site = site.file_name().is_some_and(|name| name == "site-packages" || name == "dist-packages");
    let python = site.parent()?.file_name()?.to_str()?;
    (is_site && python.starts_with("python3")).then_some(python)
}

/// The interpreter of an environment. Debian's has packages in `/usr/local`, where there is no interpreter.
fn interpreter(prefix: &Path, python: &str) -> Option<PathBuf> {
    let of_prefix = [python, "python3", "python"].map(|name| prefix.join("bin").join(name));
    let of_debian = Path::new("/usr/bin").join(python);
    let is_debian = prefix == Path::new("/usr/local");
    of_prefix.into_iter().chain(is_debian.then_some(of_debian)).find(|python| python.exists())
}

/// Whether the file system lets nobody change anything in a directory.
pub(super) fn is_read_only(directory: &Path) -> bool {
    access(directory, Access::WRITE_OK) == Err(Errno::ROFS)
}

/// Whether the system manages the packages of an interpreter, so that installers refuse to add any (PEP 668).
fn is_managed(python: Option<&Path>, site: &Path) -> bool {
    let prefix = python.map_or(Some(Path::new("/usr")), |python| python.ancestors().nth(2));
    let library = prefix.zip(python_of(site)).map(|(prefix, version)| prefix.join("lib").join(version));
    library.is_some_and(|library| library.join("EXTERNALLY-MANAGED").exists())
}

/// Whether packages there are those of a user (PEP 370).
fn is_of_user(site: &Path) -> bool {
    std::env::var_os("HOME").is_some_and(|home| site.starts_with(Path::new(&home).join(".local/lib")))
}
