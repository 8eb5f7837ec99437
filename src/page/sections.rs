//! The sections of the page, from the answers to the detailed numbers.

use maud::{Markup, html};

use super::bars::{Bar, bars};
use super::cells::{Pictures, reported, section};
use super::treemap::{Area, treemap};
use super::{Page, shown};
use crate::report::details::{ESTIMATE_ERROR, ThinEstimate, part};
use crate::report::table::{Table, TableCell, counted, percent, size};
use crate::report::{BinarySummary, UserSize};

/// The CSS class of the colour of a target.
pub(super) fn kind(target: &str) -> &'static str {
    let families = [("gfx9", "k-gfx9"), ("gfx10", "k-gfx10"), ("gfx11", "k-gfx11"), ("gfx12", "k-gfx12")];
    families.into_iter().find(|(prefix, _)| target.starts_with(prefix)).map_or("k-gfx", |(_, kind)| kind)
}

const KINDS: [(&str, &str); 9] = [
    ("k-host", "host code in fat binaries"),
    ("k-file", "other files"),
    ("k-gfx9", "gfx9"),
    ("k-gfx10", "gfx10"),
    ("k-gfx11", "gfx11"),
    ("k-gfx12", "gfx12"),
    ("k-gfx", "other device code"),
    ("k-db", "kernel databases"),
    ("k-rest", "small parts together"),
];

impl Page {
    pub(super) fn head(&self) -> Markup {
        html! {
            header {
                h1 { (shown(&self.input)) }
                p.lead { (self.answer()) }
                (self.tiles())
            }
        }
    }

    pub(super) fn sections(&self) -> Markup {
        html! {
            div.first { (self.map()) (self.users()) }
            (self.layers())
            (self.matrix())
            (self.compression())
            (self.databases())
            (self.libraries())
            (self.device_code())
            (self.packages())
            (self.parts())
            (self.warnings())
        }
    }

    /// A sentence about what a user downloads or installs.
    fn answer(&self) -> Markup {
        let sizes = &self.report.sizes;
        let is_wheel = sizes.input_wheel_size.is_some();
        let taken = |user: &UserSize| if is_wheel { user.download_size } else { user.installed_size };
        let known = sizes.users.iter().filter_map(|(gpu, user)| Some((taken(user)?, gpu.as_str())));
        let thin =
            |(gpu, thin): (&String, &ThinEstimate)| (thin.download_size.unwrap_or(thin.installed_size), gpu.clone());
        let all = sizes.input_wheel_size.unwrap_or(self.report.summary.input_size);
        let verb = if is_wheel { "downloads" } else { "installs" };
        let range = |least: (u64, &str), most: (u64, &str)| {
            html! {
                strong { (size(least.0)) } " (" (shown(least.1)) ", " (percent(least.0, all)) ")"
                @if most.0 != least.0 { " to " strong { (size(most.0)) } " (" (shown(most.1)) ", " (percent(most.0, all)) ")" }
            }
        };
        let known: Vec<_> = known.collect();
        let estimates: Vec<_> = self.details.thin.iter().map(thin).collect();
        if let Some((&least, &most)) = known.iter().min().zip(known.iter().max()) {
            return html! { "Fat, every user " (verb) " " strong { (size(all)) } ". Split, a user of one GPU " (verb) " " (range(least, most)) "." };
        }
        let ends = estimates.iter().min().zip(estimates.iter().max());
        html! {
            "Fat, every user " (verb) " " strong { (size(all)) } ". "
            @if let Some((least, most)) = ends {
                "With the code of one GPU it would be about " (range((least.0, &least.1), (most.0, &most.1)))
                "; this is an estimate (± " (ESTIMATE_ERROR) " %): " code { "--sizes" } " computes the sizes of the split."
            } @else { "There is no device code in it that could be split off." }
        }
    }

    fn tiles(&self) -> Markup {
        let summary = &self.report.summary;
        let device: u64 = self.details.packages.iter().map(|package| package.device_size).sum();
        let databases: u64 = self.details.packages.iter().flat_map(|package| package.databases.values()).sum();
        let tile =
            |title: &str, value: String, note: String| html! { div { dt { (title) } dd { (value) small { (note) } } } };
        let of_all = |size: u64| percent(size, summary.input_size);
        html! {
            dl.tiles {
                (tile("unpacked", size(summary.input_size), counted(summary.entries, "entry", "entries")))
                (tile("host part", size(summary.host_size), of_all(summary.host_size)))
                (tile("device code in binaries", size(device), of_all(device)))
                (tile("kernel databases", size(databases), of_all(databases)))
                (tile("fat binaries", (summary.binaries.len() + self.folded.binaries).to_string(), String::new()))
                (tile("GPUs", self.report.sizes.users.len().to_string(), String::new()))
            }
        }
    }

    fn map(&self) -> Markup {
        let root = Area::of(self.input.clone(), self.areas());
        let name = "What weighs what";
        let about = "Each area is as large as the part of the input that it stands for. The table of packages and the table \
                     of libraries below have the numbers.";
        html! {
            section aria-labelledby="map-title" {
                h2 id="map-title" { (name) }
                (treemap("wide", name, about, &root, 760, 440))
                (treemap("narrow", name, about, &root, 380, 460))
                ul.legend {
                    @for (kind, name) in KINDS { @if uses(&root, kind) {
                        li { svg viewBox="0 0 10 10" aria-hidden="true" { rect class=(kind) width="10" height="10" {} } (name) }
                    } }
                }
                p.note { "Device code is shown as binaries hold it; where it is compressed there, a target's area is its share of the uncompressed code." }
            }
        }
    }

    /// The packages, their libraries, and the parts of those.
    fn areas(&self) -> Vec<Area> {
        self.details
            .packages
            .iter()
            .map(|package| {
                let name = package.name.as_deref();
                let is_here = |path: &str| name.is_some_and(|name| self.is_in(name, path));
                let mut parts: Vec<_> = package
                    .databases
                    .iter()
                    .map(|(library, size)| Area::leaf((*library).to_owned(), *size, "k-db"))
                    .collect();
                let mut left = package.host_size + package.device_size;
                for binary in self.report.summary.binaries.iter().filter(|binary| is_here(&binary.path)) {
                    left = left.saturating_sub(binary.size);
                    parts.push(self.library(binary));
                }
                for file in self.details.files.iter().filter(|file| is_here(&file.path)) {
                    left = left.saturating_sub(file.size);
                    parts.push(Area::leaf(file.path.clone(), file.size, "k-file"));
                }
                if left > 0 {
                    parts.push(Area::leaf("smaller files", left, "k-rest"));
                }
                let title = match name {
                    None => "other directories",
                    Some(".") => "files in no directory",
                    Some(name) => name,
                };
                Area::of(title, parts)
            })
            .collect()
    }

    /// Whether a file is in a package.
    fn is_in(&self, package: &str, path: &str) -> bool {
        let below = |directory: &str| match directory {
            "" => Some(path),
            directory => path.strip_prefix(directory)?.strip_prefix('/'),
        };
        match package {
            "." => below(&self.details.root).is_some_and(|rest| !rest.contains('/')),
            package => below(package).is_some(),
        }
    }

    fn library(&self, binary: &BinarySummary) -> Area {
        let device = binary.size.saturating_sub(binary.host_size);
        let targets = self.details.code.get(&binary.path).into_iter().flatten();
        let targets = targets.map(|(target, code)| {
            Area::leaf(target.clone(), part(device, code.code_size, binary.code_size), kind(target))
        });
        let mut parts: Vec<_> = targets.collect();
        parts.push(Area::leaf("host code", binary.host_size, "k-host"));
        Area::of(binary.path.clone(), parts)
    }

    fn users(&self) -> Markup {
        let (summary, sizes) = (&self.report.summary, &self.report.sizes);
        let (fat, whole) = (sizes.input_wheel_size, Some(summary.input_size));
        let row = |name: &str, [download, installed]: [Option<u64>; 2], thin: [Option<u64>; 2], parts: String| {
            let ([thin_download, thin_installed], of_fat) = (thin.map(TableCell::size), percent(download, fat).into());
            let (of_whole, download, installed) =
                (percent(installed, whole).into(), TableCell::size(download), TableCell::size(installed));
            [name.into(), download, of_fat, thin_download, installed, of_whole, thin_installed, parts.into()]
        };
        let columns = "GPU | download # | of the fat wheel # | thin download, estimated # | installed # | \
            of the input # | thin installed, estimated # | parts";
        let mut table = Table::new("What a user of each GPU needs", columns);
        table.row(row("all (fat)", [fat, whole], [None; 2], String::new()));
        let mut pictures = vec![self.fat_bars()];
        for (gpu, user) in &sizes.users {
            let thin = self.details.thin.get(gpu);
            let thin = [thin.and_then(|thin| thin.download_size), thin.map(|thin| thin.installed_size)];
            table.row(row(gpu, [user.download_size, user.installed_size], thin, user.parts()));
            pictures.push(self.user_bars(gpu, user));
        }
        let caption = "Downloads and installations by GPU: host + device parts, and thin";
        let body = html! {
            (reported("users", caption, &mut table, Pictures { title: "download / installed", of_rows: &pictures }))
            p.note {
                "Upper bar: download. Lower bar: installed. The whole width is the fat input. "
                @if sizes.users.values().any(|user| user.installed_size.is_none()) {
                    "Without " code { "--sizes" } ", what the split takes is not known; bars then show the estimates for thin. "
                }
                "Thin is one part with the code of one GPU; its sizes are estimates (± " (ESTIMATE_ERROR) " %), which take code to be as compressible for one GPU as for another."
            }
        };
        section("users", &table.title, true, &body)
    }

    fn fat_bars(&self) -> Markup {
        let installed = self.report.summary.input_size;
        let download = self.report.sizes.input_wheel_size.unwrap_or(installed);
        let whole = |name, size| Bar { whole: size, segments: vec![("k-rest", name, size)] };
        bars("The fat input", &[whole("fat download", download), whole("fat installed", installed)])
    }

    fn user_bars(&self, gpu: &str, user: &UserSize) -> Markup {
        let (summary, sizes) = (&self.report.summary, &self.report.sizes);
        let thin = self.details.thin.get(gpu);
        let host_wheel = sizes.host_wheels.first().and_then(|wheel| wheel.size);
        let segments = |host: Option<u64>, all: Option<u64>, estimate: Option<u64>| match host.zip(all) {
            Some((host, all)) => vec![("k-host", "host", host), (kind(gpu), "device", all.saturating_sub(host))],
            None => estimate.map(|estimate| ("k-estimate", "thin, estimated", estimate)).into_iter().collect(),
        };
        let download = segments(host_wheel, user.download_size, thin.and_then(|thin| thin.download_size));
        let installed = segments(Some(summary.host_size), user.installed_size, thin.map(|thin| thin.installed_size));
        let download = Bar { whole: sizes.input_wheel_size.unwrap_or(summary.input_size), segments: download };
        let installed = Bar { whole: summary.input_size, segments: installed };
        bars(&format!("{gpu}: share of the fat input"), &[download, installed])
    }
}

fn uses(area: &Area, kind: &str) -> bool {
    area.kind == kind || area.parts.iter().any(|part| uses(part, kind))
}
