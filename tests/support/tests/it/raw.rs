//! A connection without a client, for pipelining and watches, which the probe lacks.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::SOON;

const EXISTS: i32 = 3;
const GET_CHILDREN: i32 = 8;

pub(crate) struct Raw(TcpStream);

impl Raw {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut raw = Self(stream);
        let mut request = vec![0; 12];
        request.extend(30_000_i32.to_be_bytes());
        request.extend([0; 8]);
        request.extend(16_i32.to_be_bytes());
        request.extend([0; 16]);
        raw.write(&request);
        raw.read();
        raw
    }

    /// Asks whether the root exists.
    pub(crate) fn ask(&mut self, id: i32) {
        self.send(id, EXISTS, "/", false);
    }

    /// Asks for the children, and for an event when they change.
    pub(crate) fn watch_children(&mut self, id: i32, path: &str) {
        self.send(id, GET_CHILDREN, path, true);
        assert_eq!(self.read_id(), id);
    }

    fn send(&mut self, id: i32, op: i32, path: &str, watch: bool) {
        let header = [id, op, path.len() as i32].map(i32::to_be_bytes).concat();
        self.write(&[&header, path.as_bytes(), &[watch.into()]].concat());
    }

    /// Returns the id in the next frame; -1 is a watch event.
    pub(crate) fn read_id(&mut self) -> i32 {
        i32::from_be_bytes(self.read()[..4].try_into().unwrap())
    }

    fn write(&mut self, body: &[u8]) {
        let length = (body.len() as i32).to_be_bytes();
        self.0.write_all(&[&length, body].concat()).unwrap();
    }

    fn read(&mut self) -> Vec<u8> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length).unwrap();
        let mut frame = vec![0; i32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut frame).unwrap();
        frame
    }
}
