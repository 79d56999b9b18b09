//! Makes nonsense of sound frames, in ways that get past the first look.

use super::Rng;
use super::corpus::{self, LATER};
use crate::error::code;

/// Lengths, counts, numbers and codes that somebody may take for something else.
const INTERESTING: &[i32] = &[
    -1,
    -2,
    code::CONNECTION_LOSS,
    code::BAD_ARGUMENTS,
    code::NO_NODE,
    code::NODE_EXISTS,
    code::SESSION_EXPIRED,
    code::AUTH_FAILED,
    code::SESSION_MOVED,
    code::REQUEST_TIMEOUT,
    code::THROTTLED,
    0,
    1,
    2,
    3,
    4,
    5,
    13,
    15,
    0x50,
    0x100,
    0xffff,
    0x0010_0000,
    0x0fff_ffff,
    i32::MAX,
    i32::MIN,
    i32::MIN + 1,
];
/// What other kinds of servers begin with.
const OTHERS: &[&[u8]] = &[
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x15\x03\x03\x00\x02\x02\x46",
    b"\x16\x03\x01\x00\x05hello",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\x7f\xff\xff\xff",
    b"\x00\x00\x00\x00",
];

/// The bytes of these frames.
pub(super) fn framed(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        bytes.extend((frame.len() as u32).to_be_bytes());
        bytes.extend(frame);
    }
    bytes
}

/// The bytes of these frames, or of something that is nearly them, or of neither.
pub(super) fn stream(mut frames: Vec<Vec<u8>>, rng: &mut Rng) -> Vec<u8> {
    if rng.one_in(40) {
        return (0..rng.below(80)).map(|_| rng.next() as u8).collect();
    }
    let changes = rng.pick(&[0, 0, 1, 1, 1, 2, 4]);
    for _ in 0..changes {
        match rng.below(3) {
            0 => reorder(&mut frames, rng),
            1 => header(&mut frames, rng),
            _ => body(&mut frames, rng),
        }
    }
    let mut bytes = framed(&frames);
    if changes > 0 && rng.one_in(8) {
        bytes_of(&mut bytes, rng);
    }
    if rng.one_in(60) {
        let at = if rng.one_in(2) { 0 } else { bytes.len() };
        bytes.splice(at..at, rng.pick(OTHERS).iter().copied());
    }
    bytes
}

fn reorder(frames: &mut Vec<Vec<u8>>, rng: &mut Rng) {
    let count = frames.len();
    if count == 0 || rng.one_in(3) {
        let frame = corpus::frame(rng.pick(LATER)).to_vec();
        return frames.insert(rng.below(count + 1), frame);
    }
    let (from, to) = (rng.below(count), rng.below(count));
    match rng.below(3) {
        0 => drop(frames.remove(from)),
        1 => frames.swap(from, to),
        _ => frames.insert(to, frames[from].clone()),
    }
}

/// Another number or code, with the body or without.
fn header(frames: &mut [Vec<u8>], rng: &mut Rng) {
    let Some(frame) = some_frame(frames, rng, 16) else {
        return;
    };
    let at = rng.pick(&[0, 12, 12, 16]);
    if at < frame.len() {
        put(frame, at, rng);
    }
    if at == 12 && rng.one_in(2) {
        frame.truncate(16);
    }
}

fn body(frames: &mut [Vec<u8>], rng: &mut Rng) {
    if let Some(frame) = some_frame(frames, rng, 1) {
        bytes_of(frame, rng);
    }
}

fn some_frame<'a>(
    frames: &'a mut [Vec<u8>],
    rng: &mut Rng,
    least: usize,
) -> Option<&'a mut Vec<u8>> {
    let index = rng.below(frames.len().max(1));
    frames.get_mut(index).filter(|frame| frame.len() >= least)
}

fn bytes_of(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if bytes.is_empty() {
        return;
    }
    let at = rng.below(bytes.len());
    match rng.below(7) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = rng.next() as u8,
        2 => bytes.truncate(if rng.one_in(2) { at } else { at & !3 }),
        3 => bytes.extend((0..=rng.below(6)).map(|_| 0)),
        4 => drop(bytes.drain(at..bytes.len().min(at + 1 + rng.below(8)))),
        5 => {
            let more = vec![rng.next() as u8; 1 + rng.below(8)];
            bytes.splice(at..at, more);
        }
        // Most fields begin at a multiple of four.
        _ => put(bytes, at & !3, rng),
    }
}

fn put(bytes: &mut [u8], at: usize, rng: &mut Rng) {
    let number = rng.pick(INTERESTING).to_be_bytes();
    let end = bytes.len().min(at + 4);
    bytes[at..end].copy_from_slice(&number[..end - at]);
}
