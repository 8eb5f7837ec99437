//! Device code that no wrapper and no archive leads to. A runtime does not look it up: programs load it themselves, and linkers
//! read it.

use std::path::Path;
use std::sync::Arc;

use crate::binary::FileCode;
use crate::devicecode::{CodeOfForm, code_by_name, is_packed_tree};
use crate::remote::is_url;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{Input, open_file};

/// The files with such code, each with its forms. What cannot be read has none here.
pub(super) fn find(path: &Path, resources: &Arc<Resources>) -> Vec<String> {
    // On a server all of it would have to be fetched.
    if is_url(path) {
        return Vec::new();
    }
    // Wheels and archives are read as directories are.
    if let Ok((input, _)) = Input::survey(path, resources) {
        return input.files().filter_map(|(path, content)| forms_of(&path.to_string(), content, resources)).collect();
    }
    let content = open_file(path, resources).ok();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    content.and_then(|content| forms_of(&name, &content, resources)).into_iter().collect()
}

fn forms_of(name: &str, content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Option<String> {
    let file = name.rsplit('/').next().unwrap_or_default();
    if is_packed_tree(file.as_bytes()) {
        return Some(format!("{name} (an archive, which is not searched)"));
    }
    let code = FileCode::of(content, false, resources).ok()?;
    let mut forms: Vec<_> = code.found.iter().filter(|found| found.form.is_amd()).map(form).collect();
    forms.dedup();
    if forms.is_empty() {
        let named = code_by_name(file.as_bytes(), &**content);
        forms.extend(named.map(|code| code.form.row().name.to_owned()));
    }
    (!forms.is_empty()).then(|| format!("{name} ({})", forms.join(", ")))
}

fn form(found: &CodeOfForm) -> String {
    let targets: Vec<_> = found.targets.keys().map(ToString::to_string).collect();
    let targets = if targets.is_empty() { String::new() } else { format!(" for {}", targets.join(" ")) };
    format!("{}{targets}", found.form.row().name)
}
