//! Which device wheels belong to which host wheel.

use std::path::Path;

use super::{Metadata, accepts, file_tags, normalise};

/// What relates a wheel to others: METADATA, and the tags in its file name.
#[derive(Clone, Copy, Debug)]
pub struct WheelLabel<'a> {
    /// Its METADATA; `None` for a part of a tree.
    pub metadata: Option<&'a Metadata>,
    /// Its path.
    pub path: &'a Path,
}

impl WheelLabel<'_> {
    /// Which of `hosts` this device wheel belongs to, by position: those that METADATA says, or those about which it says
    /// nothing if there are none. A release may have wheels of one version for several systems. So these are the hosts for
    /// the system of the device wheel, if there are any. A variant wheel is a copy of the host wheel, so there may be several.
    pub fn hosts(self, hosts: &[WheelLabel<'_>]) -> Vec<usize> {
        let that = |wanted| move |&at: &usize| hosts.get(at).is_some_and(|host| self.belongs_to(host) == wanted);
        let said = |wanted| (0..hosts.len()).filter(that(wanted)).collect::<Vec<_>>();
        let own = Some(said(Some(true))).filter(|own| !own.is_empty()).unwrap_or_else(|| said(None));
        let has_tags = |&at: &usize| hosts.get(at).is_some_and(|host| file_tags(host.path) == file_tags(self.path));
        let (same, other): (Vec<_>, Vec<_>) = own.into_iter().partition(has_tags);
        if same.is_empty() { other } else { same }
    }

    /// Whether this device wheel belongs to a host wheel; `None` if METADATA does not say. Device wheels require their host
    /// wheel in its version, and extras of host wheels require their device wheels so.
    fn belongs_to(self, host: &WheelLabel<'_>) -> Option<bool> {
        let (device, host) = (self.metadata?, host.metadata?);
        let (own, name) = (normalise(&device.name), normalise(&host.name));
        if let Some((_, wanted)) = device.pins().find(|(pinned, _)| *pinned == name) {
            return Some(accepts(wanted, &host.version));
        }
        let of_extras = host.pins_of_extras().filter(|(_, pinned, _)| *pinned == own);
        let wanted: Vec<_> = of_extras.map(|(.., wanted)| wanted).collect();
        if wanted.is_empty() {
            return device.pins().next().map(|_| false);
        }
        Some(wanted.iter().any(|wanted| accepts(wanted, &device.version)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::WheelLabel;
    use crate::source::EntryPath;
    use crate::wheel::Metadata;

    fn metadata(name: &str, version: &str, requires: &[&str]) -> Metadata {
        let lines = requires.iter().map(|line| format!("Requires-Dist: {line}\n")).collect::<Vec<_>>().concat();
        let text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}\n");
        Metadata::parse(text.into_bytes(), &EntryPath::new(b"fat.dist-info/METADATA").unwrap()).unwrap()
    }

    #[test]
    fn metadata_comes_first_then_tags() {
        let naming = metadata("Fat", "1", &["amd-fat-gfx942==1 ; extra == \"device-gfx942\""]);
        let newer = metadata("fat", "2", &["amd-fat-gfx942==2 ; extra == \"device-gfx942\""]);
        let other = metadata("other", "1", &[]);
        let hosts = [(&naming, "linux_x86_64"), (&naming, "win_amd64"), (&newer, "linux_x86_64"), (&other, "any")];
        let paths = hosts.map(|(of, platform)| format!("{}-{}-py3-none-{platform}.whl", of.name, of.version));
        let label = |at: usize| WheelLabel { metadata: Some(hosts[at].0), path: Path::new(&paths[at]) };
        let hosts = [0, 1, 2, 3].map(label);
        let requiring = |version| metadata("amd-fat-gfx1100", version, &[&format!("fat=={version}")]);
        for (device, platform, expected) in [
            (requiring("1"), "win_amd64", vec![1]),
            (requiring("1"), "any", vec![0, 1]),
            (requiring("2"), "win_amd64", vec![2]),
            (requiring("3"), "linux_x86_64", vec![]),
            (metadata("amd_fat_gfx942", "2", &[]), "linux_x86_64", vec![2]),
            (metadata("amd_fat_gfx942", "3", &[]), "any", vec![3]),
            (metadata("unheard-of", "1", &[]), "linux_x86_64", vec![0, 2]),
        ] {
            let path = format!("{}-{}-py3-none-{platform}.whl", device.name.replace('-', "_"), device.version);
            let found = WheelLabel { metadata: Some(&device), path: Path::new(&path) }.hosts(&hosts);
            assert_eq!(found, expected, "{path}");
        }
        let of_tree = WheelLabel { metadata: None, path: Path::new("out/gfx942") };
        assert_eq!(of_tree.hosts(&hosts), [0, 1, 2, 3]);
    }
}
