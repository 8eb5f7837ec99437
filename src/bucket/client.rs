//! Requests to a server of S3 (Amazon S3 API Reference), which are repeated where that helps. The bucket is in the path
//! of URLs, not in the name of the host, whose certificate would not fit each bucket.

use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use ureq::http::uri::Authority;
use ureq::http::{HeaderMap, Method, Request, Response, Uri};
use ureq::{Agent, Body};

use super::credentials::{AccessKey, credentials, region, variable};
use super::error::{BadAnswer, is_status, pause as pause_after, shown};
use super::place::BucketPlace;
use super::signature::{self, Unsigned};
use crate::remote::{RemoteProblem, agent, busy, pause, proxy_of};
use crate::rope::Sha256;
use crate::split::hex;

/// The most bytes of an answer that are read.
const MOST_ANSWER: u64 = 64 << 20;

/// The most characters of a code in a message.
const MOST_CODE: usize = 60;

const NO_ENDPOINT: &str = "AWS_ENDPOINT_URL is not https://HOST or http://HOST, with a port if need be";

/// Codes of answers to credentials that are wrong or have ended (Amazon S3 API Reference, "Error responses").
const BAD_CREDENTIALS: [&str; 6] = [
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "TokenRefreshRequired",
];

/// What is asked with each request: a name can be read only by users who may do so, and its absence is seen only by those who may list.
const READ: &str = "s3:GetObject, and s3:ListBucket to see what is not there";
const WRITE: &str = "s3:PutObject";
const ABORT: &str = "s3:AbortMultipartUpload";

/// A client of one place in a bucket.
#[derive(Debug)]
pub(super) struct BucketClient {
    place: BucketPlace,
    agent: Agent,
    /// Scheme and authority of URLs.
    server: String,
    host: String,
    region: String,
    credentials: AccessKey,
    /// The shortest pause before a request that is made again.
    pause: Duration,
}

/// An object in the bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BucketObject {
    pub(super) size: u64,
    /// The entity tag, which is another one after each change.
    pub(super) tag: String,
}

/// The condition of a PUT.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition<'a> {
    None,
    /// There is no such object.
    Create,
    /// It has this entity tag.
    Replace(&'a str),
}

/// A request.
struct Asked<'a> {
    method: Method,
    name: &'a str,
    /// Sorted.
    query: &'a [(&'a str, &'a str)],
    headers: Vec<(&'static str, String)>,
    body: &'a [u8],
    /// The permissions that it needs.
    needs: &'static str,
}

impl<'a> Asked<'a> {
    fn new(method: Method, name: &'a str, needs: &'static str) -> Self {
        Self { method, name, query: &[], headers: Vec::new(), body: &[], needs }
    }
}

/// What the server answered.
struct BucketAnswer {
    headers: HeaderMap,
    body: Vec<u8>,
}

impl BucketAnswer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The entity tag, which stands in XML and in headers later.
    fn tag(&self) -> anyhow::Result<String> {
        let tag = self.header("etag").filter(|tag| !tag.is_empty() && !tag.contains(['<', '>', '&']));
        tag.map(ToOwned::to_owned).with_context(|| without("ETag"))
    }
}

impl BucketClient {
    /// A client with the credentials and the endpoint of the environment.
    pub(super) fn new(place: &BucketPlace, allow_http: bool) -> anyhow::Result<Self> {
        let region = region();
        let named = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let named = named.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let uri: Uri = named.parse().ok().context(NO_ENDPOINT)?;
        let is_plain = matches!(uri.path(), "" | "/") && uri.query().is_none();
        let host = uri.authority().map(Authority::as_str).filter(|host| is_plain && !host.contains('@'));
        let (Some(host), Some(scheme @ ("https" | "http"))) = (host, uri.scheme_str()) else {
            bail!(NO_ENDPOINT);
        };
        let is_secure = scheme == "https";
        if !is_secure && !allow_http {
            return Err(RemoteProblem::in_the_clear().into());
        }
        let (server, host, place) = (format!("{scheme}://{host}"), host.to_owned(), place.clone());
        let (credentials, agent) = (credentials()?, agent(is_secure)?);
        Ok(Self { place, agent, server, host, region, credentials, pause: pause() })
    }

    /// The name of an object in messages.
    pub(super) fn shown(&self, name: &str) -> String {
        self.place.shown(name)
    }

    /// What is known of an object; `None` if it is not there.
    pub(super) fn head(&self, name: &str) -> anyhow::Result<Option<BucketObject>> {
        let Some(answer) = self.find(&Asked::new(Method::HEAD, name, READ))? else { return Ok(None) };
        let size = answer.header("content-length").and_then(|it| it.parse().ok());
        let size = size.with_context(|| without("Content-Length"))?;
        Ok(Some(BucketObject { size, tag: answer.tag()? }))
    }

    /// The bytes of a short object and its entity tag; `None` if it is not there.
    pub(super) fn read(&self, name: &str) -> anyhow::Result<Option<(Vec<u8>, String)>> {
        let Some(answer) = self.find(&Asked::new(Method::GET, name, READ))? else { return Ok(None) };
        let tag = answer.tag()?;
        Ok(Some((answer.body, tag)))
    }

    /// Writes an object at once. Returns its entity tag.
    pub(super) fn put(&self, name: &str, body: &[u8], condition: Condition<'_>) -> anyhow::Result<String> {
        let mut headers = headers(name);
        match condition {
            Condition::None => {}
            Condition::Create => headers.push(("if-none-match", "*".to_owned())),
            Condition::Replace(tag) => headers.push(("if-match", tag.to_owned())),
        }
        self.send(&Asked { headers, body, ..Asked::new(Method::PUT, name, WRITE) })?.tag()
    }

    /// Begins an upload in parts. Returns its ID.
    pub(super) fn begin(&self, name: &str) -> anyhow::Result<String> {
        let asked =
            Asked { headers: headers(name), query: &[("uploads", "")], ..Asked::new(Method::POST, name, WRITE) };
        let answer = self.send(&asked)?;
        element(&answer.body, "UploadId").with_context(|| without("UploadId"))
    }

    /// Writes a part of an upload. The first one has the number 1. Returns its entity tag.
    pub(super) fn put_part(&self, name: &str, id: &str, number: usize, body: &[u8]) -> anyhow::Result<String> {
        let query = &[("partNumber", &*number.to_string()), ("uploadId", id)];
        self.send(&Asked { query, body, ..Asked::new(Method::PUT, name, WRITE) })?.tag()
    }

    /// Makes an object of the parts of an upload, whose entity tags these are.
    pub(super) fn complete(&self, name: &str, id: &str, tags: &[String]) -> anyhow::Result<()> {
        let part = |(number, tag)| format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>");
        let parts: String = (1..).zip(tags).map(part).collect();
        let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        let query = &[("uploadId", id)];
        let asked = Asked { query, body: body.as_bytes(), ..Asked::new(Method::POST, name, WRITE) };
        self.send(&asked).map(drop)
    }

    /// Ends an upload, and removes its parts. It may be no longer there.
    pub(super) fn abort(&self, name: &str, id: &str) -> anyhow::Result<()> {
        self.find(&Asked { query: &[("uploadId", id)], ..Asked::new(Method::DELETE, name, ABORT) }).map(drop)
    }

    /// The answer to a request; `None` if what it names is not there.
    fn find(&self, asked: &Asked<'_>) -> anyhow::Result<Option<BucketAnswer>> {
        match self.send(asked) {
            Err(error) if is_status(&error, 404) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// The answer to a request, which is made again while the server is busy.
    fn send(&self, asked: &Asked<'_>) -> anyhow::Result<BucketAnswer> {
        let mut tries = 0;
        loop {
            let answer = self.send_once(asked);
            let Err(error) = answer else { return answer };
            tries += 1;
            thread::sleep(pause_after(&error, tries, self.pause).ok_or(error)?);
        }
    }

    fn send_once(&self, asked: &Asked<'_>) -> anyhow::Result<BucketAnswer> {
        let path = format!("/{}/{}", self.place.bucket, signature::path(&self.place.key(asked.name)));
        let query = signature::query(asked.query);
        let (time, body) = (signature::time(SystemTime::now()), hex(&Sha256::of(asked.body)));
        let mut headers = asked.headers.clone();
        headers.extend([
            ("host", self.host.clone()),
            ("x-amz-content-sha256", body.clone()),
            ("x-amz-date", time.clone()),
        ]);
        headers.extend(self.credentials.token.clone().map(|token| ("x-amz-security-token", token)));
        headers.sort_unstable();
        let (method, region) = (asked.method.as_str(), &*self.region);
        let unsigned =
            Unsigned { method, path: &path, query: &query, headers: &headers, body: &body, time: &time, region };
        let authorization = unsigned.authorization(&self.credentials);
        let question = if query.is_empty() { "" } else { "?" };
        let uri = format!("{}{path}{question}{query}", self.server);
        let mut request = Request::builder().method(asked.method.clone()).uri(uri);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.header("authorization", authorization);
        let has_body = matches!(asked.method, Method::PUT | Method::POST);
        let response = if has_body {
            request.body(asked.body).map_err(ureq::Error::from).and_then(|request| self.call(request))
        } else {
            request.body(()).map_err(ureq::Error::from).and_then(|request| self.call(request))
        };
        self.check(response.map_err(RemoteProblem::from)?, asked)
    }

    /// Redirects are not followed: their signature would be that of another server.
    fn call(&self, request: Request<impl ureq::AsSendBody>) -> Result<Response<Body>, ureq::Error> {
        let proxy = proxy_of(request.uri())?;
        self.agent.run(self.agent.configure_request(request).proxy(proxy).build())
    }

    fn check(&self, response: Response<Body>, asked: &Asked<'_>) -> anyhow::Result<BucketAnswer> {
        let (head, mut body) = response.into_parts();
        let body = if asked.method == Method::HEAD {
            Vec::new()
        } else {
            body.with_config().limit(MOST_ANSWER).read_to_vec().map_err(RemoteProblem::from)?
        };
        let (status, answer) = (head.status.as_u16(), BucketAnswer { headers: head.headers, body });
        let code = element(&answer.body, "Code").filter(|code| is_word(code));
        // Making an object of parts takes long, so the status is sent before the result is known.
        let is_failure = asked.method == Method::POST && code.is_some();
        match (status, code.as_deref()) {
            (200..=299, _) if is_failure => Err(BadAnswer { status: 500, code }.into()),
            (200..=299, _) => Ok(answer),
            (_, Some("NoSuchBucket")) => {
                bail!("the server {} has no such bucket; create it, or check AWS_ENDPOINT_URL", self.server)
            }
            (301 | 307 | 308, _) | (_, Some("AuthorizationHeaderMalformed" | "PermanentRedirect")) => {
                let region = answer.header("x-amz-bucket-region").map(ToOwned::to_owned);
                let region = region.or_else(|| element(&answer.body, "Region"));
                let region = region.filter(|it| is_word(it)).map(|it| format!(", {it}")).unwrap_or_default();
                bail!("the bucket is in another region{region}; set AWS_REGION")
            }
            (_, Some(known)) if BAD_CREDENTIALS.contains(&known) => {
                bail!(
                    "the server does not accept the credentials ({known}); check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, \
                     AWS_SESSION_TOKEN and the clock"
                )
            }
            (401 | 403, code) => {
                bail!("the server refuses it ({status}{}); the credentials need {}", shown(code), asked.needs)
            }
            (429 | 503, _) => Err(busy(status, &answer.headers).into()),
            _ => Err(BadAnswer { status, code }.into()),
        }
    }
}

/// What is said of an object to its readers: its type, and that a copy is to be compared with it, since a release may be replaced.
fn headers(name: &str) -> Vec<(&'static str, String)> {
    let kinds = [
        (".whl", "application/zip"),
        (".metadata", "text/plain; charset=utf-8"),
        ("/index.json", "application/vnd.pypi.simple.v1+json"),
        (".json", "application/json"),
        (".html", "text/html; charset=utf-8"),
        ("/", "text/html; charset=utf-8"),
    ];
    let kind = kinds.iter().find(|(end, _)| name.ends_with(end)).map_or("application/octet-stream", |(_, kind)| kind);
    vec![("cache-control", "no-cache".to_owned()), ("content-type", kind.to_owned())]
}

/// What is wrong with an answer.
fn without(name: &str) -> String {
    format!("the answer of the server has no {name}; is it a server of S3?")
}

/// The text of the first element with this name, in an answer in XML. Those that are read here have no markup in them.
fn element(body: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (inner, _) = rest.split_once(&format!("</{name}>"))?;
    let plain = inner.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    Some(plain).filter(|it| !it.is_empty())
}

/// Whether a word of a server can stand in a message.
fn is_word(text: &str) -> bool {
    text.len() <= MOST_CODE && text.chars().all(|it| it.is_ascii_alphanumeric() || it == '-')
}

#[cfg(test)]
mod tests {
    use super::{element, headers};

    #[test]
    fn elements_are_found_in_answers() {
        let body =
            b"<?xml version=\"1.0\"?><R><Code>SlowDown</Code><UploadId>a&amp;b&lt;</UploadId><Empty></Empty></R>";
        assert_eq!(element(body, "Code").as_deref(), Some("SlowDown"));
        assert_eq!(element(body, "UploadId").as_deref(), Some("a&b<"));
        for (body, name) in [(&body[..], "Empty"), (b"<Code>", "Code"), (b"\xff<Code>a</Code>", "Code"), (b"", "Code")]
        {
            assert_eq!(element(body, name), None);
        }
    }

    #[test]
    fn each_kind_of_file_has_its_type() {
        for (name, kind) in [
            ("simple/a/a-1-py3-none-any.whl", "application/zip"),
            ("simple/a/a-1-py3-none-any.whl.metadata", "text/plain; charset=utf-8"),
            ("simple/a/index.json", "application/vnd.pypi.simple.v1+json"),
            ("simple/a/index.html", "text/html; charset=utf-8"),
            ("simple/", "text/html; charset=utf-8"),
            (".kpackfs/upload.json", "application/json"),
            ("simple/a/a-1-py3-none-any.whl.asc", "application/octet-stream"),
        ] {
            assert_eq!(headers(name), [("cache-control", "no-cache".to_owned()), ("content-type", kind.to_owned())]);
        }
    }
}
