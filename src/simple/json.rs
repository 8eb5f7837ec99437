//! Pages in JSON (PEP 691, 592, 700, 714).

use std::collections::BTreeMap;

use serde::Serialize;

use super::project::{Project, version};
use super::wheel::IndexedWheel;
use crate::split::hex;

#[derive(Serialize)]
struct Meta {
    #[serde(rename = "api-version")]
    api_version: &'static str,
}

#[derive(Serialize)]
struct IndexPage<'a> {
    meta: Meta,
    projects: Vec<ProjectName<'a>>,
}

#[derive(Serialize)]
struct ProjectName<'a> {
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ProjectPage<'a> {
    meta: Meta,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<Vec<&'a str>>,
    files: Vec<File<'a>>,
}

type Hashes = BTreeMap<&'static str, String>;

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct File<'a> {
    filename: String,
    url: String,
    hashes: Hashes,
    #[serde(skip_serializing_if = "Option::is_none")]
    requires_python: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    core_metadata: Hashes,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpg_sig: Option<bool>,
    yanked: Yanked<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Yanked<'a> {
    Is(bool),
    For(&'a str),
}

/// The page that lists all projects.
pub(super) fn of_index(projects: &[&str], is_complete: bool) -> String {
    let projects = projects.iter().map(|name| ProjectName { name }).collect();
    text(&IndexPage { meta: Meta { api_version: version(is_complete) }, projects })
}

/// The page of a project.
pub(super) fn of_project(project: &Project) -> String {
    let is_complete = project.is_complete();
    text(&ProjectPage {
        meta: Meta { api_version: version(is_complete) },
        name: &project.name,
        versions: is_complete.then(|| project.versions().into_iter().collect()),
        files: project.wheels().map(|wheel| file(wheel, is_complete)).collect(),
    })
}

fn file(wheel: &IndexedWheel, is_complete: bool) -> File<'_> {
    File {
        filename: wheel.name.to_string(),
        url: wheel.link(),
        hashes: wheel.sums.iter().map(|sums| ("sha256", hex(&sums.sha256))).collect(),
        requires_python: wheel.requires_python.as_deref(),
        size: wheel.sums.filter(|_| is_complete).map(|sums| sums.size),
        core_metadata: Hashes::from([("sha256", wheel.metadata_sha256())]),
        gpg_sig: wheel.has_gpg_signature.then_some(true),
        yanked: match wheel.yanked.as_deref() {
            None => Yanked::Is(false),
            Some("") => Yanked::Is(true),
            Some(reason) => Yanked::For(reason),
        },
    }
}

/// The page as text. Nothing in it can fail to be written.
fn text(page: &impl Serialize) -> String {
    serde_json::to_string(page).unwrap_or_default()
}
