//! From where an installed package came: `direct_url.json` (PEP 610), or what pip and uv are configured to use.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use url::Url;

use crate::disk;
use crate::memory::Parser;
use crate::wheel::{WheelName, normalise};

/// The sources that a configuration may name, in pip's configuration files and in uv's.
const KEYS: [&str; 5] = ["index-url", "extra-index-url", "find-links", "default-index", "url"];

/// Variables with sources, of pip and of uv.
const PIP_VARIABLES: [&str; 3] = ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"];
const UV_VARIABLES: [&str; 5] = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"];

/// Hosts of the public index. A private package has another source, so a configuration with these only names none.
const PUBLIC: [&str; 3] = ["pypi.org", "pypi.python.org", "files.pythonhosted.org"];

/// From where a package came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PackageOrigin {
    /// A file in this directory.
    Directory(PathBuf),
    /// A URL that was named.
    Url(String),
    /// Probably one of the sources that the installer is configured with.
    Configured(Vec<String>),
}

/// The file of a `*.dist-info` directory that says where a package is from (PEP 610).
pub(super) const DIRECT_URL: &str = "direct_url.json";

#[derive(Deserialize)]
struct DirectUrl {
    url: String,
    archive_info: Option<serde::de::IgnoredAny>,
    dir_info: Option<DirInfo>,
}

#[derive(Deserialize)]
struct DirInfo {
    #[serde(default)]
    editable: bool,
}

impl DirectUrl {
    fn read(dist_info: &Path) -> Option<Self> {
        let text = disk::read(&dist_info.join(DIRECT_URL), Parser::Text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl PackageOrigin {
    /// The origin of the package with this `*.dist-info` directory, for an installer in the environment `prefix`.
    pub(super) fn of(dist_info: &Path, prefix: Option<&Path>, is_uv: bool) -> Self {
        match DirectUrl::read(dist_info) {
            // A directory of sources, or a repository: other packages are not there.
            Some(direct) if direct.archive_info.is_none() => Self::Configured(Vec::new()),
            Some(direct) => match file_of(&direct.url).and_then(|file| Some(file.parent()?.to_owned())) {
                Some(directory) => Self::Directory(directory),
                None => Self::Url(without_password(&direct.url)),
            },
            None => Self::Configured(configured(prefix, is_uv)),
        }
    }
}

/// The source tree from which a package is imported, if its installation is editable and the tree is there. It may hold environments of other packages, so
/// it is named, and not searched.
pub(crate) fn source_tree(dist_info: &Path) -> Option<PathBuf> {
    let direct = DirectUrl::read(dist_info)?;
    let is_tree = |tree: &PathBuf| !disk::leads_to_stopped(tree) && tree.is_dir();
    file_of(&direct.url).filter(|tree| direct.dir_info.is_some_and(|info| info.editable) && is_tree(tree))
}

/// The wheel of a package in this version in a directory, or in an index, where each project has a directory of its name.
pub(super) fn wheel_in(directory: &Path, (name, version): &(String, String)) -> Option<PathBuf> {
    let is_it = |it: &WheelName| normalise(&it.distribution) == *name && normalise(&it.version) == normalise(version);
    let project = directory.file_name().and_then(|it| it.to_str());
    let is_of_project = |it: &WheelName| project == Some(&normalise(&it.distribution));
    let index = directory.parent().filter(|_| first_wheel(directory, is_of_project).is_some());
    let places = [Some(directory.to_owned()), Some(directory.join(name)), index.map(|it| it.join(name))];
    places.into_iter().flatten().find_map(|place| first_wheel(&place, is_it))
}

/// The first wheel of a directory, by path, whose name is as wanted.
fn first_wheel(directory: &Path, is_wanted: impl Fn(&WheelName) -> bool) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let parsed = |path: &PathBuf| WheelName::parse(path.file_name()?.to_str()?).ok();
    entries.filter(|path| parsed(path).is_some_and(|name| is_wanted(&name))).min()
}

/// The directory of a source, if it is on this machine.
pub(super) fn directory_of(source: &str) -> Option<PathBuf> {
    file_of(source).or_else(|| (!source.contains("://")).then(|| PathBuf::from(source)))
}

/// The path of a `file:` URL.
fn file_of(url: &str) -> Option<PathBuf> {
    Url::parse(url).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok()
}

/// A URL without the user and the password in it, which must not be printed.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// The sources that the installer is configured with, apart from the public index.
fn configured(prefix: Option<&Path>, is_uv: bool) -> Vec<String> {
    let variables = if is_uv { &UV_VARIABLES[..] } else { &PIP_VARIABLES[..] };
    let values = variables.iter().filter_map(|name| std::env::var(name).ok());
    let of_variables = values.flat_map(|value| value.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    // uv allows a name before the URL of an index.
    let unnamed = of_variables.map(|source| match source.split_once('=') {
        Some((name, url)) if !name.contains([':', '/']) => url.to_owned(),
        _ => source,
    });
    let files = configuration_files(prefix, is_uv);
    let texts = files.into_iter().filter_map(|file| disk::read_to_string(&file, Parser::Text).ok());
    let of_files = texts.flat_map(|text| sources(&text));
    let is_public = |url: Url| url.host_str().is_some_and(|host| PUBLIC.contains(&host));
    let is_private = |source: &String| !Url::parse(source).is_ok_and(is_public);
    unnamed.chain(of_files).filter(is_private).map(|source| without_password(&source)).collect()
}

/// The configuration files of pip or uv, the most specific one first.
fn configuration_files(prefix: Option<&Path>, is_uv: bool) -> Vec<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("HOME");
    let of_user = variable("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    let files = if is_uv {
        vec![
            variable("UV_CONFIG_FILE"),
            of_user.map(|directory| directory.join("uv/uv.toml")),
            Some(PathBuf::from("/etc/uv/uv.toml")),
        ]
    } else {
        vec![
            variable("PIP_CONFIG_FILE"),
            prefix.map(|prefix| prefix.join("pip.conf")),
            of_user.map(|directory| directory.join("pip/pip.conf")),
            home.map(|home| home.join(".pip/pip.conf")),
            Some(PathBuf::from("/etc/pip.conf")),
            Some(PathBuf::from("/etc/xdg/pip/pip.conf")),
        ]
    };
    files.into_iter().flatten().collect()
}

/// The sources in a configuration file: `key = value`, in pip's form with further values on indented lines, in uv's with
/// quotes and brackets.
fn sources(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_of_key = false;
    for line in text.lines().filter(|line| !line.trim_start().starts_with(['#', ';'])) {
        let is_continued = line.starts_with([' ', '\t', '"', ']']) && !line.trim().is_empty();
        let values = match line.split_once(['=', ':']) {
            Some((key, values)) if !(is_continued && is_of_key) => {
                is_of_key = KEYS.contains(&&*key.trim().replace('_', "-"));
                values
            }
            _ => {
                is_of_key &= is_continued;
                line
            }
        };
        let words = values.split(|letter: char| letter.is_whitespace() || "\"'[],".contains(letter));
        found.extend(words.filter(|word| is_of_key && !word.is_empty()).map(str::to_owned));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{file_of, sources, wheel_in, without_password};

    #[test]
    fn sources_of_configurations() {
        let pip = "[global]\nindex-url = https://a/simple\ntimeout = 60\n[install]\nfind-links =\n    /wheels\n    https://b/x\n\
                   no-index = yes\nextra_index_url: https://c\n";
        assert_eq!(sources(pip), ["https://a/simple", "/wheels", "https://b/x", "https://c"]);
        let uv = "# url = \"x\"\n[[index]]\nname = \"rocm\"\nurl = \"https://d/simple\"\n[pip]\nfind-links = [\"/e\", \"/f\"]\n";
        assert_eq!(sources(uv), ["https://d/simple", "/e", "/f"]);
    }

    #[test]
    fn urls() {
        assert_eq!(file_of("file:///a%20b/x%2By.whl").as_deref(), Some(Path::new("/a b/x+y.whl")));
        assert_eq!((file_of("https://x/y"), file_of("file://host/a")), (None, None));
        assert_eq!(without_password("https://user:secret@host:8/a@b"), "https://host:8/a@b");
    }
    #[test]
    fn projects_of_an_index_are_next_to_each_other() {
        let index = tempfile::tempdir().unwrap();
        let wheel = index.path().join("amd-foo-device-gfx11/amd_foo_device_gfx11-1.0-py3-none-any.whl");
        for directory in ["foo", "amd-foo-device-gfx11"] {
            std::fs::create_dir(index.path().join(directory)).unwrap();
        }
        std::fs::write(&wheel, "").unwrap();
        assert_eq!(wheel_in(&index.path().join("foo"), &("amd-foo-device-gfx11".to_owned(), "1.0".to_owned())), None);
        std::fs::write(index.path().join("foo/foo-1.0-py3-none-any.whl"), "").unwrap();
        let package = ("amd-foo-device-gfx11".to_owned(), "1.0".to_owned());
        for directory in ["", "foo", "amd-foo-device-gfx11"] {
            assert_eq!(wheel_in(&index.path().join(directory), &package).as_ref(), Some(&wheel), "{directory:?}");
        }
    }
}
