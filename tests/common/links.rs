//! Links between documents.

use std::fs;
use std::path::{Path, PathBuf};

/// The Markdown files in a directory and in its `docs`.
fn documents(root: &Path) -> Vec<PathBuf> {
    let files = [root.to_owned(), root.join("docs")].into_iter().flat_map(|directory| fs::read_dir(directory).unwrap());
    files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|it| it == "md")).collect()
}

/// The anchors of the headings of a document, as GitHub makes them.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let letters = heading.to_lowercase().replace(' ', "-");
        letters.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect()
    };
    headings.map(anchor).collect()
}

/// The links of the documents in a directory that lead nowhere in it, each with its document.
pub(crate) fn dead_links(root: &Path) -> Vec<String> {
    let mut dead = Vec::new();
    let mut links = 0;
    for document in documents(root) {
        let text = fs::read_to_string(&document).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
        for link in targets.filter(|target| !target.contains(':') && !target.contains(' ')) {
            links += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { document.clone() } else { document.with_file_name(file) };
            let is_there = target.exists()
                && (anchor.is_empty() || anchors(&fs::read_to_string(&target).unwrap()).contains(&anchor.to_owned()));
            if !is_there {
                dead.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(links > 50, "{links}");
    dead
}
