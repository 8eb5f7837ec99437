//! `kpackfs split --format oci`.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use clap::{Args, ValueEnum};

use super::options::SplitOptions;
use super::prepare::{CommandSession, save_index};
use super::progress::show_bytes;
use super::said::{SaidOptions, SaidPiece, WrittenOutput};
use super::split_warnings::{check_code, warn_of_fat};
use super::terminal::{note, warn};
use super::writing::OutputTarget;
use crate::deflate::DeflateLevel;
use crate::export::{
    ExportError, ImageLayout, ImageWriteError, ImagesToWrite, LayerCompression, WrittenImage, WrittenImages,
};
use crate::gpu::{GpuSet, TargetId, doubt};
use crate::image::{DeviceParts, Division, DivisionForm, Image, ImageRecipe, LayerPart, MAX_NAMED};
use crate::opened::{Named, NamedPath};
use crate::report::{PartChoice, PartGpus, SizedPart};
use crate::session::{Prepared, PreparedImage};
use crate::split::{Packaging, PlanOptions, Statement};
use crate::text::{first_names, more};
use crate::view::{gpus_of, serves};

/// The level of zstd: that of archives.
const ZSTD_LEVEL: i32 = 3;

/// Options of images.
#[derive(Clone, Debug, Args)]
pub(super) struct ImageOptions {
    /// With --format oci: how new layers are compressed
    #[arg(long, value_enum, value_name = "KIND", default_value_t = CompressionKind::Gzip, help_heading = "Images", hide_short_help = true)]
    layer_compression: CompressionKind,

    /// With --format oci: the form of device code
    #[arg(long = "form", value_enum, value_name = "FORM", default_value_t = ImageForm::Auto, help_heading = "Images", hide_short_help = true)]
    form: ImageForm,

    /// With --format oci, in place of --output: add images to the OCI layout DIR
    ///
    /// Layers that are there already, of the same image and with the same options, are neither made nor written
    /// again, unless their blobs are damaged.
    #[arg(long, value_name = "DIR", help_heading = "Images", hide_short_help = true, conflicts_with = "output")]
    pub(super) add_to: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CompressionKind {
    /// By all programs
    Gzip,
    /// By programs since about 2022, and several times faster
    Zstd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ImageForm {
    /// Packages that are split already stay split if the HIP runtime of the image reads archives
    Auto,
    /// Packages that are split already stay split, and all others have thin binaries
    Select,
    /// All binaries are thin
    Thin,
}

impl ImageOptions {
    /// Whether one was given.
    pub(super) fn are_given(&self) -> bool {
        self.add_to.is_some() || self.layer_compression != CompressionKind::Gzip || self.form != ImageForm::Auto
    }
}

/// What is written, and where.
pub(super) struct ImageOutput<'a> {
    pub(super) options: &'a ImageOptions,
    pub(super) split: &'a SplitOptions,
    pub(super) input: &'a Path,
    /// Its directory is that of a new layout.
    pub(super) to: OutputTarget<'a>,
    pub(super) said: SaidOptions,
}

impl ImageOutput<'_> {
    /// Writes an image for each GPU.
    pub(super) fn write(&self, named: &[NamedPath]) -> anyhow::Result<WrittenOutput> {
        let [NamedPath { named: Named::Image(reference), .. }, ..] = named else {
            let input = self.input.display();
            bail!(
                "{input}: --format oci makes images of an image; name one in an OCI layout, as oci:DIR:TAG or \
                 oci-archive:FILE:TAG"
            );
        };
        // Which files are divided must not depend on the GPUs, so that images share their layers.
        let all = SplitOptions { targets: self.split.targets.for_all(), ..self.split.clone() };
        let opening = CommandSession::new(named, &all)?;
        let PreparedImage { image, prepared, parts } = PreparedImage::open(reference, &opening.session())?;
        let gpus = self.gpus(&prepared)?;
        let options = all.to_options(Packaging::Bundles)?;
        let sets: Vec<_> = gpus.iter().map(|(gpus, _)| (**gpus).clone()).collect();
        parts.warnings.iter().for_each(|warning| warn(warning));
        let form = self.form(&prepared, &parts)?;
        let division = Division::new(&image, &prepared.input, &prepared.plan, parts, form, &options, &sets)?;
        report(&prepared, &division);
        report_artifacts(&image.image);
        let compression = match self.options.layer_compression {
            CompressionKind::Gzip => LayerCompression::Gzip(DeflateLevel::default()),
            CompressionKind::Zstd => LayerCompression::Zstd(ZSTD_LEVEL),
        };
        let to_write = ImagesToWrite {
            recipe: ImageRecipe { image: &image.image, options: &describe(&options, form, compression)? },
            division: &division,
            gpus: &gpus,
            compression,
            reflink: self.to.writing.reflink,
            durability: self.to.writing.durability(),
            may_replace: self.to.force,
            max_layer: self.to.limits.max_part.map(|limit| limit.bytes),
        };
        let layout = self.options.add_to.as_deref().map_or(ImageLayout::New(self.to.directory), ImageLayout::Existing);
        let written = show_bytes("Writing", |progress| {
            to_write.write(&layout, self.to.inputs, &prepared.resources, progress, warn)
        });
        if let Err(ImageWriteError::TooLarge(layers)) = &written {
            self.to.limits.check(|| Ok(layers_of(layers, &division)), PartChoice::Gpus)?;
        }
        if let Err(ImageWriteError::Export(error @ ExportError::Existing(_))) = &written {
            bail!("{error}; --add-to {} adds to the images in it", self.to.directory.display());
        }
        let WrittenImages { counts, images, size } = written?;
        tracing::debug!(unchanged = counts.unchanged, written = counts.written, found = counts.found, "layers");
        save_index(&prepared.resources);
        let named = |image: &WrittenImage| {
            let directory = layout.directory().as_os_str();
            [OsStr::new("oci:"), directory, ":".as_ref(), image.tag.as_ref()].into_iter().collect::<OsString>()
        };
        let first = images.first().map(named);
        let piece = |image: WrittenImage| {
            let WrittenImage { tag: name, digest, size } = image;
            SaidPiece { name, size, files: None, digest: Some(digest) }
        };
        let pieces = images.into_iter().map(piece).collect();
        let written = WrittenOutput::new(("image", "images"), layout.directory(), size, pieces);
        let not_split = self.said.not_split([(&prepared.input, &prepared.plan)], &prepared.resources);
        Ok(written.without(not_split).next("kpackfs inspect", first))
    }

    /// The form of what is split already.
    fn form(&self, prepared: &Prepared, parts: &DeviceParts) -> anyhow::Result<DivisionForm> {
        Ok(match self.options.form {
            ImageForm::Auto if parts.may_stay() => DivisionForm::Split,
            ImageForm::Auto | ImageForm::Thin => DivisionForm::Thin,
            ImageForm::Select if !prepared.plan.joined.is_empty() => DivisionForm::Split,
            ImageForm::Select => {
                let input = self.input.display();
                bail!("{input}: --form select: no package in it is split; --form thin makes thin binaries");
            }
        })
    }

    /// The GPUs of each image, and its tag.
    fn gpus(&self, prepared: &Prepared) -> anyhow::Result<Vec<(Arc<GpuSet>, String)>> {
        let (input, plan) = (self.input.display(), &prepared.plan);
        check_code(self.input, prepared)?;
        let existing = gpus_of(plan);
        let wanted: BTreeSet<TargetId> = match self.split.targets.wanted() {
            none if none.is_empty() => existing.iter().flat_map(GpuSet::targets).cloned().collect(),
            wanted => wanted.into_iter().collect(),
        };
        if let Some(missing) = wanted.iter().find(|gpu| !serves(plan, gpu)) {
            let existing = existing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            bail!(
                "--gpu-targets {missing}: {input} has nothing for this GPU{}; it has code for {existing}",
                doubt(&missing.to_string())
            );
        }
        if let Some(gpu) = wanted.iter().find(|gpu| gpu.without_features() != **gpu) {
            let processor = gpu.without_features();
            bail!(
                "--gpu-targets {gpu}: a tag cannot have this name; {processor} has the code for all modes of this GPU"
            );
        }
        let tagged = |gpu: TargetId| GpuSet::new([gpu]).map(|gpus| (gpus.to_string(), Arc::new(gpus)));
        Ok(wanted.into_iter().filter_map(tagged).map(|(tag, gpus)| (gpus, tag)).collect())
    }
}

/// Everything on which the bytes of layers depend, apart from the image.
fn describe(options: &PlanOptions, form: DivisionForm, compression: LayerCompression) -> anyhow::Result<String> {
    let (version, compression) = (env!("CARGO_PKG_VERSION"), compression.describe());
    let form = match form {
        DivisionForm::Split => "select",
        DivisionForm::Thin => "thin",
    };
    let selection = serde_json::to_string(&Statement::of(options))?;
    Ok(format!("kpackfs {version}, {form}, {compression}, {selection}"))
}

/// Reports what is different from what the user may expect.
fn report(prepared: &Prepared, division: &Division<'_>) {
    warn_of_fat(&prepared.plan);
    if let [first, rest @ ..] = &*division.hidden {
        let more = more(rest.len(), "");
        note(&format!("{first}{more}: left out, since a later member of the image hides it"));
    }
    let copies = division.copies.len();
    if copies > 0 {
        note(&format!("hard links that would lead to files of other layers, and are copies: {copies}"));
    }
}

/// Names what is about the whole image, and so not about new ones.
fn report_artifacts(image: &Image) {
    let artifacts: Vec<_> = image.artifacts().iter().map(ToString::to_string).collect();
    if !artifacts.is_empty() {
        let (count, kinds) = (artifacts.len(), first_names(&artifacts, MAX_NAMED, ", ", ","));
        note(&format!(
            "{count} left out ({kinds}): they name the digest of the image, so they are not about new images"
        ));
    }
}

/// The layers, once each.
fn layers_of(layers: &[(LayerPart, u64)], division: &Division<'_>) -> Vec<SizedPart> {
    let mut seen = HashSet::new();
    let sized = |(part, size): &(LayerPart, u64)| {
        let (name, gpus) = match &part.gpus {
            Some(gpus) => (format!("layer {} for {gpus}", part.number), PartGpus::Of(gpus.clone())),
            None => (format!("layer {}", part.number), PartGpus::All),
        };
        SizedPart::written(name, gpus, *size, division.files(part).collect())
    };
    layers.iter().filter(|(part, _)| seen.insert(part)).map(sized).collect()
}
