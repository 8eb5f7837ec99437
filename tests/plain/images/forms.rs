//! Forms of layers that other programs write: several gzip members, skippable frames of zstd, archives without their end.

use std::io::Write;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use serde_json::json;
use tempfile::tempdir;

use crate::common::{fixture, program, succeeds};
use crate::images::hostile::refusal;
use crate::images::layout::{Form, Layer, Layout, MANIFEST, digest};
use crate::images::read::shown;
use crate::images::unpacked::unpack;

const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// A skippable frame of zstd (RFC 8878, 3.1.2).
const SKIPPABLE: &[u8] = b"\x5e\x2a\x4d\x18\x07\0\0\0skipped";

fn gzip(piece: &[u8], extra: Option<&[u8]>) -> Vec<u8> {
    let builder = extra.map_or_else(GzBuilder::new, |extra| GzBuilder::new().extra(extra));
    let mut encoder = builder.write(Vec::new(), Compression::fast());
    encoder.write_all(piece).unwrap();
    encoder.finish().unwrap()
}

fn zstd(piece: &[u8]) -> Vec<u8> {
    zstd::encode_all(piece, 1).unwrap()
}

/// An image of these blobs of layers, each with the archive to which it unpacks.
fn image(place: &Path, form: Form, layers: &[(&[u8], &[u8])]) -> Layout {
    let layout = Layout::new(place);
    let ids: Vec<_> = layers.iter().map(|(archive, _)| digest(archive)).collect();
    let config = json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ids}});
    let config = layout.blob(config.to_string().as_bytes(), CONFIG);
    let layers: Vec<_> = layers.iter().map(|(_, blob)| layout.blob(blob, form.media_type())).collect();
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
    layout.index(&[(layout.blob(manifest.to_string().as_bytes(), MANIFEST), "x")]);
    layout
}

/// Without device code, so that it is the same blob in new images.
fn text() -> Vec<u8> {
    Layer::new().file("etc/hosts", b"localhost").file("etc/long", &[b'x'; 700]).done()
}

fn library() -> Vec<u8> {
    Layer::new().file("a.so", &fixture("mixed.so")).file("z/last", &[b'z'; 700]).done()
}

/// Each form of an archive: the archive as it is then, and its blob.
fn forms(whole: &[u8]) -> Vec<(&'static str, Form, Vec<u8>, Vec<u8>)> {
    let joined = |pieces: &[Vec<u8>]| pieces.concat();
    let members = |length: usize| joined(&whole.chunks(length).map(|piece| gzip(piece, None)).collect::<Vec<_>>());
    let footer = gzip(b"", Some(b"SG\x16\x000000000000000000STARGZ"));
    let padding = 1024 + 512 - 700 % 512;
    let (no_end, no_padding) = (&whole[..whole.len() - 1024], &whole[..whole.len() - padding]);
    let half = whole.len() / 2;
    let (front, behind) = whole.split_at(half);
    let of = |name, form, blob| (name, form, whole.to_vec(), blob);
    vec![
        of("gzip members of a block", Form::Gzip, members(512)),
        of("gzip members of any length", Form::DockerGzip, members(777)),
        of("eStargz", Form::Gzip, joined(&[members(512), footer.clone()])),
        of("gzip with empty members", Form::Gzip, joined(&[footer.clone(), gzip(whole, None), footer.clone(), footer])),
        of(
            "zstd with skippable frames",
            Form::Zstd,
            joined(&[
                SKIPPABLE.to_vec(),
                zstd(front),
                SKIPPABLE.to_vec(),
                SKIPPABLE.to_vec(),
                zstd(behind),
                SKIPPABLE.to_vec(),
            ]),
        ),
        ("no end", Form::Gzip, no_end.to_vec(), gzip(no_end, None)),
        ("no padding", Form::Gzip, no_padding.to_vec(), gzip(no_padding, None)),
        (
            "some padding",
            Form::Zstd,
            whole[..whole.len() - padding + 10].to_vec(),
            zstd(&whole[..whole.len() - padding + 10]),
        ),
        ("no padding, plain", Form::Plain, no_padding.to_vec(), no_padding.to_vec()),
        ("one empty block", Form::Plain, whole[..whole.len() - 512].to_vec(), whole[..whole.len() - 512].to_vec()),
    ]
}

#[test]
fn all_forms_of_a_layer_have_the_same_files() {
    for ((name, form, text_archive, text_blob), (_, _, library_archive, library_blob)) in
        forms(&text()).into_iter().zip(forms(&library()))
    {
        let place = tempdir().unwrap();
        let layout = image(&place.path().join("in"), form, &[(&text_archive, &text_blob)]);
        let expected = ["etc/ 755", "etc/hosts = localhost", &format!("etc/long = {}", "x".repeat(700))];
        assert_eq!(shown(&layout), expected, "{name}");

        let layers = [(&*text_archive, &*text_blob), (&*library_archive, &*library_blob)];
        let layout = image(&place.path().join("in"), form, &layers);
        let out = Layout::opened(&place.path().join("out"));
        let mut split = program();
        split.arg("split").arg(layout.name("x")).args([
            "--format",
            "oci",
            "--no-cache",
            "--gpu-targets",
            "gfx90a",
            "-o",
        ]);
        let said = String::from_utf8(succeeds(split.arg(&out.0)).stderr).unwrap();
        assert!(!said.contains("diff_ids"), "{name}: {said}");
        // The crate `tar` needs the padding.
        let padded = |mut archive: Vec<u8>| {
            archive.resize(archive.len().next_multiple_of(512), 0);
            archive
        };
        let archives: Vec<_> = out.archives("gfx90a").into_iter().map(padded).collect();
        let (new, old) = (unpack(&archives), unpack(&[text(), library()]));
        assert_eq!(new.keys().collect::<Vec<_>>(), old.keys().collect::<Vec<_>>(), "{name}");
        for (path, file) in new.iter().filter(|(path, _)| *path != "a.so") {
            assert_eq!(file, &old[path], "{name}: {path}");
        }
        assert!(new["a.so"].content.len() < old["a.so"].content.len(), "{name}");
    }
}

#[test]
fn a_layer_without_anything_is_empty() {
    let place = tempdir().unwrap();
    let (base, nothing) = (text(), gzip(b"", None));
    let layout = image(place.path(), Form::Gzip, &[(b"", &nothing), (&base, &gzip(&base, None)), (b"", &nothing)]);
    assert_eq!(shown(&layout).len(), 3);
}

#[test]
fn damaged_members_are_named() {
    let whole = text();
    let pieces: Vec<_> = whole.chunks(512).map(|piece| gzip(piece, None)).collect();
    let (first, second, rest) = (&*pieces[0], &*pieces[1], &*pieces[2..].concat());
    let cut = &second[..second.len() - 9];
    let mut wrong = second.to_vec();
    *wrong.last_mut().unwrap() ^= 1;
    let header = &whole[..300];
    for (blob, parts) in [
        ([first, cut, rest].concat(), &["gzip member 2, which begins at byte "][..]),
        ([first, &wrong, rest].concat(), &["gzip member 2, which begins at byte ", "CRC-32"]),
        ([first, &second[..5]].concat(), &["gzip member 2, which begins at byte "]),
        ([first, &second[..second.len() - 3]].concat(), &["gzip member 2, ", "it is truncated"]),
        ([&*pieces.concat(), b"garbage"].concat(), &["what follows is no gzip member"]),
        ([&*pieces.concat(), b"\0\0garbage"].concat(), &["what follows is no gzip member"]),
        // A header that is cut, and a member that is.
        (gzip(&[&whole[..1024], header].concat(), None), &["after member \"etc/hosts\""]),
        (gzip(&whole[..2000], None), &["\"etc/long\": it reaches past the end of the archive"]),
    ] {
        let place = tempdir().unwrap();
        let said = refusal(&image(place.path(), Form::Gzip, &[(b"", &blob)]));
        assert!(parts.iter().all(|part| said.contains(part)), "{said} lacks one of {parts:?}");
    }
}
