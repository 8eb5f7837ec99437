//! Images that tests make: layers by the crate `tar`, documents by hand.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use crate::common::{gzip, sha256};

/// A layer that is being made. Names are written as they are.
pub(crate) struct Layer(Builder<Vec<u8>>);

impl Layer {
    pub(crate) fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    fn member(mut self, kind: EntryType, name: &str, link: &str, mode: u32, data: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(data.len() as u64);
        header.set_mode(mode);
        header.set_mtime(1_700_000_000);
        header.set_uid(1000);
        header.set_gid(100);
        let old = header.as_gnu_mut().unwrap();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        self.0.append(&header, data).unwrap();
        self
    }

    pub(crate) fn file(self, name: &str, data: &[u8]) -> Self {
        self.member(EntryType::Regular, name, "", 0o755, data)
    }

    /// Records that extend the header of the next member.
    pub(crate) fn extended(mut self, records: &[(&str, &[u8])]) -> Self {
        self.0.append_pax_extensions(records.iter().copied()).unwrap();
        self
    }

    pub(crate) fn directory(self, name: &str) -> Self {
        self.member(EntryType::Directory, name, "", 0o751, b"")
    }

    pub(crate) fn symlink(self, name: &str, target: &str) -> Self {
        self.member(EntryType::Symlink, name, target, 0o777, b"")
    }

    pub(crate) fn hard_link(self, name: &str, target: &str) -> Self {
        self.member(EntryType::Link, name, target, 0o755, b"")
    }

    pub(crate) fn device(self, name: &str) -> Self {
        self.member(EntryType::Char, name, "", 0o600, b"")
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

/// How the layers of an image are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Gzip,
    Zstd,
    DockerGzip,
}

impl Form {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Plain => "application/vnd.oci.image.layer.v1.tar",
            Self::Gzip => "application/vnd.oci.image.layer.v1.tar+gzip",
            Self::Zstd => "application/vnd.oci.image.layer.v1.tar+zstd",
            Self::DockerGzip => "application/vnd.docker.image.rootfs.diff.tar.gzip",
        }
    }

    fn packed(self, layer: &[u8]) -> Vec<u8> {
        match self {
            Self::Plain => layer.to_vec(),
            Self::Zstd => zstd::encode_all(layer, 1).unwrap(),
            Self::Gzip | Self::DockerGzip => gzip(layer),
        }
    }
}

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";

pub(crate) fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

/// A layout on disk.
pub(crate) struct Layout(pub(crate) PathBuf);

impl Layout {
    pub(crate) fn new(place: &Path) -> Self {
        fs::create_dir_all(place.join("blobs/sha256")).unwrap();
        fs::write(place.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        Self(place.to_owned())
    }

    /// A layout that the program writes.
    pub(crate) fn opened(place: &Path) -> Self {
        Self(place.to_owned())
    }

    pub(crate) fn blob_path(&self, digest: &str) -> PathBuf {
        self.0.join("blobs").join(digest.replace(':', "/"))
    }

    pub(crate) fn blob(&self, bytes: &[u8], media_type: &str) -> Value {
        let digest = digest(bytes);
        fs::write(self.blob_path(&digest), bytes).unwrap();
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    /// The descriptor of an image's manifest.
    pub(crate) fn manifest(&self, form: Form, layers: &[Vec<u8>]) -> Value {
        let config = json!({
            "architecture": "amd64", "os": "linux", "config": {"Labels": {"a": "b"}, "Healthcheck": {"Test": ["NONE"]}},
            "rootfs": {"type": "layers", "diff_ids": layers.iter().map(|layer| digest(layer)).collect::<Vec<_>>()},
            "history": layers.iter().map(|_| json!({"created_by": "RUN"})).chain([json!({"empty_layer": true})]).collect::<Vec<_>>(),
        });
        let layers: Vec<_> = layers.iter().map(|layer| self.blob(&form.packed(layer), form.media_type())).collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "layers": layers,
            "config": self.blob(config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json"),
        });
        self.blob(manifest.to_string().as_bytes(), MANIFEST)
    }

    /// Writes the list of images, with these descriptors and tags.
    pub(crate) fn index(&self, images: &[(Value, &str)]) {
        let manifests: Vec<_> = images
            .iter()
            .map(|(descriptor, tag)| {
                let mut descriptor = descriptor.clone();
                descriptor["annotations"] = json!({"org.opencontainers.image.ref.name": tag});
                descriptor
            })
            .collect();
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        fs::write(self.0.join("index.json"), index.to_string()).unwrap();
    }

    /// The documents of an image: its manifest, and its configuration.
    pub(crate) fn documents(&self, tag: &str) -> (Value, Value) {
        let read = |path: &Path| serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap();
        let index = read(&self.0.join("index.json"));
        let entries = index["manifests"].as_array().unwrap();
        let entry = entries.iter().find(|it| it["annotations"]["org.opencontainers.image.ref.name"] == tag).unwrap();
        let manifest = read(&self.blob_path(entry["digest"].as_str().unwrap()));
        let config = read(&self.blob_path(manifest["config"]["digest"].as_str().unwrap()));
        (manifest, config)
    }

    /// The archives of an image's layers, compared with both of their digests.
    pub(crate) fn archives(&self, tag: &str) -> Vec<Vec<u8>> {
        let (manifest, config) = self.documents(tag);
        let ids = config["rootfs"]["diff_ids"].as_array().unwrap();
        let layers = manifest["layers"].as_array().unwrap();
        assert_eq!(layers.len(), ids.len());
        let archive = |(layer, id): (&Value, &Value)| {
            let bytes = fs::read(self.blob_path(layer["digest"].as_str().unwrap())).unwrap();
            assert_eq!(
                (layer["digest"].as_str(), layer["size"].as_u64()),
                (Some(&*digest(&bytes)), Some(bytes.len() as u64))
            );
            let mut archive = Vec::new();
            match layer["mediaType"].as_str().unwrap() {
                name if name.ends_with("gzip") => {
                    flate2::read::MultiGzDecoder::new(&*bytes).read_to_end(&mut archive).unwrap();
                }
                name if name.ends_with("zstd") => archive = zstd::decode_all(&*bytes).unwrap(),
                _ => archive = bytes,
            }
            assert_eq!(id.as_str(), Some(&*digest(&archive)));
            archive
        };
        layers.iter().zip(ids).map(archive).collect()
    }

    /// The name of an image.
    pub(crate) fn name(&self, tag: &str) -> String {
        format!("oci:{}:{tag}", self.0.display())
    }
}

/// A layout with one image, `x`.
pub(crate) fn image(place: &Path, form: Form, layers: &[Vec<u8>]) -> Layout {
    let layout = Layout::new(place);
    let manifest = layout.manifest(form, layers);
    layout.index(&[(manifest, "x")]);
    layout
}
