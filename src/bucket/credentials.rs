//! Credentials and the region: variables of the environment, or a profile in `~/.aws/credentials` and `~/.aws/config`,
//! as the AWS CLI reads them.

use std::path::PathBuf;

use anyhow::bail;

use crate::disk;
use crate::memory::Parser;

/// Keys of a user. They are in no message.
#[derive(Clone, derive_more::Debug, PartialEq, Eq)]
#[debug("AccessKey")]
pub(super) struct AccessKey {
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

/// Variables and settings of profiles that lead to keys of other kinds, where the AWS CLI looks before and after keys in files (botocore,
/// `create_credential_resolver`).
const BEFORE_FILES: [&str; 4] = ["role_arn", "AWS_WEB_IDENTITY_TOKEN_FILE", "sso_session", "sso_start_url"];
const AFTER_FILES: [&str; 3] =
    ["credential_process", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"];

/// The command that exports keys of every kind.
const EXPORT: &str = "eval \"$(aws configure export-credentials --format env)\"";

/// A variable, unless it is empty.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The files that may have them.
pub(crate) fn credential_files() -> Vec<PathBuf> {
    let file = |name: &str, usual: &str| {
        let named = std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".aws").join(usual)))
    };
    let files = [("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")];
    files.into_iter().filter_map(|(name, usual)| file(name, usual)).collect()
}

/// The keys.
pub(super) fn credentials() -> anyhow::Result<AccessKey> {
    let (id, secret) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"));
    if let (Some(id), Some(secret)) = (id, secret) {
        return Ok(AccessKey { id, secret, token: variable("AWS_SESSION_TOKEN") });
    }
    // Keys in files would be those of another user.
    refuse(&BEFORE_FILES)?;
    let [id, secret, token] = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"].map(of_profile);
    if let (Some(id), Some(secret)) = (id, secret) {
        return Ok(AccessKey { id, secret, token });
    }
    refuse(&AFTER_FILES)?;
    if let Some(profile) = variable("AWS_PROFILE") {
        let files = credential_files().iter().map(|file| file.display().to_string()).collect::<Vec<_>>();
        let nothing = match &files[..] {
            [] => "no file (HOME is not set)".to_owned(),
            [file] => format!("nothing in {file}"),
            files => format!("neither {}", files.join(" nor ")),
        };
        bail!(
            "AWS_PROFILE is {profile}, and {nothing} has keys of this profile; for all other kinds, with AWS CLI 2: {EXPORT}"
        );
    }
    bail!(
        "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for one with keys in \
         ~/.aws/credentials; for all other kinds, with AWS CLI 2: {EXPORT}"
    )
}

/// Fails if something leads to keys of another kind.
fn refuse(names: &[&str]) -> anyhow::Result<()> {
    match names.iter().find(|name| variable(name).or_else(|| of_profile(name)).is_some()) {
        Some(name) => bail!("{name} leads to temporary keys, which AWS CLI 2 gets; run: {EXPORT}"),
        None => Ok(()),
    }
}

/// The region.
pub(super) fn region() -> String {
    let named = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")).or_else(|| of_profile("region"));
    named.unwrap_or_else(|| "us-east-1".to_owned())
}

fn of_profile(setting: &str) -> Option<String> {
    let profile = variable("AWS_PROFILE").unwrap_or_else(|| "default".to_owned());
    let texts = credential_files().into_iter().filter_map(|file| disk::read_to_string(&file, Parser::Text).ok());
    texts.into_iter().find_map(|text| value(&text, &profile, setting))
}

/// The value of a setting. In `config`, sections of profiles begin with that word.
fn value(text: &str, profile: &str, setting: &str) -> Option<String> {
    let mut is_it = false;
    for line in text.lines() {
        if let Some(section) = line.trim().strip_prefix('[').and_then(|line| line.split(']').next()) {
            is_it = section.trim().trim_start_matches("profile ").trim() == profile;
        } else if let Some((name, value)) = line.split_once('=').filter(|(name, _)| is_it && name.trim() == setting) {
            // Nested settings are indented.
            return Some(value.trim().to_owned()).filter(|it| !it.is_empty() && !name.starts_with([' ', '\t']));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn a_setting_is_that_of_its_profile() {
        let text = "# x\n[default]\naws_access_key_id = A\n aws_secret_access_key = nested\n[profile ci]\nregion=eu-west-1\n\
                    aws_access_key_id=B=C\n[ other ]\nregion =\n";
        for (profile, setting, expected) in [
            ("default", "aws_access_key_id", Some("A")),
            ("default", "aws_secret_access_key", None),
            ("default", "region", None),
            ("ci", "region", Some("eu-west-1")),
            ("ci", "aws_access_key_id", Some("B=C")),
            ("other", "region", None),
            ("absent", "region", None),
        ] {
            assert_eq!(value(text, profile, setting).as_deref(), expected, "{profile} {setting}");
        }
    }
}
