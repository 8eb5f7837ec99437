//! Files: Landlock (<https://docs.kernel.org/userspace-api/landlock.html>).

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags, path_beneath_rules,
};

/// The newest version on which this was tested. Rights of later versions are not restricted.
const TESTED: ABI = ABI::V7;

/// Where the kernel describes this process, this machine, and GPUs; and devices that do nothing. Landlock does not let a process look into
/// others through /proc.
const OF_SYSTEM: [&str; 5] = ["/proc", "/sys", "/dev/null", "/dev/urandom", "/dev/tty"];

/// The files that a command opens.
#[derive(Debug, Default)]
pub(crate) struct FileRules {
    /// The files and directories that it reads; `None` for all.
    pub(crate) read: Option<Vec<PathBuf>>,
    /// What it writes.
    pub(crate) written: Vec<(PathBuf, WriteAccess)>,
    /// Whether it connects to a server.
    pub(crate) connects: bool,
}

/// What is written at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteAccess {
    /// Files, directories and symlinks in this directory, which are renamed when they are complete.
    Directory,
    /// This file, or new files in this directory.
    Files,
    /// Directories in this directory, which stay empty.
    EmptyDirectories,
    /// Files in this directory get further names elsewhere. The kernel refuses a link where more is allowed than at the old name, so
    /// that this needs the rights of the output. A writer of the new name writes to the same file in any case.
    Linked,
}

impl WriteAccess {
    fn rights(self) -> BitFlags<AccessFs> {
        let file = make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate});
        match self {
            Self::Directory => {
                file | make_bitflags!(AccessFs::{ReadDir | RemoveDir | RemoveFile | MakeDir | MakeReg | MakeSym | Refer})
            }
            Self::Files => file | make_bitflags!(AccessFs::{MakeReg | RemoveFile}),
            Self::EmptyDirectories => make_bitflags!(AccessFs::{MakeDir | RemoveDir}),
            Self::Linked => file | AccessFs::Refer,
        }
    }
}

/// Restricts this thread.
pub(super) fn restrict(rules: &FileRules) -> Result<String, String> {
    #[cfg(debug_assertions)]
    if std::env::var_os("KPACKFS_LANDLOCK_ABI").is_some_and(|version| version == "0") {
        return Err(describe(LandlockStatus::NotImplemented));
    }
    let status = enforce(rules).map_err(|error| error.to_string())?;
    let version = describe(status.landlock);
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(version),
        RulesetStatus::PartiallyEnforced => Ok(format!("in part: {version}")),
        RulesetStatus::NotEnforced => Err(version),
    }
}

fn enforce(rules: &FileRules) -> Result<RestrictionStatus, RulesetError> {
    let reads = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let mut handled = AccessFs::from_all(TESTED) & !AccessFs::Refer;
    if rules.read.is_none() {
        handled &= !reads;
    }
    // The first version refuses every rename between directories, which publishing needs: then there is no restriction at all.
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::SoftRequirement).handle_access(AccessFs::Refer)?;
    let ruleset = ruleset.set_compatibility(CompatLevel::BestEffort).handle_access(handled)?;
    let net =
        AccessNet::from_all(TESTED) & !if rules.connects { AccessNet::ConnectTcp.into() } else { BitFlags::EMPTY };
    let ruleset = ruleset.handle_access(net)?.scope(Scope::from_all(TESTED))?;
    let mut ruleset = ruleset.create()?;
    if let Some(read) = &rules.read {
        ruleset =
            ruleset.add_rules(path_beneath_rules(OF_SYSTEM, reads))?.add_rules(path_beneath_rules(read, reads))?;
    }
    for (path, written) in &rules.written {
        ruleset = ruleset.add_rules(path_beneath_rules([path], written.rights() & (handled | AccessFs::Refer)))?;
    }
    ruleset.restrict_self()
}

fn describe(status: LandlockStatus) -> String {
    match status {
        LandlockStatus::NotEnabled => "Landlock is not enabled in this kernel (lsm=)".to_owned(),
        LandlockStatus::NotImplemented => "this kernel or container has no Landlock".to_owned(),
        LandlockStatus::Available { effective_abi, kernel_abi } => {
            format!("Landlock, version {}", kernel_abi.unwrap_or(effective_abi as i32))
        }
    }
}
