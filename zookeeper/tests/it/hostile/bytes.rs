//! Messages of servers, assembled by hand.

/// The xid of events, and those of answers to pings and to credentials.
pub(super) const EVENT: i32 = -1;
pub(super) const PING: i32 = -2;
pub(super) const AUTH: i32 = -4;

/// Bytes that are assembled field by field.
#[derive(Debug, Default, Clone)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Bytes {
    pub(super) fn int(mut self, value: i32) -> Bytes {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, value: i64) -> Bytes {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(super) fn raw(mut self, bytes: &[u8]) -> Bytes {
        self.0.extend(bytes);
        self
    }

    pub(super) fn buffer(self, bytes: &[u8]) -> Bytes {
        self.int(bytes.len() as i32).raw(bytes)
    }

    /// Appends the stat of some node.
    pub(super) fn stat(self) -> Bytes {
        self.raw(&[0; 68])
    }
}

/// Returns the answer to a handshake.
pub(super) fn greeting(timeout: i32, session: i64) -> Bytes {
    Bytes::default().int(0).int(timeout).long(session).buffer(&[7; 16]).raw(&[0])
}

/// Returns the header of an answer.
pub(super) fn header(xid: i32, code: i32) -> Bytes {
    Bytes::default().int(xid).long(1).int(code)
}

pub(super) fn event(event_type: i32, path: &[u8]) -> Bytes {
    header(EVENT, 0).int(event_type).int(3).buffer(path)
}

/// Returns the xid of a request.
pub(super) fn xid(request: &[u8]) -> i32 {
    i32::from_be_bytes(request[..4].try_into().unwrap())
}
