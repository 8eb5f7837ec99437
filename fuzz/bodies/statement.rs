//! Reads arbitrary bytes as `split.json`.

use kpackfs::split::Statement;

/// Checks bytes that may be a statement: written again it is the same, and its parts stay in the output.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(statement) = Statement::parse(bytes) else { return };
    assert_eq!(Statement::parse(statement.to_json().as_bytes()).expect("as before"), statement);
    for part in statement.parts().expect("they were checked") {
        for component in part.as_bytes().split(|&byte| byte == b'/').filter(|_| !part.is_root()) {
            assert!(!matches!(component, b"" | b"." | b".."), "{part}");
        }
    }
    let _ = (statement.thin(), statement.is_restricted());
}
