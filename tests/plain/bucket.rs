//! An index in a bucket: the files of a directory, and a page never names what is not there, whatever a server or a signal does.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::common::bucket::{BucketReply, BucketServer, Call, ID, SECRET, Stored, TOKEN, hex};
use crate::common::{PATIENCE, files_below, mounts, program, succeeds};

const STATEMENT: &str = "rel/ease/.kpackfs/upload.json";
const OUTPUT: &str = "s3://bucket/rel/ease";
const WHEEL: &str = "rel/ease/simple/big/big-1.0+x-py3-none-any.whl";

/// Wheels without device code: one of 11 MB, whose parts have 5 MiB with this much memory, and a short one.
fn wheels() -> &'static Path {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let script = "import sys, zipfile, random\nfor name, version, size in (('big', '1.0+x', 11_000_000), ('small', '2', 10)):\n \
                  z = zipfile.ZipFile(f'{sys.argv[1]}/{name}-{version}-py3-none-any.whl', 'w')\n \
                  d = f'{name}-{version}.dist-info/'\n z.writestr(f'{name}/data', random.Random(1).randbytes(size))\n \
                  z.writestr(d + 'METADATA', f'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n')\n \
                  z.writestr(d + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n \
                  z.writestr(d + 'RECORD', '')\n z.close()\n";
    let make = || {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("in")).unwrap();
        succeeds(Command::new("python3").args(["-c", script]).arg(place.path().join("in")));
        place
    };
    MADE.get_or_init(make).path()
}

/// A split to the bucket.
fn publish(server: &BucketServer, options: &[&str]) -> Command {
    let mut command = program();
    command.args(["split", "in", "--format", "index", "-o", OUTPUT, "--allow-http", "--memory", "16"]).args(options);
    command.current_dir(wheels()).env("HOME", wheels()).env("KPACKFS_CACHE_DIR", wheels().join("cache"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("AWS_")) {
        command.env_remove(name);
    }
    command.env("AWS_ACCESS_KEY_ID", ID).env("AWS_SECRET_ACCESS_KEY", SECRET).env("AWS_SESSION_TOKEN", TOKEN);
    command.env("AWS_ENDPOINT_URL", server.url()).env("KPACKFS_PAUSE", "3");
    command.env("KPACKFS_SILENCE", PATIENCE.as_millis().to_string());
    command.env("KPACKFS_LEASE", "400");
    command
}

fn said(output: &Output) -> String {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for secret in [SECRET, TOKEN, "Signature="] {
        assert!(!text.contains(secret), "{text}");
    }
    text
}

#[track_caller]
fn right(output: &Output) -> String {
    let text = said(output);
    assert!(output.status.success(), "{text}");
    text
}

/// The files of an index on disk, by names below the prefix.
fn files(place: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = files_below(&place.join("simple")).into_iter();
    files.map(|(path, bytes)| (format!("simple/{}", path.display()), bytes)).collect()
}

/// The index of the wheels in a directory.
fn expected() -> &'static BTreeMap<String, Vec<u8>> {
    static MADE: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    MADE.get_or_init(|| {
        let place = tempfile::tempdir().unwrap();
        succeeds(
            program()
                .args(["split", "in", "--format", "index", "--no-cache", "-o"])
                .arg(place.path())
                .current_dir(wheels()),
        );
        files(place.path())
    })
}

/// Fails unless the bucket has these files, the pages also by the names of their directories, and nothing else.
#[track_caller]
fn has(stored: &Stored, files: &BTreeMap<String, Vec<u8>>, what: &str) {
    let mut expected: BTreeMap<_, _> = files.iter().map(|(name, bytes)| (format!("rel/ease/{name}"), bytes)).collect();
    let directory =
        |(name, bytes): (&String, _)| Some((format!("rel/ease/{}", name.strip_suffix("index.html")?), bytes));
    expected.extend(files.iter().filter_map(directory));
    let found: BTreeMap<_, _> = stored.objects.iter().filter(|(key, _)| *key != STATEMENT).collect();
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}");
    let differ = found.iter().filter(|(key, object)| object.bytes != **expected[**key]);
    assert_eq!(differ.map(|(key, _)| key).collect::<Vec<_>>(), Vec::<&&String>::new(), "{what}");
    assert!(stored.uploads.is_empty(), "{what}: {:?}", stored.uploads.keys());
}

/// Fails if a page names what is not there, or with another digest.
#[track_caller]
fn is_consistent(stored: &Stored, what: &str) {
    for (key, object) in stored.objects.iter().filter(|(key, _)| key.ends_with("/index.json")) {
        let page: Value = serde_json::from_slice(&object.bytes).unwrap();
        for file in page["files"].as_array().into_iter().flatten() {
            let wheel = key.replace("index.json", file["filename"].as_str().unwrap());
            let bytes = &stored.objects.get(&wheel).unwrap_or_else(|| panic!("{what}: {key} names {wheel}")).bytes;
            assert_eq!(file["hashes"]["sha256"], hex(&Sha256::digest(bytes)), "{what}");
            assert_eq!(file["size"], bytes.len(), "{what}");
            assert!(stored.objects.contains_key(&format!("{wheel}.metadata")), "{what}: {wheel}");
        }
        for project in page["projects"].as_array().into_iter().flatten() {
            let page = key.replace("index.json", &format!("{}/", project["name"].as_str().unwrap()));
            assert!(
                ["", "index.html", "index.json"].iter().all(|it| stored.objects.contains_key(&format!("{page}{it}")))
            );
        }
    }
}

/// The requests of a run that nothing disturbs, but for those about the statement.
fn undisturbed() -> &'static [Call] {
    static MADE: OnceLock<Vec<Call>> = OnceLock::new();
    MADE.get_or_init(|| {
        let server = BucketServer::start();
        right(&publish(&server, &[]).output().unwrap());
        server.calls().into_iter().filter(|call| call.key != STATEMENT).collect()
    })
}

/// Whether a request is the first one of those that are like this.
fn is(call: &Call, what: &str) -> bool {
    call.what() == what
}

#[test]
fn the_objects_are_the_files_of_a_directory() {
    let place = tempfile::tempdir().unwrap();
    let demo = mounts::wheel(place.path());
    let local = place.path().join("out");
    let mut split = program();
    split.args(["split", "--format", "index", "--no-cache", "-o"]).arg(&local).arg(&demo).arg(wheels().join("in"));
    succeeds(&mut split);
    let server = BucketServer::start();
    let mut command = publish(&server, &[demo.to_str().unwrap()]);
    let text = right(&command.output().unwrap());
    assert!(text.contains("wrote 1 index to s3://bucket/rel/ease") && text.contains("simple"), "{text}");
    let first = server.stored();
    has(&first, &files(&local), "first");
    is_consistent(&first, "first");
    for (key, object) in first.objects.iter().filter(|(key, _)| *key != STATEMENT) {
        let kind = [
            (".whl", "application/zip"),
            (".json", "application/vnd.pypi.simple.v1+json"),
            ("/", "text/html; charset=utf-8"),
        ];
        assert!(kind.iter().all(|(end, kind)| !key.ends_with(end) || object.kind == *kind), "{key}: {}", object.kind);
        assert_eq!(object.cache, "no-cache", "{key}");
    }
    assert!(!wheels().join("cache").exists(), "nothing is kept on disk");
    let calls = server.calls();
    assert!(calls.iter().filter(|call| call.what().starts_with("PUT part")).count() >= 3);
    // The statement names an upload before the first part of it.
    let part = calls.iter().position(|call| is(call, &format!("PUT part {WHEEL}"))).unwrap();
    let begin = calls.iter().position(|call| is(call, &format!("POST begin {WHEEL}"))).unwrap();
    assert!(calls[begin..part].iter().any(|call| call.method == "PUT" && call.key == STATEMENT));
    // A page is written after all wheels.
    let is_page =
        |call: &Call| call.method == "PUT" && (call.key.ends_with("/index.html") || call.key.ends_with("json"));
    let page = calls.iter().position(|call| call.key != STATEMENT && is_page(call)).unwrap();
    assert!(calls[page..].iter().all(|call| !call.key.contains(".whl")));

    // There is an index: it is replaced on demand only, and then nothing is written that is there.
    server.behave(|_, _| BucketReply::Right);
    let output = command.output().unwrap();
    let text = said(&output);
    assert!(
        output.status.code() == Some(1) && text.contains("index.html: there already; name another prefix"),
        "{text}"
    );
    server.behave(|_, _| BucketReply::Right);
    let text = right(&publish(&server, &[demo.to_str().unwrap(), "--force"]).output().unwrap());
    assert!(text.contains(&format!("{0} of {0} files were there already", first.objects.len() - 1)), "{text}");
    assert!(server.calls().iter().all(|call| matches!(&*call.method, "GET" | "HEAD") || call.key == STATEMENT));
    has(&server.stored(), &files(&local), "second");
    // What another program has changed is written again, and nothing else.
    server.stored.lock().unwrap().objects.get_mut(WHEEL).unwrap().tag = "\"other\"".to_owned();
    let text = right(&publish(&server, &[demo.to_str().unwrap(), "--force"]).output().unwrap());
    assert!(
        text.contains(&format!("note: {} of {} files", first.objects.len() - 2, first.objects.len() - 1)),
        "{text}"
    );
    has(&server.stored(), &files(&local), "third");
}

/// What a server does once is no reason for another result.
#[test]
fn a_request_that_fails_once_is_made_again() {
    let all = undisturbed()
        .iter()
        .map(Call::what)
        .chain([format!("PUT object {STATEMENT}"), format!("GET object {STATEMENT}")]);
    let mut all: Vec<_> = all.collect();
    all.sort();
    all.dedup();
    // Each request is disturbed in one of these ways, so that a few runs do for all.
    let ways = [
        BucketReply::Die,
        BucketReply::DieAfter,
        BucketReply::Refuse(503, "SlowDown", "Retry-After: 0\r\n"),
        BucketReply::Refuse(429, "TooManyRequests", "Retry-After: 0\r\n"),
        BucketReply::Refuse(500, "InternalError", ""),
        BucketReply::Refuse(200, "InternalError", ""),
        BucketReply::Refuse(400, "RequestTimeout", ""),
        BucketReply::Refuse(409, "ConditionalRequestConflict", ""),
    ];
    for (number, way) in ways.iter().enumerate() {
        let server = BucketServer::start();
        let seen = std::sync::Mutex::new(BTreeMap::<String, usize>::new());
        let disturbed = way.clone();
        server.behave(move |call, _| {
            let what = format!("{} {}", call.what(), call.query.get("partNumber").map_or("", String::as_str));
            let mut seen = seen.lock().unwrap();
            let times = seen.entry(what).or_default();
            *times += 1;
            // Only a POST may fail with the status of success.
            // An answer to HEAD has no code.
            let applies = match disturbed {
                BucketReply::Refuse(200, ..) => call.method == "POST",
                BucketReply::Refuse(400, ..) => call.method != "HEAD",
                _ => true,
            };
            if *times == 1 && applies { disturbed.clone() } else { BucketReply::Right }
        });
        let output = publish(&server, &[]).output().unwrap();
        assert!(output.status.success(), "{number} {way:?}: {}", said(&output));
        // An upload whose ID was lost has no parts.
        has(&server.stored().settled(), expected(), &format!("{way:?}"));
    }
    assert!(all.len() > 15, "{all:?}");
}

/// The requests at which a run is ended: one of each kind.
fn moments() -> Vec<String> {
    let is_like_another = |what: &str| what.contains("/small/") && !what.contains("small-2-py3-none-any.whl ");
    let all = undisturbed().iter().map(moment).filter(|what| !is_like_another(what) && !what.contains(".metadata"));
    let mut all: Vec<_> = all.chain([format!("PUT object {STATEMENT} ")]).collect();
    all.sort();
    all.dedup();
    assert!((12..25).contains(&all.len()), "{all:?}");
    all
}

fn moment(call: &Call) -> String {
    format!("{} {}", call.what(), call.query.get("partNumber").map_or("", String::as_str))
}

/// After a run that did not end, the next one ends right.
#[track_caller]
fn next_ends_right(server: &BucketServer, what: &str) {
    // A late change of the statement would show that the run lives.
    server.is_at_rest();
    is_consistent(&server.stored(), what);
    server.behave(|_, _| BucketReply::Right);
    // The last page was written, and the statement was not.
    let options: &[&str] =
        if server.stored().objects.contains_key("rel/ease/simple/index.html") { &["--force"] } else { &[] };
    let output = publish(server, options).output().unwrap();
    assert!(output.status.success(), "{what}: {}", said(&output));
    has(&server.stored().settled(), expected(), what);
}

#[test]
fn a_server_that_dies_leaves_no_page_that_names_what_is_not_there() {
    for what in moments() {
        let server = BucketServer::start();
        let (at, is_dead) = (what.clone(), std::sync::atomic::AtomicBool::new(false));
        server.behave(move |call, _| {
            let is_end = moment(call) == at;
            let was_dead = is_dead.fetch_or(is_end, std::sync::atomic::Ordering::SeqCst);
            match (was_dead, is_end) {
                (true, _) => BucketReply::Die,
                (false, true) => BucketReply::DieAfter,
                (false, false) => BucketReply::Right,
            }
        });
        let output = publish(&server, &[]).output().unwrap();
        let text = said(&output);
        assert!(output.status.code() == Some(1), "{what}: {text}");
        assert!(text.contains("s3://bucket/rel/ease/") && text.contains("closed the connection"), "{what}: {text}");
        // Nothing else is at fault.
        assert!(text.lines().all(|line| line.matches("s3://").count() < 2), "{what}: {text}");
        next_ends_right(&server, &what);
    }
}

#[test]
fn after_a_run_was_killed_the_next_one_ends_right() {
    for what in moments() {
        let server = BucketServer::start();
        let (at, process) = (what.clone(), Arc::new(OnceLock::<rustix::process::Pid>::new()));
        let to_kill = Arc::clone(&process);
        server.behave(move |call, _| {
            if moment(call) == at {
                rustix::process::kill_process(*to_kill.wait(), rustix::process::Signal::KILL).ok();
                return BucketReply::DieAfter;
            }
            BucketReply::Right
        });
        let mut child = publish(&server, &[]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        process.set(rustix::process::Pid::from_child(&child)).unwrap();
        assert!(!child.wait().unwrap().success(), "{what}");
        next_ends_right(&server, &what);
    }
}

/// How a request is refused, if it is.
type Refusal = Box<dyn Fn(&Call) -> Option<BucketReply> + Send + Sync>;

/// What is said about each refusal. No page is written.
#[test]
fn what_a_server_refuses_is_named() {
    let refuse = |status, code, headers| move |_: &Call| Some(BucketReply::Refuse(status, code, headers));
    let on = |what: &'static str, reply: BucketReply| {
        move |call: &Call| call.what().starts_with(what).then(|| reply.clone())
    };
    let refusals: Vec<(Refusal, &str)> = vec![
        (Box::new(refuse(404, "NoSuchBucket", "")), "has no such bucket; create it"),
        (Box::new(refuse(403, "AccessDenied", "")), "refuses it (403 AccessDenied); the credentials need s3:GetObject"),
        (Box::new(refuse(403, "SignatureDoesNotMatch", "")), "does not accept the credentials (SignatureDoesNotMatch)"),
        (Box::new(refuse(400, "ExpiredToken", "")), "does not accept the credentials (ExpiredToken)"),
        (
            Box::new(refuse(301, "PermanentRedirect", "x-amz-bucket-region: eu-west-1\r\n")),
            "in another region, eu-west-1; set AWS_REGION",
        ),
        (Box::new(refuse(307, "", "Location: http://127.0.0.1:1/\r\n")), "in another region; set AWS_REGION"),
        (Box::new(refuse(503, "SlowDown", "Retry-After: 0\r\n")), "the server is busy (503) and asks to wait 0 s"),
        (Box::new(refuse(429, "", "Retry-After: 100\r\n")), "the server is busy (429) and asks to wait 100 s"),
        (Box::new(refuse(500, "InternalError", "")), "the server answers 500 InternalError; try again"),
        (Box::new(refuse(418, "\u{1b}[31m", "")), "the server answers 418; try again"),
        (Box::new(on("PUT part", BucketReply::Refuse(403, "AccessDenied", ""))), "the credentials need s3:PutObject"),
        (Box::new(on("PUT object rel/ease/simple", BucketReply::Refuse(403, "AccessDenied", ""))), "need s3:PutObject"),
        (Box::new(on("POST complete", BucketReply::Refuse(200, "InternalError", ""))), "answers 500 InternalError"),
        (Box::new(on("POST complete", BucketReply::Refuse(400, "InvalidPart", ""))), "answers 400 InvalidPart"),
        (Box::new(on("POST complete", BucketReply::Forget)), "has taken it, and does not have it now"),
        (Box::new(on("POST begin", BucketReply::Forget)), "has no UploadId; is it a server of S3?"),
        (
            Box::new(on("PUT object rel/ease/simple/small/small-2", BucketReply::Forget)),
            "has taken it, and does not have it now",
        ),
        (
            Box::new(on("PUT object rel/ease/.kpackfs", BucketReply::Unconditional)),
            "does not keep the condition If-None-Match",
        ),
    ];
    for (refusal, words) in refusals {
        let server = BucketServer::start();
        server.behave(move |call, _| refusal(call).unwrap_or(BucketReply::Right));
        let output = publish(&server, &[]).output().unwrap();
        let text = said(&output);
        assert!(output.status.code() == Some(1) && text.contains(words) && text.contains(OUTPUT), "{words}: {text}");
        let pages = server.stored().objects.into_keys().filter(|key| key.ends_with("index.json")).count();
        assert_eq!(pages, 0, "{words}");
        assert!(
            server.stored().uploads.values().all(|(_, parts)| parts.is_empty()) || words.contains("PutObject"),
            "{words}"
        );
    }
}

#[test]
fn two_runs_do_not_write_to_one_place() {
    let server = BucketServer::start();
    right(&publish(&server, &[]).output().unwrap());
    let ended = server.stored().objects[STATEMENT].clone();
    let text = String::from_utf8(ended.bytes.clone()).unwrap();
    let lives = text.replace("\"has_ended\":true", "\"has_ended\":false").into_bytes();
    let put = |bytes: &[u8]| {
        let object =
            crate::common::bucket::Object { bytes: bytes.to_vec(), tag: "\"mine\"".to_owned(), ..ended.clone() };
        server.stored.lock().unwrap().objects.insert(STATEMENT.to_owned(), object);
    };
    // Another run changes its statement while this one looks.
    put(&lives);
    server.behave(|call, stored| {
        if call.method == "GET" && call.number > 0 {
            stored.lock().unwrap().objects.get_mut(STATEMENT).unwrap().tag = format!("\"{}\"", call.number);
        }
        BucketReply::Right
    });
    let output = publish(&server, &["--force"]).output().unwrap();
    let text = said(&output);
    assert!(output.status.code() == Some(1) && text.contains("another run publishes there"), "{text}");
    assert!(server.calls().iter().all(|call| call.method == "GET"));
    // Another run has taken the place over since the first wheel was written.
    let bucket = BucketServer::start();
    let other = String::from_utf8(lives).unwrap();
    let (start, _) = other.split_once("\"run\":\"").unwrap();
    let other = format!("{start}\"run\":\"00\",\"changes\":0,\"has_ended\":false,\"uploads\":{{}},\"files\":{{}}}}");
    bucket.behave(move |call, stored| {
        if call.what() == format!("POST complete {WHEEL}") {
            let mut stored = stored.lock().unwrap();
            let statement = stored.objects.get_mut(STATEMENT).unwrap();
            (statement.bytes, statement.tag) = (other.clone().into_bytes(), "\"theirs\"".to_owned());
        }
        BucketReply::Right
    });
    let output = publish(&bucket, &[]).output().unwrap();
    let text = said(&output);
    assert!(output.status.code() == Some(1) && text.contains("another run has taken the place over"), "{text}");
    let stored = bucket.stored();
    assert_eq!(stored.objects[STATEMENT].tag, "\"theirs\"");
    assert!(!stored.objects.keys().any(|key| key.ends_with("index.json")));
    // Something else has the name of the statement.
    put(b"{}");
    let text = said(&publish(&server, &["--force"]).output().unwrap());
    assert!(text.contains("it is no statement of this version of kpackfs"), "{text}");
}

#[test]
fn what_is_missing_for_a_bucket_is_named() {
    let server = BucketServer::start();
    let mut all: Vec<(Command, i32, &str)> = Vec::new();
    let base = || publish(&server, &[]);
    let mut command = base();
    command.env_remove("AWS_ACCESS_KEY_ID");
    all.push((command, 1, "there are no credentials: set AWS_ACCESS_KEY_ID"));
    for endpoint in ["ftp://host", "http://u:p@host", "http://host/path", "host"] {
        let mut command = base();
        command.env("AWS_ENDPOINT_URL", endpoint);
        all.push((command, 1, "AWS_ENDPOINT_URL is not https://HOST"));
    }
    let words = |arguments: &[&str]| {
        let mut command = base();
        let mut plain = program();
        plain.args(arguments).current_dir(wheels());
        plain.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        // Another test looks for the cache of uploads, which there is none of.
        plain.env("KPACKFS_CACHE_DIR", wheels().join("other"));
        command = plain;
        command
    };
    let split = ["split", "in", "--format"];
    all.push((words(&[&split[..], &["index", "-o", OUTPUT]].concat()), 1, "others on the way can read"));
    all.push((words(&[&split[..], &["wheel", "-o", OUTPUT]].concat()), 2, "it needs --format index"));
    all.push((words(&[&split[..], &["index", "-o", OUTPUT, "--sync"]].concat()), 2, "--sync is about disks"));
    all.push((
        words(&[&split[..], &["index", "-o", "out", "--allow-http"]].concat()),
        2,
        "--allow-http is about buckets",
    ));
    all.push((words(&[&split[..], &["index", "-o", "s3://bucket/../x"]].concat()), 1, "write s3://BUCKET/PREFIX"));
    all.push((words(&["collect", "in", "-o", OUTPUT]), 2, "only `split --format index` writes"));
    for (mut command, code, expected) in all {
        let output = command.output().unwrap();
        let text = said(&output);
        assert!(
            output.status.code() == Some(code) && text.contains(expected),
            "{expected}: {:?} {text}",
            output.status
        );
    }
    assert!(server.calls().is_empty() && !PathBuf::from("s3:").exists() && !wheels().join("s3:").exists());
}

#[test]
fn keys_are_those_that_the_aws_cli_takes_or_their_kind_is_named() {
    let server = BucketServer::start();
    let home = tempfile::tempdir().unwrap();
    let aws = home.path().join(".aws");
    fs::create_dir(&aws).unwrap();
    let keys =
        |id| format!("aws_access_key_id = {id}\naws_secret_access_key = {SECRET}\naws_session_token = {TOKEN}\n");
    fs::write(aws.join("credentials"), format!("[ci]\n{}[role]\n{}", keys(ID), keys("other"))).unwrap();
    let config = "[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = ci\n[profile sso]\nsso_session = s\n\
                  [profile process]\ncredential_process = /bin/keys\n";
    fs::write(aws.join("config"), config).unwrap();
    let run = |variables: &[(&str, &str)]| {
        let mut command = publish(&server, &[]);
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY").env("HOME", home.path());
        command.envs(variables.iter().copied()).output().unwrap()
    };
    let absent = format!(
        "AWS_PROFILE is absent, and neither {0}/credentials nor {0}/config has keys of this profile",
        aws.display()
    );
    let token = ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token");
    let container = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/keys");
    for (variables, expected) in [
        (&[("AWS_PROFILE", "role")][..], "role_arn leads to temporary keys"),
        (&[("AWS_PROFILE", "sso")], "sso_session leads to temporary keys"),
        (&[("AWS_PROFILE", "process")], "credential_process leads to temporary keys"),
        (&[("AWS_PROFILE", "ci"), token], "AWS_WEB_IDENTITY_TOKEN_FILE leads to temporary keys"),
        (&[container], "AWS_CONTAINER_CREDENTIALS_FULL_URI leads to temporary keys"),
        (&[("AWS_PROFILE", "absent")], &absent),
    ] {
        let output = run(variables);
        let text = said(&output);
        assert!(output.status.code() == Some(1) && text.contains(expected), "{expected}: {text}");
        assert!(text.contains("aws configure export-credentials"), "{text}");
    }
    let mut homeless = publish(&server, &[]);
    homeless.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY").env_remove("HOME");
    let text = said(&homeless.env("AWS_PROFILE", "absent").output().unwrap());
    assert!(text.contains("AWS_PROFILE is absent, and no file (HOME is not set) has keys"), "{text}");
    assert!(server.calls().is_empty());
    right(&run(&[("AWS_PROFILE", "ci"), container]));
    has(&server.stored(), expected(), "by a profile");
}
