//! The lock service of etcd, by its JSON gateway, which etcd documents for programs without gRPC. A
//! waiter's key belongs to a lease. Each connection has its own lease, because two calls with the
//! same lease would hold the lock together.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::pool::{Pool, dial};
use crate::session::{Exclusive, Outcome, Session, Side, lacks};

/// Long enough that no lease ends in a run.
const LEASE_SECONDS: u64 = 600;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn connect(address: &str) -> Box<dyn Session> {
    let address = address.to_owned();
    Box::new(Connected(Arc::new(Pool::new(move || {
        let mut gateway = Gateway::connect(&address)?;
        let granted = gateway.call("lease/grant", &json!({"TTL": LEASE_SECONDS}))?;
        Ok((gateway, granted["ID"].clone()))
    }))))
}

/// A connection to the HTTP port of a server.
pub(crate) struct Gateway(BufReader<TcpStream>);

impl Gateway {
    pub(crate) fn connect(address: &str) -> Outcome<Gateway> {
        Ok(Gateway(BufReader::new(dial(address)?)))
    }

    fn call(&mut self, what: &str, body: &Value) -> Outcome<Value> {
        let body = body.to_string();
        let length = body.len();
        let request = format!(
            "POST /v3/{what} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes())?;
        let status = self.line()?;
        let mut length = None;
        loop {
            let header = self.line()?.to_ascii_lowercase();
            match header.split_once(": ") {
                Some(("content-length", value)) => length = Some(value.parse()?),
                None if header.is_empty() => break,
                _ => {}
            }
        }
        let mut answer = vec![0; length.ok_or("etcd's answer has no length")?];
        self.0.read_exact(&mut answer)?;
        if !status.contains(" 200 ") {
            let answer = String::from_utf8_lossy(&answer);
            return Err(format!("{what}: etcd says `{status}`, {answer}").into());
        }
        Ok(serde_json::from_slice(&answer)?)
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err("etcd has closed the connection".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// Counts the holders and waiters of the lock.
    pub(crate) fn contenders(&mut self, path: &str) -> Outcome<usize> {
        // All keys that begin with the path and `/`: they end before the path and `0`, the next
        // character.
        let (first, end) = (format!("{path}/"), format!("{path}0"));
        let range = json!({
            "key": base64(&first), "range_end": base64(&end), "count_only": true,
        });
        let answer = self.call("kv/range", &range)?;
        let count = answer["count"].as_str().unwrap_or("0");
        Ok(count.parse()?)
    }
}

/// A connection and its lease.
type Leased = (Gateway, Value);

struct Connected(Arc<Pool<Leased>>);

impl Session for Connected {
    fn lock(&self, path: &str, side: Side) -> Outcome<Box<dyn Exclusive>> {
        match side {
            Side::Mutex => Ok(Box::new(Key {
                pool: Arc::clone(&self.0),
                name: base64(path),
                held: Mutex::default(),
            })),
            _ => lacks("read-write lock"),
        }
    }
}

struct Key {
    pool: Arc<Pool<Leased>>,
    name: String,
    /// The key that stands for the hold, with the connection and lease that created it.
    held: Mutex<Option<(Value, Leased)>>,
}

impl Key {
    fn set_held(&self, hold: Option<(Value, Leased)>) -> Option<(Value, Leased)> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, hold)
    }
}

impl Exclusive for Key {
    fn lock(&self) -> Outcome<()> {
        let (mut gateway, lease) = self.pool.take()?;
        let locked = gateway.call("lock/lock", &json!({"name": self.name, "lease": lease}))?;
        self.set_held(Some((locked["key"].clone(), (gateway, lease))));
        Ok(())
    }

    fn unlock(&self) -> Outcome<()> {
        let (key, (mut gateway, lease)) = self.set_held(None).ok_or("it is not held")?;
        gateway.call("lock/unlock", &json!({"key": key}))?;
        self.pool.give_back((gateway, lease));
        Ok(())
    }

    fn try_lock(&self) -> Outcome<bool> {
        lacks("try_lock")
    }
}

/// Encodes bytes for the gateway.
fn base64(text: &str) -> String {
    let digits = text.as_bytes().chunks(3).map(|bytes| {
        let bits = (0..3).fold(0, |bits: usize, at| {
            bits << 8 | usize::from(bytes.get(at).copied().unwrap_or(0))
        });
        let digit = |at: usize| match at <= bytes.len() {
            true => char::from(DIGITS[bits >> (18 - 6 * at) & 63]),
            false => '=',
        };
        (0..4).map(digit).collect::<String>()
    });
    digits.collect()
}
