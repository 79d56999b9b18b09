//! What an answer can be made of.

use common::relay::{Fate, Frame, GET_CHILDREN, framed};

/// xid, zxid, error.
const HEADER: usize = 16;

/// The frame's header, and another body.
fn with_body(frame: &Frame<'_>, body: &[u8]) -> Fate {
    let mut bytes = frame.body[..HEADER].to_vec();
    bytes.extend(body);
    Fate::Instead(bytes)
}

pub(super) fn cut_short(frame: &Frame<'_>) -> Fate {
    let whole = framed(frame.body);
    Fate::LastBytes(whole[..whole.len() - 3].to_vec())
}

pub(super) fn never_complete(frame: &Frame<'_>) -> Fate {
    let mut bytes = framed(frame.body);
    bytes[2] += 1;
    Fate::Bytes(bytes)
}

pub(super) fn no_body(frame: &Frame<'_>) -> Fate {
    with_body(frame, b"")
}

pub(super) fn no_header(frame: &Frame<'_>) -> Fate {
    Fate::Instead(frame.body[..5].to_vec())
}

pub(super) fn empty(_: &Frame<'_>) -> Fate {
    Fate::Instead(Vec::new())
}

pub(super) fn negative_length(_: &Frame<'_>) -> Fate {
    Fate::Bytes(vec![0xff; 4])
}

pub(super) fn negative_count(frame: &Frame<'_>) -> Fate {
    with_body(frame, &[0xff; 4])
}

pub(super) fn not_utf8(frame: &Frame<'_>) -> Fate {
    // A list of one name, or a path, by what is expected.
    match frame.op {
        Some(GET_CHILDREN) => with_body(frame, &[0, 0, 0, 1, 0, 0, 0, 2, 0xff, 0xfe]),
        _ => with_body(frame, &[0, 0, 0, 2, 0xff, 0xfe]),
    }
}

/// type, state, path
pub(super) fn event_not_utf8(frame: &Frame<'_>) -> Fate {
    with_body(frame, &[0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, 0xff, 0xfe])
}

pub(super) fn unknown_error(frame: &Frame<'_>) -> Fate {
    let mut bytes = frame.body[..HEADER].to_vec();
    bytes[12..].copy_from_slice(&(-12345_i32).to_be_bytes());
    Fate::Instead(bytes)
}

/// OperationTimeout
pub(super) fn timed_out(frame: &Frame<'_>) -> Fate {
    let mut bytes = frame.body[..HEADER].to_vec();
    bytes[12..].copy_from_slice(&(-7_i32).to_be_bytes());
    Fate::Instead(bytes)
}

pub(super) fn other_id(frame: &Frame<'_>) -> Fate {
    let mut bytes = frame.body.to_vec();
    bytes[..4].copy_from_slice(&77_777_i32.to_be_bytes());
    Fate::Instead(bytes)
}

pub(super) fn another_path(frame: &Frame<'_>) -> Fate {
    // The stat behind it stays.
    let stat = &frame.body[frame.body.len() - 68..];
    with_body(frame, &[b"\0\0\0\x0e/somebody/else", stat].concat())
}

pub(super) type Damage = (&'static str, fn(&Frame<'_>) -> Fate);

pub(super) const DAMAGES: [Damage; 10] = [
    ("cut short", cut_short),
    ("never complete", never_complete),
    ("without a body", no_body),
    ("without a header", no_header),
    ("empty", empty),
    ("of a negative length", negative_length),
    ("of a negative count", negative_count),
    ("not UTF-8", not_utf8),
    ("an unknown error", unknown_error),
    ("of another id", other_id),
];
