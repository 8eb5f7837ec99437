//! The ID of a split. Parts with the same ID belong together, whenever and for whatever targets they were made.
//!
//! It is a SHA-256 over fields that each end with a NUL; `docs/manifest.md` lists them. Targets, views, compression and
//! the version of the program are not among them, nor is anything that a copy changes, such as times.

use std::fmt;
use std::sync::Arc;

use super::options::Packaging;
use super::plan::Plan;
use crate::database::Handler;
use crate::rope::{Content, LazyContent, ReadError, Rope, Segment, Sha256};
use crate::source::{EntryKind, EntryPath, Input};
use crate::wheel;

/// The number of the naming scheme: how binaries are named in archives, where archives are and for which targets, what
/// markers say, and which files all handlers together take for databases. Parts of different schemes do not fit together.
pub(crate) const NAMING: u32 = 3;

/// Characters of an ID.
pub const ID_TEXT: usize = 64;

/// Bytes of a binary that stand for its headers. A build ID usually is among them.
const HEAD: usize = 4096;

/// 64 hexadecimal digits that identify an input, whatever is made of it.
#[derive(Clone, Debug)]
pub struct InputId(pub(super) Arc<dyn Content>);

/// The ID of a split: 64 hexadecimal digits.
#[derive(Clone, Debug)]
pub struct SplitId {
    /// The ID of the input.
    pub input: InputId,
    /// The digits. Nothing is read for them before they are.
    pub digits: Arc<dyn Content>,
}

impl InputId {
    /// The digits as text.
    pub fn text(&self) -> Result<String, ReadError> {
        text(&*self.0)
    }

    /// An ID that is known. `None` if it has not the form of one.
    pub fn known(digits: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_id = digits.len() == ID_TEXT && digits.bytes().all(is_digit);
        let rope = is_id.then(|| Rope::new([Segment::literal(digits.as_bytes().to_vec())]))?.ok()?;
        Some(Self(Arc::new(rope)))
    }
}

impl SplitId {
    /// The digits as text.
    pub fn text(&self) -> Result<String, ReadError> {
        text(&*self.digits)
    }
}

/// The digits of an ID as text.
fn text(digits: &dyn Content) -> Result<String, ReadError> {
    Ok(String::from_utf8_lossy(&digits.to_vec()?).into_owned())
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A SHA-256 over fields.
#[derive(Clone, Debug, Default)]
pub struct FieldSum(Sha256);

impl FieldSum {
    /// Adds a field.
    pub fn add(&mut self, field: impl AsRef<[u8]>) -> &mut Self {
        self.0.update(field.as_ref());
        self.0.update(&[0]);
        self
    }

    /// Adds a number in decimal digits.
    pub fn number(&mut self, number: u64) -> &mut Self {
        self.add(number.to_string())
    }

    /// The sum.
    pub fn finish(self) -> [u8; 32] {
        self.0.finish()
    }
}

/// What the ID of an input is computed from.
#[derive(Clone, Debug, Default)]
pub struct InputFacts {
    sum: FieldSum,
    /// Binaries whose headers are read for the ID.
    heads: Vec<Arc<dyn Content>>,
}

impl InputFacts {
    /// Adds a field.
    #[must_use]
    pub fn and(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.sum.add(name).add(value);
        self
    }

    /// Adds the names and sizes of all files of the input, and where its symlinks lead.
    #[must_use]
    pub fn and_listing(mut self, input: &Input) -> Self {
        for entry in &input.entries {
            match &entry.kind {
                EntryKind::File { content, .. } => {
                    self.sum.add("file").add(entry.path.as_bytes()).number(content.size());
                }
                EntryKind::Symlink(target) => drop(self.sum.add("link").add(entry.path.as_bytes()).add(target)),
                EntryKind::Directory => {}
            }
        }
        self
    }

    /// Adds what planning has read of each binary with device code: its headers, and the targets and sizes of the code
    /// objects of each wrapper.
    #[must_use]
    pub fn and_code(mut self, input: &Input, plan: &Plan) -> Self {
        for binary in &plan.binaries {
            self.sum.add("code").number(binary.wrappers.len() as u64);
            for wrapper in &binary.wrappers {
                self.sum.number(wrapper.len() as u64);
                for (target, size) in wrapper {
                    self.sum.add(target.to_string()).number(*size);
                }
            }
            if let Some(EntryKind::File { content, .. }) = input.entry(&binary.path).map(|entry| &entry.kind) {
                self.heads.push(Arc::clone(content));
            }
        }
        self
    }

    /// The ID. Headers of binaries are read when it is.
    pub fn id(self) -> InputId {
        let Self { sum, heads } = self;
        InputId(later(move || {
            let mut sum = sum.clone();
            for content in &heads {
                sum.add("head").add(&content.beginning(HEAD)?);
            }
            Ok(sum)
        }))
    }
}

/// What the ID of a split is computed from, in addition to that of its input.
#[derive(Clone, Debug)]
pub struct SplitFacts(FieldSum);

impl SplitFacts {
    /// The names that a plan has given to binaries and archives, and the databases that it splits off.
    pub fn of_names(input: &Input, plan: &Plan) -> Self {
        let mut sum = FieldSum::default();
        sum.add("kpackfs split").number(NAMING.into()).add(plan.options.packaging.name()).add(&plan.group);
        let handlers = &plan.options.databases.handlers;
        let has_all = Handler::ALL.iter().all(|handler| handlers.contains(handler));
        let mut names: Vec<_> = handlers.iter().map(|handler| handler.name()).filter(|_| !has_all).collect();
        names.sort_unstable();
        sum.add("databases").add(if has_all { "all".to_owned() } else { names.join(",") });
        let is_wheel = input.dist_info().is_some();
        let place = |path: &EntryPath| if is_wheel { wheel::installed(path) } else { path.clone() };
        let mut binaries: Vec<_> = plan.binaries.iter().map(|binary| (place(&binary.path), binary)).collect();
        binaries.sort_by(|one, other| one.0.cmp(&other.0));
        for (path, binary) in binaries {
            let (root, stem) = &binary.archives;
            sum.add("binary").add(path.as_bytes()).add(&binary.kernel_name).add(root.as_bytes()).add(stem);
        }
        Self(sum)
    }

    /// Adds a further field, such as an option that changes the host part.
    #[must_use]
    pub fn and(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.0.add(name).add(value);
        self
    }

    /// The ID of the split of this input.
    pub fn id(self, input: InputId) -> SplitId {
        let (sum, digits) = (self.0, Arc::clone(&input.0));
        let digits = later(move || {
            let mut sum = sum.clone();
            sum.add("input").add(text(&*digits)?);
            Ok(sum)
        });
        SplitId { input, digits }
    }

    /// The ID of the split of a tree.
    pub fn of_tree(input: &Input, plan: &Plan) -> SplitId {
        let of_input = InputFacts::default().and_listing(input).and_code(input, plan).id();
        Self::of_names(input, plan).id(of_input)
    }
}

/// The digits of a sum that is computed when they are read.
fn later(sum: impl Fn() -> Result<FieldSum, ReadError> + Send + Sync + 'static) -> Arc<dyn Content> {
    let digits = move || Rope::new([Segment::literal(hex(&sum()?.finish()).into_bytes())]);
    Arc::new(LazyContent::new("split ID", ID_TEXT as u64, None, digits))
}

impl Packaging {
    fn name(self) -> &'static str {
        match self {
            Self::Bundles => "bundles",
            Self::Processors => "processors",
        }
    }
}
