//! A small HTTP/1.1 client on a bare socket: for admin requests, and for bytes that no real client would send.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// No answer of a test takes longer.
const LIMIT: Duration = Duration::from_secs(30);

/// Status and body of a GET; what went wrong otherwise.
pub fn get(address: SocketAddr, path: &str) -> Result<(u16, String), String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let answer = send(address, request.as_bytes())?;
    let (status, _, body) = parse(&answer)?;
    Ok((status, body.to_owned()))
}

/// Status, `tidegate-reason` and body of a GET for a host; what went wrong otherwise.
pub fn get_of_host(address: SocketAddr, host: &str) -> Result<(u16, String, String), String> {
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = send(address, request.as_bytes())?;
    let (status, head, body) = parse(&answer)?;
    let reason = head.lines().find_map(|line| line.strip_prefix("tidegate-reason: "));
    Ok((status, reason.unwrap_or_default().to_owned(), body.to_owned()))
}

/// Status, header and body of an answer.
fn parse(answer: &str) -> Result<(u16, &str, &str), String> {
    let (head, body) =
        answer.split_once("\r\n\r\n").ok_or_else(|| format!("no answer: {answer:?}"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| format!("no status: {head:?}"))?, head, body))
}

/// Sends bytes and reads until the other side closes.
pub fn send(address: SocketAddr, bytes: &[u8]) -> Result<String, String> {
    let say = |what: &str, error: std::io::Error| format!("{what} {address}: {error}");
    let mut socket = connect(address).map_err(|error| say("connect to", error))?;
    socket.write_all(bytes).map_err(|error| say("write to", error))?;
    let mut answer = Vec::new();
    match socket.read_to_end(&mut answer) {
        Err(error) if answer.is_empty() => Err(say("read from", error)),
        _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
    }
}

/// A connection on which nothing waits for ever.
pub fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, LIMIT)?;
    socket.set_read_timeout(Some(LIMIT))?;
    socket.set_write_timeout(Some(LIMIT))?;
    socket.set_nodelay(true)?;
    Ok(socket)
}
