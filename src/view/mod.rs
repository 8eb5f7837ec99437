//! The tree that a user sees: host, device and merged views.
//!
//! It knows neither FUSE nor disks: `fs` and `export` read its trees.

mod hiding;
pub(crate) mod items;
pub(crate) mod layout;
mod made_time;
mod part_manifests;
mod report;
mod served;
mod shared;
mod simple;
mod thin;
mod thin_wheels;
mod watch;

pub use crate::split::{DEVICE, FAT, FAT_WHEEL, HOST, MERGED, SIMPLE, SIMPLE_THIN, THIN, THIN_WHEELS, WHEELS};
pub(crate) use layout::show_reports;
pub use layout::{COLLECTED, REPORTS, lay_out, lay_out_at, lay_out_listed};
pub use made_time::MadeTime;
pub use part_manifests::{MANIFEST_INSIDE, MANIFESTS, TreeManifest, part_manifests};
pub(crate) use report::Versioned;
pub use report::{JSON_VERSION, Metrics, Status, fixed};

pub use crate::rope::Materialize;
pub use served::{ServedBy, gpus_of, serves, users_of, views_without_code};
pub use shared::{COMMON, show_shared};
pub use simple::{ListedWheel, PackageIndexes, show_all_wheels, show_index, show_pages};
pub use thin::ThinViews;
pub use thin_wheels::ThinWheelOfView;
