//! The probe shows the nodes on the server, and reports errors.

use std::io::ErrorKind;

use zoolock_test_support::{Probe, connect_string, error_code, fresh_path, shared_probe};

#[test]
fn smoke() {
    let probe = shared_probe().unwrap();
    let root = fresh_path("probe");
    probe.create_all(&root).unwrap();
    probe.create_all(&root).unwrap();
    let node = format!("{root}/node");
    assert!(!probe.exists(&node).unwrap());
    assert_eq!(probe.create(&node, b"one", false, false).unwrap(), node);
    let (data, stat) = probe.get(&node).unwrap().unwrap();
    assert_eq!((data.as_slice(), stat.version), (&b"one"[..], 0));
    let changed = probe.set(&node, b"three").unwrap();
    assert_eq!((changed.version, changed.data_length), (1, 5));
    assert!(changed.mzxid > changed.czxid);
    assert_eq!(probe.stat(&node).unwrap(), Some(changed));
    assert_eq!(probe.children(&root).unwrap(), ["node"]);
    assert_eq!(probe.stat(&root).unwrap().unwrap().num_children, 1);
    probe.ping().unwrap();
    probe.delete(&node).unwrap();
    assert_eq!(probe.get(&node).unwrap(), None);
    assert_eq!(probe.children(&root).unwrap(), [""; 0]);
}

#[test]
fn sequential_and_ephemeral() {
    let probe = shared_probe().unwrap();
    let other = Probe::connect(connect_string().split(',').next().unwrap()).unwrap();
    let root = fresh_path("probe");
    probe.create_all(&root).unwrap();
    let first = other.create(&format!("{root}/n-"), b"", true, true).unwrap();
    let second = other.create(&format!("{root}/n-"), b"", true, true).unwrap();
    assert_eq!(first, format!("{root}/n-0000000000"));
    assert_eq!(second, format!("{root}/n-0000000001"));
    let owner = probe.stat(&first).unwrap().unwrap().ephemeral_owner;
    assert_eq!(owner, other.session_id());
    other.close().unwrap();
    assert_eq!(probe.children(&root).unwrap(), [""; 0]);
}

#[test]
fn errors_have_kind_and_code() {
    let probe = shared_probe().unwrap();
    let root = fresh_path("probe");
    assert_eq!(probe.children(&root).unwrap(), [""; 0]);
    let missing = probe.delete(&root).unwrap_err();
    println!("{missing}");
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(error_code(&missing), Some(-101));
    assert!(missing.to_string().contains(&root));
    probe.create_all(&format!("{root}/child")).unwrap();
    let exists = probe.create(&root, b"", false, false).unwrap_err();
    assert_eq!(exists.kind(), ErrorKind::AlreadyExists);
    let not_empty = probe.delete(&root).unwrap_err();
    assert_eq!(not_empty.kind(), ErrorKind::DirectoryNotEmpty);
    let relative = probe.create("relative", b"", false, false).unwrap_err();
    assert_eq!(error_code(&relative), Some(-8));
}

#[test]
fn access_is_by_credentials() {
    let (owner, stranger) = (shared_probe().unwrap(), shared_probe().unwrap());
    owner.add_auth("digest", b"anna:secret").unwrap();
    let root = fresh_path("probe");
    owner.create_all(&root).unwrap();
    let node = format!("{root}/closed");
    let acl = [(31, "auth", "")];
    owner.create_with_acl(&node, b"hidden", &acl).unwrap();
    assert!(owner.get(&node).unwrap().is_some());
    let denied = stranger.get(&node).unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::PermissionDenied);
    stranger.add_auth("digest", b"anna:secret").unwrap();
    assert!(stranger.get(&node).unwrap().is_some());
}

#[test]
fn unreachable_is_an_error() {
    let error = Probe::connect("127.0.0.1:1").unwrap_err();
    assert_eq!((error.kind(), error_code(&error)), (ErrorKind::ConnectionRefused, None));
}
