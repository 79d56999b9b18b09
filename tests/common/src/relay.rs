//! A relay that changes single frames into some that no server or client sends.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

pub const CREATE: i32 = 15;
pub const DELETE: i32 = 2;
pub const EXISTS: i32 = 3;
pub const MULTI: i32 = 14;
pub const GET_DATA: i32 = 4;
pub const GET_CHILDREN: i32 = 12;
pub const SET_DATA: i32 = 5;
pub const SYNC: i32 = 9;
pub const SET_WATCHES: i32 = 101;

/// One frame without its length, and what is known about it.
#[derive(Debug)]
pub struct Frame<'a> {
    pub is_answer: bool,
    /// The operation of this request or answer; `None` for handshakes and events.
    pub op: Option<i32>,
    pub body: &'a [u8],
}

/// The fate of a frame.
#[derive(Debug)]
pub enum Fate {
    Pass,
    /// Sends another frame instead.
    Instead(Vec<u8>),
    /// Ends the connection instead.
    Cut,
}

type Change = dyn Fn(&Frame<'_>) -> Fate + Send + Sync;

struct Shared {
    change: Box<Change>,
    changed: AtomicU64,
}

/// Its threads end with its connections, or with the process.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Relay {
    pub fn start(
        target: SocketAddr,
        change: impl Fn(&Frame<'_>) -> Fate + Send + Sync + 'static,
    ) -> Relay {
        Relay::on(TcpListener::bind("127.0.0.1:0").unwrap(), target, change)
    }

    pub fn on(
        listener: TcpListener,
        target: SocketAddr,
        change: impl Fn(&Frame<'_>) -> Fate + Send + Sync + 'static,
    ) -> Relay {
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { change: Box::new(change), changed: AtomicU64::new(0) });
        let on = Arc::clone(&shared);
        thread::spawn(move || {
            listener.incoming().flatten().for_each(|client| drop(on.join(client, target)));
        });
        Relay { address, shared }
    }

    pub fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// The number of changed frames.
    pub fn changed(&self) -> u64 {
        self.shared.changed.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn join(self: &Arc<Self>, client: TcpStream, target: SocketAddr) -> io::Result<()> {
        let server = TcpStream::connect(target)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let ops = Arc::new(Mutex::new(HashMap::new()));
        let ends = [(client.try_clone()?, server.try_clone()?, false), (server, client, true)];
        for (from, to, is_answer) in ends {
            let (shared, ops) = (Arc::clone(self), Arc::clone(&ops));
            thread::spawn(move || {
                let _ = shared.pump(&from, &to, is_answer, &ops);
                let _ = from.shutdown(Shutdown::Both);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
        Ok(())
    }

    fn pump(
        &self,
        mut from: &TcpStream,
        mut to: &TcpStream,
        is_answer: bool,
        ops: &Mutex<HashMap<i32, i32>>,
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
            let fate = (self.change)(&Frame { is_answer, op, body: &body });
            if !matches!(fate, Fate::Pass) {
                self.changed.fetch_add(1, Ordering::SeqCst);
            }
            match fate {
                Fate::Pass => to.write_all(&framed(&body))?,
                Fate::Instead(other) => to.write_all(&framed(&other))?,
                Fate::Cut => return Ok(()),
            }
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
