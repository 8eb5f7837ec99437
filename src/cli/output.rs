//! The directory that parts are written to. It may hold other things: a build has one for all of its components. Only what would
//! be overwritten is refused, or replaced on request.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tempfile::{Builder, TempDir};

use crate::resources::Resources;

/// As many names as a message says.
const NAMED: usize = 3;

/// What was there before, until the new parts are complete. If they never are, it comes back.
pub(super) struct Replaced {
    aside: Option<TempDir>,
    /// Where each was, and where it is now.
    moved: Vec<(PathBuf, PathBuf)>,
}

/// Makes the directory `output`, and sees to it that nothing is at `places` in it. Code objects are compressed once; until they
/// are written they lie in the directory, in a file without a name.
pub(super) fn prepare_output(
    output: &Path,
    places: &[PathBuf],
    force: bool,
    input: &Path,
    resources: &Resources,
) -> anyhow::Result<Replaced> {
    let name = || output.display().to_string();
    fs::create_dir_all(output).with_context(name)?;
    let taken: Vec<&PathBuf> = places.iter().filter(|place| place.symlink_metadata().is_ok()).collect();
    if !force && let Some(first) = taken.first() {
        let more = match taken.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let shown = taken.iter().skip(1).take(NAMED - 1).map(|place| format!(", {}", place.display()));
        let shown = shown.fold(first.display().to_string(), |all, one| all + &one);
        bail!("{shown}{more}: there already; name another directory, or replace what is there by --force");
    }
    let replaced = Replaced::move_aside(output, &taken, input)?;
    resources.store.spool_to(output);
    Ok(replaced)
}

impl Replaced {
    fn move_aside(output: &Path, taken: &[&PathBuf], input: &Path) -> anyhow::Result<Self> {
        let mut replaced = Self { aside: None, moved: Vec::new() };
        if taken.is_empty() {
            return Ok(replaced);
        }
        let input = input.canonicalize().unwrap_or_else(|_| input.to_owned());
        for place in taken {
            // A link is replaced, not what it leads to.
            if !place.is_symlink() && place.canonicalize().is_ok_and(|place| input.starts_with(place)) {
                bail!("{}: it is the input or holds it, and is not replaced", place.display());
            }
        }
        let aside = Builder::new().prefix(".kpackfs-replaced-").tempdir_in(output);
        let aside = replaced.aside.insert(aside.with_context(|| output.display().to_string())?);
        for (number, place) in taken.iter().enumerate() {
            let kept = aside.path().join(number.to_string());
            fs::rename(place, &kept).with_context(|| place.display().to_string())?;
            replaced.moved.push(((*place).clone(), kept));
        }
        Ok(replaced)
    }

    /// The new parts are complete.
    pub(super) fn finish(mut self) {
        self.moved.clear();
        if let Some(Err(error)) = self.aside.take().map(TempDir::close) {
            eprintln!("kpackfs: warning: what was replaced cannot be deleted: {error}");
        }
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        for (place, kept) in self.moved.drain(..) {
            let back = remove(&place).and_then(|()| fs::rename(&kept, &place));
            if let Err(error) = back {
                // It stays where it is.
                let aside = self.aside.take().map(TempDir::keep);
                let aside = aside.as_deref().unwrap_or(&kept).display();
                eprintln!("kpackfs: {}: it cannot be put back, and is in {aside}: {error}", place.display());
            }
        }
    }
}

fn remove(place: &Path) -> io::Result<()> {
    match place.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(place),
        Ok(_) => fs::remove_file(place),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepare(output: &Path, names: &[&str], force: bool, input: &Path) -> anyhow::Result<Replaced> {
        let places: Vec<_> = names.iter().map(|name| output.join(name)).collect();
        prepare_output(output, &places, force, input, &Resources::new(0))
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_what_would_be_overwritten_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (output, input) = (directory.path().join("out"), directory.path().join("in"));
        fs::create_dir_all(output.join("old")).unwrap();
        prepare(&output, &["host", "gfx942"], false, &input).unwrap().finish();
        fs::write(output.join("old/file"), "old").unwrap();
        std::os::unix::fs::symlink("nowhere", output.join("link")).unwrap();
        for taken in ["old", "link"] {
            let error = prepare(&output, &["new", taken], false, &input).err().unwrap().to_string();
            assert!(error.contains(taken) && error.contains("--force") && !error.contains("new"), "{error}");
        }
        let all = ["a", "b", "c", "d", "e"];
        for name in all {
            fs::write(output.join(name), "").unwrap();
        }
        let error = prepare(&output, &all, false, &input).err().unwrap().to_string();
        assert!(error.contains("out/c, and 2 more: ") && !error.contains("out/d"), "{error}");
    }

    #[test]
    fn what_is_replaced_comes_back_unless_the_new_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let (output, input) = (directory.path().join("out"), directory.path().join("in"));
        fs::create_dir_all(output.join("part")).unwrap();
        fs::write(output.join("part/old"), "").unwrap();
        fs::write(output.join("other"), "").unwrap();
        let replaced = prepare(&output, &["part"], true, &input).unwrap();
        assert!(!output.join("part").exists());
        fs::create_dir(output.join("part")).unwrap();
        fs::write(output.join("part/half"), "").unwrap();
        drop(replaced);
        assert_eq!(
            (names(&output), names(&output.join("part"))),
            (vec!["other".into(), "part".into()], vec!["old".into()])
        );
        let replaced = prepare(&output, &["part"], true, &input).unwrap();
        fs::write(output.join("part"), "new").unwrap();
        replaced.finish();
        assert_eq!(names(&output), ["other", "part"]);
        assert_eq!(fs::read(output.join("part")).unwrap(), b"new");
    }

    #[test]
    fn the_input_is_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("out");
        fs::create_dir_all(output.join("above/input")).unwrap();
        std::os::unix::fs::symlink("out/above/input", directory.path().join("link")).unwrap();
        for input in [output.join("above/input"), directory.path().join("link")] {
            for place in ["above", "above/input"] {
                let error = prepare(&output, &[place], true, &input).err().unwrap().to_string();
                assert!(error.contains("is the input"), "{error}");
            }
        }
        assert_eq!(names(&output.join("above")), ["input"]);
    }
}
