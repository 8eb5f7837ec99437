//! Which device wheels belong to which host wheel, and which wheels are installed together.

use std::cmp::Reverse;
use std::collections::BTreeSet;
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
    /// the system of the device wheel, if there are any. A variant wheel is a copy of the host wheel, so there may be several;
    /// and a device wheel for all systems is installed with the host wheel of each.
    pub fn hosts(self, hosts: &[WheelLabel<'_>]) -> Vec<usize> {
        let that = |wanted| move |&at: &usize| hosts.get(at).is_some_and(|host| self.belongs_to(host) == wanted);
        let said = |wanted| (0..hosts.len()).filter(that(wanted)).collect::<Vec<_>>();
        let own = Some(said(Some(true))).filter(|own| !own.is_empty()).unwrap_or_else(|| said(None));
        if self.is_for_all_systems() {
            return own;
        }
        let has_tags = |&at: &usize| hosts.get(at).is_some_and(|host| file_tags(host.path) == file_tags(self.path));
        let (same, other): (Vec<_>, Vec<_>) = own.into_iter().partition(has_tags);
        let own = if same.is_empty() { other } else { same };
        let is_fitting = |&at: &usize| hosts.get(at).is_some_and(|host| self.fits(*host));
        let (fitting, other): (Vec<_>, Vec<_>) = own.into_iter().partition(is_fitting);
        if fitting.is_empty() { other } else { fitting }
    }

    /// Whether its file name has the tags of a wheel without code for a system, as device wheels may have.
    fn is_for_all_systems(self) -> bool {
        file_tags(self.path).is_some_and(|(_, [_, abi, platform])| abi == "none" && platform == "any")
    }

    /// Whether some system takes both wheels, by the tags of their file names (Platform compatibility tags). Wheels for one ABI of
    /// several Pythons, and files with other names, do.
    pub fn fits(self, other: WheelLabel<'_>) -> bool {
        let (Some((_, own)), Some((_, others))) = (file_tags(self.path), file_tags(other.path)) else { return true };
        let ([own_python, own_abi, own_platform], [python, abi, platform]) = (own, others);
        let is_general = |abi: &str| abi.split('.').any(|it| matches!(it, "none" | "abi3"));
        let share = |one: &str, two: &str| one.split('.').any(|it| two.split('.').any(|tag| tag == it));
        let is_same_system =
            |one: &str| platform.split('.').any(|two| one == "any" || two == "any" || system(one) == system(two));
        own_platform.split('.').any(is_same_system)
            && (is_general(&own_abi) || is_general(&abi) || share(&own_python, &python) && share(&own_abi, &abi))
    }

    /// The normalised name of its distribution.
    fn name(self) -> Option<String> {
        self.metadata.map(|metadata| normalise(&metadata.name))
    }

    /// Whether it requires another wheel in exactly one version, whichever that is, or one of its extras does.
    fn pins(self, other: WheelLabel<'_>) -> bool {
        let (Some(metadata), Some(name)) = (self.metadata, other.name()) else { return false };
        let of_extras = metadata.pins_of_extras().map(|(_, pinned, _)| pinned);
        metadata.pins().map(|(pinned, _)| pinned).chain(of_extras).any(|pinned| pinned == name)
    }

    /// Whether this device wheel belongs to a host wheel; `None` if METADATA does not say. Device wheels require their host
    /// wheel in its version, and extras of host wheels require their device wheels so.
    fn belongs_to(self, host: &WheelLabel<'_>) -> Option<bool> {
        let (device, of_host) = (self.metadata?, host.metadata?);
        let name = normalise(&of_host.name);
        if let Some((_, wanted)) = device.pins().find(|(pinned, _)| *pinned == name) {
            return Some(accepts(wanted, &of_host.version));
        }
        host.names(self).or_else(|| device.pins().next().map(|_| false))
    }

    /// Whether extras of this host wheel require a device wheel in its version; `None` if they do not name it.
    fn names(self, device: WheelLabel<'_>) -> Option<bool> {
        let (host, device) = (self.metadata?, device.metadata?);
        let name = normalise(&device.name);
        let wanted = host.pins_of_extras().filter(|(_, pinned, _)| *pinned == name).map(|(.., wanted)| wanted);
        wanted.map(|wanted| accepts(wanted, &device.version)).reduce(|one, other| one || other)
    }
}

/// The operating system of a platform tag, and the processor on Linux, whatever the C library and its version.
fn system(platform: &str) -> (&str, &str) {
    let is_version = |letter: char| letter.is_ascii_digit() || letter == '_';
    let linux = ["manylinux", "musllinux", "linux"].iter().find_map(|name| platform.strip_prefix(name));
    match (linux, platform.split_once('_')) {
        (Some(rest), _) => ("linux", rest.trim_start_matches(is_version)),
        (None, Some((system @ "macosx", _))) => (system, ""),
        (None, _) => (platform, ""),
    }
}

/// Wheels that are installed together, each host wheel first, with its device wheels. Wheels of which one requires the other
/// in exactly one version are together. Several wheels of the host's distribution, such as those for two systems, are not.
pub fn installed_together<'a>(wheels: &[WheelLabel<'a>]) -> Vec<Vec<WheelLabel<'a>>> {
    let mut related = Vec::<Vec<WheelLabel<'a>>>::new();
    for &wheel in wheels {
        let is_related = |it: &WheelLabel<'a>| it.pins(wheel) || wheel.pins(*it);
        let (joined, others): (Vec<_>, Vec<_>) =
            related.into_iter().partition(|group: &Vec<_>| group.iter().any(is_related));
        related = others;
        related.push(joined.into_iter().flatten().chain([wheel]).collect());
    }
    related.into_iter().flat_map(of_each_host).collect()
}

/// A set for each host wheel of related wheels. A wheel that belongs to none of them, since they require another version, is in
/// all sets that have no other wheel of its distribution: that they cannot be installed together has to be seen.
fn of_each_host<'a>(mut related: Vec<WheelLabel<'a>>) -> Vec<Vec<WheelLabel<'a>>> {
    related.sort_by_key(|wheel| Reverse(wheel.metadata.map_or(0, |metadata| metadata.pins_of_extras().count())));
    let name = related.first().and_then(|host| host.name());
    let (hosts, others): (Vec<_>, Vec<_>) = related.into_iter().partition(|wheel| wheel.name() == name);
    let others: Vec<_> = others.into_iter().map(|wheel| (wheel, wheel.hosts(&hosts))).collect();
    let of_host = |(at, host): (usize, &WheelLabel<'a>)| {
        let of_it = |(wheel, hosts): &(WheelLabel<'a>, Vec<usize>)| hosts.contains(&at).then_some(*wheel);
        let of_none = others.iter().filter(|(_, hosts)| hosts.is_empty()).map(|(wheel, _)| *wheel);
        // An installer takes the version that an extra names.
        let (wanted, own): (Vec<_>, Vec<_>) =
            others.iter().filter_map(of_it).partition(|wheel| host.names(*wheel) == Some(true));
        let mut names = BTreeSet::new();
        let chosen = wanted.into_iter().chain(own).chain(of_none).filter(|wheel| names.insert(wheel.name()));
        std::iter::once(*host).chain(chosen).collect()
    };
    hosts.iter().enumerate().map(of_host).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{WheelLabel, installed_together};
    use crate::source::EntryPath;
    use crate::wheel::Metadata;

    fn metadata(name: &str, version: &str, requires: &[&str]) -> Metadata {
        let lines = requires.iter().map(|line| format!("Requires-Dist: {line}\n")).collect::<Vec<_>>().concat();
        let text = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}\n");
        Metadata::parse(text.into_bytes(), &EntryPath::new(b"fat.dist-info/METADATA").unwrap()).unwrap()
    }

    #[test]
    fn wheels_for_other_systems_do_not_fit() {
        let label = |path: &'static str| WheelLabel { metadata: None, path: Path::new(path) };
        for (one, other, expected) in [
            ("a-1-cp312-cp312-manylinux_2_28_x86_64.whl", "b-1-cp312-cp312-linux_x86_64.whl", true),
            ("a-1-cp312-cp312-manylinux_2_28_x86_64.whl", "b-1-cp312-cp312-manylinux2014_x86_64.whl", true),
            ("a-1-cp312-cp312-manylinux_2_28_x86_64.whl", "b-1-cp312-cp312-manylinux_2_28_aarch64.whl", false),
            ("a-1-cp312-cp312-linux_x86_64.whl", "b-1-cp312-cp312-win_amd64.whl", false),
            ("a-1-cp312-cp312-linux_x86_64.whl", "b-1-cp310-cp310-linux_x86_64.whl", false),
            ("a-1-cp313-cp313t-linux_x86_64.whl", "b-1-cp313-cp313-linux_x86_64.whl", false),
            ("a-1-cp310-abi3-linux_x86_64.whl", "b-1-cp312-cp312-linux_x86_64.whl", true),
            ("a-1-cp312-cp312-linux_x86_64.whl", "b-1-py3-none-any.whl", true),
            ("a-1-cp312-cp312-linux_x86_64.manylinux1_i686.whl", "b-1-py3-none-linux_i686.whl", true),
            ("a-1-cp312-cp312-linux_x86_64.whl", "host", true),
        ] {
            assert_eq!(label(one).fits(label(other)), expected, "{one} {other}");
            assert_eq!(label(other).fits(label(one)), expected, "{other} {one}");
        }
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

    #[test]
    fn device_wheels_are_installed_with_each_host_wheel_that_they_belong_to() {
        let host = metadata("fat", "1", &["amd-fat-gfx942==1 ; extra == \"device-gfx942\""]);
        let device = |version| metadata("amd-fat-gfx942", version, &[]);
        let (current, other) = (device("1"), metadata("other", "1", &[]));
        let (older, older_pin) = (device("0.9"), metadata("amd-fat-gfx942", "0.9", &["fat==1"]));
        let wheels = |list: &[(&Metadata, &str)]| -> Vec<Vec<String>> {
            let path =
                |(of, tags): &(&Metadata, &str)| format!("{}-{}-{tags}.whl", of.name.replace('-', "_"), of.version);
            let paths: Vec<_> = list.iter().map(path).collect();
            let label = |((of, _), path)| WheelLabel { metadata: Some(of), path: Path::new(path) };
            let labels: Vec<_> = list.iter().copied().zip(&paths).map(label).collect();
            let sets = installed_together(&labels).into_iter();
            sets.map(|set| set.iter().map(|it| it.path.display().to_string()).collect()).collect()
        };
        let (any, linux, windows) = ("py3-none-any", "py3-none-linux_x86_64", "py3-none-win_amd64");
        let found = wheels(&[(&current, any), (&host, any), (&other, any), (&host, linux)]);
        let device = "amd_fat_gfx942-1-py3-none-any.whl";
        let linux_host = "fat-1-py3-none-linux_x86_64.whl";
        assert_eq!(found[0], ["other-1-py3-none-any.whl"]);
        assert_eq!(found[1..], [["fat-1-py3-none-any.whl", device], [linux_host, device]]);
        // Each system has its own.
        let found = wheels(&[(&host, linux), (&host, windows), (&current, windows), (&current, linux)]);
        assert_eq!(found[0], [linux_host, "amd_fat_gfx942-1-py3-none-linux_x86_64.whl"]);
        assert_eq!(found[1], ["fat-1-py3-none-win_amd64.whl", "amd_fat_gfx942-1-py3-none-win_amd64.whl"]);
        // Another version counts only if there is none that fits.
        assert_eq!(wheels(&[(&host, any), (&older, any), (&current, any)]), [["fat-1-py3-none-any.whl", device]]);
        assert_eq!(wheels(&[(&older_pin, any), (&current, any), (&host, any)]), [["fat-1-py3-none-any.whl", device]]);
        let conflict = ["fat-1-py3-none-any.whl", "amd_fat_gfx942-0.9-py3-none-any.whl"];
        assert_eq!(wheels(&[(&older, any), (&host, any)]), [conflict]);
    }
}
