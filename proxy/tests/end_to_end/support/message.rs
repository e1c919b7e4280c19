//! HTTP/1 messages as bytes on a socket, read without any library under test.

use super::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One end of an HTTP/1 connection.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A message as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    /// Start line and fields, without the empty line.
    pub(crate) head: String,
    /// The body, decoded.
    pub(crate) body: Vec<u8>,
    /// The trailer section of a chunked body.
    pub(crate) trailers: String,
    /// Whether the body came to its proper end.
    pub(crate) complete: bool,
}

/// How a message's body ends when its head does not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bodiless {
    /// A request, or an answer that has no body.
    Empty,
    /// An answer.
    UntilClose,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // The other side may be gone already; what it then answers is what a test looks at.
        if let Err(error) = within("write", self.stream.write_all(bytes.as_ref())).await {
            println!("write: {error}");
        }
    }

    /// Whether more bytes came; `false` at the end of the connection, orderly or not.
    /// Ends this side; the other one may go on.
    pub(crate) async fn half_close(&mut self) {
        within("half-close", self.stream.shutdown()).await.unwrap();
    }

    /// Waits for an answer as long as somebody without patience does, who is sure not to get one.
    pub(crate) async fn loses_patience(mut self) {
        let limit = std::time::Duration::from_millis(50);
        let answer = tokio::time::timeout(limit, self.more()).await;
        assert!(answer.is_err(), "an answer came");
    }

    pub(crate) async fn more(&mut self) -> bool {
        within("read", self.stream.read_buf(&mut self.buffer)).await.is_ok_and(|length| length > 0)
    }

    /// What was read and not taken yet.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.buffer).into_owned()
    }

    /// Whether the other side ended the connection without another byte.
    pub(crate) async fn is_at_end(&mut self) -> bool {
        self.buffer.is_empty() && !self.more().await
    }

    /// Says back everything that comes.
    pub(crate) async fn echo(&mut self) {
        loop {
            let bytes = std::mem::take(&mut self.buffer);
            self.write(bytes).await;
            if !self.more().await {
                return;
            }
        }
    }

    /// Writes bytes and reads as many at the same time.
    pub(crate) async fn write_and_read(&mut self, bytes: &[u8]) -> (usize, Vec<u8>) {
        let (mut from, mut to) = self.stream.split();
        let mut read = vec![0; bytes.len()];
        let both = async { tokio::join!(to.write_all(bytes), from.read_exact(&mut read)) };
        let (written, received) = within("write and read", both).await;
        written.unwrap();
        (received.unwrap(), read)
    }

    /// The next message; `None` when the connection ended before it.
    pub(crate) async fn message(&mut self, bodiless: Bodiless) -> Option<Message> {
        let head = self.head().await?;
        let mut message = Message { head, ..Message::default() };
        if message.field("transfer-encoding").is_some_and(|coding| coding.ends_with("chunked")) {
            message.complete = self.chunks(&mut message).await.is_some();
        } else if let Some(length) = message
            .field("content-length")
            .filter(|_| bodiless == Bodiless::UntilClose || !message.is_answer())
        {
            let length = length.parse().unwrap();
            let body = self.exactly(length).await;
            message.complete = body.len() == length;
            message.body = body;
        } else if bodiless == Bodiless::UntilClose {
            while self.more().await {}
            message.body = std::mem::take(&mut self.buffer);
            message.complete = true;
        } else {
            message.complete = true;
        }
        Some(message)
    }

    /// The head of the next message alone.
    pub(crate) async fn head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
                return Some(String::from_utf8(head[..end].to_vec()).unwrap());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Some(String::from_utf8(line[..end].to_vec()).unwrap());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// So many bytes, or as many as there are before the end.
    pub(crate) async fn exactly(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length && self.more().await {}
        let end = length.min(self.buffer.len());
        self.buffer.drain(..end).collect()
    }

    async fn chunks(&mut self, message: &mut Message) -> Option<()> {
        loop {
            let size =
                usize::from_str_radix(self.line().await?.split(';').next().unwrap(), 16).unwrap();
            if size == 0 {
                break;
            }
            let chunk = self.exactly(size).await;
            message.body.extend_from_slice(&chunk);
            if chunk.len() < size {
                return None;
            }
            self.line().await?;
        }
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Some(());
            }
            message.trailers.push_str(&line.to_ascii_lowercase());
            message.trailers.push('\n');
        }
    }
}

impl Message {
    /// The first line.
    pub(crate) fn start(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// The status of an answer.
    pub(crate) fn status(&self) -> u16 {
        self.start().split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn is_answer(&self) -> bool {
        self.start().starts_with("HTTP/")
    }

    /// The value of the first field of that name.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        self.fields(name).into_iter().next()
    }

    /// The values of all fields of that name.
    pub(crate) fn fields(&self, name: &str) -> Vec<String> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
            .collect()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
