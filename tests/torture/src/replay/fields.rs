//! The fields of what servers send, by the kind of the request. Shares no code with the servers for tests and the
//! client, so that a mistake in theirs is not hidden by the same mistake here.

use super::numbers::Numbers;
use super::socket::{int, long};

pub(crate) const CREATE: i32 = 1;
pub(crate) const DELETE: i32 = 2;
pub(crate) const EXISTS: i32 = 3;
const GET_DATA: i32 = 4;
pub(crate) const SET_DATA: i32 = 5;
const GET_ACL: i32 = 6;
const SET_ACL: i32 = 7;
pub(crate) const GET_CHILDREN: i32 = 8;
const SYNC: i32 = 9;
pub(crate) const PING: i32 = 11;
const GET_CHILDREN_2: i32 = 12;
const CHECK: i32 = 13;
pub(crate) const MULTI: i32 = 14;
const CREATE_2: i32 = 15;
const CREATE_CONTAINER: i32 = 19;
const CREATE_TTL: i32 = 21;
const AUTH: i32 = 100;
pub(crate) const SET_WATCHES: i32 = 101;
const WHO_AM_I: i32 = 107;
pub(crate) const CLOSE: i32 = -11;
/// The result of an operation in a transaction that was refused.
const REFUSED: i32 = -1;

/// The number of an event, in place of a request's.
pub(crate) const EVENT: i32 = -1;

/// Returns whether a request asks for a transaction.
pub(crate) fn is_write(request: &[u8]) -> bool {
    let writes =
        [CREATE, DELETE, SET_DATA, SET_ACL, MULTI, CREATE_2, CREATE_CONTAINER, CREATE_TTL, CLOSE];
    writes.contains(&int(request, 8))
}

/// A field of a frame.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Number(i32),
    Text(String),
    /// In any order.
    Names(Vec<String>),
    /// The transaction of a node, of a write, or of an event.
    Transaction(i64),
    /// The last transaction that the server knew.
    LastTransaction(i64),
    /// The transaction of an event, which older servers do not tell.
    OfEvent(i64),
    Owner(i64),
    /// What no two servers have in common: clocks, passwords, and the past of the nodes that are always there.
    Own,
}

pub(crate) type Fields = Vec<(&'static str, Value)>;

/// Returns whether the frames of the two servers say the same.
pub(crate) fn agree(simulated: &Fields, real: &Fields, numbers: &mut Numbers) -> bool {
    use Value::{LastTransaction, OfEvent, Own, Owner, Transaction};
    let mut agrees = |one: &Value, other: &Value| match (one, other) {
        (Transaction(one), Transaction(other)) => numbers.is_transaction(*one, *other),
        (LastTransaction(one), LastTransaction(other)) => numbers.is_seen(*one, *other),
        (OfEvent(one), OfEvent(other)) => {
            *one == -1 || *other == -1 || numbers.is_transaction(*one, *other)
        }
        (Owner(one), Owner(other)) => numbers.is_owner(*one, *other),
        (Own, Own) => true,
        (one, other) => one == other,
    };
    simulated.len() == real.len()
        && simulated.iter().zip(real).all(|((_, one), (_, other))| agrees(one, other))
}

/// The frame is shorter than it has to be, or longer.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Odd;

/// Returns the fields of the answer to a handshake.
pub(crate) fn welcome(frame: &[u8]) -> Result<Fields, Odd> {
    let mut reader = Reader { rest: body(frame), fields: Vec::new() };
    reader.number("version")?;
    // Real sessions last as long as they can.
    let is_over = i32::from(reader.int()? == 0);
    reader.field("is over", Value::Number(is_over));
    let session = reader.long()?;
    reader.field("session", Value::Owner(session));
    let length = reader.buffer()?.len() as i32;
    reader.field("length of the password", Value::Number(length));
    reader.byte("read-only")?;
    reader.end()
}

pub(crate) fn event(frame: &[u8]) -> Result<Fields, Odd> {
    let mut reader = Reader { rest: body(frame), fields: Vec::new() };
    // First, so that events can be sorted.
    reader.number("number")?;
    let zxid = reader.long()?;
    reader.number("error")?;
    reader.number("what")?;
    reader.number("state")?;
    reader.text("path")?;
    reader.field("zxid", Value::OfEvent(zxid));
    reader.end()
}

/// Returns the fields of the answer to a request.
pub(crate) fn answer(frame: &[u8], request: &[u8]) -> Result<Fields, Odd> {
    let mut reader = Reader { rest: body(frame), fields: Vec::new() };
    let code = int(request, 8);
    reader.number("number")?;
    let (zxid, error) = (reader.long()?, reader.int()?);
    reader.field(
        "zxid",
        match error == 0 && is_write(request) {
            true => Value::Transaction(zxid),
            false => Value::LastTransaction(zxid),
        },
    );
    reader.field("error", Value::Number(error));
    if error != 0 {
        return reader.end();
    }
    let path = request.get(16..16 + int(request, 12).max(0) as usize).unwrap_or_default();
    let is_of_server = path == b"/" || path.starts_with(b"/zookeeper");
    match code {
        MULTI => reader.results()?,
        GET_DATA => {
            reader.text("data")?;
            reader.stat(is_of_server)?;
        }
        GET_ACL => {
            reader.acl()?;
            reader.stat(is_of_server)?;
        }
        GET_CHILDREN | GET_CHILDREN_2 => {
            let mut names = Vec::new();
            for _ in 0..reader.int()? {
                names.push(text(reader.buffer()?));
            }
            names.sort_unstable();
            reader.field("children", Value::Names(names));
            if code == GET_CHILDREN_2 {
                reader.stat(is_of_server)?;
            }
        }
        SYNC => reader.text("path")?,
        WHO_AM_I => {
            for _ in 0..reader.int()? {
                reader.text("scheme")?;
                reader.text("user")?;
            }
        }
        EXISTS => reader.stat(is_of_server)?,
        PING | AUTH | SET_WATCHES | CLOSE => {}
        code => reader.result(code)?,
    }
    reader.end()
}

fn body(frame: &[u8]) -> &[u8] {
    frame.get(4..).unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

struct Reader<'a> {
    rest: &'a [u8],
    fields: Fields,
}

impl<'a> Reader<'a> {
    fn field(&mut self, name: &'static str, value: Value) {
        self.fields.push((name, value));
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Odd> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Odd)?;
        self.rest = rest;
        Ok(taken)
    }

    fn int(&mut self) -> Result<i32, Odd> {
        self.take(4).map(|bytes| int(bytes, 0))
    }

    fn long(&mut self) -> Result<i64, Odd> {
        self.take(8).map(|bytes| long(bytes, 0))
    }

    /// A length of -1 says that there is nothing, as 0 does.
    fn buffer(&mut self) -> Result<&'a [u8], Odd> {
        let length = self.int()?.max(0) as usize;
        self.take(length)
    }

    fn number(&mut self, name: &'static str) -> Result<(), Odd> {
        let number = self.int()?;
        self.field(name, Value::Number(number));
        Ok(())
    }

    fn byte(&mut self, name: &'static str) -> Result<(), Odd> {
        let byte = self.take(1)?[0];
        self.field(name, Value::Number(byte.into()));
        Ok(())
    }

    fn text(&mut self, name: &'static str) -> Result<(), Odd> {
        let text = text(self.buffer()?);
        self.field(name, Value::Text(text));
        Ok(())
    }

    fn stat(&mut self, is_of_server: bool) -> Result<(), Odd> {
        let own = |value| if is_of_server { Value::Own } else { value };
        for name in ["czxid", "mzxid"] {
            let zxid = self.long()?;
            self.field(name, own(Value::Transaction(zxid)));
        }
        for name in ["ctime", "mtime"] {
            self.take(8)?;
            self.field(name, Value::Own);
        }
        for name in ["version", "cversion", "aversion"] {
            let version = self.int()?;
            self.field(name, own(Value::Number(version)));
        }
        let owner = self.long()?;
        self.field("ephemeralOwner", Value::Owner(owner));
        self.number("dataLength")?;
        self.number("numChildren")?;
        let zxid = self.long()?;
        self.field("pzxid", own(Value::Transaction(zxid)));
        Ok(())
    }

    fn acl(&mut self) -> Result<(), Odd> {
        for _ in 0..self.int()? {
            self.number("permissions")?;
            self.text("scheme")?;
            self.text("id")?;
        }
        Ok(())
    }

    /// Reads the result of a write.
    fn result(&mut self, code: i32) -> Result<(), Odd> {
        match code {
            CREATE => self.text("path"),
            CREATE_2 | CREATE_CONTAINER | CREATE_TTL => {
                self.text("path")?;
                self.stat(false)
            }
            SET_DATA | SET_ACL => self.stat(false),
            DELETE | CHECK => Ok(()),
            REFUSED => self.number("error"),
            _ => Err(Odd),
        }
    }

    /// Reads the results of a transaction.
    fn results(&mut self) -> Result<(), Odd> {
        loop {
            let code = self.int()?;
            self.field("operation", Value::Number(code));
            let is_end = self.take(1)? == [1];
            self.number("error")?;
            if is_end {
                return Ok(());
            }
            self.result(code)?;
        }
    }

    fn end(self) -> Result<Fields, Odd> {
        match self.rest.is_empty() {
            true => Ok(self.fields),
            false => Err(Odd),
        }
    }
}
