use super::{CloseMember, GUARANTEED, ListedMember, OpenMembers};
use crate::memory::{Budget, Reclaim};
use crate::metrics::MemoryClass;
use crate::resources::Resources;
use crate::source::Input;
use crate::source::decoders::CHUNK;
use crate::source::testing::{TestMember, content_of, made, open_wheel, packed, zipped};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex, Weak};

/// A member that can be closed unless it is busy.
#[derive(Debug, Default)]
struct Fake {
    listed: Mutex<Option<ListedMember>>,
    is_busy: AtomicBool,
}

impl Fake {
    fn open(list: &Arc<OpenMembers>, index_bytes: u64) -> Arc<Self> {
        let fake = Arc::<Self>::default();
        let listed = list.add(Weak::<Self>::clone(&Arc::downgrade(&fake)));
        listed.account(index_bytes);
        *fake.listed.lock() = Some(listed);
        fake
    }

    fn is_open(&self) -> bool {
        self.listed.lock().is_some()
    }
}

impl CloseMember for Fake {
    fn close(&self) -> bool {
        let closed = if self.is_busy.load(Ordering::Relaxed) { None } else { self.listed.lock().take() };
        closed.is_some()
    }
}

#[test]
fn when_the_budget_is_short_members_are_closed_in_the_order_of_their_use() {
    let budget = Budget::new(4 << 20);
    let list = OpenMembers::new(&budget);
    budget.register(MemoryClass::Streams, Arc::downgrade(&(Arc::clone(&list) as Arc<dyn Reclaim>)));
    let members: Vec<_> = (0..8).map(|_| Fake::open(&list, 1 << 20)).collect();
    members[1].is_busy.store(true, Ordering::Relaxed);
    members[2].listed.lock().as_ref().unwrap().touch();
    members[7].listed.lock().as_ref().unwrap().close_first();
    budget.reclaim();
    assert!(budget.gauges().total() <= 4 << 20);
    let open: Vec<_> = (0..8).filter(|&number: &usize| members[number].is_open()).collect();
    assert_eq!(open, [1, 2, 6], "the one in use, and those used last of which something is kept");
    drop(members);
    assert_eq!(budget.gauges().streams, 0);
}

const MANY: usize = 3000;

/// A name and a content for each number.
fn small(number: usize) -> (String, Vec<u8>) {
    (format!("pkg/{number}"), format!("{number} ").repeat(40).into_bytes())
}

/// Reads so many small members that all others are closed.
fn read_small(input: &Input) {
    for (name, bytes) in (0..MANY).map(small) {
        assert!(content_of(input, &name).to_vec().unwrap() == bytes, "{name}");
    }
}

#[test]
fn the_members_that_were_read_take_no_more_than_the_budget() {
    let kinds: [fn(&str, &[u8]) -> TestMember; 2] = [packed, made];
    for (kind, make) in kinds.into_iter().enumerate() {
        let members: Vec<_> = (0..MANY).map(small).map(|(name, bytes)| make(&name, &bytes)).collect();
        let resources = Resources::new(1 << 20);
        let input = open_wheel(&zipped(&members), &resources).unwrap();
        for _ in 0..2 {
            read_small(&input);
            let gauges = resources.budget.gauges();
            // Idle decoders belong to this class, too.
            assert!(gauges.streams <= GUARANTEED + (1 << 20), "{} bytes, {kind}", gauges.streams);
        }
    }
}

#[test]
fn what_was_found_stays_when_a_member_is_closed() {
    let text = b"a line of text\n".repeat(1000);
    let wrong = |member: TestMember| TestMember { crc: member.crc ^ 1, ..member };
    let cut = packed("cut", &text);
    let half = cut.bytes.len() / 2;
    let cut = TestMember { bytes: cut.bytes[..half].to_vec(), packed_size: half as u64, ..cut };
    let odd =
        [packed("good", &text), made("stored", &text), wrong(packed("bad", &text)), wrong(made("worse", &text)), cut];
    let small = (0..MANY).map(small).map(|(name, bytes)| packed(&name, &bytes));
    let members: Vec<_> = odd.into_iter().chain(small).collect();
    let resources = Resources::new(1 << 20);
    let input = open_wheel(&zipped(&members), &resources).unwrap();
    input.hash_members();
    let names = ["good", "stored", "bad", "worse", "cut"];
    let sums =
        || names.map(|name| content_of(&input, name).member().unwrap().sha256().map_err(|error| error.to_string()));
    let first = sums();
    assert!(first[0] == first[1] && first[0].as_ref().is_ok_and(Option::is_some), "{first:?}");
    assert!(first[2..].iter().all(Result::is_err), "{first:?}");
    read_small(&input);
    let good = content_of(&input, "good");
    assert!(!good.is_nonblocking(0, 1), "it is closed");
    let counters = &resources.counters;
    let before = (counters.bytes_hashed.get(), counters.bytes_inflated.get());
    for name in &names[2..] {
        let member = content_of(&input, name);
        member.member().unwrap().packed().bytes.to_vec().unwrap_err();
        member.to_vec().unwrap_err();
        member.check().unwrap_err();
    }
    good.check().unwrap();
    assert_eq!(sums(), first);
    let after = (counters.bytes_hashed.get(), counters.bytes_inflated.get());
    assert_eq!(after, before, "nothing is read again");
}

#[test]
fn readers_go_on_where_they_were_while_others_use_up_the_budget() {
    const STEP: usize = 100_000;
    let (chunk, budget) = (usize::try_from(CHUNK).unwrap(), 8 << 20);
    let bytes: Vec<u8> = (0..8 * chunk).map(|at| (at / 7 * at % 251).to_le_bytes()[0]).collect();
    let names = ["one", "two", "three"];
    let resources = Resources::new(budget);
    let input = open_wheel(&zipped(&names.map(|name| packed(name, &bytes))), &resources).unwrap();
    let members = names.map(|name| content_of(&input, name));
    let _taken = resources.budget.account(MemoryClass::Compression, budget);
    // In turns, not to the end: what a reader needs of a member that is inflated is not kept.
    let end = 6 * chunk;
    for offset in (0..end).step_by(STEP) {
        for member in &members {
            let mut piece = vec![0; STEP.min(end - offset)];
            member.read_at(offset as u64, &mut piece).unwrap();
            assert!(piece == bytes[offset..offset + piece.len()]);
        }
    }
    assert_eq!(resources.counters.bytes_inflated.get(), 3 * end as u64);
    resources.budget.release_unused();
    assert!(resources.budget.gauges().streams < CHUNK, "nothing stays when nobody reads");
}
