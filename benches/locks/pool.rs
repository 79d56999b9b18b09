//! A pool of connections, for protocols that answer one request at a time. It has as many as
//! threads need at the same time.

use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};

use crate::session::Outcome;

pub(crate) struct Pool<C> {
    open: Box<dyn Fn() -> Outcome<C> + Send + Sync>,
    idle: Mutex<Vec<C>>,
}

impl<C> Pool<C> {
    pub(crate) fn new(open: impl Fn() -> Outcome<C> + Send + Sync + 'static) -> Pool<C> {
        Pool { open: Box::new(open), idle: Mutex::default() }
    }

    pub(crate) fn take(&self) -> Outcome<C> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| (self.open)(), Ok)
    }

    /// Returns a connection after the answer to its last request was read. Drop a connection that
    /// has failed instead.
    pub(crate) fn give_back(&self, connection: C) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }
}

/// Opens a connection that sends at once (`TCP_NODELAY`).
pub(crate) fn dial(address: &str) -> Outcome<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
