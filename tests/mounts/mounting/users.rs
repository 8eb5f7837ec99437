//! Mounts by users other than root.

use super::sandbox::{Sandbox, has};
use crate::common::skipped;

#[test]
fn in_a_user_namespace_of_their_own_they_mount_themselves() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        unshare --user true 2>/dev/null || { echo no; exit; }
        unshare --user --map-root-user --mount bash -c '
            kpackfs mount "$1" "$2"; echo $?
            findmnt -no FSTYPE,SOURCE "$2"
            cat "$2/host/plain.so" | wc -c
            ls "$2/gfx90a/.kpack"
            kpackfs umount "$2"; echo $?
        ' - "$IN" "$M"
        stat -c %s "$IN/plain.so" >/dev/null
        "#,
    );
    if text == "no\n" {
        return skipped("no user namespaces here, as in a chroot; mounts in them were NOT checked");
    }
    let lines: Vec<_> = text.lines().collect();
    let [mounted, shown, size, archive, unmounted] = lines[..] else { panic!("{text}") };
    assert_eq!((mounted, archive, unmounted), ("0", "rocm_gfx90a.kpack", "0"), "{text}");
    assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), ["fuse.kpackfs", "$D/in"]);
    assert!(size.parse::<u64>().unwrap() > 1000, "{text}");
}

#[test]
fn fusermount3_mounts_for_them() {
    let Some(sandbox) = Sandbox::new() else { return };
    if !has("fusermount3") || !has("setpriv") {
        return;
    }
    let text = sandbox.run(
        r#"
        for_users
        mkdir "$D/a,b\\c" && cp "$IN/plain.so" "$D/a,b\\c/"
        as kpackfs mount "$D/a,b\\c" "$M"; echo $?
        findmnt -no FSTYPE,SOURCE,OPTIONS "$M" | grep -o 'kpackfs .*user_id=[0-9]*'
        as ls "$M/host"; ls "$M" 2>&1 | tail -c 19
        pid=$(daemon); kill -KILL $pid; gone $pid
        as kpackfs mount "$IN" "$M" 2>/dev/null; echo $?
        as ls "$M/host"; as kpackfs umount "$M"; echo $?
        mountpoint -q "$M" || echo unmounted
        as kpackfs mount "$IN" /root 2>&1 | sed 's/:.*root/: root/'
        as env PATH="$D/bin" "$D/bin/kpackfs" mount "$IN" "$M" || true
        chmod 600 "$D/fuse"; as kpackfs mount "$IN" "$M" || true
        "#,
    );
    if text == "no\n" {
        return skipped("no device can be made here; fusermount3 was NOT checked for other users");
    }
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "0", "{text}");
    assert!(
        lines[1].starts_with(r"kpackfs $D/a,b\c ro,nosuid,nodev,") && lines[1].ends_with("user_id=65534"),
        "{text}"
    );
    assert_eq!(lines[2..8], ["plain.so", " Permission denied", "0", "plain.so", "0", "unmounted"], "{text}");
    assert!(lines[8].contains("denied") || lines[8].contains("no write access"), "{text}");
    let without =
        "kpackfs: $D/m: fusermount3 is not installed, which users other than root need; install the package fuse3";
    // Before (df2c4683), the remedy was to load a module that is there.
    let closed = "kpackfs: /dev/fuse: Permission denied (os error 13): your user may not open it: `chmod 666 /dev/fuse` as \
                  root, or mount as root";
    assert_eq!(lines[9..], [without, closed], "{text}");
}

#[test]
fn a_mount_of_another_user_is_named_so() {
    let Some(sandbox) = Sandbox::new() else { return };
    if !has("setpriv") {
        return;
    }
    let text = sandbox.run(
        r#"
        mkdir "$D/bin" && cp "$(command -v kpackfs)" "$D/bin/"; cd /
        as() { setpriv --reuid=65534 --regid=65534 --clear-groups env PATH="$D/bin:$PATH" HOME=/nonexistent "$@"; }
        as true || { echo no; exit; }
        kpackfs mount "$IN" "$M" && ls "$M/host"
        as kpackfs umount "$M"; echo $?
        as kpackfs status "$M"; echo $?
        kpackfs umount "$M"; echo $?
        "#,
    );
    if text.ends_with("no\n") {
        return skipped("no other user here; what is said to them was NOT checked");
    }
    let said = "kpackfs: $D/m: mounted by the user with ID 0; only that user and root may unmount it, and others may read it only \
                if it was mounted with --allow-other";
    assert_eq!(text.lines().collect::<Vec<_>>(), ["plain.so", said, "1", said, "1", "0"], "{text}");
}

/// It is named by its type and source, and by the user where the kernel lists one.
#[test]
fn a_mount_of_another_filesystem_is_named_so() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        mount -t tmpfs scratch "$M"
        for command in status umount; do kpackfs $command "$M"; echo $?; done
        umount "$M"
        exec 3<>/dev/fuse
        mount -i -t fuse.other -o "fd=3,rootmode=40000,user_id=1234,group_id=0" /other "$M"
        for command in status umount; do kpackfs $command "$M"; echo $?; done
        grep -c " $M fuse.other " /proc/mounts
        "#,
    );
    let [tmpfs, other] = [
        "kpackfs: $D/m: not a kpackfs mount: a tmpfs with the source scratch is mounted here",
        "kpackfs: $D/m: not a kpackfs mount: a fuse.other with the source /other is mounted here, by the user with ID 1234",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), [tmpfs, "1", tmpfs, "1", other, "1", other, "1", "1"], "{text}");
}
