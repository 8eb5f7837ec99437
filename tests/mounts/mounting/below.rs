//! Mounts in the tree that a command is asked about.

use super::sandbox::Sandbox;

#[test]
fn a_directory_with_files_of_the_input_is_not_mounted_on() {
    let Some(sandbox) = Sandbox::new() else { return };
    let text = sandbox.run(
        r#"
        mkdir "$IN/lib" "$IN/empty"; touch "$IN/lib/x"
        kpackfs mount "$IN" "$IN/lib"; echo $?
        kpackfs mount "$IN" "$IN/empty"; echo $?
        cat "$IN/empty/host/plain.so" >/dev/null; kpackfs umount "$IN/empty"
        "#,
    );
    let refused = "kpackfs: $D/in/lib: mounting here would cover the input $D/in/lib/x; name another directory";
    assert_eq!(text, format!("{refused}\n1\n0\n"));
}
