//! Masks the parts of frames that cannot be the same in two sessions.
//!
//! It finds these parts by position, so that nothing else is masked. Each must first be correct for its own
//! session: for example, a resumed session must be the one that the server gave.

use std::collections::HashSet;

use super::recording::Step;
use super::relay::{Frame, Side};

const PING: i32 = 11;
const AUTH: i32 = 100;
const SET_WATCHES: i32 = 101;

/// The names of the operations, for messages.
const KINDS: &[(i32, &str)] = &[
    (1, "create"),
    (2, "delete"),
    (3, "exists"),
    (4, "getData"),
    (5, "setData"),
    (6, "getACL"),
    (7, "setACL"),
    (8, "getChildren"),
    (9, "sync"),
    (PING, "ping"),
    (12, "getChildren2"),
    (13, "check"),
    (14, "multi"),
    (15, "create2"),
    (19, "createContainer"),
    (21, "createTTL"),
    (AUTH, "auth"),
    (SET_WATCHES, "setWatches"),
    (105, "setWatches2"),
    (-11, "closeSession"),
];

/// The frames of a client in a step, without pings.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) name: String,
    pub(crate) frames: Vec<Masked>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Masked {
    pub(crate) kind: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// Masks all steps of a client.
///
/// # Panics
/// When a masked part was not correct.
pub(crate) fn sent(client: &str, steps: &[Step]) -> Vec<Sent> {
    let mut known = Known::default();
    let mut all = Vec::new();
    for step in steps {
        let about = format!("{client}, {}", step.name);
        let frames = step.frames.iter();
        all.push(Sent {
            name: step.name.clone(),
            frames: frames.filter_map(|frame| known.see(&about, frame)).collect(),
        });
    }
    all
}

/// What the server has said about the session so far.
#[derive(Debug, Default)]
struct Known {
    /// The sides that have sent a frame, by connection.
    begun: HashSet<(usize, Side)>,
    session: i64,
    password: Vec<u8>,
    /// The last transaction in an answer to a request.
    zxid: i64,
    /// The last transaction in any answer. A client may record those in answers to pings too.
    highest_zxid: i64,
    last_xid: i32,
}

impl Known {
    fn see(&mut self, about: &str, frame: &Frame) -> Option<Masked> {
        let is_first = self.begun.insert((frame.connection, frame.from));
        match (frame.from, is_first) {
            (Side::Client, true) => Some(self.connect(about, frame.bytes.clone())),
            (Side::Client, false) => self.request(about, frame.bytes.clone()),
            (Side::Server, true) => {
                self.connected(&frame.bytes);
                None
            }
            (Side::Server, false) => {
                self.answered(&frame.bytes);
                None
            }
        }
    }

    /// Fields: version, timeout, session, password.
    fn connected(&mut self, answer: &[u8]) {
        self.session = long(answer, 8);
        self.password = answer[20..36].to_vec();
    }

    /// Fields: xid, zxid, error.
    fn answered(&mut self, answer: &[u8]) {
        let (xid, zxid) = (int(answer, 0), long(answer, 4));
        // Events have a zxid of -1, and the answer to credentials has 0.
        self.highest_zxid = self.highest_zxid.max(zxid);
        if xid >= 0 {
            self.zxid = self.zxid.max(zxid);
        }
    }

    /// Fields: version, last zxid, timeout, session, password, read-only.
    fn connect(&mut self, about: &str, mut bytes: Vec<u8>) -> Masked {
        if long(&bytes, 16) == 0 {
            // A new session starts without anything of the old one.
            *self = Known { begun: std::mem::take(&mut self.begun), ..Known::default() };
        } else {
            assert_eq!(long(&bytes, 16), self.session, "{about}: session");
            assert_eq!(bytes[28..44], self.password, "{about}: password");
            self.check_zxid(about, long(&bytes, 4));
            // The server chooses the session and the password. The last transaction depends on the server's
            // own.
            bytes[4..12].fill(0);
            bytes[16..24].fill(0xff);
            bytes[28..44].fill(0);
        }
        Masked { kind: "connect", bytes }
    }

    /// Fields: xid, operation, arguments.
    fn request(&mut self, about: &str, mut bytes: Vec<u8>) -> Option<Masked> {
        let (xid, code) = (int(&bytes, 0), int(&bytes, 4));
        let kind = KINDS.iter().find(|(known, _)| *known == code);
        let kind = kind.map_or("unknown operation", |(_, kind)| kind);
        match code {
            // Sent whenever nothing else was for a while.
            PING => return None,
            // Its xid identifies it.
            AUTH => {}
            _ => {
                if code == SET_WATCHES {
                    self.check_zxid(about, long(&bytes, 8));
                    bytes[8..16].fill(0);
                    sort_lists(&mut bytes[16..]);
                }
                // A request may have any unused number. The one of setWatches may also be the reserved -8.
                if code != SET_WATCHES || xid != -8 {
                    let last = std::mem::replace(&mut self.last_xid, xid);
                    assert!(xid > last, "{about}: {kind} is {xid} after {last}");
                }
                bytes[..4].fill(0);
            }
        }
        Some(Masked { kind, bytes })
    }

    fn check_zxid(&self, about: &str, zxid: i64) {
        let known = self.zxid..=self.highest_zxid;
        assert!(known.contains(&zxid), "{about}: zxid {zxid}, not {known:?}");
    }
}

/// Sorts each list of texts, since Java's have the order of a hash map.
fn sort_lists(bytes: &mut [u8]) {
    let mut sorted = Vec::with_capacity(bytes.len());
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let count = int(rest, 0);
        rest = &rest[4..];
        let mut texts: Vec<&[u8]> = Vec::new();
        for _ in 0..count {
            let length = 4 + usize::try_from(int(rest, 0)).expect("the length of a path");
            let (text, after) = rest.split_at(length);
            texts.push(text);
            rest = after;
        }
        texts.sort_unstable();
        sorted.extend(count.to_be_bytes());
        sorted.extend(texts.concat());
    }
    bytes.copy_from_slice(&sorted);
}

fn int(bytes: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
