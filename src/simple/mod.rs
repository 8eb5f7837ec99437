//! A package index: its pages, and what stands next to each wheel in it.
//!
//! The directory of a project has its pages, its wheels, and the METADATA of each wheel. All links are relative, so any
//! server of files can serve it, and `file://` URLs work. The rules are those of the [simple repository API] (PEP 503, 592,
//! 629, 658, 691, 700, 714).
//!
//! [simple repository API]: https://packaging.python.org/en/latest/specifications/simple-repository-api/

mod html;
mod json;
mod project;
mod wheel;

use std::collections::BTreeMap;

use crate::source::EntryPath;

use project::Project;
pub use project::SameWheel;
pub use wheel::{IndexedWheel, WheelSums};

/// The pages of a directory in HTML and in JSON, by these names.
const PAGES: [&str; 2] = ["index.html", "index.json"];

/// A package index.
#[derive(Debug)]
pub struct PackageIndex {
    projects: BTreeMap<String, Project>,
}

impl PackageIndex {
    /// The index of these wheels.
    pub fn new(wheels: impl IntoIterator<Item = IndexedWheel>) -> Result<Self, SameWheel> {
        let mut projects = BTreeMap::<String, Project>::new();
        for wheel in wheels {
            let name = wheel.project();
            projects.entry(name.clone()).or_insert_with(|| Project::new(name)).add(wheel)?;
        }
        Ok(Self { projects })
    }

    /// What installers make of wheels that are right by themselves.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        self.projects.values().flat_map(Project::warnings)
    }

    /// All pages, with their paths in the index.
    pub fn pages(&self) -> Vec<(EntryPath, String)> {
        let names: Vec<_> = self.projects.keys().map(String::as_str).collect();
        let is_complete = self.projects.values().all(Project::is_complete);
        let mut pages = Vec::new();
        let mut add = |directory: &EntryPath, texts: [String; 2]| {
            let paths = PAGES.iter().map(|name| directory.child(name.as_bytes()));
            pages.extend(paths.zip(texts));
        };
        add(&EntryPath::root(), [html::of_index(&names, is_complete), json::of_index(&names, is_complete)]);
        for (name, project) in &self.projects {
            add(&EntryPath::root().child(name.as_bytes()), [html::of_project(project), json::of_project(project)]);
        }
        pages
    }
}

#[cfg(test)]
mod tests;
