//! Pages in HTML (PEP 503, 592, 629, 658, 714).

use maud::{DOCTYPE, Markup, html};

use super::project::{Project, version};
use super::wheel::IndexedWheel;
use crate::split::hex;

/// The page that lists all projects.
pub(super) fn of_index(projects: &[&str], is_complete: bool) -> String {
    let lines = html! {
        @for project in projects {
            a href=(format!("{project}/")) { (project) } br; "\n"
        }
    };
    page("Simple index", is_complete, &lines)
}

/// The page of a project.
pub(super) fn of_project(project: &Project) -> String {
    let lines = html! {
        h1 { "Links for " (project.name) } "\n"
        @for wheel in project.wheels() {
            (line(wheel)) br; "\n"
        }
    };
    page(&format!("Links for {}", project.name), project.is_complete(), &lines)
}

fn line(wheel: &IndexedWheel) -> Markup {
    let fragment = wheel.sums.map(|sums| format!("#sha256={}", hex(&sums.sha256))).unwrap_or_default();
    let metadata = format!("sha256={}", wheel.metadata_sha256());
    // PEP 714 renames the attribute of PEP 658, since pip 22.3 to 23.1 reads the old one wrongly: that of Debian 12 refuses a
    // wheel whose METADATA spells its name otherwise than the requirement. Without it, it reads the wheel.
    html! {
        a href=(format!("{}{fragment}", wheel.link())) data-requires-python=[wheel.requires_python.as_deref()]
            data-yanked=[wheel.yanked.as_ref()] data-gpg-sig=[wheel.has_gpg_signature.then_some("true")]
            data-core-metadata=(metadata) {
            (wheel.name)
        }
    }
}

fn page(title: &str, is_complete: bool, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                meta charset="utf-8"; "\n"
                meta name="pypi:repository-version" content=(version(is_complete)); "\n"
                title { (title) }
            } "\n"
            body { "\n" (body) }
        } "\n"
    };
    page.into_string()
}
