//! HTTP/1.1 by the letter of RFC 9112: what two parsers could read in two ways is broken here. It shares no code with what is
//! under test.

/// A message as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Request line or status line.
    pub start: String,
    /// Names in lower case, with their values.
    pub fields: Vec<(String, String)>,
    /// The body, decoded.
    pub body: Vec<u8>,
    /// Fields after a chunked body.
    pub trailers: Vec<(String, String)>,
    /// What said how long the body is.
    pub framing: Framing,
}

/// What says how long a body is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    #[default]
    None,
    /// `Content-Length`.
    Length(usize),
    /// `Transfer-Encoding: chunked`.
    Chunked,
    /// The end of the connection.
    Close,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request.
    Request,
    /// An answer.
    Answer,
    /// An answer to `HEAD`: no body, whatever its head says.
    AnswerToHead,
}

/// What bytes are so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// The beginning of a message.
    More,
    /// A message, and how many bytes it takes.
    Whole(Message, usize),
    /// No message, and why.
    Broken(&'static str),
}

/// Why no message came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    More,
    Broken(&'static str),
}

type Step<T> = Result<T, Stop>;

/// Reads the first message of `bytes`; `at_end` when no more will come.
pub fn parse(bytes: &[u8], kind: Kind, at_end: bool) -> Parsed {
    let mut reader = Reader { bytes, at: 0 };
    match message(&mut reader, kind, at_end) {
        Ok(message) => Parsed::Whole(message, reader.at),
        Err(Stop::More) if at_end && !bytes.is_empty() => Parsed::Broken("cut short"),
        Err(Stop::More) => Parsed::More,
        Err(Stop::Broken(why)) => Parsed::Broken(why),
    }
}

/// The head of the first message of `bytes`, if it is all there.
pub fn head(bytes: &[u8]) -> Option<Message> {
    let (start, fields) = read_head(&mut Reader { bytes, at: 0 }).ok()?;
    Some(Message { start, fields, ..Message::default() })
}

fn message(reader: &mut Reader<'_>, kind: Kind, at_end: bool) -> Step<Message> {
    let (start, fields) = read_head(reader)?;
    check_start(&start, kind)?;
    let mut message = Message { start, fields, ..Message::default() };
    message.framing = framing(&message, kind)?;
    match message.framing {
        Framing::None => {}
        Framing::Length(length) => message.body = reader.take(length)?.to_vec(),
        Framing::Chunked => chunks(reader, &mut message)?,
        Framing::Close if at_end => message.body = reader.rest().to_vec(),
        Framing::Close => return Err(Stop::More),
    }
    Ok(message)
}

fn read_head(reader: &mut Reader<'_>) -> Step<(String, Vec<(String, String)>)> {
    let start = text(reader.line()?)?;
    Ok((start, fields(reader)?))
}

fn fields(reader: &mut Reader<'_>) -> Step<Vec<(String, String)>> {
    let mut fields = Vec::new();
    loop {
        let line = reader.line()?;
        if line.is_empty() {
            return Ok(fields);
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = colon.map_or((line, &[][..]), |colon| {
            (line.get(..colon).unwrap_or_default(), line.get(colon + 1..).unwrap_or_default())
        });
        if colon.is_none() || name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
            return Err(Stop::Broken("no field name"));
        }
        if value.iter().any(|byte| *byte < b' ' && *byte != b'\t' || *byte == 0x7f) {
            return Err(Stop::Broken("control byte in a value"));
        }
        let value = String::from_utf8_lossy(value.trim_ascii()).into_owned();
        fields.push((text(name)?.to_ascii_lowercase(), value));
    }
}

fn check_start(start: &str, kind: Kind) -> Step<()> {
    let words: Vec<&str> = start.split(' ').collect();
    let good = match (kind, words.as_slice()) {
        (Kind::Request, [method, target, version]) => {
            !method.is_empty()
                && method.bytes().all(is_token)
                && !target.is_empty()
                && target.bytes().all(|byte| byte.is_ascii_graphic())
                && matches!(*version, "HTTP/1.1" | "HTTP/1.0")
        }
        (Kind::Answer | Kind::AnswerToHead, [version, status, ..]) => {
            matches!(*version, "HTTP/1.1" | "HTTP/1.0")
                && status.len() == 3
                && status.bytes().all(|byte| byte.is_ascii_digit())
        }
        _ => false,
    };
    if good { Ok(()) } else { Err(Stop::Broken("no start line")) }
}

fn framing(message: &Message, kind: Kind) -> Step<Framing> {
    let codings = message.all("transfer-encoding");
    let lengths = message.all("content-length");
    let status = message.status();
    let bodiless = kind == Kind::AnswerToHead
        || kind == Kind::Answer && (status < 200 || status == 204 || status == 304);
    match (codings.as_slice(), lengths.as_slice()) {
        ([], [_, _, ..]) => Err(Stop::Broken("several lengths")),
        ([], [length]) => {
            let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
            match length.parse() {
                Ok(_) if bodiless => Ok(Framing::None),
                Ok(length) if digits => Ok(Framing::Length(length)),
                _ => Err(Stop::Broken("no length")),
            }
        }
        ([], []) if kind == Kind::Answer && !bodiless => Ok(Framing::Close),
        ([], []) => Ok(Framing::None),
        (_, [_, ..]) => Err(Stop::Broken("length beside a coding")),
        (["chunked"], []) if bodiless => Ok(Framing::None),
        (["chunked"], []) => Ok(Framing::Chunked),
        _ => Err(Stop::Broken("unknown coding")),
    }
}

fn chunks(reader: &mut Reader<'_>, message: &mut Message) -> Step<()> {
    loop {
        let line = reader.line()?;
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (size, extension) = line.split_at_checked(digits).unwrap_or_default();
        if size.is_empty() || size.len() > 16 || !matches!(extension.first(), None | Some(b';')) {
            return Err(Stop::Broken("no chunk size"));
        }
        let size = usize::from_str_radix(&text(size)?, 16)
            .map_err(|_not_a_size| Stop::Broken("no chunk size"))?;
        if size == 0 {
            message.trailers = fields(reader)?;
            return Ok(());
        }
        message.body.extend_from_slice(reader.take(size)?);
        if !reader.take(2)?.eq(b"\r\n") {
            return Err(Stop::Broken("no end of a chunk"));
        }
    }
}

fn text(bytes: &[u8]) -> Step<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_not_text| Stop::Broken("not text"))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        rest
    }

    fn take(&mut self, length: usize) -> Step<&'a [u8]> {
        let end = self.at.checked_add(length).ok_or(Stop::Broken("too long"))?;
        let taken = self.bytes.get(self.at..end).ok_or(Stop::More)?;
        self.at = end;
        Ok(taken)
    }

    /// A line without its end, which is CRLF and nothing else.
    fn line(&mut self) -> Step<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(Stop::More)?;
        let line = rest.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").ok_or(Stop::Broken("bare LF"))?;
        if line.contains(&b'\r') {
            return Err(Stop::Broken("bare CR"));
        }
        self.at += end + 1;
        Ok(line)
    }
}

impl Message {
    /// The status of an answer; 0 for a request.
    pub fn status(&self) -> u16 {
        let status = self.start.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        status.and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// The value of the first field of that name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    /// The values of all fields of that name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let named = self.fields.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// Head and body as text, for messages and for looking at what a row wants.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.start);
        for (name, value) in self.fields.iter().chain(&self.trailers) {
            for part in [name, ": ", value, "\n"] {
                text.push_str(part);
            }
        }
        text.push('\n');
        text.push_str(&String::from_utf8_lossy(&self.body));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{Framing, Kind, Parsed, parse};

    fn body(bytes: &str, kind: Kind) -> Result<(Framing, String, usize), &'static str> {
        match parse(bytes.as_bytes(), kind, true) {
            Parsed::Whole(message, used) => {
                Ok((message.framing, String::from_utf8(message.body).unwrap(), used))
            }
            Parsed::Broken(why) => Err(why),
            Parsed::More => Err("more"),
        }
    }

    #[test]
    fn what_two_parsers_could_read_in_two_ways_is_broken() {
        let cases = [
            ("GET / HTTP/1.1\r\n\r\n", Ok((Framing::None, "", 18))),
            ("GET / HTTP/1.1\n\n", Err("bare LF")),
            ("GET / HTTP/1.1\r\na : b\r\n\r\n", Err("no field name")),
            ("GET / HTTP/1.1\r\na: b\r\n c\r\n\r\n", Err("no field name")),
            ("GET / HTTP/1.1\r\na: \0\r\n\r\n", Err("control byte in a value")),
            (
                "P / HTTP/1.1\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nab",
                Err("several lengths"),
            ),
            ("P / HTTP/1.1\r\ncontent-length: +2\r\n\r\nab", Err("no length")),
            ("P / HTTP/1.1\r\ncontent-length: 3\r\n\r\nab", Err("cut short")),
            (
                "P / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\nab\r\n0\r\nt: 1\r\n\r\n",
                Ok((Framing::Chunked, "ab", 66)),
            ),
            (
                "P / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0x2\r\nab\r\n0\r\n\r\n",
                Err("no chunk size"),
            ),
            (
                "P / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
                Err("no end of a chunk"),
            ),
        ];
        for (bytes, expected) in cases {
            let expected =
                expected.map(|(framing, body, used)| (framing, String::from(body), used));
            assert_eq!(body(bytes, Kind::Request), expected, "{bytes:?}");
        }
        let closed = body("HTTP/1.0 200 OK\r\n\r\nall", Kind::Answer);
        assert_eq!(closed, Ok((Framing::Close, "all".into(), 22)));
        let head = body("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", Kind::AnswerToHead);
        assert_eq!(head, Ok((Framing::None, String::new(), 38)));
    }
}
