//! The messages of a clerk to the office. Each is a line on the clerk's standard output.

use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// The clerk has connected, and waits for the start.
    Ready,
    /// A thread has acquired the lock, with this fencing token. Contains the time that it waited,
    /// unless it only tried.
    Granted { token: u64, waited: Option<Duration> },
    /// `try_lock` found the lock taken.
    Refused,
    /// An order is in the ledger. Contains how many times the thread had locked at that moment.
    Ordered { depth: u32 },
    /// A thread holds the lock, and will neither work nor release it.
    Holding { token: u64 },
    /// An attempt has failed.
    Trouble(String),
}

impl Message {
    /// Ignore an error: the end of the office is detected elsewhere.
    pub(crate) fn send(&self) {
        let _ = writeln!(io::stdout(), "{self}");
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Ready => f.write_str("ready"),
            Message::Granted { token, waited: None } => write!(f, "granted {token}"),
            Message::Granted { token, waited: Some(waited) } => {
                write!(f, "granted {token} {}", waited.as_micros())
            }
            Message::Refused => f.write_str("refused"),
            Message::Ordered { depth } => write!(f, "ordered {depth}"),
            Message::Holding { token } => write!(f, "holding {token}"),
            Message::Trouble(text) => write!(f, "trouble {}", text.replace('\n', " ")),
        }
    }
}

impl FromStr for Message {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(line: &str) -> Result<Message, Self::Err> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut numbers = rest.split(' ').map(str::parse::<u64>);
        let mut number = || numbers.next().ok_or("a number is missing")?.map_err(Self::Err::from);
        Ok(match word {
            "ready" => Message::Ready,
            "granted" => Message::Granted {
                token: number()?,
                waited: number().ok().map(Duration::from_micros),
            },
            "refused" => Message::Refused,
            "ordered" => Message::Ordered { depth: number()?.try_into()? },
            "holding" => Message::Holding { token: number()? },
            "trouble" => Message::Trouble(rest.to_owned()),
            _ => return Err(format!("unknown message {line:?}").into()),
        })
    }
}
