//! ZooKeeper's error codes as `std::io::Error`.

use std::io;

/// The error that a server answered to `request`.
pub(crate) fn server_error(code: i32, request: &str) -> io::Error {
    use io::ErrorKind::*;
    let (name, kind) = match code {
        -4 => ("ConnectionLoss", Other),
        -5 => ("MarshallingError", Other),
        -6 => ("Unimplemented", Other),
        -8 => ("BadArguments", InvalidInput),
        -101 => ("NoNode", NotFound),
        -102 => ("NoAuth", PermissionDenied),
        -103 => ("BadVersion", InvalidInput),
        -108 => ("NoChildrenForEphemerals", Other),
        -110 => ("NodeExists", AlreadyExists),
        -111 => ("NotEmpty", DirectoryNotEmpty),
        -112 => ("SessionExpired", Other),
        -114 => ("InvalidACL", InvalidInput),
        -115 => ("AuthFailed", PermissionDenied),
        -118 => ("SessionMoved", Other),
        _ => ("error", Other),
    };
    io::Error::new(kind, format!("failed to {request}: {name} ({code})"))
}
