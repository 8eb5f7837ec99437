//! Lists of mount options: `ro,arch="gfx942,gfx1100",log-file=/a\,b`.

/// Splits a list at commas. A comma belongs to the value between quotation marks, as in libmount (`ul_optstr_next`),
/// and after a backslash, as in libfuse (`fuse_opt_parse`). Both marks are removed.
pub(crate) fn split(list: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut options = Vec::new();
    let mut option = Vec::new();
    let mut is_quoted = false;
    let mut bytes = list.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\\' => option.push(*bytes.next().ok_or("the options end with a backslash")?),
            b',' if !is_quoted => options.push(std::mem::take(&mut option)),
            byte => option.push(byte),
        }
    }
    if is_quoted {
        return Err("a quotation mark is missing in the options".to_owned());
    }
    options.push(option);
    options.retain(|option| !option.is_empty());
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn values_can_have_commas() {
        for (list, expected) in [
            (r"a,b=c\,d,\\", &["a", "b=c,d", "\\"][..]),
            (r#"b="c,d",e"#, &["b=c,d", "e"]),
            (r#"b=\"c,d=e""f"#, &["b=\"c", "d=ef"]),
            (",,a,", &["a"]),
            ("", &[]),
        ] {
            let found = split(list.as_bytes()).unwrap();
            assert_eq!(found, expected.iter().map(|option| option.as_bytes().to_vec()).collect::<Vec<_>>(), "{list}");
        }
        assert!(split(b"a,\\").unwrap_err().contains("backslash"));
        assert!(split(b"a=\"b,c").unwrap_err().contains("quotation mark"));
    }

    #[test]
    fn whatever_is_escaped_comes_back() {
        let value = br#"a"b\c,d e"#;
        let escaped: Vec<u8> = value.iter().flat_map(|&byte| [b'\\', byte]).collect();
        assert_eq!(split(&escaped).unwrap(), [value.to_vec()]);
    }
}
