//! How files are opened, and how many requests a visit costs: the kernel reads files of the input itself, or opens
//! every file without a request.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Instant, UNIX_EPOCH};

use kpackfs::fs::PassthroughChoice;
use kpackfs::metrics::RequestKind;
use kpackfs::resources::Resources;
use kpackfs::rope::{Rope, Segment};
use kpackfs::source::{EntryPath, open_file};
use kpackfs::tree::{Body, NodeKind, ROOT, Tree};

use super::mounts::{BIG_SIZE, DIRECTORY, FILE, Kernels, Mount, pattern, run};
use crate::common::mounts::bounded;
use crate::common::{PATIENCE, errno, skipped, wait_until};

/// The size of a file that is large enough for passthrough.
const LARGE: usize = 5 << 20;

/// A mount of files of an input: `large` and `small` are whole, `cut` lacks its first byte.
fn of_input(input: &Path, large: usize) -> Option<Mount> {
    let resources = Resources::new(1 << 20);
    let mut tree = Tree::new(DIRECTORY);
    for (name, size) in [("large", large), ("small", 5000)] {
        fs::write(input.join(name), pattern(size)).unwrap();
        // What is written later has another time, also within the same tick of the kernel's clock.
        File::open(input.join(name)).unwrap().set_modified(UNIX_EPOCH).unwrap();
        let content = open_file(&input.join(name), &resources).unwrap();
        let cut = Segment::range(content.clone(), 1, content.size() - 1).unwrap();
        let whole = Rope::new([Segment::whole(content)]).unwrap();
        for (name, rope) in [(name.to_owned(), whole), (format!("{name}-cut"), Rope::new([cut]).unwrap())] {
            let kind = NodeKind::File { body: Body::Ready(Arc::new(rope)), link_group: None };
            tree.insert(ROOT, &EntryPath::new(name.as_bytes()).unwrap(), FILE, kind).unwrap();
        }
    }
    Mount::of(tree, &resources)
}

/// The same with a large file, if this process may pass files through.
fn passed_through(input: &Path) -> Option<Mount> {
    let mount = of_input(input, LARGE)?;
    fs::read(mount.at("small")).unwrap();
    if mount.resources.counters.passthrough_opens.get() == 0 {
        skipped("no passthrough on this machine; NOTHING about it was checked");
        return None;
    }
    Some(mount)
}

#[test]
fn files_of_the_input_are_read_by_the_kernel() {
    let input = tempfile::tempdir().unwrap();
    let Some(mount) = passed_through(input.path()) else { return };
    let counters = &mount.resources.counters;
    let opens = counters.passthrough_opens.get();
    let large = pattern(LARGE);
    let place = mount.at("large");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2 {
                    assert!(fs::read(&place).unwrap() == large);
                }
            });
        }
    });
    assert_eq!(counters.passthrough_opens.get() - opens, 8);
    assert_eq!(run("cmp", [&mount.at("large"), &input.path().join("large")]), "");
    assert_eq!((mount.of_kind(RequestKind::Read), counters.bytes_read.get()), (0, 0));

    // A file that is not a whole input file is read by the daemon, even while the input file itself is open.
    let file = File::open(mount.at("large")).unwrap();
    assert!(fs::read(mount.at("large-cut")).unwrap() == large[1..]);
    assert!(mount.of_kind(RequestKind::Read) > 0);
    let mut bytes = [0; 7];
    file.read_exact_at(&mut bytes, 1000).unwrap();
    assert_eq!(bytes, large[1000..1007]);
    assert_eq!(counters.passthrough_opens.get() - opens, 10);
}

#[test]
fn a_replaced_file_is_not_opened_and_one_that_is_open_stays() {
    let input = tempfile::tempdir().unwrap();
    let Some(mount) = passed_through(input.path()) else { return };
    let file = File::open(mount.at("large")).unwrap();
    let other = input.path().join("other");
    fs::write(&other, vec![b'x'; LARGE]).unwrap();
    fs::rename(&other, input.path().join("large")).unwrap();
    assert_eq!(errno(File::open(mount.at("large"))), libc::ESTALE);
    let mut bytes = vec![0; LARGE];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == pattern(LARGE));
    drop(file);
    assert_eq!(errno(File::open(mount.at("large"))), libc::ESTALE);
    // A deleted file is not passed through, but can be read while the daemon has it open.
    fs::remove_file(input.path().join("small")).unwrap();
    assert!(File::open(mount.at("small")).is_ok());
    OpenOptions::new().append(true).open(input.path().join("large")).unwrap().set_len(3).unwrap();
    assert_eq!(errno(File::open(mount.at("large"))), libc::ESTALE);
}

#[test]
fn a_file_that_is_passed_through_shows_changes_until_it_is_closed() {
    let input = tempfile::tempdir().unwrap();
    let Some(mount) = passed_through(input.path()) else { return };
    let file = File::open(mount.at("large")).unwrap();
    let original = OpenOptions::new().write(true).open(input.path().join("large")).unwrap();
    original.write_all_at(b"changed", 0).unwrap();
    let mut bytes = [0; 7];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"changed", "as readers of the input itself see");
    drop(file);
    assert_eq!(errno(File::open(mount.at("large"))), libc::ESTALE);
    assert_eq!(errno(fs::read(mount.at("large-cut"))), libc::ESTALE, "what we read is never of two versions");
}

/// The kernel reads such a file as the input's file system does, with its rules about what `O_DIRECT` may read.
#[test]
fn direct_reads_of_passed_files_have_the_rules_of_the_input() {
    // tmpfs has no such rules.
    let input = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let Some(mount) = passed_through(input.path()) else { return };
    // Some rules are about the address of the buffer.
    let mut buffer = vec![0; 2 * 4096];
    let aligned = buffer.as_ptr().align_offset(4096);
    let buffer = &mut buffer[aligned..aligned + 4096];
    let mut read = |path: &Path, offset| {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)?;
        file.read_exact_at(buffer, offset).map(|()| buffer.to_vec())
    };
    for offset in [0, 1, 100, 512, 4096] {
        let (passed, original) = (read(&mount.at("large"), offset), read(&input.path().join("large"), offset));
        assert_eq!(errno(passed.as_ref().map_err(copied)), errno(original.as_ref().map_err(copied)), "{offset}");
        assert_eq!(passed.ok(), original.ok(), "{offset}");
        // The daemon reads any bytes.
        let start = usize::try_from(offset).unwrap() + 1;
        assert!(read(&mount.at("large-cut"), offset).unwrap() == pattern(LARGE)[start..start + 4096], "{offset}");
    }
}

fn copied(error: &std::io::Error) -> std::io::Error {
    std::io::Error::from_raw_os_error(error.raw_os_error().unwrap())
}

#[test]
fn without_large_files_everything_is_opened_without_asking() {
    let input = tempfile::tempdir().unwrap();
    let Some(mount) = of_input(input.path(), 100_000) else { return };
    let read = || {
        assert!(fs::read(mount.at("large")).unwrap() == pattern(100_000));
        assert!(fs::read(mount.at("small")).unwrap() == pattern(5000));
    };
    read();
    assert_eq!(mount.of_kind(RequestKind::Read), 2, "a file of 100 KB and one of 5 KB, once each");
    assert_eq!(mount.fewest_requests(read), 0);
    assert_eq!((mount.of_kind(RequestKind::Open), mount.of_kind(RequestKind::Release)), (1, 0));
    assert_eq!(mount.resources.counters.passthrough_opens.get(), 0);
}

/// A mount of a file of [`LARGE`] bytes and of as many small files.
fn with_small(input: &Path, small: usize, choice: PassthroughChoice) -> Option<Mount> {
    let resources = Resources::new(1 << 20);
    let mut tree = Tree::new(DIRECTORY);
    for number in 0..=small {
        let name = number.to_string();
        fs::write(input.join(&name), pattern(if number == 0 { LARGE } else { 300_000 })).unwrap();
        let body = Body::Ready(open_file(&input.join(&name), &resources).unwrap());
        let kind = NodeKind::File { body, link_group: None };
        tree.insert(ROOT, &EntryPath::new(name.as_bytes()).unwrap(), FILE, kind).unwrap();
    }
    Mount::with(tree, &resources, choice)
}

/// The kernel asks for each open of any file, or for none.
#[test]
fn many_small_files_are_opened_without_asking_beside_a_large_one() {
    use PassthroughChoice::{Auto, Off, On};
    let input = tempfile::tempdir().unwrap();
    let Some(_mount) = passed_through(input.path()) else { return };
    for (choice, small, is_passed) in [(Auto, 5, true), (Auto, 20, false), (On, 20, true), (Off, 5, false)] {
        let Some(mount) = with_small(input.path(), small, choice) else { return };
        let read = || (0..=small).for_each(|number| drop(fs::read(mount.at(number.to_string())).unwrap()));
        read();
        let files = small as u64 + 1;
        let warm = mount.requests(read);
        // A release may come after the next open.
        let expected = if is_passed { files..=2 * files + 1 } else { 0..=0 };
        assert!(
            expected.contains(&warm),
            "{choice:?} with {small} small files: {warm} requests for {files} warm files"
        );
        assert_eq!(mount.resources.counters.passthrough_opens.get(), if is_passed { 2 * files } else { 0 });
    }
}

#[test]
fn visits_cost_few_requests() {
    let Some(mount) = Mount::new() else { return };
    let of = |kind| mount.of_kind(kind);
    let many = 3000;
    run("find", [&mount.at("many"), &"-type", &"f"]);
    let listings = of(RequestKind::Readdir) + of(RequestKind::Readdirplus);
    assert!(listings < 80, "{listings} for {many} names");
    // Lookups are needed for `many` and the directories above it. `find` asks for the attributes of directories only.
    assert!(of(RequestKind::Lookup) + of(RequestKind::Getattr) < 10);
    assert_eq!((of(RequestKind::Open), of(RequestKind::Read)), (0, 0));

    run("ls", [&"-lR", &mount.at("many")]);
    let asked = of(RequestKind::Lookup) + of(RequestKind::Getattr);
    eprintln!("ls -lR of {many} files whose names are known: {asked} requests for attributes");
    assert!(asked < many);
    // `ls -l` asks once for security labels, and once for access control lists.
    assert!(mount.fewest_requests(|| drop(run("ls", [&"-lR", &mount.at("many")]))) <= 2);

    let tar = || run("sh", [&"-c", &"tar -C \"$0\" -cf - many | wc -c", &mount.place.path()]);
    let reads = of(RequestKind::Read);
    tar();
    let with_bytes = (0..many).filter(|number| number % 7 != 0).count() as u64;
    let counters = &mount.resources.counters;
    // Each file that is not empty is requested, or pushed in advance; perhaps both at the same time.
    let (reads, given) = (of(RequestKind::Read) - reads, || counters.files_given.get());
    // The last push counts its files at its end.
    wait_until("all files are counted", || reads + given() >= with_bytes);
    eprintln!("tar of {many} files: {reads} reads, {} files given", given());
    assert!(reads < with_bytes, "{reads} reads, {} files given", given());
    assert_eq!(of(RequestKind::Open), 1);
    let [prompt, by_workers] = [counters.reads_prompt.get(), counters.reads_by_workers.get()];
    let again = mount.fewest_requests(|| drop(tar()));
    // A kernel that is short of memory, or reclaims it in advance, drops some pages each time.
    assert!(again * 100 <= with_bytes, "{again} requests when all is known");
    assert_eq!((prompt, by_workers), (reads, 0));
    assert_eq!(of(RequestKind::Change) + of(RequestKind::Readlink), 0);
}

#[test]
fn many_slow_readers_hold_up_nobody_else() {
    let Some(mut mount) = Mount::new() else { return };
    let place = mount.at("odd/waits");
    let reader = || {
        let place = place.clone();
        thread::spawn(move || {
            let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(place).unwrap();
            let mut bytes = vec![0; 4096];
            file.read_exact_at(&mut bytes, 0).unwrap();
            bytes
        })
    };
    let mut readers: Vec<_> = (0..60).map(|_| reader()).collect();
    for _ in 0..readers.len() {
        mount.asked.recv_timeout(PATIENCE).unwrap();
    }
    let requests = &mount.resources.counters.requests;
    wait_until("60 requests wait", || requests.waiting() == 60);
    // It must be made first, and a thread is free for that.
    assert_eq!(mount.at("gfx942/.kpack/kernels.kpack").metadata().unwrap().size(), 70_000);
    readers.extend((0..4).map(|_| reader()));
    wait_until("64 requests wait", || requests.waiting() == 64);
    let start = Instant::now();
    let host = mount.at("host");
    bounded("others", move || {
        assert_eq!(fs::read(host.join("lib/big.bin")).unwrap().len(), BIG_SIZE);
        assert!(host.join("two").metadata().unwrap().is_file());
        assert_eq!(fs::read_dir(host).unwrap().count(), 5);
    });
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    let waited = start.elapsed();
    mount.release();
    for reader in readers {
        assert_eq!(reader.join().unwrap(), vec![b'w'; 4096]);
    }
    let requests = &mount.resources.counters.requests;
    wait_until("no request waits", || requests.waiting() == 0);
    assert!(requests.longest().unwrap().1 >= waited);
}

#[test]
fn an_input_that_answers_slowly_holds_up_nobody_else() {
    let Some(mut input) = Mount::new() else { return };
    let resources = Resources::new(1 << 20);
    let mut tree = Tree::new(DIRECTORY);
    for (name, place) in [("a", "odd/waits"), ("b", "odd/waits"), ("c", "odd/waits"), ("quick", "host/lib/small.txt")] {
        let content = open_file(&input.at(place), &resources).unwrap();
        let kind = NodeKind::File { body: Body::Ready(content), link_group: None };
        tree.insert(ROOT, &EntryPath::new(name.as_bytes()).unwrap(), FILE, kind).unwrap();
    }
    let Some(mount) = Mount::of(tree, &resources) else { return };
    let readers = ["a", "b", "c"].map(|name| {
        let place = mount.at(name);
        thread::spawn(move || fs::read(place).unwrap())
    });
    input.asked.recv_timeout(PATIENCE).unwrap();
    let requests = &resources.counters.requests;
    wait_until("three requests wait", || requests.waiting() == 3);
    assert_eq!(fs::read(mount.at("quick")).unwrap(), b"hello");
    assert!(readers.iter().all(|reader| !reader.is_finished()));
    input.release();
    for reader in readers {
        assert_eq!(reader.join().unwrap(), vec![b'w'; 4096]);
    }
}

/// `find` looks up the directories, after which the kernel asks for attributes with further names of a listing.
#[test]
fn names_are_listed_without_making_what_they_lead_to() {
    let mut tree = Tree::new(DIRECTORY);
    let kernels: Vec<_> = (0..400).map(|_| Arc::<Kernels>::default()).collect();
    for (number, kernels) in kernels.iter().enumerate() {
        let path = EntryPath::new(format!("gfx942/{number}.kpack").as_bytes()).unwrap();
        let kind = NodeKind::File { body: Body::Made(kernels.clone()), link_group: None };
        tree.insert(ROOT, &path, FILE, kind).unwrap();
        let below = EntryPath::new(format!("gfx942/{number}.d/below").as_bytes()).unwrap();
        tree.insert(ROOT, &below, FILE, NodeKind::directory()).unwrap();
    }
    let Some(mount) = Mount::of(tree, &Resources::new(0)) else { return };
    let made = || kernels.iter().filter(|kernels| kernels.times.load(std::sync::atomic::Ordering::SeqCst) > 0).count();
    for _ in 0..2 {
        assert_eq!(run("find", [&mount.place.path()]).lines().count(), 2 + 3 * kernels.len());
    }
    assert_eq!(made(), 0);
    assert_eq!(fs::metadata(mount.at("gfx942/7.kpack")).unwrap().len(), 70_000);
    assert_eq!(made(), 1);
    assert_eq!(fs::read(mount.at("gfx942/9.kpack")).unwrap().len(), 70_000);
    assert_eq!(made(), 2);
    assert!(run("ls", [&"-l", &mount.at("gfx942")]).lines().filter(|line| line.contains(" 70000 ")).count() == 400);
    assert_eq!(made(), 400);
}
