//! Mounts through mount(8), fstab and mount.fuse3.

use super::sandbox::{Sandbox, has};
use crate::common::skipped;

#[test]
fn mount_8_mounts_and_umount_8_unmounts() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        mount -t kpackfs "$IN" "$M"; echo $?
        findmnt -rnt fuse.kpackfs -o TARGET,SOURCE,FSTYPE | grep "$D"
        findmnt -nS "$IN" -o TARGET
        findmnt -no OPTIONS "$M" | tr , '\n' | grep -x 'ro\|nosuid\|nodev\|noexec'
        ls "$M"
        umount "$M"; echo $?
        mount -t fuse.kpackfs -o 'noexec,user=me,arch="gfx90a,gfx1030",group=x' "$IN" "$M"; echo $?
        findmnt -no FSTYPE "$M"
        findmnt -no OPTIONS "$M" | grep -o noexec
        ls "$M"/host/.kpack
        "#,
    );
    let expected = "0\n$D/m   $D/in  fuse.kpackfs\n$D/m\nro\nnosuid\nnodev\ndevice\ngfx1030\ngfx90a\nhost\nmerged\nthin\n0\n\
                    0\nfuse.kpackfs\nnoexec\nx_gfx1030.kpack\nx_gfx90a.kpack\n";
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&text), words(expected), "{text}");
}

#[test]
fn what_cannot_be_mounted_is_said_with_mount_8s_exit_codes() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        try() { mount -t kpackfs "$@"; echo $?; }
        try -o archs=gfx90a "$IN" "$M"
        try -o arch=gfx90a,gfx1030 "$IN" "$M"
        try -o arch "$IN" "$M"
        try -o no_cache=1 "$IN" "$M"
        try -o compression=lzma "$IN" "$M"
        try -o remount "$IN" "$M"
        mount.kpackfs "$IN"; echo $?
        try "$D/none" "$M"
        try -o arch=gfx942 "$IN" "$M"
        try "$IN" "$IN/plain.so"
        try "$IN" "$D/in"
        try "$IN" "$D"
        mount.kpackfs "$IN" "$D/nothing"; echo $?
        try "$IN" "$M"
        try "$IN" "$M"
        cd "$M"
        umount "$M" 2>/dev/null; echo $?
        kpackfs umount "$M"; echo $?
        cd /
        mount -t tmpfs none "$M/host"; kpackfs umount "$M"; echo $?; umount "$M/host"
        umount "$M"; echo $?
        rm -f "$D/null"; mknod "$D/null" c 1 3; mount --bind "$D/null" /dev/fuse
        try "$IN" "$M"
        "#,
    );
    let expected = r#"mount.kpackfs: unknown mount option archs; `kpackfs mount --help` lists those of kpackfs
1
mount.kpackfs: unknown mount option gfx1030; `kpackfs mount --help` lists those of kpackfs; if it belongs to the value of arch, put that in quotation marks: arch="…,gfx1030"
1
mount.kpackfs: mount option arch needs a value: arch=…
1
mount.kpackfs: mount option no_cache takes no value
1
mount.kpackfs: invalid value 'lzma' for '--compression <SCHEME>': unknown compression "lzma"; there are zstd, zstd:LEVEL and none
1
mount.kpackfs: a kpackfs cannot be remounted: unmount it and mount it again
1
mount.kpackfs: usage: INPUT DIRECTORY [-sfnv] [-o OPTIONS]
1
mount.kpackfs: $D/none: No such file or directory
32
mount.kpackfs: --arch gfx942: the input has nothing for it; it has code for gfx1030, gfx90a
32
mount.kpackfs: $D/in/plain.so: not a directory, and so no mount point, which comes last
32
mount.kpackfs: $D/in: mounting here would cover the input $D/in; name another directory
32
mount.kpackfs: $D: mounting here would cover the input $D/in; name another directory
32
mount.kpackfs: $D/nothing: no such directory; create it, and mount again
32
0
mount.kpackfs: $D/m: a kpackfs is mounted here already, of $D/in; unmount it, or name another directory
32
32
kpackfs: $D/m: in use; close what is open in it, or detach it with --lazy
1
kpackfs: $D/m: in use; $D/m/host is mounted in it, unmount that first
1
0
"#;
    let (before, last) = text.split_at(text.find("mount.kpackfs: $D/m: cannot be mounted on").unwrap_or(text.len()));
    assert_eq!(before, expected);
    assert!(last.ends_with("32\n"), "{text}");
}

#[test]
fn a_fake_mount_is_everything_but_a_mount() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        mount -f -t kpackfs -o arch=gfx90a "$IN" "$M"; echo $?
        mount -f -t kpackfs -o arch=gfx942 "$IN" "$M" 2>/dev/null; echo $?
        mount -f -t kpackfs "$IN" "$IN/plain.so" 2>/dev/null; echo $?
        mount -f -t kpackfs -o foo "$IN" "$M" 2>/dev/null; echo $?
        findmnt -rnt fuse.kpackfs -o TARGET | grep "$D"
        daemon
        echo end
        "#,
    );
    assert_eq!(text, "0\n32\n32\n1\nend\n");
}

#[test]
fn lines_of_fstab_are_mounted_once() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        mkdir "$D/a b"
        cp "$IN/plain.so" "$D/a b/"
        {
            echo "$IN $M kpackfs noauto,user,exec,nofail,x-systemd.automount,x-systemd.idle-timeout=600,comment=x,group 0 0"
            echo "$D/a\\040b $M kpackfs _netdev,users,exec,group-name=y,no_cache,memory=32,log-file=$D/log 0 0"
        } >"$D/fstab"
        mount -T "$D/fstab" --source "$IN"; echo $?
        findmnt -no FSTYPE "$M"
        findmnt -no OPTIONS "$M" | grep noexec
        umount "$M"
        mount -a -T "$D/fstab"; echo $?
        mount -a -T "$D/fstab"; echo $?
        findmnt -no SOURCE "$M"
        umount "$M"
        mount -T "$D/fstab" -o noexec --source "$IN" && findmnt -no OPTIONS "$M" | grep -o noexec
        "#,
    );
    assert_eq!(text, "0\nfuse.kpackfs\n0\n0\n$D/a b\nnoexec\n");
}

#[test]
fn any_source_path_is_shown_as_it_is() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        for name in 'a,b' 'a\b' 'a b' 'a#b"c' $'a\nb' 'ä,\,' '-o'; do
            mkdir "$D/x" && mv "$D/x" "$D/$name" && cp "$IN/plain.so" "$D/$name/"
            kpackfs mount "$D/$name" "$M" || exit
            found=$(python3 - "$M" <<'PYTHON'
import os, re, sys
for line in open('/proc/self/mountinfo'):
    kind, source = line.split(' - ')[1].split(' ')[:2]
    if kind == 'fuse.kpackfs' and line.split(' ')[4] == sys.argv[1]:
        print(re.sub(r'\\(\d{3})', lambda it: chr(int(it[1], 8)), source.encode().decode()))
PYTHON
)
            [ "$found" = "$D/$name" ] && test -f "$M/host/plain.so" && kpackfs umount "$M" && echo ok
        done
        "#,
    );
    assert_eq!(text, "ok\n".repeat(7));
}

#[test]
fn mount_8_mounts_in_other_namespaces() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        # It leads out of a chroot.
        nsenter --mount=/proc/self/ns/mnt test -d "$M" || { echo no; exit; }
        mkfifo "$D/fifo" "$D/end"
        unshare --mount sh -c 'echo there >"$0"; read line <"$1"' "$D/fifo" "$D/end" & there=$!
        read line <"$D/fifo"
        mount -N $there -t kpackfs "$IN" "$M"; echo $?
        findmnt -n "$M"
        nsenter -t $there -m findmnt -no FSTYPE "$M"
        echo >"$D/end"
        "#,
    );
    if text == "no\n" {
        return skipped("in a chroot, other mount namespaces have another root; mounts in them were NOT checked");
    }
    assert_eq!(text, "0\nfuse.kpackfs\n");
}

#[test]
fn mount_fuse3_calls_the_program_itself() {
    let Some(sandbox) = Sandbox::new() else { return };
    if !has("mount.fuse3") {
        return;
    }
    let text = sandbox.run(
        r#"
        mount.fuse3 "kpackfs#$IN" "$M" -o ro,nofail,_netdev; echo $?
        findmnt -no FSTYPE,OPTIONS "$M" | cut -d, -f1-3; umount "$M"
        mount.fuse3 "$IN" "$M" -o rw,arch=gfx90a -t fuse.kpackfs; echo $?
        ls "$M/host/.kpack"; umount "$M"
        mount.fuse3 "$IN" "$M" -o ro,drop_privileges -t fuse.kpackfs; echo $?
        ls -d "$M/host"; umount "$M"
        mount.fuse3 "$IN" "$M" -o rw,nonsense -t fuse.kpackfs; echo $?
        kpackfs "$D/none" "$M" -o rw,dev,suid; echo $?
        "#,
    );
    let expected = "0\nfuse.kpackfs ro,nosuid,nodev\n0\nin_gfx90a.kpack\n0\n$D/m/host\nkpackfs: unknown mount option \
                    nonsense; `kpackfs mount --help` lists those of kpackfs\n1\nkpackfs: $D/none: No such file or directory\n32\n";
    assert_eq!(text.replace("rocm_gfx", "in_gfx"), expected);
}

/// What systemd does for `x-systemd.automount`: a filesystem at the mount point waits for the first access, and blocks
/// it until the mount is complete. Only processes of the group that created it, such as mount(8) and its children, are
/// not blocked.
const AUTOMOUNT: &str = r"
import fcntl, os, struct, subprocess, sys
source, place = sys.argv[1:]
reader, writer = os.pipe()
os.setpgid(0, 0)
options = f'fd={writer},pgrp={os.getpgrp()},minproto=5,maxproto=5,direct'
subprocess.run(['mount', '-i', '-t', 'autofs', '-o', options, 'systemd-1', place], pass_fds=[writer], check=True)
root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
user = subprocess.Popen(['ls', place + '/host/'], start_new_session=True)
packet = os.read(reader, 304)
kind, token = struct.unpack_from('iI', packet, 4)
try:
    mount = subprocess.run(['mount', '-t', 'kpackfs', source, place], timeout=300)
    print('mounted', mount.returncode, flush=True)
finally:
    READY = 0x9360
    fcntl.ioctl(root, READY, token)
print('used', user.wait())
";

#[test]
fn a_mount_point_that_waits_for_its_first_use_is_mounted_on() {
    let Some(sandbox) = Sandbox::new() else { return };
    if !std::fs::read_to_string("/proc/filesystems").unwrap().contains("autofs") || !has("python3") {
        return skipped("no autofs here; automounts were NOT checked");
    }
    let text = sandbox.run(&format!("python3 -c \"{AUTOMOUNT}\" \"$IN\" \"$M\" && findmnt -no FSTYPE \"$M\""));
    assert_eq!(text, "mounted 0\nplain.so\nused 0\nautofs\nfuse.kpackfs\n");
}
