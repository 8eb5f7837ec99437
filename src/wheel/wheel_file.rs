//! The file WHEEL (Binary distribution format, "File contents").

use super::headers::{Headers, MAX_FIELDS};
use super::{GENERATOR, WheelError, WheelName};
use crate::source::EntryPath;

/// The fat wheel's WHEEL.
#[derive(Clone, Debug)]
pub struct WheelFile {
    bytes: Vec<u8>,
    headers: Headers,
    /// Whether the wheel's root is installed among the architecture-independent packages.
    pub root_is_purelib: bool,
}

impl WheelFile {
    /// Parses a WHEEL file. `path` names it in messages.
    pub fn parse(bytes: Vec<u8>, path: &EntryPath) -> Result<Self, WheelError> {
        let bad = |reason: String| WheelError::DistInfo { path: path.clone(), reason };
        let headers = Headers::parse(&bytes).ok_or_else(|| bad(format!("more than {MAX_FIELDS} fields")))?;
        let version = headers.first("Wheel-Version").ok_or_else(|| bad("there is no Wheel-Version".to_owned()))?;
        // A higher major version must not be processed without support for it.
        if version.split('.').next() != Some("1") {
            return Err(bad(format!("version {version} of the wheel format is not known, only 1")));
        }
        let root_is_purelib = headers.first("Root-Is-Purelib").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        Ok(Self { bytes, headers, root_is_purelib })
    }

    /// The tags. Those in a wheel's file name take precedence: renamed wheels are common.
    pub fn tags(&self) -> Vec<String> {
        self.headers.all("Tag").map(str::to_owned).collect()
    }

    /// The build tag.
    pub fn build(&self) -> Option<&str> {
        self.headers.first("Build").filter(|build| !build.is_empty())
    }

    /// The host wheel's WHEEL: the fat wheel's bytes, with tags and build tag from the file name. The Generator becomes
    /// kpackfs, which produces the archive.
    pub fn host(&self, name: &WheelName) -> Vec<u8> {
        let newline = self.headers.newline;
        let mut generator = Some(format!("Generator: {GENERATOR}{newline}"));
        let mut tags = Some(tag_lines(name, newline));
        let mut text = Vec::with_capacity(self.bytes.len());
        for header in &self.headers.list {
            if header.is("Tag") {
                text.extend(tags.take().unwrap_or_default().into_bytes());
            } else if header.is("Generator") {
                text.extend(generator.take().unwrap_or_default().into_bytes());
            } else if !header.is("Build") {
                text.extend_from_slice(self.bytes.get(header.range.clone()).unwrap_or_default());
                if !text.ends_with(b"\n") {
                    text.extend_from_slice(newline.as_bytes());
                }
            }
        }
        text.extend([generator, tags].into_iter().flatten().flat_map(String::into_bytes));
        text.extend_from_slice(self.bytes.get(self.headers.end..).unwrap_or_default());
        text
    }

    /// A device wheel's WHEEL. It is installed into the same tree as the host wheel, so its root is of the same kind.
    pub fn device(&self, name: &WheelName) -> String {
        let purelib = self.root_is_purelib;
        format!("Wheel-Version: 1.0\nGenerator: {GENERATOR}\nRoot-Is-Purelib: {purelib}\n{}", tag_lines(name, "\n"))
    }
}

/// One line for each tag, and one for the build tag.
fn tag_lines(name: &WheelName, newline: &str) -> String {
    let tags = name.tags().into_iter().map(|tag| format!("Tag: {tag}{newline}"));
    let build = name.build.iter().map(|build| format!("Build: {build}{newline}"));
    tags.chain(build).collect()
}

#[cfg(test)]
mod tests {
    use super::WheelFile;
    use crate::source::EntryPath;
    use crate::wheel::WheelName;

    fn parse(text: &str) -> WheelFile {
        WheelFile::parse(text.into(), &EntryPath::root()).unwrap()
    }

    #[test]
    fn tags_come_from_the_file_name() {
        let name = WheelName::parse("cupy_rocm_7_0-14.2.0-3-cp312-cp312-a_x.b_x.whl").unwrap();
        for newline in ["\n", "\r\n"] {
            let text = "Wheel-Version: 1.0\nGenerator: setuptools (80)\nX: y\nTag: cp312-cp312-linux_x86_64\nTag: b-c-d\nZ: 1\nbuild: 9\n\nrest";
            let host = parse(&text.replace('\n', newline)).host(&name);
            let generator = crate::wheel::GENERATOR;
            let expected = format!(
                "Wheel-Version: 1.0\nGenerator: {generator}\nX: y\nTag: cp312-cp312-a_x\nTag: cp312-cp312-b_x\nBuild: 3\nZ: 1\n\nrest"
            );
            assert_eq!(String::from_utf8(host).unwrap(), expected.replace('\n', newline));
        }
    }

    #[test]
    fn what_is_missing_is_added() {
        let name = WheelName::parse("a-1-py3-none-any.whl").unwrap();
        let host = String::from_utf8(parse("Wheel-Version: 1.9\nRoot-Is-Purelib: True").host(&name)).unwrap();
        let generator = crate::wheel::GENERATOR;
        assert_eq!(
            host,
            format!("Wheel-Version: 1.9\nRoot-Is-Purelib: True\nGenerator: {generator}\nTag: py3-none-any\n")
        );
    }

    #[test]
    fn device_wheels_are_of_the_host_wheels_kind() {
        let name = WheelName::parse("a-1-py3-none-any.whl").unwrap();
        for (value, expected) in [("TRUE", "true"), ("false", "false"), ("", "false")] {
            let text = parse(&format!("Wheel-Version: 1.0\nRoot-Is-Purelib: {value}\n")).device(&name);
            assert!(text.contains(&format!("\nRoot-Is-Purelib: {expected}\nTag: py3-none-any\n")), "{text}");
        }
        for text in ["", "Wheel-Version: 2.0\n", "Wheel-Version: 10.0\n"] {
            assert!(WheelFile::parse(text.into(), &EntryPath::root()).is_err());
        }
    }
}
