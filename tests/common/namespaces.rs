//! Mount namespaces for tests.

/// Makes mounts invisible elsewhere, and runs a program. `/` of a chroot may be no mount point, so that its propagation cannot be
/// changed: then a copy of it becomes one.
const PRIVATE: &str = r#"
mount --make-rprivate / 2>/dev/null && exec "$@"
mount -t tmpfs private /mnt && mount --make-private /mnt && mkdir /mnt/root && mount --rbind / /mnt/root &&
    mount --make-rprivate /mnt/root && exec chroot /mnt/root sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
"#;

/// The command line that runs a program with mounts of its own, to be followed by that program. `options` are further ones of
/// unshare(1).
pub(crate) fn unshare<'a>(options: &[&'a str]) -> Vec<&'a str> {
    [&["unshare", "--mount", "--propagation", "unchanged"], options, &["sh", "-c", PRIVATE, "sh"]].concat()
}
