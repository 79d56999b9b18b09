//! A lock on one Redis, as Redis documents it: `SET key token NX PX`, and a script that deletes the
//! key if it still has the client's token. A waiter polls.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::pool::{Pool, dial};
use crate::session::{Exclusive, Outcome, Session, Side, lacks};

/// Long enough that no key ends in a run.
const EXPIRY_MILLIS: &str = "600000";
/// The interval of a waiter's requests: Redis does not report the end of a key.
const POLL: Duration = Duration::from_millis(5);
const UNLOCK: &str = "if redis.call('get', KEYS[1]) == ARGV[1] \
     then return redis.call('del', KEYS[1]) else return 0 end";

pub(crate) fn connect(address: &str) -> Box<dyn Session> {
    let address = address.to_owned();
    let open = move || Ok(Connection(BufReader::new(dial(&address)?)));
    Box::new(Connected(Arc::new(Pool::new(open))))
}

struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Sends a command, and returns its answer of one line. Returns `None` for nil.
    fn ask(&mut self, words: &[&str]) -> Outcome<Option<String>> {
        let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
        let words: Vec<String> =
            [format!("*{}\r\n", words.len())].into_iter().chain(words.iter().map(word)).collect();
        self.0.get_mut().write_all(words.concat().as_bytes())?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        match line.trim_end() {
            "$-1" => Ok(None),
            line if line.starts_with(['+', ':']) => Ok(Some(line[1..].to_owned())),
            line => Err(format!("Redis says `{line}`").into()),
        }
    }
}

struct Connected(Arc<Pool<Connection>>);

impl Session for Connected {
    fn lock(&self, path: &str, side: Side) -> Outcome<Box<dyn Exclusive>> {
        match side {
            Side::Mutex => Ok(Box::new(Key {
                pool: Arc::clone(&self.0),
                key: path.to_owned(),
                token: Mutex::default(),
            })),
            _ => lacks("read-write lock"),
        }
    }
}

struct Key {
    pool: Arc<Pool<Connection>>,
    key: String,
    token: Mutex<Option<String>>,
}

impl Key {
    fn ask(&self, words: &[&str]) -> Outcome<Option<String>> {
        let mut connection = self.pool.take()?;
        let answer = connection.ask(words)?;
        self.pool.give_back(connection);
        Ok(answer)
    }

    fn set_token(&self, token: Option<String>) -> Option<String> {
        let mut held = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, token)
    }
}

impl Exclusive for Key {
    fn lock(&self) -> Outcome<()> {
        while !self.try_lock()? {
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn unlock(&self) -> Outcome<()> {
        let token = self.set_token(None).ok_or("it is not held")?;
        match self.ask(&["EVAL", UNLOCK, "1", &self.key, &token])?.as_deref() {
            Some("1") => Ok(()),
            answer => Err(format!("the key was somebody else's: {answer:?}").into()),
        }
    }

    fn try_lock(&self) -> Outcome<bool> {
        static TOKENS: AtomicU64 = AtomicU64::new(0);
        let number = TOKENS.fetch_add(1, Ordering::Relaxed);
        let token = format!("{}-{number}", process::id());
        let set = self.ask(&["SET", &self.key, &token, "NX", "PX", EXPIRY_MILLIS])?;
        let is_set = set.is_some();
        if is_set {
            self.set_token(Some(token));
        }
        Ok(is_set)
    }
}
