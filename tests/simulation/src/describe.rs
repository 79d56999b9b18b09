//! Describes frames in words, for the trace of a run.

/// Describes the request in a frame, which includes the frame's length. The first request of a connection is the
/// handshake. Returns `None` for a ping.
pub fn request(frame: &[u8], is_first: bool) -> Option<String> {
    if is_first {
        return Some(match number(frame, 20, 8) {
            0 => "requests a session".to_owned(),
            session => format!("resumes session {session:#x}"),
        });
    }
    let name = match int(frame, 8) {
        3 => "exists",
        4 => "read",
        8 | 12 => "list",
        9 => "sync",
        11 => return None,
        14 => return Some(format!("multi {:?}", multi(frame))),
        22 => "read several",
        101 | 105 => return Some("sets its watches again".to_owned()),
        -11 => return Some("ends its session".to_owned()),
        code => operation(code),
    };
    let ends_in_watch = matches!(int(frame, 8), 3 | 4 | 8 | 12) && frame.last() == Some(&1);
    let watches = if ends_in_watch { ", and watches it" } else { "" };
    Some(format!("{name} {}{watches}", text(frame, 12)))
}

/// Describes a frame that a server sends. Returns `None` for the answer to a ping.
pub(crate) fn answer(frame: &[u8], is_first: bool) -> Option<String> {
    if is_first {
        return Some(match number(frame, 12, 8) {
            0 => "is notified that the session is over".to_owned(),
            session => format!("has session {session:#x}"),
        });
    }
    match int(frame, 4) {
        -2 => None,
        -1 => {
            let what = match int(frame, 20) {
                1 => "was created",
                2 => "was deleted",
                3 => "was written",
                4 => "has other children",
                _ => "has changed",
            };
            Some(format!("is notified that {} {what}", text(frame, 28)))
        }
        _ => Some(match int(frame, 16) {
            0 => "is answered".to_owned(),
            -101 => "is answered: no node".to_owned(),
            -110 => "is answered: node exists".to_owned(),
            -111 => "is answered: it has children".to_owned(),
            -103 => "is answered: another version".to_owned(),
            code => format!("is answered: error {code}"),
        }),
    }
}

/// Returns the kind and the path of each operation of a write request.
pub fn operations(frame: &[u8]) -> Vec<(&'static str, String)> {
    match int(frame, 8) {
        14 => multi(frame),
        code => vec![(operation(code), text(frame, 12))],
    }
}

fn operation(code: i32) -> &'static str {
    match code {
        1 | 15 | 19 => "create",
        2 => "delete",
        5 => "write",
        13 => "check",
        _ => "?",
    }
}

/// Returns the operations of a transaction.
fn multi(frame: &[u8]) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let mut at = 12;
    while at + 9 <= frame.len() && frame[at + 4] == 0 && all.len() < 20 {
        let op = int(frame, at);
        let path = text(frame, at + 9);
        at += 9 + 4 + path.len();
        all.push((operation(op), path));
        at += match op {
            2 | 13 => 4,
            5 => 4 + length(frame, at) + 4,
            _ => {
                let mut end = at + 4 + length(frame, at);
                let entries = int(frame, end).clamp(0, 20);
                end += 4;
                for _ in 0..entries {
                    end += 4;
                    end += 4 + length(frame, end);
                    end += 4 + length(frame, end);
                }
                end + 4 - at
            }
        };
    }
    all
}

/// Returns the number of `size` bytes at this offset, or 0 if the frame is too short.
pub(crate) fn number(frame: &[u8], at: usize, size: usize) -> i64 {
    let bytes = frame.get(at..at + size).unwrap_or_default();
    bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte))
}

/// Returns the four-byte number at this offset, or 0 if the frame is too short.
pub(crate) fn int(frame: &[u8], at: usize) -> i32 {
    number(frame, at, 4) as i32
}

fn length(frame: &[u8], at: usize) -> usize {
    usize::try_from(int(frame, at)).unwrap_or_default().min(frame.len())
}

/// Returns the text at this offset, or an empty text if the frame is too short.
pub(crate) fn text(frame: &[u8], at: usize) -> String {
    let bytes = frame.get(at + 4..at + 4 + length(frame, at)).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
