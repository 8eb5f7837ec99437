//! The daemon, as service managers, the log and signals see it.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;

use rustix::net::sockopt::socket_peercred;

use super::sandbox::{Sandbox, has};
use crate::common::mounts::{Mount, bounded};

#[test]
fn a_line_tells_that_the_mount_can_be_used() {
    let Some(sandbox) = Sandbox::new() else { return };
    // The command substitution ends, which shows that the daemon has closed the file.
    let text = sandbox.run(
        r#"
        echo "[$(kpackfs mount --ready-fd 7 "$IN" "$M" 7>&1 >/dev/null)]"
        kpackfs umount "$M"
        echo "[$(kpackfs mount --ready-fd 7 "$D/none" "$M" 7>&1 >/dev/null 2>&1)]"
        kpackfs mount --ready-fd 7 "$IN" "$M"
        exec 8< <(exec kpackfs mount -f --ready-fd 7 "$IN" "$M" 7>&1 >/dev/null 2>/dev/null)
        read -r line <&8; echo "$line"; ls "$M/host"
        "#,
    );
    assert_eq!(text, "[ready]\n[]\nkpackfs: --ready-fd: Bad file descriptor (os error 9)\nready\nplain.so\n");
}

/// A lock of the caller ends with the caller, and so does a pipe of which the daemon knows nothing.
#[test]
fn the_daemon_keeps_nothing_that_it_inherited() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        flock "$D/lock" kpackfs mount "$IN" "$M"
        flock --nonblock "$D/lock" echo free; ls "$M/host"; kpackfs umount "$M"
        { kpackfs mount "$IN" "$M" 3>&1 >/dev/null; } | cat
        ls "$M/host"; kpackfs umount "$M"
        tar -cf "$D/x.tar" -C "$IN" .
        kpackfs mount --no-cache /dev/fd/5 "$M" 5<"$D/x.tar"; cksum <"$M/host/plain.so" >/dev/null && ls "$M/host"
        "#,
    );
    assert_eq!(text, "free\nplain.so\nplain.so\nplain.so\n");
}

/// Jobs that begin at the same moment mount one after the other. One that has waited for 5 seconds does so no longer, and looks only then for
/// what is mounted.
#[test]
fn of_several_mounts_at_once_one_succeeds() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        for round in 1 2 3; do
            for job in 1 2 3 4 5; do
                { kpackfs mount "$IN" "$M" 2>"$D/said.$job" || echo refused >>"$D/said.$job"; } &
            done
            wait
            grep -c " $M fuse" /proc/mounts
            cat "$D"/said.* | grep -c 'a kpackfs is mounted here already'
            kpackfs umount "$M"
        done
        # A lock that somebody else holds delays the mount, and prevents nothing.
        chmod 500 "$M"; flock "$M" kpackfs mount "$IN" "$M" 2>&1 | grep -c 'another process has locked it'
        ls "$M/host"; kpackfs umount "$M"
        "#,
    );
    assert_eq!(text, "1\n4\n1\n4\n1\n4\n1\nplain.so\n");
}

/// Without a slash, `in` may be a misspelt `index`.
#[test]
fn an_input_and_a_directory_are_enough() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        kpackfs "$IN" "$M" && ls "$M/host" && kpackfs umount "$M"
        cd "$D" && kpackfs ./in m && ls m/host && kpackfs umount m
        kpackfs in m 2>/dev/null; echo $?
        "#,
    );
    assert_eq!(text, "plain.so\nplain.so\n2\n");
}

/// The messages that were sent to the socket.
fn received(socket: &UnixDatagram) -> Vec<String> {
    socket.set_nonblocking(true).unwrap();
    let mut messages = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(length) = socket.recv(&mut buffer) {
        messages.push(String::from_utf8(buffer.iter().copied().take(length).collect()).unwrap());
    }
    messages
}

#[test]
fn service_managers_are_told() {
    let Some(sandbox) = Sandbox::new() else { return };
    let path = sandbox.at("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    for how in [
        "kpackfs mount -f \"$IN\" \"$M\" 2>/dev/null & while ! mountpoint -q $M; do sleep 0.01; done",
        "kpackfs mount \"$IN\" \"$M\"",
    ] {
        let script = format!("{how}\npid=$(daemon); ls \"$M\" >/dev/null; kill -TERM $pid; gone $pid; echo $pid");
        let pid = sandbox.run_with(&script, &[("NOTIFY_SOCKET", &path)]);
        let place = sandbox.at("");
        let place = place.to_str().unwrap();
        assert_eq!(
            received(&socket),
            [
                format!("STATUS=Preparing {place}in on {place}m\n"),
                format!("READY=1\nMAINPID={}\nSTATUS=Serving {place}in on {place}m\n", pid.trim()),
                "STOPPING=1\nSTATUS=Waiting for those who still use the mount\n".to_owned(),
            ]
        );
    }
    let injected = "name=$'a\\nMAINPID=1'; kpackfs mount \"$D/$name\" \"$M\" 2>/dev/null; echo $?";
    assert_eq!(sandbox.run_with(injected, &[("NOTIFY_SOCKET", &path)]), "5\n");
    let messages = received(&socket);
    assert!(messages[0].starts_with("STATUS=Not mounted: ") && messages[0].contains("No such file"), "{messages:?}");
    assert!(messages.iter().all(|message| message.lines().count() == 1), "{messages:?}");
}

#[test]
fn messages_of_a_daemon_go_to_the_log_file_or_the_systems_log_and_do_not_flood_it() {
    let Some(sandbox) = Sandbox::new() else { return };
    // The library is rewritten, so the kernel cannot read it without the daemon. One process reads, since the limit is one of some seconds.
    let fail = r#"
        : >"$IN/plain.so"
        cat $(yes "$M/host/plain.so" | head -n 30) 2>/dev/null
        kpackfs umount "$M"
        "#;
    sandbox.run(&format!("kpackfs mount --log-file \"$D/log\" \"$IN\" \"$M\"\n{fail}"));
    let log = fs::read_to_string(sandbox.at("log")).unwrap();
    assert_eq!(log.lines().count(), 10, "{log}");
    let path = format!("path={}", sandbox.at("m/host/plain.so").display());
    assert!(log.lines().all(|line| line.contains("WARN") && line.ends_with(&path)), "{log}");
    assert!(!log.contains("panicked") && !log.contains("suppressed"), "{log}");

    let refused = sandbox.run("kpackfs mount --log-file \"$D\" \"$IN\" \"$M\"; echo $?");
    assert_eq!(refused, "kpackfs: --log-file $D: Is a directory (os error 21)\n1\n");

    if !has("python3") {
        return;
    }
    fs::copy("tests/fixtures/plain.so", sandbox.at("in/plain.so")).unwrap();
    let listen = r"
import os, socket, subprocess, sys
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind('/dev/log')
log.settimeout(300)
subprocess.run(sys.argv[1:], check=True)
print(log.recv(4096).decode())
";
    let text = sandbox.run(&format!(
        r#"
        mkdir "$D/dev" && mount -t tmpfs none "$D/dev"
        mknod "$D/dev/null" c 1 3; mknod "$D/dev/fuse" c 10 229; mknod "$D/dev/urandom" c 1 9
        mount --move "$D/dev" /dev
        ln -s /proc/self/fd /dev/fd
        kpackfs mount "$IN" "$M"
        : >"$IN/plain.so"
        python3 -c "{listen}" sh -c "cat $M/host/plain.so 2>/dev/null; true"
        "#
    ));
    // LOG_DAEMON and LOG_WARNING: 3 * 8 + 4.
    assert!(text.starts_with("<28>") && text.contains("kpackfs[") && text.contains("host/plain.so"), "{text}");
}

#[test]
fn what_a_killed_daemon_leaves_is_removed_by_umount_and_by_the_next_mount() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        crash() { kpackfs mount "$IN" "$M" || exit; local pid=$(daemon); kill "$1" $pid; gone $pid; }
        crash -KILL; ls "$M" 2>/dev/null || echo dead
        kpackfs status "$M"
        kpackfs mount "$IN" "$M" 2>&1 | grep -c 'is gone: removed'; ls "$M/host"; grep -c " $M " /proc/self/mountinfo
        kpackfs umount "$M"
        crash -ABRT; kpackfs umount "$M"; echo $?; mountpoint -q "$M" || echo nothing
        crash -QUIT; mount -t kpackfs "$IN" "$M" 2>/dev/null; echo $?; ls "$M/host"
        kpackfs umount "$M"
        crash -KILL; mount -f -t kpackfs "$IN" "$M"; echo $?
        kpackfs mount "$IN" "$M" 2>/dev/null; ls "$M/host"; grep -c " $M " /proc/self/mountinfo
        "#,
    );
    let stale = "kpackfs: $D/m: the daemon of the kpackfs mount here is gone; `kpackfs umount $D/m` removes it\n";
    assert_eq!(text, format!("dead\n{stale}1\nplain.so\n1\n0\nnothing\n0\nplain.so\n0\nplain.so\n1\n"));
}

#[test]
fn sigterm_lets_users_finish_and_sigint_unmounts() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        kpackfs mount "$IN" "$M"; pid=$(daemon)
        sum=$(sha256sum <"$M/host/plain.so")
        kpackfs umount "$M"; gone $pid
        kpackfs mount "$IN" "$M"; pid=$(daemon)
        exec 3<"$M/host/plain.so"
        kill -TERM $pid
        while mountpoint -q "$M"; do sleep 0.01; done
        [ "$(sha256sum <&3)" = "$sum" ] && kill -0 $pid && echo drains
        exec 3<&-; gone $pid
        kpackfs mount "$IN" "$M"; pid=$(daemon)
        kill -INT $pid; gone $pid; mountpoint -q "$M" || echo unmounted
        "#,
    );
    assert_eq!(text, "drains\nunmounted\n");
}

#[test]
fn a_daemon_needs_no_open_files_no_home_and_takes_all_that_it_may_have() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        kpackfs mount "$IN" "$M" <&- >&- 2>&-; echo $?
        ls "$M/host"; kpackfs umount "$M"; gone "$(daemon)"
        unset KPACKFS_CACHE_DIR
        # The index may be saved before the mount is ready.
        HOME=/proc/sys kpackfs mount "$IN" "$M" 2>"$D/said"; echo $?; grep -v 'index of the input cannot be saved: /proc/sys' "$D/said"
        cmp "$M/merged/gfx90a/plain.so" "$M/host/plain.so" && ls "$M/gfx90a/.kpack" && kpackfs umount "$M"; gone "$(daemon)"
        ulimit -Sn 40; ulimit -Hn 5000
        kpackfs mount --no-cache "$IN" "$M"; grep 'open files' /proc/$(daemon)/limits | tr -s ' '
        "#,
    );
    assert_eq!(text, "0\nplain.so\n0\nrocm_gfx90a.kpack\nMax open files 5000 5000 files \n");
}

#[test]
fn a_device_that_the_caller_has_mounted_is_served() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        exec 5<>/dev/fuse
        mount -i -t fuse.kpackfs -o fd=5,rootmode=40000,user_id=0,group_id=0,ro source "$M"
        kpackfs mount "$IN" /dev/fd/5; echo $?
        exec 5>&-
        ls "$M/host"; pid=$(daemon)
        umount "$M"; gone $pid
        exec 5<>/dev/fuse
        mount -i -t fuse.kpackfs -o fd=5,rootmode=40000,user_id=0,group_id=0,ro source "$M"
        kpackfs mount "$IN" /dev/fd/5; exec 5>&-; pid=$(daemon)
        kill -TERM $pid; gone $pid; ls "$M" 2>/dev/null || echo ended
        umount "$M"
        kpackfs mount "$IN" /dev/fd/6; echo $?
        exec 6</dev/null
        kpackfs mount "$IN" /dev/fd/6; echo $?
        "#,
    );
    let none = "kpackfs: /dev/fd/6: not an open FUSE device: No such file or directory (os error 2)\n1\n";
    let other = "kpackfs: /dev/fd/6: not an open FUSE device: No such device (os error 19)\n1\n";
    assert_eq!(text, format!("0\nplain.so\nended\n{none}{other}"));
}

/// `umount` returns when the daemon has closed the input.
#[test]
fn the_file_system_of_the_input_can_be_unmounted_after_umount() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        mkdir "$D/media"
        for transport in dev-fuse auto; do
            done=0
            for try in {1..20}; do
                mount -t tmpfs media "$D/media"; cp "$IN/plain.so" "$D/media/"
                kpackfs mount --transport $transport "$D/media" "$M"
                cat "$M/host/plain.so" "$M/gfx90a/.kpack/rocm_gfx90a.kpack" >/dev/null
                kpackfs umount "$M" && umount "$D/media" && done=$((done + 1)) || { sleep 5; umount "$D/media"; }
            done
            echo $done
        done
        "#,
    );
    assert_eq!(text, "20\n20\n");
}

#[test]
fn umount_says_that_a_daemon_goes_on() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        named() { sed "s/process $1/process N/; s/ $1\`/ N\`/"; }
        kpackfs mount "$IN" "$M"; pid=$(daemon)
        exec 3<"$M/host/plain.so"
        kpackfs umount "$M"; echo $?
        kpackfs umount --lazy "$M" 2>&1 | named $pid; kill -0 $pid && echo serves
        exec 3<&-; gone $pid
        # It waits for one second only, in which a daemon on a busy machine may not end.
        for try in {1..20}; do
            kpackfs mount "$IN" "$M"; said=$(kpackfs umount --lazy "$M" 2>&1)$?
            while daemon >/dev/null; do sleep 0.01; done
            [ "$said" = 0 ] && break
        done
        echo "$said"
        kpackfs mount "$IN" "$M"; pid=$(daemon)
        stop $pid; kpackfs umount "$M" 2>&1 | named $pid; mountpoint -q "$M" || echo unmounted
        kill -CONT $pid; gone $pid
        kpackfs mount "$IN" "$M"; kill -KILL $(daemon); kpackfs umount "$M"; echo $?
        "#,
    );
    let goes_on = "kpackfs: warning: $D/m: unmounted, but its daemon (process N) holds the input: ";
    let expected = [
        "kpackfs: $D/m: in use; close what is open in it, or detach it with --lazy",
        "1",
        &format!("{goes_on}the mount is in use; it ends when the last user is gone"),
        "serves",
        "0",
        &format!("{goes_on}it is stopped; `kill -CONT N` lets it end"),
        "unmounted",
        "0",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
}

/// Asks for a daemon as often as it takes to fill its queue of connections, as thousands of commands do.
const FULL: &str = r#"
import socket, struct, sys
for number in range(8):
    try:
        while True:
            asking = socket.socket(socket.AF_UNIX)
            asking.setblocking(False)
            asking.connect(f"\0kpackfs.{sys.argv[1]}.{number}")
            process, _, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if process != int(sys.argv[2]):
                break
    except ConnectionRefusedError:
        continue
    except BlockingIOError:
        sys.exit()
sys.exit("its queue is not full")
"#;

/// Whatever is asked of such a mount waits until its daemon goes on.
#[test]
fn a_mount_whose_daemon_is_stopped_is_refused() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run_with(
        r#"
        kpackfs mount "$IN" "$M"; pid=$(daemon); mkdir "$D/m2"; ln -s "$M" "$D/link"
        refused() { timeout 300 kpackfs "$@" 2>&1 | grep -c "is stopped.*kill -CONT $pid\`"; echo ${PIPESTATUS[0]}; }
        stop $pid
        refused split "$IN" -o "$M/x"
        refused split "$IN" "-o$D/link/x"
        refused inspect "$IN" --html="$M/page.html"
        refused inspect "$D/link/host"
        refused verify "oci:$M:tag"
        refused mount "$M/host" "$D/m2"
        refused "$IN" "$M"
        refused status "$M"
        refused split --databases rocblas "$M/host" -o "$D/none"
        refused split "$IN" -o "$M/x.tar"
        cd "$(dirname "$M")"; kpackfs split "$IN" --group "$(basename "$M")" -o "$D/out" -q; echo $?; cd /
        python3 -c "$FULL" "$(awk -v m="$M" '$5 == m { print $3 }' /proc/self/mountinfo)" $pid
        refused status "$M"
        kill -CONT $pid; kpackfs inspect "$M/host" >/dev/null; echo $?
        stop $pid; kpackfs umount --lazy "$M" 2>&1 | grep -c stopped; mountpoint -q "$M" || echo unmounted
        kill -CONT $pid; gone $pid
        "#,
        &[("FULL", Path::new(FULL))],
    );
    assert_eq!(text, "1\n5\n".repeat(10) + "0\n" + "1\n5\n" + "0\n1\nunmounted\n");
}

#[test]
fn a_missing_proc_or_sys_is_named() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        mount -t tmpfs none /sys
        kpackfs mount --transport uring "$IN" "$M"; echo $?
        mount -t tmpfs none /proc
        kpackfs mount "$IN" "$M"; kpackfs umount "$M"; kpackfs why --target gfx90a --pid 1; echo $?
        "#,
    );
    let expected = [
        "kpackfs: --transport uring: /sys/module/fuse/parameters/enable_uring: no such file; mount sysfs at /sys",
        "1",
        "kpackfs: /proc/self/task: No such file or directory (os error 2); mount /proc",
        "kpackfs: /proc/self/mountinfo: No such file or directory (os error 2); mount /proc",
        "kpackfs: /proc/self: no such directory; mount /proc",
        "3",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected, "{text}");
}

/// Each command asks for the daemons of all mounts, by a connection that nobody uses.
#[test]
fn a_daemon_is_found_however_often_it_was_looked_for() {
    let place = tempfile::tempdir().unwrap();
    fs::copy("tests/fixtures/plain.so", place.path().join("plain.so")).unwrap();
    let Some(mount) = Mount::new(place.path(), &["--no-cache"]) else { return };
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = format!(" {} ", mount.path().display());
    let device = mounts.lines().find(|line| line.contains(&place)).unwrap().split(' ').nth(2).unwrap();
    let name = |number| SocketAddr::from_abstract_name(format!("kpackfs.{device}.{number}")).unwrap();
    let is_of_mount = |name: &SocketAddr| {
        let peer = UnixStream::connect_addr(name).map(|socket| socket_peercred(socket).unwrap());
        peer.is_ok_and(|it| u32::try_from(it.pid.as_raw_pid()) == Ok(mount.process()))
    };
    let name = (0..8).map(name).find(is_of_mount).unwrap();
    let room = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let room: usize = room.trim().parse().unwrap();
    bounded("looking for the daemon", move || {
        for _ in 0..room.min(65536) + 10 {
            UnixStream::connect_addr(&name).unwrap();
        }
    });
}
