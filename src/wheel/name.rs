//! The file names of wheels (Binary distribution format, "File name convention"; PEP 425, 427, 440, 491, 503, 825).

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use memchr::memchr3_iter;

use super::WheelError;
use crate::source::EntryPath;

/// The most tags of a WHEEL file. A line may contain dots, and then means every combination.
const MAX_TAGS: usize = 4096;

/// The parts of a wheel's file name: `{distribution}-{version}(-{build})?-{python}-{abi}-{platform}(-{variant
/// label})?.whl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelName {
    /// The name of the distribution, with `_` for `-`.
    pub distribution: String,
    /// The version, with its local part.
    pub version: String,
    /// The build tag, which begins with a digit.
    pub build: Option<String>,
    /// Python tags, joined by dots.
    pub python: String,
    /// ABI tags, joined by dots.
    pub abi: String,
    /// Platform tags, joined by dots.
    pub platform: String,
    /// The variant label (PEP 825).
    pub variant: Option<String>,
}

/// The normalised form of a name (PEP 503): lower case, and one `-` for each run of `-`, `_` and `.`. Extras are
/// normalised in the same way (PEP 685).
pub fn normalise(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    let mut start = 0;
    for end in memchr3_iter(b'-', b'_', b'.', name.as_bytes()).chain([name.len()]) {
        let word = name.get(start..end).unwrap_or_default();
        normal.push_str(if normal.is_empty() || word.is_empty() { "" } else { "-" });
        normal.push_str(word);
        start = end + 1;
    }
    normal.make_ascii_lowercase();
    normal
}

/// A distribution's name in the form of file names.
fn escaped(distribution: &str) -> String {
    normalise(distribution).replace('-', "_")
}

/// The build tag, and the tag sets for Python, ABI and platform, in a wheel's file name; `None` if it is no wheel's.
pub fn file_tags(path: &Path) -> Option<(Option<String>, [String; 3])> {
    let name = WheelName::parse(path.file_name()?.to_str()?).ok()?;
    Some((name.build, [name.python, name.abi, name.platform]))
}

impl WheelName {
    /// Parses a file name. A `+` may be percent-encoded, as in URLs.
    pub fn parse(file_name: &str) -> Result<Self, WheelError> {
        let bad = |reason| WheelError::Name { name: file_name.to_owned(), reason };
        let decoded = file_name.replace("%2B", "+").replace("%2b", "+");
        let stem = decoded.strip_suffix(".whl").ok_or_else(|| bad("it does not end in .whl"))?;
        let mut parts: Vec<&str> = stem.split('-').collect();
        let begins_with_digit = |part: &str| part.starts_with(|first: char| first.is_ascii_digit());
        // A build tag begins with a digit and a Python tag does not (PEP 825), which distinguishes them.
        let has_build = parts.len() > 5 && parts.get(2).is_some_and(|part| begins_with_digit(part));
        let build = has_build.then(|| parts.remove(2));
        let (distribution, version, tags, variant) = match *parts.as_slice() {
            [name, version, python, abi, platform] => (name, version, [python, abi, platform], None),
            [name, version, python, abi, platform, label] => (name, version, [python, abi, platform], Some(label)),
            _ => return Err(bad("it has too few or too many parts")),
        };
        if !is_made_of(distribution, "._") || normalise(distribution).is_empty() {
            return Err(bad("a distribution's name consists of letters, digits, \"_\" and \".\""));
        }
        if !is_made_of(version, "._+!") {
            return Err(bad("a version consists of letters, digits, \".\", \"_\", \"+\" and \"!\""));
        }
        if build.is_some_and(|build| !is_made_of(build, "._")) {
            return Err(bad("a build tag consists of letters, digits, \".\" and \"_\""));
        }
        let is_tag_set = |set: &str| set.split('.').all(|tag| is_made_of(tag, "_"));
        if !tags.iter().all(|set| is_tag_set(set)) || tags.first().is_none_or(|python| begins_with_digit(python)) {
            return Err(bad(
                "a tag consists of letters, digits and \"_\", and a Python tag does not begin with a digit",
            ));
        }
        if variant.is_some_and(|label| !is_made_of(label, "._")) {
            return Err(bad("a variant label consists of letters, digits, \".\" and \"_\""));
        }
        let [python, abi, platform] = tags.map(str::to_owned);
        Ok(Self {
            distribution: distribution.to_owned(),
            version: version.to_owned(),
            build: build.map(str::to_owned),
            python,
            abi,
            platform,
            variant: variant.map(str::to_owned),
        })
    }

    /// The name of an unpacked wheel: name and version from its dist-info directory, tags and build tag from WHEEL.
    pub fn of_unpacked(dist_info: &str, tags: &[String], build: Option<&str>) -> Result<Self, WheelError> {
        let bad = |reason| WheelError::Name { name: dist_info.to_owned(), reason };
        let stem = dist_info.strip_suffix(".dist-info").ok_or_else(|| bad("it does not end in .dist-info"))?;
        let mut sets = [const { BTreeSet::new() }; 3];
        let mut distinct = BTreeSet::new();
        let mut count = 0_usize;
        for tag in tags {
            let mut parts = tag.split('-');
            let (Some(python), Some(abi), Some(platform), None) =
                (parts.next(), parts.next(), parts.next(), parts.next())
            else {
                return Err(bad("a Tag in WHEEL has not got three parts"));
            };
            let combinations = [python, abi, platform].map(|set| set.split('.').count());
            count = combinations.into_iter().fold(1_usize, usize::saturating_mul).saturating_add(count);
            if count > MAX_TAGS {
                return Err(bad("the Tags in WHEEL stand for more than 4096 tags"));
            }
            for (set, tags) in sets.iter_mut().zip([python, abi, platform]) {
                set.extend(tags.split('.'));
            }
            let expand = |set: &'_ str| set.split('.').map(str::to_owned).collect::<Vec<_>>();
            for (python, abi) in
                expand(python).iter().flat_map(|p| expand(abi).into_iter().map(move |a| (p.clone(), a)))
            {
                distinct.extend(expand(platform).into_iter().map(|platform| (python.clone(), abi.clone(), platform)));
            }
        }
        if distinct.is_empty() {
            return Err(bad("there is no Tag in WHEEL"));
        }
        // A compressed tag set means every combination (PEP 425).
        if sets.iter().map(BTreeSet::len).product::<usize>() != distinct.len() {
            return Err(bad("no file name can express exactly the Tags in WHEEL"));
        }
        let tags = sets.map(|set| set.into_iter().collect::<Vec<_>>().join("."));
        let build_part = build.map(|build| format!("{build}-")).unwrap_or_default();
        let name = Self::parse(&format!("{stem}-{build_part}{}.whl", tags.join("-")))?;
        // A "-" in one of the parts would shift those after it.
        if name.stem() != stem {
            return Err(bad("it is not a name and a version"));
        }
        if name.build.as_deref() != build {
            return Err(bad("the Build in WHEEL is no build tag"));
        }
        Ok(name)
    }

    /// The same wheel with the distribution's normalised name, which `PyPI` requires.
    #[must_use]
    pub fn normalised(self) -> Self {
        Self { distribution: escaped(&self.distribution), ..self }
    }

    /// The wheel of another distribution for the same version and systems.
    #[must_use]
    pub fn of_distribution(&self, distribution: &str) -> Self {
        Self { distribution: escaped(distribution), variant: None, ..self.clone() }
    }

    /// The same wheel as a variant.
    #[must_use]
    pub fn of_variant(&self, label: &str) -> Self {
        Self { variant: Some(label.to_owned()), ..self.clone() }
    }

    /// The prefix of the names of the dist-info and data directories.
    pub fn stem(&self) -> String {
        format!("{}-{}", self.distribution, self.version)
    }

    /// The dist-info directory of the wheel.
    pub(crate) fn dist_info(&self) -> EntryPath {
        EntryPath::root().child(format!("{}.dist-info", self.stem()).as_bytes())
    }

    /// All tags of the name, one by one (PEP 425, "Compressed Tag Sets").
    pub fn tags(&self) -> Vec<String> {
        let mut tags = Vec::new();
        for python in self.python.split('.') {
            for abi in self.abi.split('.') {
                tags.extend(self.platform.split('.').map(|platform| format!("{python}-{abi}-{platform}")));
            }
        }
        tags
    }

    /// The first tag set that is not in the order required by PEP 425, if there is one.
    pub fn unsorted_tags(&self) -> Option<&str> {
        [&self.python, &self.abi, &self.platform]
            .into_iter()
            .find(|set| !set.split('.').is_sorted())
            .map(String::as_str)
    }
}

/// The file name.
impl fmt::Display for WheelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.distribution, self.version)?;
        let build = self.build.iter();
        let parts = build.chain([&self.python, &self.abi, &self.platform]).chain(&self.variant);
        parts.into_iter().try_for_each(|part| write!(formatter, "-{part}"))?;
        formatter.write_str(".whl")
    }
}

fn is_made_of(text: &str, punctuation: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric() || punctuation.contains(letter))
}

#[cfg(test)]
mod tests {
    use super::{WheelName, normalise};

    #[test]
    fn names_are_taken_apart_and_put_together() {
        for (name, build, variant) in [
            ("torch-2.10.0+rocm7.1-cp312-cp312-manylinux_2_28_x86_64.whl", None, None),
            ("torch-2.10.0-1_a-cp312-cp312-linux_x86_64.whl", Some("1_a"), None),
            ("torch-1!2.0.post1-py3-none-any-rocm7.1.whl", None, Some("rocm7.1")),
            ("torch-2.0-7-py2.py3-none-any-x_1.whl", Some("7"), Some("x_1")),
        ] {
            let parsed = WheelName::parse(name).unwrap();
            assert_eq!((parsed.build.as_deref(), parsed.variant.as_deref()), (build, variant));
            assert_eq!(parsed.to_string(), name);
        }
        let fetched = WheelName::parse("torch-2.0%2Brocm7.1-py3-none-any.whl").unwrap();
        assert_eq!(fetched.version, "2.0+rocm7.1");
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "torch-2.0-py3-none-any.zip",
            "torch-2.0-py3-none.whl",
            "torch-2.0-1-py3-none-any-x-y.whl",
            "torch-2.0-x-py3-none-any-y.whl",
            "-2.0-py3-none-any.whl",
            "._-2.0-py3-none-any.whl",
            "a/b-2.0-py3-none-any.whl",
            "torch-2 0-py3-none-any.whl",
            "torch-2.0-py3-none-.whl",
            "torch-2.0-py3..py2-none-any.whl",
            "torch-2.0-py3-none-any-A\n.whl",
        ] {
            assert!(WheelName::parse(name).is_err(), "{name}");
        }
    }

    #[test]
    fn tag_sets_are_expanded() {
        let name = WheelName::parse("a-1-py2.py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl").unwrap();
        let tags = name.tags();
        assert_eq!(tags.len(), 4);
        assert_eq!(
            (tags[0].as_str(), tags[3].as_str()),
            ("py2-none-manylinux2014_x86_64", "py3-none-manylinux_2_17_x86_64")
        );
        assert_eq!(name.unsorted_tags(), None);
        assert_eq!(WheelName::parse("a-1-py3.py2-none-any.whl").unwrap().unsorted_tags(), Some("py3.py2"));
    }

    #[test]
    fn an_unpacked_wheel_is_named_after_dist_info_and_tags() {
        let tags = |tags: &[&str]| tags.iter().map(|&tag| tag.to_owned()).collect::<Vec<_>>();
        let of = |given: &[&str], build| WheelName::of_unpacked("a_b-1+x.dist-info", &tags(given), build);
        assert_eq!(of(&["py3-none-any"], Some("2")).unwrap().to_string(), "a_b-1+x-2-py3-none-any.whl");
        let both = ["py3-none-any", "py2-none-any", "py2-none-any"];
        assert_eq!(of(&both, None).unwrap().to_string(), "a_b-1+x-py2.py3-none-any.whl");
        assert_eq!(of(&["py2.py3-none-any"], None).unwrap().to_string(), "a_b-1+x-py2.py3-none-any.whl");
        assert!(of(&["cp312-cp312-any", "py3-none-any"], None).is_err());
        assert!(of(&[], None).is_err() && of(&["py3-none"], None).is_err());
        // After these parts, tags would be taken for a build tag or a variant label.
        assert!(of(&["py3-none-any"], Some("2-a")).is_err() && of(&["py3-none-any"], Some("a")).is_err());
        assert!(WheelName::of_unpacked("a-1-2.dist-info", &tags(&["py3-none-any"]), None).is_err());
    }

    #[test]
    fn normal_form() {
        for (name, expected) in [("Foo.Bar__baz", "foo-bar-baz"), ("gfx12_5", "gfx12-5"), ("a", "a"), ("-a.", "a")] {
            assert_eq!(normalise(name), expected);
        }
        let name = WheelName::parse("Foo.Bar-1-py3-none-any.whl").unwrap().normalised();
        assert_eq!(name.stem(), "foo_bar-1");
        assert_eq!(name.of_distribution("amd-foo-device-gfx12-0").stem(), "amd_foo_device_gfx12_0-1");
    }
}
