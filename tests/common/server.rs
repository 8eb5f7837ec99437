//! A server of one file over HTTP, which answers requests for ranges, counts them, and can lie.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// How many requests were made before.
    pub(crate) number: usize,
    pub(crate) path: String,
    /// Headers, in lower case, but for values.
    pub(crate) headers: Vec<(String, String)>,
    /// The bytes of the file; `None` without such a header.
    pub(crate) range: Option<Range<usize>>,
    /// Whether it asked for the last bytes.
    pub(crate) is_suffix: bool,
    /// Bytes of the body of the answer.
    pub(crate) sent: usize,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// How a request is answered.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// As it should be.
    Right,
    /// With another entity tag.
    Tag(&'static str),
    /// With all bytes.
    Whole,
    /// With the range, and the status of an answer with all bytes.
    AsWhole,
    /// With bytes that begin this much later.
    Shifted(usize),
    /// With another length of the file.
    Total(usize),
    /// With a body that ends after these bytes.
    Cut(usize),
    /// With a pause of a second in the middle.
    Slow,
    /// With bytes that are said to be compressed.
    Encoded(&'static str),
    /// With this status, and with these headers.
    Status(u16, String),
    /// With nothing but the end of the connection.
    Close,
    /// Not at all.
    Silence,
    /// With something else than HTTP.
    Noise,
}

/// A running server, which ends when it is dropped.
pub(crate) struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

type Behaviour = dyn Fn(&Asked) -> Reply + Send + Sync;

impl Server {
    /// Serves these bytes at every path.
    pub(crate) fn start(bytes: Vec<u8>, behaviour: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, ends) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::<AtomicBool>::default());
        let (bytes, behaviour): (Arc<[u8]>, Arc<Behaviour>) = (bytes.into(), Arc::new(behaviour));
        let (list, end) = (Arc::clone(&asked), Arc::clone(&ends));
        let serve = move || {
            for stream in listener.incoming().map_while(Result::ok).take_while(|_| !end.load(Ordering::SeqCst)) {
                let (bytes, behaviour, list) = (Arc::clone(&bytes), Arc::clone(&behaviour), Arc::clone(&list));
                // A client that ends early is none of its business.
                thread::spawn(move || answer_all(&stream, &bytes, &*behaviour, &list).ok());
            }
        };
        Self { port, asked, ends, thread: Some(thread::spawn(serve)) }
    }

    /// The URL of a file.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// All requests.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        TcpStream::connect(("127.0.0.1", self.port)).ok();
        self.thread.take().map(JoinHandle::join);
    }
}

/// Answers the requests of a connection.
fn answer_all(stream: &TcpStream, bytes: &[u8], behaviour: &Behaviour, list: &Mutex<Vec<Asked>>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader, bytes.len()) {
        let mut asked = list.lock().unwrap();
        let request = Asked { number: asked.len(), ..request };
        asked.push(request.clone());
        drop(asked);
        let reply = behaviour(&request);
        let count = |sent| list.lock().unwrap().get_mut(request.number).unwrap().sent = sent;
        if !answer(stream, bytes, &request, &reply, count)? {
            return Ok(());
        }
    }
    Ok(())
}

fn read_request(reader: &mut impl BufRead, size: usize) -> Option<Asked> {
    let mut lines = reader.lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let path = lines.next()?.split(' ').nth(1).unwrap_or_default().to_owned();
    let header = |line: String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: Vec<_> = lines.filter_map(header).collect();
    let asked = headers.iter().find(|(name, _)| name == "range").and_then(|(_, value)| value.strip_prefix("bytes="));
    let range = asked.map(|asked| {
        let (from, to) = asked.split_once('-').unwrap();
        match (from.parse::<usize>(), to.parse::<usize>()) {
            (Ok(from), Ok(to)) => from..size.min(to + 1),
            (Ok(from), Err(_)) => from..size,
            (Err(_), length) => size.saturating_sub(length.unwrap())..size,
        }
    });
    let is_suffix = asked.is_some_and(|asked| asked.starts_with('-'));
    Some(Asked { number: 0, path, headers, range, is_suffix, sent: 0 })
}

/// Answers a request. `false` if the connection ends.
fn answer(
    mut stream: &TcpStream,
    bytes: &[u8],
    asked: &Asked,
    reply: &Reply,
    count: impl FnOnce(usize),
) -> io::Result<bool> {
    let (mut range, mut total, mut tag, mut more) = (asked.range.clone(), bytes.len(), "\"one\"", String::new());
    let mut cut = usize::MAX;
    match reply {
        Reply::Right | Reply::AsWhole | Reply::Slow => {}
        Reply::Tag(other) => tag = other,
        Reply::Whole => range = None,
        Reply::Shifted(by) => range = range.map(|range| (range.start + by).min(range.end - 1)..range.end),
        Reply::Total(other) => total = *other,
        Reply::Cut(length) => cut = *length,
        Reply::Encoded(encoding) => more = format!("Content-Encoding: {encoding}\r\n"),
        Reply::Status(status, headers) => {
            write!(stream, "HTTP/1.1 {status} x\r\nContent-Length: 0\r\n{headers}\r\n")?;
            return Ok(true);
        }
        Reply::Close => return Ok(false),
        Reply::Silence => {
            // Until the client gives up.
            io::Read::read(&mut stream, &mut [0])?;
            return Ok(false);
        }
        Reply::Noise => {
            stream.write_all(b"220 ready\r\n\r\n")?;
            return Ok(false);
        }
    }
    let (status, part) = match &range {
        Some(range) => (if matches!(reply, Reply::AsWhole) { 200 } else { 206 }, range.clone()),
        None => (200, 0..bytes.len()),
    };
    if let Some(range) = &range {
        more = format!("{more}Content-Range: bytes {}-{}/{total}\r\n", range.start, range.end - 1);
    }
    let part = bytes.get(part).unwrap_or_default();
    write!(stream, "HTTP/1.1 {status} x\r\nETag: {tag}\r\nContent-Length: {}\r\n{more}\r\n", part.len())?;
    let sent = part.len().min(cut);
    count(sent);
    let (first, second) = part.get(..sent).unwrap_or_default().split_at(sent / 2);
    stream.write_all(first)?;
    if matches!(reply, Reply::Slow) {
        thread::sleep(Duration::from_secs(1));
    }
    stream.write_all(second)?;
    Ok(sent == part.len())
}
