//! A user of the real server: anybody, or an operator who may do everything.

use std::io;
use std::net::SocketAddr;

use super::fields::{CREATE, DELETE, EXISTS, GET_CHILDREN, SET_DATA};
use super::socket::{Socket, buffer, framed, int};

/// The hash of the operator's password, `super:secret`, as the server's property has it.
pub(crate) const SUPER_DIGEST: &str = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=";
const LONGEST: i32 = i32::MAX;
/// The error of a user who may not read a node.
const NO_AUTH: i32 = -102;

pub(crate) struct Operator {
    socket: Socket,
    number: i32,
}

/// Returns a request for a session: a new one, or this one again.
pub(crate) fn handshake(session: i64, password: &[u8]) -> Vec<u8> {
    let (longest, session) = (LONGEST.to_be_bytes(), session.to_be_bytes());
    framed(&[&[0; 12], &longest, &session, &buffer(password), &[0]])
}

impl Operator {
    /// Connects as a user without credentials.
    pub(crate) fn anybody(server: SocketAddr) -> io::Result<Operator> {
        let mut socket = Socket::connect(server)?;
        socket.ask(&handshake(0, &[0; 16]), None)?;
        socket.next()?;
        Ok(Operator { socket, number: 0 })
    }

    pub(crate) fn connect(server: SocketAddr) -> io::Result<Operator> {
        let mut operator = Operator::anybody(server)?;
        let socket = &mut operator.socket;
        let auth = [&(-4_i32).to_be_bytes()[..], &100_i32.to_be_bytes(), &[0; 4]].concat();
        socket.ask(&framed(&[&auth, &buffer(b"digest"), &buffer(b"super:secret")]), Some(-4))?;
        match int(&socket.next()?, 16) {
            0 => Ok(operator),
            code => Err(io::Error::other(format!("nobody is the super user: {code}"))),
        }
    }

    /// Returns the answer to a request, which may be an error.
    fn answer(&mut self, code: i32, path: &str, rest: &[u8]) -> io::Result<Vec<u8>> {
        self.number += 1;
        let head = [self.number, code].map(i32::to_be_bytes).concat();
        let request = framed(&[&head, &buffer(path.as_bytes()), rest]);
        self.socket.ask(&request, Some(self.number))?;
        self.socket.next()
    }

    fn ask(&mut self, code: i32, path: &str, rest: &[u8]) -> io::Result<Vec<u8>> {
        let answer = self.answer(code, path, rest)?;
        match int(&answer, 16) {
            0 => Ok(answer),
            code => Err(io::Error::other(format!("the operator may not: {path}, error {code}"))),
        }
    }

    pub(crate) fn create(&mut self, path: &str, data: &[u8]) -> io::Result<()> {
        self.create_for(path, data, 31)
    }

    /// Creates a node with these permissions for everybody.
    pub(crate) fn create_for(&mut self, path: &str, data: &[u8], all: u8) -> io::Result<()> {
        let acl = [&[0, 0, 0, 1, 0, 0, 0, all][..], &buffer(b"world"), &buffer(b"anyone")].concat();
        self.ask(CREATE, path, &[buffer(data), acl, vec![0; 4]].concat()).map(drop)
    }

    pub(crate) fn set_data(&mut self, path: &str, data: &[u8]) -> io::Result<()> {
        self.ask(SET_DATA, path, &[buffer(data), vec![0xff; 4]].concat()).map(drop)
    }

    pub(crate) fn delete(&mut self, path: &str) -> io::Result<()> {
        self.ask(DELETE, path, &[0xff; 4]).map(drop)
    }

    /// Returns whether it may learn whether a node exists.
    pub(crate) fn may_see(&mut self, path: &str) -> io::Result<bool> {
        self.answer(EXISTS, path, &[0]).map(|answer| int(&answer, 16) != NO_AUTH)
    }

    /// Deletes all nodes, except those of the server.
    pub(crate) fn delete_all(&mut self) -> io::Result<()> {
        for name in self.children("/")? {
            if name != "zookeeper" {
                self.delete_below(&format!("/{name}"))?;
            }
        }
        Ok(())
    }

    fn delete_below(&mut self, path: &str) -> io::Result<()> {
        for name in self.children(path)? {
            self.delete_below(&format!("{path}/{name}"))?;
        }
        self.delete(path)
    }

    fn children(&mut self, path: &str) -> io::Result<Vec<String>> {
        let answer = self.ask(GET_CHILDREN, path, &[0])?;
        let (mut names, mut at) = (Vec::new(), 24);
        for _ in 0..int(&answer, 20) {
            let end = at + 4 + int(&answer, at) as usize;
            names.push(String::from_utf8_lossy(&answer[at + 4..end]).into_owned());
            at = end;
        }
        Ok(names)
    }
}
