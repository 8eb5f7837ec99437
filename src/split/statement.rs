//! The restrictions and parts of a split. They are stored with the output, so that `verify` expects exactly these
//! parts.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::options::PlanOptions;
use super::parts::HOST;
use super::selection::Targets;
use super::split_id::{ID_TEXT, SplitId};
use crate::database::{Databases, Handler};
use crate::gpu::{BundleKey, GpuSet, TargetIdError};
use crate::rope::{Content, ReadError, Rope, Segment};
use crate::source::{EntryPath, PathError};

/// The file name among the reports of a mount and in the output directory of `split`. In wheels it is
/// [`crate::wheel::STATEMENT`].
pub const STATEMENT: &str = "split.json";
/// The version of the format.
const VERSION: u32 = 1;
/// The format of parts: 2 since they have a split ID and a manifest (kpackfs 0.3).
const FORMAT: u32 = 2;

/// The file name for a component of artifacts. One directory contains several components, which may be split at the
/// same time.
pub fn statement_of_component(component: &str) -> String {
    format!("split-{component}.json")
}

/// The component in a file name.
pub fn component_of_statement(name: &str) -> Option<&str> {
    name.strip_prefix("split-")?.strip_suffix(".json")
}

/// The stored description of a split.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Statement {
    /// The version of the format.
    pub json_version: u32,
    /// The format of parts: 2 since they have a split ID and a manifest; `None` in what kpackfs 0.2 wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<u32>,
    /// The ID of the split; `None` if the parts are of several splits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_id: Option<String>,
    /// The ID of the input, by which the split of its split gets the same ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_id: Option<String>,
    /// The part, in a wheel of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// `--gpu-targets`; `None` if it was not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_targets: Option<Vec<String>>,
    /// `--exclude-targets`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude_targets: Vec<String>,
    /// `--databases`; `None` for all handlers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub databases: Option<Vec<String>>,
    /// `--view`: the views that were written. Empty for host and device parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<String>,
    /// `--arch`: the targets overlaid on `host/` itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arch: Vec<String>,
    /// The merged views of GPUs for which only databases have files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_code: Vec<String>,
    /// The directories of the split. Empty for wheels, whose METADATA name the other wheels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<String>,
    /// `--requirements split`: the fields of METADATA whose extras for GPUs are required by device wheels instead, as
    /// they were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced_requirements: Vec<String>,
}

impl Statement {
    /// The restrictions of `options`.
    pub fn of(options: &PlanOptions) -> Self {
        let names = |keys: &[BundleKey]| keys.iter().map(ToString::to_string).collect();
        let handlers = &options.databases.handlers;
        let has_all = Handler::ALL.iter().all(|handler| handlers.contains(handler));
        Self {
            json_version: VERSION,
            format: Some(FORMAT),
            gpu_targets: options.targets.wanted.as_deref().map(names),
            exclude_targets: names(&options.targets.excluded),
            databases: (!has_all).then(|| handlers.iter().map(|handler| handler.name().to_owned()).collect()),
            ..Self::default()
        }
    }

    /// Sets the views.
    #[must_use]
    pub fn with_views(self, views: &[String]) -> Self {
        Self { views: views.iter().map(|view| view.trim_matches('/').to_owned()).collect(), ..self }
    }

    /// Whether it is of a mount that shows its input as the host part, since nothing in it was split.
    pub fn is_of_unsplit(&self) -> bool {
        self.views.is_empty() && self.parts == [HOST]
    }

    /// The statement of a device part, which has no restrictions of its own.
    #[must_use]
    pub fn of_device(key: &BundleKey) -> Self {
        Self { json_version: VERSION, format: Some(FORMAT), part: Some(key.to_string()), ..Self::default() }
    }

    /// The same for a host part.
    #[must_use]
    pub fn of_host(self) -> Self {
        Self { part: Some(super::HOST.to_owned()), ..self }
    }

    /// The statement for a directory whose statement was `earlier`, and to which this split added parts.
    #[must_use]
    pub fn after(self, earlier: Self) -> Self {
        let of_host = self.parts.iter().any(|part| part == super::HOST);
        let parts = earlier.parts.iter().chain(&self.parts).cloned().collect::<BTreeSet<_>>();
        let parts: Vec<_> = parts.into_iter().collect();
        let stay = earlier.without_code.iter().filter(|view| !self.parts.contains(view));
        let without_code = stay.chain(&self.without_code).cloned().collect();
        let restrictions = |it: &Self| (it.gpu_targets.clone(), it.exclude_targets.clone(), it.databases.clone());
        let is_alike = restrictions(&self) == restrictions(&earlier);
        let split_id = self.split_id.clone().filter(|_| self.split_id == earlier.split_id);
        let together = match is_alike {
            true if earlier.views.is_empty() => Self { views: Vec::new(), parts, ..self },
            true => Self { views: parts.clone(), parts, ..self },
            // Made by splits with different restrictions: the statement lists what is there.
            false => {
                let databases = if of_host { self.databases } else { earlier.databases };
                let format = self.format;
                Self { json_version: VERSION, format, databases, views: parts.clone(), parts, ..Self::default() }
            }
        };
        Self { split_id, input_id: None, without_code, ..together }
    }

    /// Whether the split was restricted to a part of the input.
    pub fn is_restricted(&self) -> bool {
        let Self { gpu_targets, exclude_targets, databases, views, arch, .. } = self;
        (gpu_targets.is_some() || databases.is_some())
            || [exclude_targets, views, arch].iter().any(|list| !list.is_empty())
    }

    /// The file of this statement with the ID of its split, which is computed when it is read.
    pub fn to_rope(&self, split_id: &SplitId) -> Result<Rope, ReadError> {
        // Digits of no ID stand in their places, which come before everything that a user can name.
        let [split, input] = ["0", "1"].map(|digit| digit.repeat(ID_TEXT));
        let stated = Self { split_id: Some(split.clone()), input_id: Some(input.clone()), ..self.clone() };
        let text = stated.to_json();
        let (before, rest) = text.split_once(&split).unwrap_or((&text, ""));
        let (between, after) = rest.split_once(&input).unwrap_or((rest, ""));
        let literal = |text: &str| Segment::literal(text.as_bytes().to_vec());
        let digits = |of: &Arc<dyn Content>| Segment::whole(Arc::clone(of));
        let (split, input) = (digits(&split_id.digits), digits(&split_id.input.0));
        Rope::new([literal(before), split, literal(between), input, literal(after)])
    }

    /// Whether a version of kpackfs with these handlers of databases wrote it.
    pub fn is_current(&self) -> bool {
        self.format == Some(FORMAT)
    }

    /// The content of the file.
    #[expect(clippy::expect_used, reason = "plain fields: there is nothing that could fail")]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain fields") + "\n"
    }

    /// Parses a file.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let statement: Self = serde_json::from_slice(bytes)?;
        let version = statement.json_version;
        ensure!(version == VERSION, "its json_version is {version}; {VERSION} is known");
        statement.targets()?;
        statement.arch()?;
        statement.databases()?;
        statement.parts()?;
        Ok(statement)
    }

    /// `--gpu-targets` and `--exclude-targets`.
    pub fn targets(&self) -> Result<Targets, TargetIdError> {
        let wanted = self.gpu_targets.as_deref().map(keys).transpose()?;
        Ok(Targets { wanted, excluded: keys(&self.exclude_targets)? })
    }

    /// `--databases`.
    pub fn databases(&self) -> Result<Option<Databases>, crate::database::UnknownHandler> {
        self.databases.as_deref().map(Databases::from_names).transpose()
    }

    /// `--arch`.
    pub fn arch(&self) -> Result<Vec<BundleKey>, TargetIdError> {
        keys(&self.arch)
    }

    /// The directories of the split, relative to the directory that contains them.
    pub fn parts(&self) -> Result<Vec<EntryPath>, PathError> {
        self.parts.iter().map(|part| EntryPath::new(part.as_bytes())).collect()
    }

    /// Whether the split has only the parts of some GPUs, because these views were asked for.
    pub fn is_of_devices(&self) -> bool {
        are_device_parts(&self.views)
    }

    /// The GPUs of the thin view, if the split is only that.
    pub fn thin(&self) -> Option<GpuSet> {
        let [view] = &*self.views else { return None };
        view.strip_prefix(super::THIN)?.strip_prefix('/')?.parse().ok()
    }
}

/// Whether these are views, and device parts each: the host part, or a tree that has what is in it, is not among them.
pub(crate) fn are_device_parts(views: &[String]) -> bool {
    !views.is_empty()
        && views.iter().all(|view| view.trim_matches('/').parse().is_ok_and(|key: BundleKey| key.is_known()))
}

/// The options as a user gives them: `--gpu-targets gfx942 --view host`.
impl std::fmt::Display for Statement {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lists = [
            ("--gpu-targets", self.gpu_targets.as_deref()),
            ("--exclude-targets", Some(&*self.exclude_targets).filter(|list| !list.is_empty())),
            ("--databases", self.databases.as_deref()),
            ("--view", Some(&*self.views).filter(|list| !list.is_empty())),
            ("--arch", Some(&*self.arch).filter(|list| !list.is_empty())),
        ];
        let said = lists.iter().filter_map(|(option, list)| Some(format!("{option} {}", list.as_ref()?.join(","))));
        formatter.write_str(&said.collect::<Vec<_>>().join(" "))
    }
}

fn keys(names: &[String]) -> Result<Vec<BundleKey>, TargetIdError> {
    names.iter().map(|name| name.parse()).collect()
}

#[cfg(test)]
mod tests {
    use super::Statement;
    use crate::database::Databases;
    use crate::split::{PlanOptions, Targets};

    #[test]
    fn what_is_written_is_read_again() {
        let nothing = Statement::of(&PlanOptions { databases: Databases::all(), ..PlanOptions::default() });
        let whole = Statement { parts: vec!["host".to_owned(), "gfx942".to_owned()], ..nothing.clone() };
        assert!(!nothing.is_restricted() && !whole.is_restricted());
        assert_eq!(Statement::parse(whole.to_json().as_bytes()).unwrap().parts().unwrap().len(), 2);
        let options = PlanOptions {
            databases: Databases::from_names(&["rocblas"]).unwrap(),
            targets: Targets {
                wanted: Some(vec!["gfx942".parse().unwrap(), "gfx11".parse().unwrap()]),
                excluded: vec!["gfx1100".parse().unwrap()],
            },
            ..PlanOptions::default()
        };
        let stated = Statement { arch: vec!["gfx942".to_owned()], ..Statement::of(&options) };
        let statement = stated.with_views(&["host/".to_owned()]);
        let read = Statement::parse(statement.to_json().as_bytes()).unwrap();
        assert_eq!(read, statement);
        assert!(read.is_restricted());
        assert_eq!(read.targets().unwrap(), options.targets);
        assert_eq!(read.databases().unwrap(), Some(options.databases.clone()));
        assert_eq!(
            read.to_string(),
            "--gpu-targets gfx942,gfx11 --exclude-targets gfx1100 --databases rocblas --view host --arch gfx942"
        );
        let none = Targets { wanted: Some(Vec::new()), ..Targets::default() };
        let stated = Statement::of(&PlanOptions { targets: none.clone(), ..options });
        assert_eq!(Statement::parse(stated.to_json().as_bytes()).unwrap().targets().unwrap(), none);
    }

    #[test]
    fn what_is_no_statement_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"json_version": 2}"#,
            r#"{"json_version": 1, "arch": ["../x"]}"#,
            r#"{"json_version": 1, "parts": ["../x"]}"#,
            r#"{"json_version": 1, "parts": ["/x"]}"#,
        ] {
            assert!(Statement::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn what_several_splits_wrote_is_said_together() {
        let of = |targets: &[&str], views: &[&str], parts: &[&str]| {
            let targets = targets.iter().map(|target| target.parse().unwrap()).collect::<Vec<_>>();
            let targets = Targets { wanted: (!targets.is_empty()).then_some(targets), ..Targets::default() };
            let statement =
                Statement::of(&PlanOptions { targets, databases: Databases::all(), ..PlanOptions::default() });
            let names = |of: &[&str]| of.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            Statement { parts: names(parts), ..statement.with_views(&names(views)) }
        };
        let whole = of(&[], &[], &["gfx942", "host"]);
        let merged = of(&[], &["merged/gfx942"], &["merged/gfx942"]);
        assert_eq!(merged.clone().after(whole.clone()), of(&[], &[], &["gfx942", "host", "merged/gfx942"]));
        let host = of(&[], &["host"], &["host"]);
        let both = ["host", "merged/gfx942"];
        assert_eq!(merged.after(host), of(&[], &both, &both));
        let other = of(&["gfx90a"], &["gfx90a"], &["gfx90a"]);
        let all = ["gfx90a", "gfx942", "host"];
        assert_eq!(other.after(whole), of(&[], &all, &all));
    }
}
