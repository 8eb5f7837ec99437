//! Which GPUs this machine has, according to the kernel's KFD driver.

use std::io;
use std::path::{Path, PathBuf};

use super::TargetId;
use crate::disk;
use crate::memory::Parser;

/// Where the kernel describes its compute nodes.
pub const KFD_TOPOLOGY: &str = "/sys/class/kfd/kfd/topology";

/// Why no GPU was found.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    /// The amdgpu driver is not loaded, or hidden in a container.
    #[error("{}: no KFD topology: is the amdgpu driver loaded? Without it, name GPUs such as gfx942 in place of auto", .0.display())]
    NoTopology(PathBuf),
    /// There are nodes, but no GPU among them that may be used.
    #[error("{}: no GPU among the nodes", .0.display())]
    NoGpu(PathBuf),
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was accessed.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

/// The targets of the GPUs below `topology` (see [`KFD_TOPOLOGY`]) in the order of their nodes, each once.
pub fn detect(topology: &Path) -> Result<Vec<TargetId>, DetectError> {
    let mut targets = Vec::new();
    for node in gpu_nodes(topology)? {
        if !targets.contains(&node.target) {
            targets.push(node.target);
        }
    }
    Ok(targets)
}

/// A GPU among the nodes of the KFD driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuNode {
    /// Its position among the nodes that this process may use, CPUs included. libhsakmt numbers nodes so.
    pub number: usize,
    /// Its `gfx_target_version`.
    pub version: u32,
    /// Its target.
    pub target: TargetId,
}

/// Each GPU below `topology`, in the order of their nodes, which is the order of HIP's devices.
pub fn gpu_nodes(topology: &Path) -> Result<Vec<GpuNode>, DetectError> {
    let failed = |path: &Path, source| DetectError::Io { path: path.to_owned(), source };
    let nodes = topology.join("nodes");
    let listing = match nodes.read_dir() {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(DetectError::NoTopology(nodes)),
        Err(error) => return Err(failed(&nodes, error)),
    };
    let mut numbers = Vec::new();
    for node in listing {
        let node = node.map_err(|error| failed(&nodes, error))?;
        numbers.extend(node.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    let mut gpus = Vec::new();
    let mut usable = 0..;
    for name in numbers {
        let path = nodes.join(name.to_string()).join("properties");
        let properties = match disk::read_to_string(&path, Parser::Text) {
            Ok(properties) => properties,
            // The kernel refuses with EPERM for a GPU that is not in the device control group of this container.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => continue,
            Err(error) => return Err(failed(&path, error)),
        };
        let Some(number) = usable.next() else { break };
        // CPUs are nodes without SIMD units.
        if property(&properties, "simd_count").is_none_or(|count| count == 0) {
            continue;
        }
        if let Some(version) = property(&properties, "gfx_target_version").filter(|&version| version != 0) {
            gpus.push(GpuNode { number, version, target: TargetId::of_version(version) });
        }
    }
    if gpus.is_empty() { Err(DetectError::NoGpu(nodes)) } else { Ok(gpus) }
}

/// The value in the line `name value`.
fn property(properties: &str, name: &str) -> Option<u32> {
    properties.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{DetectError, detect, gpu_nodes};

    fn topology(nodes: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, properties) in nodes {
            let node = directory.path().join("nodes").join(name);
            fs::create_dir_all(&node).unwrap();
            fs::write(node.join("properties"), properties).unwrap();
        }
        directory
    }

    #[test]
    fn gpus_are_found_in_the_order_of_their_nodes() {
        let cpu = "cpu_cores_count 16\nsimd_count 0\ngfx_target_version 0\n";
        let gpu =
            |version: &str| format!("simd_count 304\nunique_id 18446744073709551615\ngfx_target_version {version}\n");
        let topology = topology(&[
            ("0", cpu),
            ("10", &gpu("90402")),
            ("2", &gpu("110001")),
            ("3", &gpu("90402")),
            ("4", &gpu("120500")),
            ("5", &gpu("130015")),
            ("9", &gpu("110701")),
            ("6", &gpu("0")),
            ("7", "simd_count many\n"),
            ("not-a-node", &gpu("90010")),
        ]);
        fs::create_dir(topology.path().join("nodes/8")).unwrap();
        let found: Vec<_> = detect(topology.path()).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found, ["gfx1101", "gfx942", "gfx1250", "gfx130f", "gfx1171"]);
        // Node 8 may not be used, so node 9 is the eighth.
        let numbers: Vec<_> = gpu_nodes(topology.path()).unwrap().iter().map(|node| node.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 7, 8]);
    }

    #[test]
    fn a_machine_without_gpus_says_so() {
        let none = topology(&[("0", "simd_count 0\n")]);
        assert!(matches!(detect(none.path()), Err(DetectError::NoGpu(_))));
        assert!(matches!(detect(&none.path().join("missing")), Err(DetectError::NoTopology(_))));
    }
}
