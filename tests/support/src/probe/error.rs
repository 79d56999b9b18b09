//! ZooKeeper's error codes as `std::io::Error`.

use std::error::Error;
use std::fmt;
use std::io;

/// An error that the server answered.
#[derive(Debug)]
struct ServerError {
    code: i32,
    request: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, name) = (self.code, name(self.code));
        write!(f, "failed to {}: {name} ({code})", self.request)
    }
}

impl Error for ServerError {}

/// Returns the error with which a server answered `request`.
pub(crate) fn server_error(code: i32, request: String) -> io::Error {
    io::Error::new(kind(code), ServerError { code, request })
}

/// Returns the ZooKeeper code in an error of a [`Probe`](crate::Probe): -101 for NoNode, -110 for
/// NodeExists and so on. Returns `None` for an error of the connection.
#[must_use]
pub fn error_code(error: &io::Error) -> Option<i32> {
    let inner = error.get_ref()?.downcast_ref::<ServerError>()?;
    Some(inner.code)
}

fn name(code: i32) -> &'static str {
    match code {
        -4 => "ConnectionLoss",
        -5 => "MarshallingError",
        -6 => "Unimplemented",
        -8 => "BadArguments",
        -101 => "NoNode",
        -102 => "NoAuth",
        -103 => "BadVersion",
        -108 => "NoChildrenForEphemerals",
        -110 => "NodeExists",
        -111 => "NotEmpty",
        -112 => "SessionExpired",
        -114 => "InvalidACL",
        -115 => "AuthFailed",
        -118 => "SessionMoved",
        _ => "error",
    }
}

fn kind(code: i32) -> io::ErrorKind {
    match code {
        -101 => io::ErrorKind::NotFound,
        -102 | -115 => io::ErrorKind::PermissionDenied,
        -110 => io::ErrorKind::AlreadyExists,
        -111 => io::ErrorKind::DirectoryNotEmpty,
        -8 | -103 | -114 => io::ErrorKind::InvalidInput,
        _ => io::ErrorKind::Other,
    }
}
