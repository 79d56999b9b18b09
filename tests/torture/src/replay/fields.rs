//! The fields of the frames that servers send, by the kind of the request. This file shares no code with the simulated
//! server or the client, so it does not repeat their mistakes.

use super::numbers::Numbers;
use super::socket::{int, long};

pub(crate) const PING: i32 = 11;
pub(crate) const MULTI: i32 = 14;
pub(crate) const SET_WATCHES: i32 = 101;
pub(crate) const CLOSE: i32 = -11;
/// The xid of an event. An answer has the xid of its request instead.
pub(crate) const EVENT: i32 = -1;

const DELETE: i32 = 2;
const LISTS: [i32; 2] = [8, 12];
const ACLS: [i32; 2] = [6, 107];

/// The fields of an answer, by the operation codes of its requests. In this format, read by [`Reader::read`], each
/// field consists of a name and a letter for its type.
const ANSWERS: [(&[i32], &str); 7] = [
    (&[DELETE, 8, PING, 12, 13, 100, SET_WATCHES, CLOSE], ""),
    (&[1, 9, 15, 19, 21], "path:s"),
    (&[3, 5, 7], STAT),
    (&[4], "data:s"),
    (&[6], "permissions:i scheme:s id:s"),
    (&[107], "scheme:s user:s"),
    // The result of an operation in a refused transaction.
    (&[-1], "error:i"),
];
/// The requests after whose answers' own fields a node's stat follows.
const WITH_STAT: [i32; 6] = [4, 6, 12, 15, 19, 21];
const STAT: &str = "czxid:T mzxid:T ctime:x mtime:x version:I cversion:I aversion:I ephemeralOwner:o \
                    dataLength:i numChildren:i pzxid:T";
/// The answer to a handshake. The timeout is only compared with zero, because real sessions last as long as possible.
const WELCOME: &str = "version:i timeout:z session:o password:l read-only:b";
/// The xid comes first, so that events can be sorted.
const EVENTS: &str = "number:i zxid:e error:i what:i state:i path:s";

/// Returns whether a request is executed as a transaction.
pub(crate) fn is_write(request: &[u8]) -> bool {
    [1, DELETE, 5, 7, MULTI, 15, 19, 21, CLOSE].contains(&int(request, 8))
}

/// A field of a frame.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Number(i32),
    Text(String),
    /// The id of a transaction that changed a node, or that wrote.
    Transaction(i64),
    /// The id of the last transaction that the server had applied.
    LastTransaction(i64),
    /// The id of the transaction of an event. Older servers do not send it.
    OfEvent(i64),
    Owner(i64),
    /// A value that always differs between two servers: clocks, passwords, and the history of the server's own nodes.
    Own,
}

pub(crate) type Fields = Vec<(&'static str, Value)>;

/// Returns whether the frames that the two servers sent are equivalent.
pub(crate) fn agree(simulated: &Fields, real: &Fields, numbers: &mut Numbers) -> bool {
    use Value::{LastTransaction, OfEvent, Owner, Transaction};
    let mut agrees = |one: &Value, other: &Value| match (one, other) {
        (Transaction(one), Transaction(other)) => numbers.is_transaction(*one, *other),
        (LastTransaction(one), LastTransaction(other)) => numbers.is_seen(*one, *other),
        (OfEvent(-1), OfEvent(_)) | (OfEvent(_), OfEvent(-1)) => true,
        (OfEvent(one), OfEvent(other)) => numbers.is_transaction(*one, *other),
        (Owner(one), Owner(other)) => numbers.is_owner(*one, *other),
        (one, other) => one == other,
    };
    simulated.len() == real.len()
        && simulated.iter().zip(real).all(|((_, one), (_, other))| agrees(one, other))
}

/// The frame has too many or too few bytes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Odd;

pub(crate) fn welcome(frame: &[u8]) -> Result<Fields, Odd> {
    Reader::of(frame).all(WELCOME)
}

pub(crate) fn event(frame: &[u8]) -> Result<Fields, Odd> {
    Reader::of(frame).all(EVENTS)
}

/// Returns the fields of the answer to a request.
pub(crate) fn answer(frame: &[u8], request: &[u8]) -> Result<Fields, Odd> {
    let mut reader = Reader::of(frame);
    let (code, error) = (int(request, 8), int(frame, 16));
    let is_done = error == 0 && is_write(request);
    reader.read(if is_done { "number:i zxid:t error:i" } else { "number:i zxid:n error:i" })?;
    let path = request.get(16..16 + int(request, 12).max(0) as usize).unwrap_or_default();
    reader.is_of_server = path == b"/" || path.starts_with(b"/zookeeper");
    match code {
        _ if error != 0 => {}
        MULTI => loop {
            let operation = int(reader.rest, 0);
            let is_end = reader.rest.get(4) == Some(&1);
            reader.read("operation:i is the end:b error:i")?;
            if is_end {
                break;
            }
            reader.result(operation)?;
        },
        code => {
            if LISTS.contains(&code) {
                reader.list("name:s")?;
                // The children of a node are listed in any order.
                reader.fields[4..].sort_unstable();
            }
            reader.result(code)?;
        }
    }
    reader.all("")
}

struct Reader<'a> {
    rest: &'a [u8],
    fields: Fields,
    /// Whether the node is one of the server's own, whose history differs between servers.
    is_of_server: bool,
}

impl<'a> Reader<'a> {
    fn of(frame: &'a [u8]) -> Reader<'a> {
        let rest = frame.get(4..).unwrap_or_default();
        Reader { rest, fields: Vec::new(), is_of_server: false }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Odd> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Odd)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads a buffer. A length of -1 means that there is none, and is treated like 0.
    fn buffer(&mut self) -> Result<&'a [u8], Odd> {
        let length = int(self.take(4)?, 0).max(0) as usize;
        self.take(length)
    }

    /// Reads fields in this format.
    fn read(&mut self, format: &'static str) -> Result<(), Odd> {
        use Value::{LastTransaction, Number, OfEvent, Own, Owner, Text, Transaction};
        for (name, letter) in format.split(' ').filter_map(|field| field.split_once(':')) {
            let value = match letter {
                "i" | "I" => Number(int(self.take(4)?, 0)),
                "z" => Number((int(self.take(4)?, 0) == 0).into()),
                "b" => Number(self.take(1)?[0].into()),
                "s" => Text(self.buffer()?.escape_ascii().to_string()),
                "l" => Number(self.buffer()?.len() as i32),
                "t" | "T" => Transaction(long(self.take(8)?, 0)),
                "n" => LastTransaction(long(self.take(8)?, 0)),
                "e" => OfEvent(long(self.take(8)?, 0)),
                "o" => Owner(long(self.take(8)?, 0)),
                _ => self.take(8).map(|_| Own)?,
            };
            let is_own = self.is_of_server && matches!(letter, "T" | "I");
            self.fields.push((name, if is_own { Own } else { value }));
        }
        Ok(())
    }

    fn list(&mut self, format: &'static str) -> Result<(), Odd> {
        let count = int(self.rest, 0);
        self.read("count:i")?;
        (0..count).try_for_each(|_| self.read(format))
    }

    /// Reads the answer to a request, or the answer to one operation of a transaction.
    fn result(&mut self, code: i32) -> Result<(), Odd> {
        let (_, format) = ANSWERS.iter().find(|(codes, _)| codes.contains(&code)).ok_or(Odd)?;
        match ACLS.contains(&code) {
            true => self.list(format)?,
            false => self.read(format)?,
        }
        if WITH_STAT.contains(&code) { self.read(STAT) } else { Ok(()) }
    }

    /// Reads these fields, after which the frame must end.
    fn all(mut self, format: &'static str) -> Result<Fields, Odd> {
        self.read(format)?;
        if self.rest.is_empty() { Ok(self.fields) } else { Err(Odd) }
    }
}
