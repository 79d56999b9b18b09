//! What servers say when they are sound: `corpus.txt`, by name.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::super::message::OpCode;

fn all() -> &'static HashMap<&'static str, Vec<u8>> {
    static ALL: OnceLock<HashMap<&'static str, Vec<u8>>> = OnceLock::new();
    ALL.get_or_init(|| {
        let lines = include_str!("corpus.txt").lines();
        lines.filter(|line| !line.starts_with('#')).map(parse).collect()
    })
}

fn parse(line: &'static str) -> (&'static str, Vec<u8>) {
    let (name, hex) = line.split_once(": ").expect("a name and hex");
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (name, (0..hex.len()).step_by(2).map(byte).collect())
}

/// The frame of this name.
pub(in crate::core) fn frame(name: &str) -> &'static [u8] {
    let found = all().get(name);
    found.unwrap_or_else(|| panic!("corpus.txt has no `{name}`"))
}

/// Any of them, behind the handshakes.
pub(super) const LATER: &[&str] = &[
    "create",
    "get data",
    "get children",
    "multi",
    "multi refused",
    "delete refused",
    "add auth",
    "auth refused",
    "set watches",
    "event data",
    "event children",
    "event deleted",
    "event created",
    "event state",
    "event watch removed",
    "close",
    "ping",
    "expired",
    "moved",
    "connect",
];

pub(super) const EVENTS: &[&str] =
    &["event data", "event children", "event deleted", "event created", "event state"];

/// What a sound server may answer to an answer to its challenge.
#[cfg(feature = "sasl")]
pub(super) const PROOFS: &[&str] = &["sasl proof", "sasl proof", "sasl refused", "sasl none"];

/// What a sound server may answer to this operation.
pub(super) fn answers(code: i32) -> &'static [&'static str] {
    const OPERATIONS: &[(OpCode, &[&str])] = &[
        (OpCode::Create2, &["create", "create sequential", "create non-ASCII"]),
        (OpCode::CreateContainer, &["create container"]),
        (OpCode::CreateTtl, &["create with TTL"]),
        (OpCode::Delete, &["delete", "delete refused"]),
        (OpCode::Exists, &["exists", "exists missing"]),
        (OpCode::GetData, &["get data", "get data null"]),
        (OpCode::GetChildren2, &["get children", "get children none", "get children null"]),
        (OpCode::SetData, &["set data"]),
        (OpCode::GetAcl, &["get ACL", "get ACL beyond U+FFFF"]),
        (OpCode::SetAcl, &["set ACL"]),
        (OpCode::Sync, &["sync"]),
        (OpCode::WhoAmI, &["who am I"]),
        (
            OpCode::Multi,
            &[
                "multi",
                "multi of other modes",
                "multi with TTL",
                "multi refused",
                "multi third refused",
                "multi failed for nothing",
            ],
        ),
        (OpCode::Auth, &["add auth", "add auth", "add auth", "auth refused"]),
        (OpCode::SetWatches, &["set watches"]),
        (OpCode::CloseSession, &["close"]),
        (OpCode::Ping, &["ping"]),
        #[cfg(feature = "sasl")]
        (OpCode::Sasl, &["sasl challenge", "sasl challenge", "sasl challenge", "sasl none"]),
    ];
    let operation = OPERATIONS.iter().find(|known| known.0 as i32 == code);
    operation.map(|known| known.1).expect("a known operation")
}
