//! METADATA: parsing that of the fat wheel, and making those of host, device and variant wheels (Core metadata 2.6; PEP
//! 566, 639, 685).

use std::collections::BTreeSet;

use super::added::{OwnExtras, spellings};
use super::devices::is_distribution;
use super::headers::{Headers, MAX_FIELDS};
use super::requirement::{TARGET, check_requirement};
use super::{Devices, WheelError, accepts, normalise, part_in};
use crate::gpu::{BundleKey, Level};
use crate::source::EntryPath;

/// The distribution that detects the GPU at installation.
pub(crate) const BOOTSTRAP: &str = "rocm-bootstrap";

/// The most bytes of a name or a version. They are repeated in many lines of the output.
const LONGEST_NAME: usize = 255;

/// The fat wheel's METADATA.
#[derive(Clone, Debug)]
pub struct Metadata {
    pub(crate) bytes: Vec<u8>,
    pub(super) headers: Headers,
    /// The distribution, as its authors write it.
    pub name: String,
    /// The version.
    pub version: String,
}

/// A METADATA file that was made from another one, with warnings.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The file.
    pub bytes: Vec<u8>,
    /// What could not be added.
    pub warnings: Vec<String>,
}

impl Metadata {
    /// Parses a METADATA file. `path` names it in messages.
    pub fn parse(bytes: Vec<u8>, path: &EntryPath) -> Result<Self, WheelError> {
        let bad = |reason: String| WheelError::DistInfo { path: path.clone(), reason };
        let headers = Headers::parse(&bytes).ok_or_else(|| bad(format!("more than {MAX_FIELDS} fields")))?;
        let one = |field: &str| match headers.first(field) {
            Some(value) if !value.is_empty() => Ok(value.to_owned()),
            _ => Err(bad(format!("there is no {field}"))),
        };
        let (name, version) = (one("Name")?, one("Version")?);
        // They are part of file names.
        if name.len().max(version.len()) > LONGEST_NAME {
            return Err(bad(format!("name or version is longer than {LONGEST_NAME} bytes")));
        }
        // Both are written into requirements, so they may contain nothing else.
        if !is_distribution(&name) {
            return Err(bad(format!("{name:?} cannot be the name of a distribution")));
        }
        if !version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+!-".contains(&byte)) {
            return Err(bad(format!("{version:?} is no version")));
        }
        Ok(Self { bytes, headers, name, version })
    }

    /// The declared extras, normalised.
    pub fn extras(&self) -> BTreeSet<String> {
        self.headers.all("Provides-Extra").map(normalise).collect()
    }

    /// Whether the extras of an sdist may be others when it is built (PEP 643).
    pub(crate) fn has_dynamic_extras(&self) -> bool {
        self.headers.all("Dynamic").any(|field| field.trim().eq_ignore_ascii_case("Provides-Extra"))
    }

    /// The requirements, as written.
    pub fn requirements(&self) -> impl Iterator<Item = &str> {
        self.headers.all("Requires-Dist")
    }

    /// The required versions of Python, as written.
    pub fn requires_python(&self) -> Option<&str> {
        self.headers.first("Requires-Python")
    }

    /// The distributions that are required in exactly one version and without a condition: normalised names, and
    /// versions.
    pub fn pins(&self) -> impl Iterator<Item = (String, &str)> {
        let unconditional = self.headers.all("Requires-Dist").filter(|line| !line.contains([';', '[', ',']));
        unconditional.filter_map(|line| {
            let (name, version) = line.split_once("==")?;
            Some((normalise(name.trim_end_matches(['(', ' '])), version.trim_matches(['=', ')', ' '])))
        })
    }

    /// Those that are required in exactly its own version, as a device distribution requires its host distribution. Requirements that a
    /// user added do not count, even if they accept this version (`==7.*` by 7.1, `==7.1` by 7.1+rocm7).
    pub fn pins_of_own_version(&self) -> impl Iterator<Item = (String, &str)> {
        self.pins().filter(|(_, wanted)| accepts(wanted, &self.version) && accepts(&self.version, wanted))
    }

    /// Whether it may be that of a device distribution: its name ends with a device part, and it requires another distribution in its own
    /// version.
    pub(crate) fn is_of_device_part(&self) -> bool {
        part_in(&normalise(&self.name)).is_some() && self.pins_of_own_version().next().is_some()
    }

    /// What each extra requires in exactly one version: the extra and the distribution (both normalised), and its
    /// version.
    pub fn pins_of_extras(&self) -> impl Iterator<Item = (String, String, &str)> {
        self.headers.all("Requires-Dist").filter_map(pin_of_extra)
    }

    /// The paths of licence files.
    pub fn licence_files(&self) -> impl Iterator<Item = &str> {
        self.headers.all("License-File")
    }

    /// Major and minor number of the metadata version.
    fn metadata_version(&self) -> Option<(u32, u32)> {
        let (major, minor) = self.headers.first("Metadata-Version")?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    /// The host wheel's METADATA: that of the fat wheel, byte by byte, with lines inserted at the end of the header.
    pub fn host(&self, devices: &Devices) -> Edited {
        let edit = self.host_edit(devices);
        Edited { bytes: self.insert(&edit.lines), warnings: edit.warnings }
    }

    /// The variant wheel's METADATA: that of the host wheel, and requirements of each target's distributions on systems
    /// where the variant has that target's property (PEP 825; such a marker is an error in any other wheel).
    pub fn variant(&self, devices: &Devices, targets: &[&BundleKey]) -> Edited {
        let mut edit = self.host_edit(devices);
        for key in targets {
            let property = super::variant::property(key);
            let marker = format!("\"{property}\" in variant_properties");
            edit.lines.extend(devices.chain(key).iter().map(|device| self.requirement(device, &marker)));
        }
        Edited { bytes: self.insert(&edit.lines), warnings: edit.warnings }
    }

    fn host_edit(&self, devices: &Devices) -> HeaderEdit<'_> {
        let mut edit = HeaderEdit::new(self);
        let has_bootstrap = self.headers.all("Requires-Dist").any(|line| normalise(line.trim()) == BOOTSTRAP);
        if !has_bootstrap {
            edit.lines.push(format!("Requires-Dist: {BOOTSTRAP}"));
        }
        for key in devices.targets() {
            edit.extra(&normalise(key.as_str()), &devices.chain(key));
        }
        edit.extra("all", &devices.all());
        if let Some((1, _) | (2, 0)) = self.metadata_version() {
            edit.warnings
                .push("METADATA has a version before 2.1, the first with Provides-Extra; it is kept".to_owned());
        }
        edit
    }

    /// A device wheel's METADATA. `requires` are the user's requirements, in which `@GFXARCH@` is replaced by the key.
    /// `moved` are the requirements that it has instead of the host wheel. `licences` are the paths of the licence files
    /// in the device wheel.
    pub fn device(
        &self,
        devices: &Devices,
        key: &BundleKey,
        requires: &[String],
        moved: &[String],
        licences: &[String],
    ) -> Result<String, WheelError> {
        let no_part = || WheelError::NoSuchPart(key.to_string());
        let distribution = devices.distribution(key).ok_or_else(no_part)?;
        let (name, version) = (&self.name, &self.version);
        let is_target = key.level() == Level::Target;
        // 2.4 is the first version with License-Expression and License-File (PEP 639).
        let mut lines = vec![
            "Metadata-Version: 2.4".to_owned(),
            format!("Name: {distribution}"),
            format!("Version: {version}"),
            format!("Summary: AMD device kernels ({}) for {name}", key.display_name()),
            "Description-Content-Type: text/markdown".to_owned(),
        ];
        lines.extend(self.licence_lines());
        lines.extend(licences.iter().map(|path| format!("License-File: {path}")));
        lines.push(format!("Requires-Dist: {name}=={version}"));
        for requirement in requires {
            check_requirement(requirement)?;
            if is_target || !requirement.contains(TARGET) {
                lines.push(format!("Requires-Dist: {}", requirement.trim().replace(TARGET, key.as_str())));
            }
        }
        lines.extend(moved.iter().map(|requirement| format!("Requires-Dist: {requirement}")));
        if is_target {
            let parents = devices.chain(key).into_iter().filter(|parent| *parent != distribution);
            lines.extend(parents.map(|parent| format!("Requires-Dist: {parent}=={version}")));
        }
        Ok(format!("{}\n\n{}", lines.join("\n"), self.description(distribution, key)))
    }

    /// `License-Expression`, or else the fields of older metadata. A licence of several lines is only in the files.
    fn licence_lines(&self) -> Vec<String> {
        let lines = |name: &str, wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
            let fitting = self.headers.all(name).filter(|value| wanted(value));
            fitting.map(|value| format!("{name}: {value}")).collect()
        };
        let one_line = |value: &str| !value.is_empty() && !value.contains(char::is_control);
        let expression = lines("License-Expression", &one_line);
        if !expression.is_empty() {
            // License and the classifiers are not allowed next to it (PEP 639).
            return expression;
        }
        let mut older = lines("License", &one_line);
        older.truncate(1);
        older.extend(lines("Classifier", &|value| value.starts_with("License ::") && one_line(value)));
        older
    }

    fn description(&self, distribution: &str, key: &BundleKey) -> String {
        let Self { name, version, .. } = self;
        let display = key.display_name();
        let how = if key.level() == Level::Target {
            let extra = OwnExtras(self.extras()).of_split(&normalise(key.as_str()));
            let what = extra.map_or_else(|| distribution.to_owned(), |extra| format!("{name}[{extra}]"));
            format!("Install it together with {name}:\n\n    pip install \"{what}=={version}\"\n")
        } else {
            format!("The packages for individual GPUs in this family require it and install it along with {name}.\n")
        };
        format!(
            "# {distribution}\n\nAMD device kernels ({display}) for {name} {version}. \
             The files in this package are installed into the directories of {name}.\n\n{how}"
        )
    }

    fn requirement(&self, distribution: &str, marker: &str) -> String {
        // Only == can require a local version (PEP 440). Without it, any local build would satisfy the requirement.
        format!("Requires-Dist: {distribution}=={}; {marker}", self.version)
    }

    /// The fat wheel's METADATA.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }

    /// The fat wheel's METADATA, byte by byte, with another version.
    pub fn of_version(&self, version: &str) -> Vec<u8> {
        let field = self.headers.list.iter().find(|header| header.is("Version") && self.version != version);
        let Some(field) = field else { return self.bytes.clone() };
        let before = self.bytes.get(..field.range.start).unwrap_or_default();
        let after = self.bytes.get(field.range.end..).unwrap_or_default();
        let line = format!("Version: {version}{}", self.headers.newline);
        [before, line.as_bytes(), after].concat()
    }

    fn insert(&self, lines: &[String]) -> Vec<u8> {
        let (before, after) = self.bytes.split_at_checked(self.headers.end).unwrap_or((&self.bytes, &[]));
        [before, self.headers.lines(lines).as_bytes(), after].concat()
    }
}

/// The extra, the distribution and the version of a requirement for an extra in exactly one version.
pub(crate) fn pin_of_extra(line: &str) -> Option<(String, String, &str)> {
    let (requirement, marker) = line.split_once(';')?;
    let marker = marker.trim().trim_start_matches('(').trim_end_matches(')');
    let (left, right) = marker.split_once("==")?;
    let extra = right.trim().trim_matches(['"', '\'']);
    let is_plain = left.trim() == "extra" && !extra.contains(['"', '\'', ' ']);
    let (name, version) = requirement.split_once("==").filter(|(_, version)| is_plain && !version.contains(','))?;
    Some((normalise(extra), normalise(name.trim_end_matches(['(', ' '])), version.trim_matches(['=', ')', ' '])))
}

/// Lines for the end of a header.
struct HeaderEdit<'a> {
    metadata: &'a Metadata,
    declared: BTreeSet<String>,
    lines: Vec<String>,
    warnings: Vec<String>,
}

impl<'a> HeaderEdit<'a> {
    fn new(metadata: &'a Metadata) -> Self {
        Self { metadata, declared: metadata.extras(), lines: Vec::new(), warnings: Vec::new() }
    }

    /// Declares an extra in both spellings.
    fn extra(&mut self, name: &str, distributions: &[&str]) {
        let (declared, free): (Vec<_>, Vec<_>) =
            spellings(name).into_iter().partition(|extra| self.declared.contains(extra));
        match (declared.as_slice(), free.as_slice()) {
            ([extra], [other]) => self.warnings.push(format!(
                "METADATA: the extra {extra} is declared already and left alone; {other} installs the device code"
            )),
            ([one, other], _) if !distributions.is_empty() => self.warnings.push(format!(
                "METADATA: the extras {one} and {other} are declared already and left alone; no extra installs this device \
                 code, so require {} by name",
                distributions.join(", ")
            )),
            _ => {}
        }
        for extra in free {
            self.lines.push(format!("Provides-Extra: {extra}"));
            let marker = format!("extra == \"{extra}\"");
            let requirement = |device: &&str| self.metadata.requirement(device, &marker);
            self.lines.extend(distributions.iter().map(requirement).collect::<Vec<_>>());
            self.declared.insert(extra);
        }
    }
}

#[cfg(test)]
#[path = "metadata_tests.rs"]
mod tests;
