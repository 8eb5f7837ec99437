//! A server of one bucket, as far as an index is published with it: objects, uploads in parts, conditions. It refuses what is not signed,
//! and can lie or die at each request.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use sha2::{Digest, Sha256};

use crate::common::wait_until;

/// The keys that it accepts.
pub(crate) const ID: &str = "AKIATESTTESTTEST";
pub(crate) const SECRET: &str = "secret/of+the/tests";
pub(crate) const TOKEN: &str = "token+of+the+tests";

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// How many requests were made before.
    pub(crate) number: usize,
    pub(crate) method: String,
    /// The key of the object.
    pub(crate) key: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Call {
    /// What it does, without what differs from run to run: `PUT part simple/a/a.whl`.
    pub(crate) fn what(&self) -> String {
        let kind = match (&*self.method, self.query.contains_key("uploadId")) {
            ("POST", false) => "begin",
            ("POST", true) => "complete",
            ("PUT", true) => "part",
            ("DELETE", _) => "abort",
            _ => "object",
        };
        format!("{} {kind} {}", self.method, self.key)
    }

    fn is_signed(&self) -> bool {
        let header = |name: &str| self.headers.get(name).map_or("", String::as_str);
        let authorization = header("authorization");
        let signature = authorization.rsplit_once("Signature=").map_or("", |(_, signature)| signature);
        let signed = ["host;", "x-amz-content-sha256;x-amz-date;x-amz-security-token"];
        authorization.starts_with(&format!("AWS4-HMAC-SHA256 Credential={ID}/"))
            && signed.iter().all(|names| authorization.contains(names))
            && signature.len() == 64
            && header("x-amz-content-sha256") == hex(&Sha256::digest(&self.body))
            && header("x-amz-security-token") == TOKEN
    }
}

/// How a request is answered.
#[derive(Clone, Debug)]
pub(crate) enum BucketReply {
    /// As it should be.
    Right,
    /// With this status, this code and these headers, and nothing happens.
    Refuse(u16, &'static str, &'static str),
    /// With the end of the connection, and nothing happens.
    Die,
    /// With the end of the connection, after it was carried out.
    DieAfter,
    /// With success, and nothing happens.
    Forget,
    /// Without regard to conditions.
    Unconditional,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) bytes: Vec<u8>,
    pub(crate) kind: String,
    pub(crate) cache: String,
    pub(crate) tag: String,
}

/// What the server has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stored {
    pub(crate) objects: BTreeMap<String, Object>,
    /// Keys and parts by IDs.
    pub(crate) uploads: BTreeMap<String, (String, BTreeMap<usize, Vec<u8>>)>,
    headers: BTreeMap<String, (String, String)>,
    changes: usize,
}

type Behaviour = dyn Fn(&Call, &Mutex<Stored>) -> BucketReply + Send + Sync;

/// A running server, which ends when it is dropped.
pub(crate) struct BucketServer {
    port: u16,
    pub(crate) stored: Arc<Mutex<Stored>>,
    calls: Arc<Mutex<Vec<Call>>>,
    behaviour: Arc<Mutex<Arc<Behaviour>>>,
    /// How many connections there are.
    open: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BucketServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let right: Arc<Behaviour> = Arc::new(|_, _| BucketReply::Right);
        let (stored, calls, behaviour) = (Arc::default(), Arc::default(), Arc::new(Mutex::new(right)));
        let ends = Arc::<AtomicBool>::default();
        let shared = (Arc::clone(&stored), Arc::clone(&calls), Arc::clone(&behaviour), Arc::clone(&ends));
        let open = Arc::<AtomicUsize>::default();
        let opened = Arc::clone(&open);
        let serve = move || {
            let (stored, calls, behaviour, ends) = shared;
            for stream in listener.incoming().map_while(Result::ok).take_while(|_| !ends.load(Ordering::SeqCst)) {
                let (stored, calls, behaviour) = (Arc::clone(&stored), Arc::clone(&calls), Arc::clone(&behaviour));
                let open = Arc::clone(&opened);
                open.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    // A client that ends early is none of its business.
                    answer_all(&stream, &stored, &calls, &behaviour).ok();
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        };
        Self { port, stored, calls, behaviour, open, ends, thread: Some(thread::spawn(serve)) }
    }

    /// Answers so from now on, and counts requests from 0 again.
    pub(crate) fn behave(&self, behaviour: impl Fn(&Call, &Mutex<Stored>) -> BucketReply + Send + Sync + 'static) {
        *self.behaviour.lock().unwrap() = Arc::new(behaviour);
        self.calls.lock().unwrap().clear();
    }

    /// Waits until nothing is carried out any more of what a process has asked for that has ended.
    pub(crate) fn is_at_rest(&self) {
        // Connections are accepted in order: those that were made before this one are counted when it ends.
        let mut last = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        last.shutdown(Shutdown::Write).unwrap();
        last.read_to_end(&mut Vec::new()).unwrap();
        wait_until("all connections have ended", || self.open.load(Ordering::SeqCst) == 0);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// All requests since [`BucketServer::behave`].
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn stored(&self) -> Stored {
        self.stored.lock().unwrap().clone()
    }
}

impl Drop for BucketServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        TcpStream::connect(("127.0.0.1", self.port)).ok();
        self.thread.take().map(JoinHandle::join);
    }
}

fn answer_all(
    mut stream: &TcpStream,
    stored: &Mutex<Stored>,
    calls: &Mutex<Vec<Call>>,
    behaviour: &Mutex<Arc<Behaviour>>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(mut call) = read_call(&mut reader)? {
        let mut list = calls.lock().unwrap();
        call.number = list.len();
        list.push(Call { body: Vec::new(), ..call.clone() });
        drop(list);
        let behaviour = Arc::clone(&behaviour.lock().unwrap());
        let reply = behaviour(&call, stored);
        let answer = match reply {
            BucketReply::Die => return Ok(()),
            BucketReply::Refuse(status, code, headers) => Answer::refuse(status, code).with(headers),
            BucketReply::Forget => Answer { headers: "ETag: \"forgotten\"\r\n".to_owned(), ..Answer::of(200, "") },
            _ if !call.is_signed() => Answer::refuse(403, "SignatureDoesNotMatch"),
            _ => stored.lock().unwrap().carry_out(&call, !matches!(reply, BucketReply::Unconditional)),
        };
        if matches!(reply, BucketReply::DieAfter) {
            return Ok(());
        }
        let body = if call.method == "HEAD" { &[] } else { &*answer.body };
        let length = answer.length.unwrap_or(answer.body.len());
        write!(stream, "HTTP/1.1 {} x\r\nContent-Length: {length}\r\n{}\r\n", answer.status, answer.headers)?;
        stream.write_all(body)?;
    }
    Ok(())
}

fn read_call(reader: &mut impl BufRead) -> io::Result<Option<Call>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    let mut words = lines.first().unwrap().split(' ');
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned();
    let key = decode(path.strip_prefix("/bucket/").unwrap_or("elsewhere"));
    let fields = query.split('&').filter_map(|field| field.split_once('='));
    let query = fields.map(|(name, value)| (name.to_owned(), decode(value))).collect();
    let header = |line: &String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: BTreeMap<_, _> = lines.iter().skip(1).filter_map(header).collect();
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body)?;
    Ok(Some(Call { number: 0, method, key, query, headers, body }))
}

struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
    /// That of a file whose bytes are not sent.
    length: Option<usize>,
}

impl Answer {
    fn of(status: u16, body: &str) -> Self {
        Self { status, headers: String::new(), body: body.as_bytes().to_vec(), length: None }
    }

    fn refuse(status: u16, code: &str) -> Self {
        Self::of(status, &format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>"))
    }

    fn with(self, headers: &str) -> Self {
        Self { headers: self.headers + headers, ..self }
    }
}

impl Stored {
    /// Without uploads that have no parts and so take no room.
    pub(crate) fn settled(mut self) -> Self {
        self.uploads.retain(|_, (_, parts)| !parts.is_empty());
        self
    }

    fn carry_out(&mut self, call: &Call, has_conditions: bool) -> Answer {
        let Call { key, body, .. } = call;
        let header = |name: &str| call.headers.get(name).cloned().unwrap_or_default();
        let id = call.query.get("uploadId");
        match (&*call.method, id) {
            ("GET" | "HEAD", _) => match self.objects.get(key) {
                None => Answer::refuse(404, "NoSuchKey"),
                Some(object) => {
                    let length = Some(object.bytes.len());
                    let (bytes, tag) = (object.bytes.clone(), format!("ETag: {}\r\n", object.tag));
                    Answer { body: bytes, length, ..Answer::of(200, "") }.with(&tag)
                }
            },
            ("PUT", None) => {
                let there = self.objects.get(key).map(|object| object.tag.clone());
                let (create, replace) = (header("if-none-match"), header("if-match"));
                if has_conditions && (create == "*" && there.is_some() || !replace.is_empty() && there != Some(replace))
                {
                    return Answer::refuse(412, "PreconditionFailed");
                }
                let tag = self.keep(key, body.clone(), header("content-type"), header("cache-control"));
                Answer::of(200, "").with(&format!("ETag: {tag}\r\n"))
            }
            ("POST", None) => {
                self.changes += 1;
                let id = format!("id&{}/+", self.changes);
                self.uploads.insert(id.clone(), (key.clone(), BTreeMap::new()));
                self.headers.insert(id.clone(), (header("content-type"), header("cache-control")));
                let id = id.replace('&', "&amp;");
                Answer::of(
                    200,
                    &format!(
                        "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                    ),
                )
            }
            (_, Some(id)) if !self.uploads.contains_key(id) => Answer::refuse(404, "NoSuchUpload"),
            ("PUT", Some(id)) => {
                let number = call.query.get("partNumber").unwrap().parse().unwrap();
                let tag = format!("\"{}\"", hex(&Sha256::digest(body)));
                self.uploads.get_mut(id).unwrap().1.insert(number, body.clone());
                Answer::of(200, "").with(&format!("ETag: {tag}\r\n"))
            }
            ("POST", Some(id)) => {
                let (_, parts) = self.uploads.remove(id).unwrap();
                let text = String::from_utf8(body.clone()).unwrap();
                let tags: Vec<_> = parts.values().map(|part| format!("\"{}\"", hex(&Sha256::digest(part)))).collect();
                let list = (1..)
                    .zip(&tags)
                    .map(|(number, tag)| format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"));
                assert_eq!(
                    text,
                    format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", list.collect::<String>())
                );
                let least = parts.values().rev().skip(1).map(Vec::len).min();
                assert!(least.is_none_or(|least| least >= 5 << 20), "a part of {least:?} bytes");
                let (kind, cache) = self.headers.remove(id).unwrap();
                self.keep(key, parts.into_values().collect::<Vec<_>>().concat(), kind, cache);
                Answer::of(200, "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
            }
            ("DELETE", Some(id)) => {
                self.uploads.remove(id);
                Answer::of(204, "")
            }
            _ => Answer::refuse(405, "MethodNotAllowed"),
        }
    }

    fn keep(&mut self, key: &str, bytes: Vec<u8>, kind: String, cache: String) -> String {
        self.changes += 1;
        let tag = format!("\"{}\"", self.changes);
        self.objects.insert(key.to_owned(), Object { bytes, kind, cache, tag: tag.clone() });
        tag
    }
}

/// In hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    kpackfs::split::hex(bytes)
}
