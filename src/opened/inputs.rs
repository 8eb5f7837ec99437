//! Inputs as they are installed: the parts of a split, or wheels that belong together, laid over each other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::OpenedError;
use super::recognise::{Named, recognise};
use super::site::Site;
use super::site::outside;
use super::split::SplitDirectory;
use super::statement::LocatedStatement;
use super::wheels::WheelDirectory;
use crate::image;
use crate::join::{self, SeveralWheels, WheelsError};
use crate::resources::Resources;
use crate::source::{Input, SourceError};
use crate::split::{HOST, MERGED, THIN};

/// What the user named, listed.
#[derive(Debug, Default)]
pub struct OpenedResult {
    /// The inputs.
    pub inputs: OpenedInputs,
    /// What is left out, for the user.
    pub notes: Vec<String>,
    /// What cannot be used, for the user.
    pub warnings: Vec<String>,
}

/// One input or several.
#[derive(Debug)]
pub enum OpenedInputs {
    /// One input, or several wheels or parts that belong together, as one tree.
    One(Box<Input>),
    /// Several that do not. Each is an input, a host wheel together with its device wheels.
    Several(Vec<Input>),
}

/// A function that lists a directory or a file.
pub type List = fn(&Path, &Arc<Resources>) -> Result<Input, SourceError>;

/// Lists what the user named.
pub fn open(paths: &[PathBuf], list: List, resources: &Arc<Resources>) -> Result<OpenedResult, OpenedError> {
    open_with(paths, InputLister { list, resources, is_one: false })
}

/// Lists what the user named as one input. Fails if its wheels do not belong together.
pub fn open_together(paths: &[PathBuf], list: List, resources: &Arc<Resources>) -> Result<OpenedResult, OpenedError> {
    open_with(paths, InputLister { list, resources, is_one: true })
}

fn open_with(paths: &[PathBuf], inputs: InputLister<'_>) -> Result<OpenedResult, OpenedError> {
    let mut opened = OpenedResult::default();
    opened.inputs = match paths {
        [only] => match recognise(only)? {
            Named::Wheels(directory) => inputs.wheels(&opened.keep(directory))?,
            Named::Environment(sites) => {
                opened.note_added(&sites);
                inputs.one(only, Named::Environment(sites))?
            }
            named => inputs.one(only, named)?,
        },
        several => {
            if let Some(parts) = parts_of_one(several)? {
                inputs.lay_over(&parts)?
            } else {
                let wheels = several.iter().map(|path| opened.wheels_of(path)).collect::<Result<Vec<_>, _>>()?;
                inputs.wheels(&wheels.concat())?
            }
        }
    };
    Ok(opened)
}

/// Lists wheels, of which only host wheels and their device wheels belong together. Anything else is one input.
pub fn open_apart(paths: &[PathBuf], resources: &Arc<Resources>) -> Result<OpenedResult, OpenedError> {
    let mut opened = OpenedResult::default();
    let wheels = paths.iter().map(|path| opened.wheels_of(path)).collect::<Result<Vec<_>, _>>();
    match (wheels, paths) {
        (Ok(wheels), _) => {
            opened.inputs = OpenedInputs::Several(join::open_apart(&wheels.concat(), resources)?);
            Ok(opened)
        }
        (Err(OpenedError::Wheels(WheelsError::NotAWheel(_))), [_]) => open(paths, Input::open, resources),
        (Err(error), _) => Err(error),
    }
}

/// Lists all that the user named: of wheels, only host wheels and their device wheels are laid over each other, and an
/// environment has the directories of packages outside of it as well.
pub fn open_all(path: &Path, list: List, resources: &Arc<Resources>) -> Result<OpenedResult, OpenedError> {
    let mut opened = OpenedResult::default();
    let inputs = match recognise(path)? {
        Named::Wheels(directory) => join::open_apart(&opened.keep(directory), resources)?,
        Named::Split(split) if split.has_wheels_only() => join::open_apart(&split.all_wheels(), resources)?,
        Named::Environment(sites) => {
            let places = std::iter::once(path.to_owned()).chain(outside(path, &sites));
            places.map(|place| list(&place, resources)).collect::<Result<_, _>>()?
        }
        named => InputLister { list, resources, is_one: false }.one(path, named)?.into_vec(),
    };
    opened.inputs = OpenedInputs::Several(inputs);
    Ok(opened)
}

/// The parts of one split, if these are some of them: the host part first.
fn parts_of_one(paths: &[PathBuf]) -> Result<Option<Vec<PathBuf>>, OpenedError> {
    let mut split = None;
    for path in paths {
        let is_part = path.is_dir() && LocatedStatement::of_part(path)?.is_some();
        let above = path.canonicalize().ok().and_then(|real| real.parent().map(Path::to_owned));
        // Each of these is a whole.
        let is_part = is_part && above.as_ref().is_some_and(|above| !above.ends_with(MERGED) && !above.ends_with(THIN));
        if !is_part || split.get_or_insert_with(|| above.clone()) != &above {
            return Ok(None);
        }
    }
    let mut parts = paths.to_vec();
    parts.sort_by_key(|part| !part.ends_with(HOST));
    Ok(Some(parts))
}

impl OpenedInputs {
    /// The inputs.
    pub fn into_vec(self) -> Vec<Input> {
        match self {
            Self::One(input) => vec![*input],
            Self::Several(inputs) => inputs,
        }
    }
}

impl Default for OpenedInputs {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl OpenedResult {
    /// The wheels that one of several paths names.
    fn wheels_of(&mut self, path: &Path) -> Result<Vec<PathBuf>, OpenedError> {
        match recognise(path)? {
            Named::Wheel => Ok(vec![path.to_owned()]),
            Named::Wheels(directory) => Ok(self.keep(directory)),
            Named::Split(split) if split.has_wheels_only() => Ok(split.all_wheels()),
            _ => Err(WheelsError::NotAWheel(path.to_owned()).into()),
        }
    }

    /// Notes the sites outside of an environment.
    fn note_added(&mut self, sites: &[Site]) {
        let added = sites.iter().filter(|site| site.is_added);
        let note =
            |site: &Site| format!("{}: added by a .pth file, and not looked into; name it, too", site.path.display());
        self.notes.extend(added.map(note));
    }

    /// The wheels of a directory. Keeps what is said about the others.
    fn keep(&mut self, mut directory: WheelDirectory) -> Vec<PathBuf> {
        self.notes.append(&mut directory.notes);
        self.warnings.append(&mut directory.warnings);
        directory.wheels
    }
}

/// How inputs are listed.
#[derive(Clone, Copy)]
struct InputLister<'a> {
    list: List,
    resources: &'a Arc<Resources>,
    /// Whether wheels have to belong together.
    is_one: bool,
}

impl InputLister<'_> {
    fn one(self, path: &Path, named: Named) -> Result<OpenedInputs, OpenedError> {
        named.check_input(path)?;
        let input = match named {
            Named::Image(image) => image::open_root(&image, self.resources)?,
            Named::Split(split) => return self.split(&split, path),
            Named::Wheels(_)
            | Named::Artifacts(_)
            | Named::Environment(_)
            | Named::Tree
            | Named::Wheel
            | Named::Tar
            | Named::Zip
            | Named::Archive
            | Named::Bundle
            | Named::CodeObject
            | Named::Binary => (self.list)(path, self.resources)?,
        };
        Ok(OpenedInputs::One(Box::new(input)))
    }

    /// The parts of a split laid over each other, or its only view, or its wheels.
    fn split(self, split: &SplitDirectory, path: &Path) -> Result<OpenedInputs, OpenedError> {
        let parts: Vec<_> = split.parts().collect();
        if split.has_host {
            return self.lay_over(&parts);
        }
        if let [_, _, ..] = &*parts
            && let Some(first) = split.devices.first().filter(|_| split.is_in_views())
        {
            let (path, number) = (path.to_owned(), parts.len());
            return Err(OpenedError::SeveralViews { path, number, first: first.clone() });
        }
        // Without a host part they are a tree, whose directories have the names of GPUs.
        if !parts.is_empty() || split.has_nothing() {
            return Ok(OpenedInputs::One(Box::new((self.list)(path, self.resources)?)));
        }
        if let [(first, _), ..] = &*split.splits
            && self.is_one
        {
            let (path, number) = (split.path.clone(), split.splits.len());
            return Err(OpenedError::SeveralViews { path, number, first: first.clone() });
        }
        if !split.splits.is_empty() {
            let opened =
                split.splits.iter().map(|(_, split)| self.split(split, &split.path)).collect::<Result<Vec<_>, _>>()?;
            return Ok(OpenedInputs::Several(opened.into_iter().flat_map(OpenedInputs::into_vec).collect()));
        }
        let wholes: Vec<_> = split.wholes().collect();
        match &*wholes {
            [] => self.wheels(&split.all_wheels()),
            [only] => Ok(OpenedInputs::One(Box::new((self.list)(&split.path.join(only), self.resources)?))),
            [first, ..] => {
                let (path, number) = (split.path.clone(), wholes.len());
                Err(OpenedError::SeveralViews { path, number, first: first.clone() })
            }
        }
    }

    fn lay_over(self, parts: &[PathBuf]) -> Result<OpenedInputs, OpenedError> {
        let parts = parts.iter().map(|part| (self.list)(part, self.resources));
        Ok(OpenedInputs::One(Box::new(join::lay_over(parts.collect::<Result<_, _>>()?)?)))
    }

    /// Wheels as one tree if they belong together. What is said of a wheel holds for a directory of one.
    fn wheels(self, wheels: &[PathBuf]) -> Result<OpenedInputs, OpenedError> {
        Ok(match wheels {
            [only] => OpenedInputs::One(Box::new((self.list)(only, self.resources)?)),
            several if self.is_one => OpenedInputs::One(Box::new(join::open_wheels(several, self.resources)?)),
            several => match join::open_several(several, self.resources)? {
                SeveralWheels::Together(input) => OpenedInputs::One(input),
                SeveralWheels::Apart(inputs) => OpenedInputs::Several(inputs),
            },
        })
    }
}

impl Named {
    /// Fails for a file that is a part of something, and no input by itself.
    pub fn check_input(&self, path: &Path) -> Result<(), OpenedError> {
        let name = path.display();
        let (what, way) = match self {
            Self::Archive => (
                "a .kpack archive, which has the code of libraries that are elsewhere",
                format!("name the split that it is of; `kpackfs kpack list {name}` says what is in it"),
            ),
            Self::Bundle => (
                "an offload bundle without a library",
                format!(
                    "`kpackfs why --target GPU {name}` says whether a GPU can use it; `kpackfs kpack unbundle` unpacks it"
                ),
            ),
            _ => return Ok(()),
        };
        Err(OpenedError::Packed { path: path.to_owned(), what, way })
    }
}
