//! Compares views with a model that builds the union, and tests what a view can add to its layers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::rope::{Rope, Segment};
use crate::source::Attributes;
use crate::source::testing::path;

const ATTRIBUTES: Attributes = Attributes { mode: 0o755, uid: 1, gid: 2, mtime: 3, mtime_nanoseconds: 4 };

/// The paths of a layer: whether it is a directory, whether the view hides it, and its link group.
type LayerPaths = BTreeMap<String, (bool, bool, Option<u64>)>;

/// The union as a built tree: the origin of each node, and its children.
#[derive(Clone, Debug, PartialEq)]
struct Built {
    node: NodeId,
    children: Option<BTreeMap<Vec<u8>, Built>>,
}

fn file(text: &str, link_group: Option<u64>) -> NodeKind {
    let rope = Rope::new([Segment::literal(text.as_bytes().to_vec())]).unwrap();
    NodeKind::File { body: Body::Ready(Arc::new(rope)), link_group }
}

fn text(body: &Body) -> String {
    String::from_utf8(body.content().unwrap().to_vec().unwrap()).unwrap()
}

/// Layers with few names, so that they often collide.
fn plans() -> impl Strategy<Value = Vec<LayerPaths>> {
    let component = prop::sample::select(vec!["a", "a.b", "b", "c"]);
    let place = prop::collection::vec(component, 1..4).prop_map(|names| names.join("/"));
    let group = prop::option::weighted(0.4, 0..3_u64);
    let what = (prop::bool::weighted(0.6), prop::bool::weighted(0.1), group);
    prop::collection::vec(prop::collection::btree_map(place, what, 0..12), 1..5)
}

/// Stores a layer. Files at paths of directories are omitted. Hidden nodes go to `hidden`.
fn store(tree: &mut Tree, plan: &LayerPaths, number: u16, hidden: &mut BTreeSet<NodeId>) -> NodeId {
    let attributes = Attributes { mode: number, ..ATTRIBUTES };
    let layer = tree.layer(attributes).unwrap();
    for (place, (is_directory, is_hidden, group)) in plan {
        let kind = if *is_directory { NodeKind::directory() } else { file(&format!("{number} {place}"), *group) };
        if let Ok(node) = tree.insert(layer, &path(place), attributes, kind)
            && *is_hidden
        {
            hidden.insert(node);
        }
    }
    layer
}

fn built(tree: &Tree, node: NodeId, hidden: &BTreeSet<NodeId>) -> Built {
    let children = tree.children(node).map(|children| {
        let shown = children.filter(|child| !hidden.contains(&child.node));
        shown.map(|child| (child.name.to_vec(), built(tree, child.node, hidden))).collect()
    });
    Built { node, children }
}

fn over(upper: Built, lower: Built) -> Built {
    let (Some(mut children), Some(below)) = (upper.children.clone(), lower.children) else { return upper };
    for (name, lower) in below {
        let child = match children.remove(&name) {
            Some(upper) => over(upper, lower),
            None => lower,
        };
        children.insert(name, child);
    }
    Built { node: upper.node, children: Some(children) }
}

/// All nodes of a model with their paths, in the order of listing.
fn walk<'a>(built: &'a Built, at: &EntryPath, found: &mut Vec<(EntryPath, &'a Built)>) {
    for (name, child) in built.children.iter().flatten() {
        let at = at.child(name);
        found.push((at.clone(), child));
        walk(child, &at, found);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_view_is_the_union_of_its_layers(plans in plans()) {
        let mut tree = Tree::new(ATTRIBUTES);
        let mut hidden = BTreeSet::new();
        let layers: Vec<_> = (0..).zip(&plans).map(|(number, plan)| store(&mut tree, plan, number, &mut hidden)).collect();
        let view = View { layers: layers.clone(), hidden: Arc::new(tree.hidden(hidden.clone())), bodies: None };
        let other = tree.show(&path("merged/other"), View { layers: vec![layers[0]], ..View::default() }).unwrap();
        let root = tree.show(&path("merged/one"), view).unwrap();
        let models = layers.iter().map(|&layer| built(&tree, layer, &hidden));
        let model = models.rev().reduce(|lower, upper| over(upper, lower)).unwrap();

        let mut expected = vec![(EntryPath::root(), &model)];
        walk(&model, &EntryPath::root(), &mut expected);
        let mut numbers = BTreeSet::new();
        let mut groups: HashMap<u64, Vec<(usize, NodeId)>> = HashMap::new();
        for (at, what) in &expected {
            let id = tree.resolve(root, at).unwrap();
            prop_assert_eq!(id & 0xffff_ffff, what.node, "{}", at);
            prop_assert!(numbers.insert(id));
            let (node, stored) = (tree.node(id).unwrap(), tree.node(what.node).unwrap());
            prop_assert_eq!(node.attributes, stored.attributes);
            let full = path("merged/one");
            let full = if at.is_root() { full } else { full.child(at.as_bytes()) };
            prop_assert_eq!(tree.path(id), full.clone());
            let parent = if at.is_root() { path("merged") } else { full.parent().unwrap() };
            prop_assert_eq!(tree.parent(id), tree.resolve(ROOT, &parent));
            let siblings: Vec<_> = tree.children(tree.parent(id).unwrap()).unwrap().map(|child| child.node).collect();
            prop_assert_eq!(tree.position(id), siblings.iter().position(|&sibling| sibling == id));
            if let NodeKind::File { body, link_group: Some(group) } = &stored.kind {
                prop_assert_eq!(text(&tree.body(id).unwrap()), text(body));
                let layer = layers.iter().rposition(|&layer| layer < what.node).unwrap();
                groups.entry(*group).or_default().push((layer, id));
            }
            let listed = tree.children(id).map(|children| children.map(|child| child.name.to_vec()).collect::<Vec<_>>());
            let names = what.children.as_ref().map(|children| children.keys().cloned().collect::<Vec<_>>());
            prop_assert_eq!(&listed, &names, "{}", at);
            for (position, name) in names.iter().flatten().enumerate() {
                let child = tree.children(id).unwrap().nth(position).unwrap();
                prop_assert_eq!(child.name, &**name);
                prop_assert_eq!(tree.lookup(id, name), Some(child.node));
            }
            let directories = what.children.iter().flatten().filter(|(_, child)| child.children.is_some()).count();
            prop_assert_eq!(tree.subdirectories(id), directories);
            for absent in ["a", "a.b", "b", "c", "d"] {
                let existing = what.children.as_ref().is_some_and(|children| children.contains_key(absent.as_bytes()));
                prop_assert_eq!(tree.lookup(id, absent.as_bytes()).is_some(), existing, "{}/{}", at, absent);
            }
        }
        for mut members in groups.into_values() {
            members.sort_unstable();
            for (_, member) in &members {
                prop_assert_eq!(tree.links(*member), (members[0].1, u32::try_from(members.len()).unwrap()));
            }
        }
        prop_assert_eq!(tree.parent(other), tree.resolve(ROOT, &path("merged")));
    }

    #[test]
    fn layers_are_disjoint_if_they_share_directories_only(plans in plans()) {
        let mut tree = Tree::new(ATTRIBUTES);
        let mut hidden = BTreeSet::new();
        let layers: Vec<_> = (0..).zip(&plans).map(|(number, plan)| store(&mut tree, plan, number, &mut hidden)).collect();
        let mut seen: BTreeMap<EntryPath, bool> = BTreeMap::new();
        let mut collide = false;
        for &layer in &layers {
            let model = built(&tree, layer, &BTreeSet::new());
            let mut found = Vec::new();
            walk(&model, &EntryPath::root(), &mut found);
            for (at, what) in &found {
                let both = seen.get(at).is_some_and(|&is_directory| !is_directory || what.children.is_none());
                collide |= both;
            }
            seen.extend(found.into_iter().map(|(at, what)| (at, what.children.is_some())));
        }
        prop_assert_eq!(tree.are_disjoint(&layers).is_err(), collide);
    }
}

/// A finder of views whose names begin with `gfx`, of one layer.
#[derive(Debug)]
struct Gfx(NodeId);

impl Finder for Gfx {
    fn find(&self, name: &[u8]) -> Option<View> {
        name.starts_with(b"gfx").then(|| View { layers: vec![self.0], ..View::default() })
    }
}

/// A tree with a directory `thin` that finds views, one of which is listed.
fn thin() -> (Tree, NodeId) {
    let mut tree = Tree::new(ATTRIBUTES);
    let layer = tree.layer(ATTRIBUTES).unwrap();
    tree.insert(layer, &path("lib/a.so"), ATTRIBUTES, file("fat", None)).unwrap();
    tree.show(&path("thin/gfx90a"), View { layers: vec![layer], ..View::default() }).unwrap();
    let thin = tree.resolve(ROOT, &path("thin")).unwrap();
    tree.find_with(thin, Arc::new(Gfx(layer)));
    (tree, thin)
}

#[test]
fn views_are_found_by_names_that_are_not_listed() {
    let (tree, thin) = thin();
    let found = tree.lookup(thin, b"gfx1100+gfx1036").unwrap();
    assert_eq!(tree.lookup(thin, b"gfx1100+gfx1036"), Some(found));
    assert_eq!(tree.lookup(thin, b"gone"), None);
    assert_eq!(tree.lookup(ROOT, b"gfx1100"), None, "only where a finder was set");
    assert_eq!(tree.children(thin).unwrap().map(|child| child.name).collect::<Vec<_>>(), [b"gfx90a"]);
    assert_eq!(tree.subdirectories(thin), 1);
    assert_eq!(tree.parent(found), Some(thin));
    let below = tree.resolve(found, &path("lib/a.so")).unwrap();
    assert_eq!(tree.path(below), path("thin/gfx1100+gfx1036/lib/a.so"));
    assert_eq!(text(&tree.body(below).unwrap()), "fat");
    assert_ne!(tree.resolve(ROOT, &path("thin/gfx90a/lib/a.so")), Some(below));
    assert!(tree.node(below + (1 << 32)).is_none(), "of a view that nobody looked for");
}

#[test]
fn numbers_of_found_views_do_not_depend_on_the_order_of_lookups() {
    let names = ["gfx1", "gfx2", "gfx3+gfx4", "gfx\u{e4}"];
    let numbers = |order: &[&str]| {
        let (tree, thin) = thin();
        let numbers: BTreeMap<_, _> =
            order.iter().map(|name| ((*name).to_owned(), tree.lookup(thin, name.as_bytes()).unwrap())).collect();
        assert_eq!(numbers.values().collect::<BTreeSet<_>>().len(), names.len());
        numbers
    };
    let mut reversed = names;
    reversed.reverse();
    assert_eq!(numbers(&names), numbers(&reversed));
}

#[test]
fn views_whose_hashes_are_equal_have_two_numbers() {
    let (tree, thin) = thin();
    let mut seen = HashMap::new();
    let hash = |name: &String| {
        let (fresh, place) = self::thin();
        fresh.lookup(place, name.as_bytes()).unwrap() >> 32
    };
    // Of 4823 names, two share one of 2^24 numbers in half of all cases (the birthday problem).
    let (one, two) = (0..100_000_u64)
        .map(|number| format!("gfx{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .find_map(|name| seen.insert(hash(&name), name.clone()).map(|other| (other, name)))
        .expect("two names of one hash");
    let ids = [&one, &two].map(|name| tree.lookup(thin, name.as_bytes()).unwrap());
    assert_ne!(ids[0], ids[1]);
    assert_eq!([&two, &one].map(|name| tree.lookup(thin, name.as_bytes()).unwrap()), [ids[1], ids[0]]);
    assert_eq!(tree.path(ids[1]), path("thin").child(two.as_bytes()));
}

#[test]
fn threads_that_look_for_a_view_find_the_same_one() {
    let (tree, thin) = thin();
    let find =
        || (0..200).map(|number| tree.lookup(thin, format!("gfx{number}").as_bytes()).unwrap()).collect::<Vec<_>>();
    let found = thread::scope(|scope| [(); 4].map(|()| scope.spawn(find)).map(|thread| thread.join().unwrap()));
    assert!(found.iter().all(|ids| *ids == found[0]));
}

/// Its body is the number of the file in its layer.
#[derive(Debug)]
struct Numbered(NodeId);

impl Bodies for Numbered {
    fn body(&self, file: NodeId) -> Option<Body> {
        let rope = Rope::new([Segment::literal(file.to_string().into_bytes())]).unwrap();
        (file == self.0).then(|| Body::Ready(Arc::new(rope)))
    }
}

#[test]
fn a_view_can_show_another_body() {
    let mut tree = Tree::new(ATTRIBUTES);
    let layer = tree.layer(ATTRIBUTES).unwrap();
    let [one, two] = ["a", "b/c"].map(|place| tree.insert(layer, &path(place), ATTRIBUTES, file(place, None)).unwrap());
    let bodies: Option<Arc<dyn Bodies>> = Some(Arc::new(Numbered(two)));
    assert!(tree.is_as_stored());
    let root = tree.show(&path("thin"), View { layers: vec![layer], bodies, ..View::default() }).unwrap();
    assert!(!tree.is_as_stored());
    let shown = |place: &str| text(&tree.body(tree.resolve(root, &path(place)).unwrap()).unwrap());
    assert_eq!((shown("a"), shown("b/c")), ("a".to_owned(), two.to_string()));
    assert_eq!(text(&tree.body(two).unwrap()), "b/c", "what is stored stays");
    assert_eq!(text(&tree.body(one).unwrap()), "a");
}

#[test]
fn a_view_is_shown_where_nothing_is() {
    let mut tree = Tree::new(ATTRIBUTES);
    let layer = tree.layer(ATTRIBUTES).unwrap();
    let view = || View { layers: vec![layer], ..View::default() };
    tree.insert(ROOT, &path("file"), ATTRIBUTES, file("", None)).unwrap();
    assert!(matches!(tree.show(&path("file"), view()), Err(TreeError::Occupied(_))));
    assert!(matches!(tree.show(&path("file/x"), view()), Err(TreeError::NotADirectory(_))));
    assert!(matches!(tree.show(&path("x"), View::default()), Err(TreeError::NotADirectory(_))));
    tree.show(&path("x"), view()).unwrap();
    let below = tree.insert(ROOT, &path("x/y"), ATTRIBUTES, file("", None));
    assert!(matches!(below, Err(TreeError::NotADirectory(_))), "the view would not show it");
    assert_eq!(tree.parent(ROOT), Some(ROOT));
    assert_eq!(tree.resolve(ROOT, &path("x")).map(|id| id & 0xffff_ffff), Some(layer));
    // The kernel may use a number of another mount.
    for id in [0, 1 << 32, 1000, u64::MAX, (1 << 32) + 1000, (2 << 32) + 1, (1 << 32) + 2] {
        for answer in [tree.lookup(id, b"y"), tree.parent(id).filter(|_| tree.node(id).is_none())] {
            assert_eq!(answer, None, "{id}");
        }
        assert_eq!((tree.links(id), tree.subdirectories(id)), ((id, 1), 0));
        tree.path(id);
    }
}
