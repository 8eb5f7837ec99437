//! Takes arbitrary bytes for an offload bundle, compressed or not, and compares its code objects with a plain reading
//! of the table.

use std::io::Read;
use std::sync::Arc;

use kpackfs::fatbin::{Bundle, CodeObject, bundle_size, is_bundle};
use kpackfs::rope::Content;

use super::support::{MOST, Random, Watched, read, resources, same_in_pieces};

/// Checks bytes that may be a bundle.
pub(crate) fn run(bytes: &[u8]) {
    let watched = Watched::new(bytes);
    let content: Arc<dyn Content> = Arc::<Watched>::clone(&watched);
    let size = bytes.len() as u64;
    if let Some(size) = bundle_size(&content, 0, size) {
        assert!(is_bundle(bytes) && size <= bytes.len() as u64);
    }
    let resources = resources();
    let bundle = Bundle::read(&content, 0, size, &resources);
    watched.check("planning");
    let Ok(bundle) = bundle else { return };
    assert!(is_bundle(bytes));
    // The index entry of the bundle gives the same.
    let remembered = rmp_serde::to_vec(&bundle).expect("plain fields");
    let recalled: Bundle = rmp_serde::from_slice(&remembered).expect("what was written");
    let objects = bundle.objects(&content, &resources).expect("what was planned");
    let again = recalled.objects(&content, &resources).expect("what was planned");
    let table = unpacked(bytes);
    let total: u64 = objects.iter().map(|object| object.content.size()).sum();
    let room = objects.iter().find_map(CodeObject::decompressed_size).unwrap_or(size);
    assert!(total <= room, "{total} bytes of code in a bundle of {room}");
    let mut random = Random::of(bytes);
    for (object, again) in objects.iter().zip(&again).take(16) {
        assert_eq!((&object.target, object.content.size()), (&again.target, again.content.size()));
        let holder = object.decompressed_size().unwrap_or(size);
        if holder > MOST {
            continue;
        }
        // Damage after the table is found when the object is read.
        let Ok(code) = read(&*object.content) else { continue };
        let table = table.as_ref().expect("what can be read can be unpacked");
        // An ID that is not understood has another name.
        let is_id = |id: &String| object.target.is_unknown() || id.ends_with(&object.target.to_string());
        let is_there = table.iter().any(|(id, there)| is_id(id) && *there == code);
        assert!(is_there, "{} has other code", object.target);
        assert!(same_in_pieces(&*again.content, &code, &mut random));
    }
}

/// Id and code of each entry; `None` if they cannot be determined.
fn unpacked(bytes: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let plain = match bytes.strip_prefix(b"CCOB") {
        None => bytes.to_vec(),
        Some(header) => {
            let version = u16::from_le_bytes(*header.first_chunk()?);
            let is_zstd = header.get(2) == Some(&1);
            let body = bytes.get(
                match version {
                    1 => 20,
                    2 => 24,
                    _ => 32,
                }..,
            )?;
            let mut plain = Vec::new();
            if is_zstd {
                let mut decoder = zstd::stream::read::Decoder::new(body).ok()?.single_frame();
                decoder.window_log_max(31).ok()?;
                decoder.take(MOST).read_to_end(&mut plain).ok()?;
            } else {
                flate2::read::ZlibDecoder::new(body).take(MOST).read_to_end(&mut plain).ok()?;
            }
            plain
        }
    };
    let number = |at: usize| {
        let field = plain.get(at..)?.first_chunk().map(|field| u64::from_le_bytes(*field));
        field.and_then(|field| usize::try_from(field).ok())
    };
    let mut entries = Vec::new();
    let mut at = 32_usize;
    for _ in 0..number(24)? {
        let (offset, length, id) = (number(at)?, number(at + 8)?, number(at + 16)?);
        let id = plain.get(at + 24..(at + 24).checked_add(id)?)?;
        let code = plain.get(offset..offset.checked_add(length)?)?;
        at += 24 + id.len();
        entries.push((String::from_utf8_lossy(id).into_owned(), code.to_vec()));
    }
    Some(entries)
}
