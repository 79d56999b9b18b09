//! Bytes that have yet to be sent on a connection. A separate thread writes them, so that a client that does not read
//! does not delay others. This module does not know what the bytes mean.

use std::io::Write;
use std::net::{Shutdown, TcpStream};

use parking_lot::{Condvar, Mutex};

/// While this many bytes are waiting, no further request from the client is executed. Events are added even then,
/// because each of them ends a watch.
const ENOUGH: usize = 1 << 20;

pub(super) struct ServerWriter {
    stream: TcpStream,
    queue: Mutex<Queue>,
    /// Notified when bytes are added, when bytes are taken to be written, and when the connection is closed.
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    is_closed: bool,
}

impl ServerWriter {
    pub(super) fn new(stream: TcpStream) -> ServerWriter {
        ServerWriter { stream, queue: Mutex::default(), changed: Condvar::new() }
    }

    /// Returns the stream from which requests are read.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Adds a frame, unless the connection has been closed. Never blocks.
    pub(super) fn push(&self, frame: &[u8]) {
        let mut queue = self.queue.lock();
        if !queue.is_closed {
            queue.bytes.extend(frame);
            self.changed.notify_all();
        }
    }

    /// Waits until there is room for another answer, or the connection has been closed.
    pub(super) fn wait_for_room(&self) {
        let is_full = |queue: &mut Queue| queue.bytes.len() >= ENOUGH && !queue.is_closed;
        self.changed.wait_while(&mut self.queue.lock(), is_full);
    }

    /// Stops both adding bytes and reading. Bytes that have been added are still written, and then the connection ends.
    pub(super) fn close(&self) {
        self.queue.lock().is_closed = true;
        self.changed.notify_all();
        // The connection may already be broken.
        let _ = self.stream.shutdown(Shutdown::Read);
    }

    /// Writes bytes until the connection is closed, the client is gone, or it has read nothing for too long.
    pub(super) fn write(&self) {
        let mut taken = Vec::new();
        while self.take(&mut taken) && (&self.stream).write_all(&taken).is_ok() {
            taken.clear();
        }
        self.close();
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Waits for bytes. Returns false if there are none and none will be added.
    fn take(&self, taken: &mut Vec<u8>) -> bool {
        let mut queue = self.queue.lock();
        self.changed.wait_while(&mut queue, |queue| queue.bytes.is_empty() && !queue.is_closed);
        std::mem::swap(&mut queue.bytes, taken);
        self.changed.notify_all();
        !taken.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;

    use crossbeam_channel::bounded;

    use super::*;
    use crate::{PATIENCE, Server};
    use zoolock_zookeeper::{Acl, CreateMode, ZooKeeper};

    #[test]
    fn output_is_written_in_order_before_the_connection_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let outgoing = ServerWriter::new(listener.accept().unwrap().0);
        thread::scope(|scope| {
            scope.spawn(|| outgoing.write());
            // The buffers between the two sides cannot hold this much, and nothing is read.
            for number in 0..64 {
                outgoing.push(&vec![number; ENOUGH]);
            }
            let reader = scope.spawn(move || {
                let mut read = Vec::new();
                client.read_to_end(&mut read).map(|_| read)
            });
            outgoing.wait_for_room();
            assert!(outgoing.queue.lock().bytes.len() < ENOUGH);
            outgoing.push(b"the last");
            outgoing.close();
            outgoing.push(b"too late");
            outgoing.wait_for_room();
            let read = reader.join().unwrap().unwrap();
            let (read, last) = read.split_at(64 * ENOUGH);
            for (chunk, number) in read.chunks(ENOUGH).zip(0..) {
                assert!(chunk.iter().all(|byte| *byte == number), "not all of {number}");
            }
            assert_eq!(last, b"the last");
        });
    }

    #[test]
    fn client_that_never_reads_delays_no_other() {
        let server = Server::start().unwrap();
        let connect = || ZooKeeper::builder(&server.connect_string()).connect().unwrap();
        let (stuck, other) = (connect(), connect());
        stuck.create("/much", &vec![7; 900_000], &Acl::open(), CreateMode::Persistent).unwrap();
        let (is_stuck, begun) = bounded(1);
        let (end, ended) = bounded::<()>(0);
        // The answers are 60 MB, more than all buffers between the two sides. The thread that would read them is busy.
        let reads: Vec<_> = stuck.submit(|batch| {
            batch.sync("/").on_done(move |_| {
                is_stuck.send(()).unwrap();
                let _ = ended.recv();
            });
            (0..64).map(|_| batch.get_data("/much", None)).collect()
        });
        begun.recv().unwrap();
        let other = other.with_timeout(PATIENCE / 2);
        for number in 0..500 {
            other.exists("/much").unwrap_or_else(|error| panic!("{number}: {error}"));
        }
        drop((end, reads));
    }
}
