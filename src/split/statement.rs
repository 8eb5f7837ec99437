//! What a split was asked for. It is written beside what it restricts, so that `verify` expects no more than that.

use serde::{Deserialize, Serialize};

use super::Options;
use crate::database::{Databases, Handler};
use crate::gpu::{BundleKey, TargetIdError};

/// The name of the file among the reports of a mount, and in the directory that `split` writes. Wheels have it as
/// [`crate::wheel::STATEMENT`].
pub const STATEMENT: &str = "split.json";
/// The version of the format.
const VERSION: u32 = 1;

/// The restrictions of a split. Without any there is no file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Statement {
    version: u32,
    /// `--gpu-targets`; everything if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_targets: Option<Vec<String>>,
    /// `--exclude-targets`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    exclude_targets: Vec<String>,
    /// `--databases`; all handlers if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    databases: Option<Vec<String>>,
    /// `--view`: what was written; host and device parts if there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    views: Vec<String>,
    /// `--arch`: the targets that are overlaid on `host/` itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    arch: Vec<String>,
}

/// Why a statement cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StatementError {
    /// It is no JSON of the form that is expected.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It is of a later version of kpackfs.
    #[error("it has version {0}; {VERSION} is known")]
    Version(u32),
    /// A target in it is none.
    #[error(transparent)]
    Target(#[from] TargetIdError),
    /// A database in it is none.
    #[error(transparent)]
    Database(#[from] crate::database::UnknownHandler),
}

impl Statement {
    /// What `options` restrict.
    pub fn of(options: &Options) -> Self {
        let names = |keys: &[BundleKey]| keys.iter().map(ToString::to_string).collect();
        let handlers = options.databases.handlers();
        let has_all = Handler::ALL.iter().all(|handler| handlers.contains(handler));
        Self {
            version: VERSION,
            gpu_targets: options.gpu_targets.as_deref().map(names),
            exclude_targets: names(&options.exclude_targets),
            databases: (!has_all).then(|| handlers.iter().map(|handler| handler.name().to_owned()).collect()),
            views: Vec::new(),
            arch: Vec::new(),
        }
    }

    /// The same with only these views.
    #[must_use]
    pub fn with_views(self, views: &[String]) -> Self {
        Self { views: views.iter().map(|view| view.trim_matches('/').to_owned()).collect(), ..self }
    }

    /// The same with these targets overlaid on the host part.
    #[must_use]
    pub fn with_arch(self, arch: &[BundleKey]) -> Self {
        Self { arch: arch.iter().map(ToString::to_string).collect(), ..self }
    }

    /// The file; `None` if nothing is restricted.
    pub fn to_json(&self) -> Option<String> {
        let nothing = Self { version: self.version, ..Self::default() };
        let text = (*self != nothing).then(|| serde_json::to_string_pretty(self).ok())??;
        Some(text + "\n")
    }

    /// Reads a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, StatementError> {
        let statement: Self = serde_json::from_slice(bytes)?;
        if statement.version != VERSION {
            return Err(StatementError::Version(statement.version));
        }
        statement.gpu_targets()?;
        statement.exclude_targets()?;
        statement.arch()?;
        statement.databases()?;
        Ok(statement)
    }

    /// `--gpu-targets`.
    pub fn gpu_targets(&self) -> Result<Option<Vec<BundleKey>>, TargetIdError> {
        self.gpu_targets.as_deref().map(keys).transpose()
    }

    /// `--exclude-targets`.
    pub fn exclude_targets(&self) -> Result<Vec<BundleKey>, TargetIdError> {
        keys(&self.exclude_targets)
    }

    /// `--databases`.
    pub fn databases(&self) -> Result<Option<Databases>, crate::database::UnknownHandler> {
        self.databases.as_deref().map(Databases::from_names).transpose()
    }

    /// `--arch`.
    pub fn arch(&self) -> Result<Vec<BundleKey>, TargetIdError> {
        keys(&self.arch)
    }

    /// `--view`.
    pub fn views(&self) -> &[String] {
        &self.views
    }
}

/// What was asked for, for people: `--gpu-targets gfx942 --view host`.
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
    use crate::split::Options;

    #[test]
    fn what_is_written_is_read_again() {
        let nothing = Statement::of(&Options { databases: Databases::all(), ..Options::default() });
        assert_eq!(nothing.to_json(), None);
        let options = Options {
            databases: Databases::from_names(&["rocblas"]).unwrap(),
            gpu_targets: Some(vec!["gfx942".parse().unwrap(), "gfx11".parse().unwrap()]),
            exclude_targets: vec!["gfx1100".parse().unwrap()],
            ..Options::default()
        };
        let statement =
            Statement::of(&options).with_views(&["host/".to_owned()]).with_arch(&["gfx942".parse().unwrap()]);
        let read = Statement::parse(statement.to_json().unwrap().as_bytes()).unwrap();
        assert_eq!(read, statement);
        assert_eq!(read.gpu_targets().unwrap(), options.gpu_targets);
        assert_eq!(read.databases().unwrap(), Some(options.databases.clone()));
        assert_eq!(
            read.to_string(),
            "--gpu-targets gfx942,gfx11 --exclude-targets gfx1100 --databases rocblas --view host --arch gfx942"
        );
        let none = Statement::of(&Options { gpu_targets: Some(Vec::new()), ..options });
        assert_eq!(
            Statement::parse(none.to_json().unwrap().as_bytes()).unwrap().gpu_targets().unwrap(),
            Some(Vec::new())
        );
    }

    #[test]
    fn what_is_no_statement_is_refused() {
        for text in ["", "[]", "{}", r#"{"version": 2}"#, r#"{"version": 1, "arch": ["../x"]}"#] {
            assert!(Statement::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
