//! How large a message may be: the same on HTTP/1, HTTP/2 and in trailers. Over a limit that request alone is refused.

use http::HeaderMap;

/// Header fields of a message. Envoy's limit is 100, which real applications exceed.
pub(crate) const FIELDS_MAX: usize = 200;

/// Bytes of a message's header.
pub(crate) const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a header list that an HTTP/2 connection decodes before it gives up as a whole. Larger than the limit itself, so
/// that one request with a large header is answered by 431 instead of ending all others on its connection.
pub(crate) const HEADER_LIST_BYTES_MAX: u32 = 512 * 1024;

/// Bytes that one HTTP/1 connection buffers: a header at the limit, and what was read beyond it.
pub(crate) const BUFFER_BYTES_MAX: usize = 2 * HEADER_BYTES_MAX;

/// Bytes of a request's body that are kept to send them again.
pub(crate) const REPLAY_BYTES_MAX: usize = 64 * 1024;

/// What RFC 9113 (6.5.2) adds to each field.
const FIELD_OVERHEAD: usize = 32;

/// Whether a header list is over the limits.
pub(crate) fn too_large(headers: &HeaderMap) -> bool {
    if headers.len() > FIELDS_MAX {
        return true;
    }
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD)
        .sum();
    bytes > HEADER_BYTES_MAX + headers.len() * FIELD_OVERHEAD
}
