//! What the fuzz targets of `crates/fuzz` reach of the data path, with the properties that must hold for any bytes. Nothing else
//! uses it.

use crate::outbound::detect::{self, Judgement, Version};
use crate::outbound::head;
use http::{HeaderMap, HeaderName, HeaderValue, Request};

/// What the first bytes of a connection are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// Not certain yet.
    Open,
    /// HTTP/1.
    Http1,
    /// HTTP/2.
    Http2,
    /// Something else.
    Other,
}

/// Takes the first bytes of a connection for what detection takes them for. It does not look at more of them either.
pub fn detect(seen: &[u8]) -> Spoken {
    match detect::judge(seen.get(..DETECTED_BY).unwrap_or(seen)) {
        Judgement::Open => Spoken::Open,
        Judgement::Certain(Some(Version::Http1)) => Spoken::Http1,
        Judgement::Certain(Some(Version::Http2)) => Spoken::Http2,
        Judgement::Certain(None) => Spoken::Other,
    }
}

/// Bytes that detection looks at, at most.
pub const DETECTED_BY: usize = detect::PREFACE.len();

/// A request's head after the rules: `None` when it is refused. What is no field is left out beforehand, as the parser would.
pub fn request_head(lines: &[u8], http2: bool) -> Option<HeaderMap> {
    let mut request = Request::new(());
    let headers = request.headers_mut();
    for line in lines.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        let name = HeaderName::from_bytes(name);
        let value = HeaderValue::from_bytes(value.get(1..).unwrap_or_default().trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let (mut parts, ()) = request.into_parts();
    let version = if http2 { Version::Http2 } else { Version::Http1 };
    head::check(version, &parts).ok()?;
    head::host(&parts.headers).ok()?;
    head::strip_request(&mut parts.headers);
    head::join_cookies(&mut parts.headers);
    Some(parts.headers)
}
