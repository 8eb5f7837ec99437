//! The views that `split` writes to directories.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::source::EntryPath;
use crate::split::Plan;
use crate::view::HOST;

/// The views, and where each is written: those with these names, or the parts.
pub(super) fn directories(names: &[String], output: &Path, plan: &Plan) -> anyhow::Result<Vec<(EntryPath, PathBuf)>> {
    let views: Vec<_> = if names.is_empty() {
        let keys = plan.keys.iter().map(|key| EntryPath::root().child(key.as_str().as_bytes()));
        std::iter::once(EntryPath::root().child(HOST.as_bytes())).chain(keys).collect()
    } else {
        let parse = |name: &String| EntryPath::new(name.trim_matches('/').as_bytes());
        let mut views = names.iter().map(parse).collect::<Result<Vec<_>, _>>().context("--view")?;
        views.sort();
        views.dedup();
        let is_below = |(outer, inner): &(&EntryPath, &EntryPath)| inner.below(outer).is_some();
        if let Some((outer, inner)) = views.iter().zip(views.iter().skip(1)).find(is_below) {
            bail!("--view {inner}: it is a part of --view {outer}");
        }
        views
    };
    Ok(views.into_iter().map(|view| (view.clone(), output.join(view.as_path()))).collect())
}
