//! Compares the tree itself, and a mount of it, with a simple model.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use kpackfs::resources::Resources;
use kpackfs::rope::{Rope, Segment};
use kpackfs::source::{Attributes, EntryPath};
use kpackfs::tree::{Body, NodeKind, ROOT, Tree};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

use super::mounts::{DIRECTORY, Mount};
use crate::common::can_mount;

/// A node at a path.
#[derive(Clone, Debug, PartialEq)]
enum Thing {
    Directory,
    Symlink(Vec<u8>),
    File(Vec<u8>),
}

/// All paths except the root, which is a directory.
type Model = BTreeMap<Vec<u8>, (Thing, u16, i64)>;

/// A question that a tree answers.
#[derive(Clone, Debug)]
enum Question {
    /// What a path resolves to.
    Lookup(Vec<u8>),
    /// The content of a directory.
    List(Vec<u8>),
    /// Some bytes of a file.
    Read(Vec<u8>, u64, usize),
}

#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Nothing,
    Is(&'static str, u64, u16, i64),
    Holds(Vec<(Vec<u8>, &'static str)>),
    Target(Vec<u8>),
    Bytes(Vec<u8>),
}

fn below<'a>(model: &'a Model, directory: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a Thing)> {
    model.iter().filter_map(move |(path, (thing, ..))| {
        let rest = if directory.is_empty() { path } else { path.strip_prefix(directory)?.strip_prefix(b"/")? };
        (!rest.contains(&b'/')).then_some((rest, thing))
    })
}

fn name_of(thing: &Thing) -> &'static str {
    match thing {
        Thing::Directory => "directory",
        Thing::Symlink(_) => "symlink",
        Thing::File(_) => "file",
    }
}

fn piece(bytes: &[u8], offset: u64, length: usize) -> Vec<u8> {
    bytes.iter().skip(usize::try_from(offset).unwrap()).take(length).copied().collect()
}

fn of_model(model: &Model, question: &Question) -> Answer {
    match question {
        Question::Lookup(path) => model.get(path).map_or(Answer::Nothing, |(thing, mode, time)| match thing {
            Thing::Directory => Answer::Is("directory", 4096, *mode, *time),
            Thing::Symlink(target) => Answer::Is("symlink", target.len() as u64, 0o777, *time),
            Thing::File(bytes) => Answer::Is("file", bytes.len() as u64, *mode, *time),
        }),
        Question::List(path) => match model.get(path).map(|(thing, ..)| thing) {
            Some(Thing::Directory) => {
                Answer::Holds(below(model, path).map(|(name, thing)| (name.to_vec(), name_of(thing))).collect())
            }
            _ => Answer::Nothing,
        },
        Question::Read(path, offset, length) => match model.get(path).map(|(thing, ..)| thing) {
            Some(Thing::File(bytes)) => Answer::Bytes(piece(bytes, *offset, *length)),
            Some(Thing::Symlink(target)) => Answer::Target(target.clone()),
            _ => Answer::Nothing,
        },
    }
}

fn of_tree(tree: &Tree, question: &Question) -> Answer {
    let find = |path: &[u8]| tree.node(tree.resolve(ROOT, &EntryPath::new(path).ok()?)?);
    let name = |kind: &NodeKind| match kind {
        NodeKind::Directory(_) => "directory",
        NodeKind::Symlink(_) => "symlink",
        NodeKind::File { .. } => "file",
    };
    let answer = || match question {
        Question::Lookup(path) => {
            let node = find(path)?;
            let (size, mode) = match &node.kind {
                NodeKind::Directory(_) => (4096, node.attributes.mode),
                NodeKind::Symlink(target) => (target.len() as u64, 0o777),
                NodeKind::File { body, .. } => (body.known_size()?, node.attributes.mode),
            };
            Some(Answer::Is(name(&node.kind), size, mode, node.attributes.mtime))
        }
        Question::List(path) => {
            let children = tree.children(tree.resolve(ROOT, &EntryPath::new(path).ok()?)?)?;
            let child =
                |child: kpackfs::tree::Child<'_>| (child.name.to_vec(), name(&tree.node(child.node).unwrap().kind));
            Some(Answer::Holds(children.map(child).collect()))
        }
        Question::Read(path, offset, length) => match &find(path)?.kind {
            NodeKind::File { body, .. } => {
                let content = body.content().unwrap();
                let left = content.size().saturating_sub(*offset).min(*length as u64);
                let mut bytes = vec![0; usize::try_from(left).unwrap()];
                content.read_at((*offset).min(content.size()), &mut bytes).unwrap();
                Some(Answer::Bytes(bytes))
            }
            NodeKind::Symlink(target) => Some(Answer::Target(target.to_vec())),
            NodeKind::Directory(_) => None,
        },
    };
    answer().unwrap_or(Answer::Nothing)
}

fn of_mount(root: &Path, question: &Question) -> Answer {
    let place = |path: &[u8]| root.join(OsStr::from_bytes(path));
    let name = |kind: fs::FileType| {
        if kind.is_dir() {
            "directory"
        } else if kind.is_symlink() {
            "symlink"
        } else {
            "file"
        }
    };
    let answer = || -> io::Result<Answer> {
        match question {
            Question::Lookup(path) => {
                let found = place(path).symlink_metadata()?;
                let mode = u16::try_from(found.mode() & 0o7777).unwrap();
                Ok(Answer::Is(name(found.file_type()), found.size(), mode, found.mtime()))
            }
            Question::List(path) if place(path).symlink_metadata()?.is_dir() => {
                let entries = fs::read_dir(place(path))?.collect::<io::Result<Vec<_>>>()?;
                let entry = |entry: &fs::DirEntry| (entry.file_name().into_vec(), name(entry.file_type().unwrap()));
                Ok(Answer::Holds(entries.iter().map(entry).collect()))
            }
            Question::Read(path, offset, length) => {
                let found = place(path).symlink_metadata()?;
                if found.is_symlink() {
                    return Ok(Answer::Target(place(path).read_link()?.into_os_string().into_vec()));
                }
                let file = File::open(place(path))?;
                let mut bytes = vec![0; *length];
                let read = file.read_at(&mut bytes, *offset)?;
                bytes.truncate(read);
                Ok(Answer::Bytes(bytes))
            }
            Question::List(_) => Ok(Answer::Nothing),
        }
    };
    answer().unwrap_or(Answer::Nothing)
}

fn rope(bytes: &[u8]) -> Rope {
    let (first, rest) = bytes.split_at(bytes.len() / 3);
    let whole: Arc<Rope> = Arc::new(Rope::new([Segment::literal(rest)]).unwrap());
    Rope::new([Segment::literal(first), Segment::whole(whole)]).unwrap()
}

fn tree(model: &Model) -> Tree {
    let mut tree = Tree::new(DIRECTORY);
    for (path, (thing, mode, mtime)) in model {
        let attributes = Attributes { mode: *mode, mtime: *mtime, ..DIRECTORY };
        let kind = match thing {
            Thing::Directory => NodeKind::directory(),
            Thing::Symlink(target) => NodeKind::Symlink(target.as_slice().into()),
            Thing::File(bytes) => NodeKind::File { body: Body::Ready(Arc::new(rope(bytes))), link_group: None },
        };
        tree.insert(ROOT, &EntryPath::new(path).unwrap(), attributes, kind).unwrap();
    }
    tree
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("no separator", |byte| ![0, b'/'].contains(byte));
    let dots = |name: &Vec<u8>| name != b"." && name != b"..";
    prop_oneof![vec(byte.clone(), 1..5), vec(byte, 255)].prop_filter("no dots", dots)
}

fn thing() -> impl Strategy<Value = Thing> {
    let bytes = prop_oneof![vec(any::<u8>(), 0..50), vec(any::<u8>(), 4090..9000)];
    let target = vec(1_u8..=255, 1..30);
    prop_oneof![Just(Thing::Directory), bytes.prop_map(Thing::File), target.prop_map(Thing::Symlink)]
}

/// Nodes of a tree: each is put into one of the directories that exist already.
fn model() -> impl Strategy<Value = Model> {
    vec((any::<Index>(), name(), thing(), 0_u16..0o1000, -1_000_000_i64..2_000_000_000), 1..40).prop_map(|things| {
        let mut directories = vec![Vec::new()];
        let mut model = Model::new();
        for (parent, name, thing, mode, time) in things {
            let parent = parent.get(&directories);
            let path = if parent.is_empty() { name } else { [parent, &b"/"[..], &name].concat() };
            if let Entry::Vacant(slot) = model.entry(path) {
                directories.extend((thing == Thing::Directory).then(|| slot.key().clone()));
                slot.insert((thing, mode, time));
            }
        }
        model
    })
}

fn questions() -> impl Strategy<Value = Vec<(Index, u8, u64, usize)>> {
    vec((any::<Index>(), any::<u8>(), 0_u64..10_000, 0_usize..9000), 1..60)
}

/// A question, mostly about a path that exists, sometimes about one that does not.
fn question(model: &Model, (which, how, offset, length): (Index, u8, u64, usize)) -> Question {
    let paths: Vec<_> = model.keys().collect();
    let mut path = (*which.get(&paths)).clone();
    if how % 7 == 0 {
        path.extend_from_slice(if how % 2 == 0 { b"/x" } else { b"~" });
    }
    match how % 3 {
        0 => Question::Lookup(path),
        1 => Question::List(path),
        _ => Question::Read(path, offset, length),
    }
}

#[test]
fn a_tree_is_what_was_put_into_it() {
    proptest!(|(model in model(), questions in questions())| {
        let tree = tree(&model);
        for asked in questions {
            let question = question(&model, asked);
            prop_assert_eq!(of_tree(&tree, &question), of_model(&model, &question), "{:?}", question);
        }
    });
}

#[test]
fn a_mount_answers_as_its_tree_does() {
    if !can_mount() {
        return;
    }
    let mut runner = TestRunner::new(Config { cases: 24, ..Config::default() });
    let result = runner.run(&(model(), questions()), |(model, questions)| {
        let mount = Mount::of(tree(&model), &Resources::new(0)).unwrap();
        for asked in questions {
            let question = question(&model, asked);
            prop_assert_eq!(of_mount(mount.place.path(), &question), of_model(&model, &question), "{:?}", question);
        }
        Ok(())
    });
    result.unwrap();
}
