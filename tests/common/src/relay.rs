//! A relay that replaces individual frames by frames that neither servers nor clients send.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::shared_address;

pub const CREATE: i32 = 15;
pub const DELETE: i32 = 2;
pub const EXISTS: i32 = 3;
pub const MULTI: i32 = 14;
pub const GET_CHILDREN: i32 = 12;
pub const SET_DATA: i32 = 5;
pub const SYNC: i32 = 9;
pub const SET_WATCHES: i32 = 101;

/// A frame without its length, and the operation to which it belongs.
#[derive(Debug)]
pub struct Frame<'a> {
    pub is_answer: bool,
    /// The operation of a request or an answer, or `None` for handshakes and events.
    pub op: Option<i32>,
    pub body: &'a [u8],
}

/// What the relay does with a frame.
#[derive(Debug)]
pub enum Fate {
    Pass,
    /// Sends this frame instead.
    Instead(Vec<u8>),
    /// Closes the connection instead.
    Cut,
}

/// Starts a relay in front of the shared server, and returns its address. Each thread of the relay ends when its
/// connection or the process ends.
pub fn relay(change: impl Fn(&Frame<'_>) -> Fate + Send + Sync + 'static) -> String {
    relay_on(TcpListener::bind("127.0.0.1:0").unwrap(), change)
}

pub fn relay_on(
    listener: TcpListener,
    change: impl Fn(&Frame<'_>) -> Fate + Send + Sync + 'static,
) -> String {
    let (address, change) = (listener.local_addr().unwrap(), Arc::new(change));
    thread::spawn(move || {
        listener.incoming().flatten().for_each(|client| drop(join(client, &change)));
    });
    address.to_string()
}

fn join(
    client: TcpStream,
    change: &Arc<impl Fn(&Frame<'_>) -> Fate + Send + Sync + 'static>,
) -> io::Result<()> {
    let server = TcpStream::connect(shared_address())?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ops = Arc::new(Mutex::new(HashMap::new()));
    let ends = [(client.try_clone()?, server.try_clone()?, false), (server, client, true)];
    for (from, to, is_answer) in ends {
        let (change, ops) = (Arc::clone(change), Arc::clone(&ops));
        thread::spawn(move || {
            let _ = pump(&from, &to, is_answer, &ops, &*change);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

fn pump(
    mut from: &TcpStream,
    mut to: &TcpStream,
    is_answer: bool,
    ops: &Mutex<HashMap<i32, i32>>,
    change: &impl Fn(&Frame<'_>) -> Fate,
) -> io::Result<()> {
    let mut is_first = true;
    loop {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        from.read_exact(&mut body)?;
        let xid = int(&body, 0).unwrap_or(-1);
        let op = match (is_first, is_answer) {
            (true, _) => None,
            (_, true) => ops.lock().unwrap().remove(&xid),
            (_, false) => int(&body, 4),
        };
        if let (false, Some(op)) = (is_answer, op) {
            ops.lock().unwrap().insert(xid, op);
        }
        is_first = false;
        match change(&Frame { is_answer, op, body: &body }) {
            Fate::Pass => to.write_all(&framed(&body))?,
            Fate::Instead(other) => to.write_all(&framed(&other))?,
            Fate::Cut => return Ok(()),
        }
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend(body);
    frame
}

fn int(body: &[u8], at: usize) -> Option<i32> {
    let bytes = body.get(at..at.checked_add(4)?)?;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}
