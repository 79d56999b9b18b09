//! Servers that open a session and then send invalid answers.

use std::io::{self, Write};

use zoolock_test_support::{shared_probe, shared_server};
use zoolock_zookeeper::{ErrorKind, Op, Result, Watcher, ZooKeeper};

use super::bytes::{AUTH, Bytes, PING, event, header, xid};
use crate::util::fake_server::{Connection, FakeServer, framed};
use crate::util::{SESSION, SOON, builder, client_of, root, said};

/// The longest answer that the clients in this file accept.
const LONGEST: usize = 100_000;

type Call = fn(&ZooKeeper) -> Result<()>;
/// Returns the frame that answers the request with this xid.
type Answer = fn(i32) -> Bytes;

const EXISTS: Call = |client| client.exists("/").map(drop);
const DATA: Call = |client| client.get_data("/").map(drop);
const CHILDREN: Call = |client| client.get_children("/").map(drop);
const ACL: Call = |client| client.get_acl("/").map(drop);
const DELETE: Call = |client| client.delete("/none", None);
const SYNC: Call = |client| client.sync("/");
const MULTI: Call = |client| {
    let ops = [Op::Check("/", None), Op::Check("/zookeeper", None)];
    client.multi(&ops).map(drop)
};

/// Parts of an answer to a `multi`: the results of a check and of a refused operation, and the end of all results.
const CHECKED: [u8; 9] = [0, 0, 0, 13, 0, 0, 0, 0, 0];
const FAILED: [u8; 13] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const END: [u8; 9] = [0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff];

/// Requests, each with an invalid answer and the error that it causes.
const NONSENSE: &[(Call, Answer, &str)] = &[
    (EXISTS, |xid| Bytes(header(xid, 0).0[..7].to_vec()), "a number of 8 bytes"),
    (EXISTS, |_| Bytes::default(), "a number of 4 bytes, but only 0 are left"),
    (EXISTS, |xid| header(xid, 0), "a number of 8 bytes, but only 0"),
    (EXISTS, |xid| header(xid, 0).raw(&[0; 30]), "a number of 8 bytes, but only 6 are left"),
    (EXISTS, |xid| header(xid, 0).stat().raw(b"abc"), "3 bytes too many"),
    (DELETE, |xid| header(xid, 0).raw(b"abc"), "3 bytes too many"),
    (EXISTS, |xid| header(xid, -101).stat(), "68 bytes too many"),
    (DATA, |xid| header(xid, 0).int(i32::MAX).stat(), "a buffer of 2147483647 bytes, but only 68"),
    (DATA, |xid| header(xid, 0).int(-2).stat(), "a buffer of -2 bytes"),
    (
        CHILDREN,
        |xid| header(xid, 0).int(i32::MAX).stat(),
        "a list that does not fit into the 68 bytes",
    ),
    (
        CHILDREN,
        |xid| header(xid, 0).int(-2).stat(),
        "a list that does not fit into the 68 bytes left",
    ),
    (
        CHILDREN,
        |xid| header(xid, 0).int(1).buffer(b"a\xff").stat(),
        "a text that is not UTF-8: invalid utf-8 sequence of 1 bytes from index 1",
    ),
    (ACL, |xid| header(xid, 0).int(6).stat(), "a list that does not fit into the 68 bytes left"),
    (SYNC, |xid| header(xid, 0).buffer(b"/\xc3\x28"), "a text that is not UTF-8"),
    (MULTI, |xid| header(xid, 0).raw(&CHECKED), "a number of 4 bytes, but only 0 are left"),
    (MULTI, |xid| header(xid, 0).int(77).raw(&[0]).int(0), "the result of an operation 77"),
    (MULTI, |xid| header(xid, 0).raw(&END), "0 results of 2 operations"),
    (MULTI, |xid| header(xid, 0).raw(&CHECKED.repeat(3)), "more than 2 results"),
    (
        MULTI,
        |xid| header(xid, 0).raw(&FAILED.repeat(2)).raw(&END),
        "failed operations without a cause",
    ),
    (EXISTS, |xid| header(xid + 77, 0).stat(), "but 1 was due"),
    (EXISTS, |_| header(i32::MIN, 0).stat(), "an answer to request -2147483648, but 1 was due"),
    // The answer to the handshake is sent a second time.
    (EXISTS, |_| Bytes(vec![0; 37]), "an answer to request 0"),
    (EXISTS, |_| header(PING, 0), "an answer to a ping that was not sent"),
    (EXISTS, |_| header(PING, 0).stat(), "68 bytes too many"),
    (EXISTS, |_| header(AUTH, 0), "an answer to credentials that were not sent"),
    (EXISTS, |_| event(99, b"/"), "an event of the type 99"),
    (
        EXISTS,
        |_| Bytes(event(1, b"/").0[..24].to_vec()),
        "a number of 4 bytes, but only 0 are left",
    ),
    (EXISTS, |_| event(1, b"/\xff"), "a text that is not UTF-8"),
    (EXISTS, |_| event(1, b"/").raw(b"abc"), "3 bytes too many"),
    // The session has ended, or has moved to another server.
    (EXISTS, |xid| header(xid, -112), "the server refused a request with the code -112"),
    (EXISTS, |xid| header(xid, -118), "the server refused a request with the code -118"),
    (
        DATA,
        |xid| header(xid, 0).buffer(&[7; LONGEST]).stat(),
        "a frame of 100088 bytes, but at most 100000 are accepted",
    ),
];

/// Bytes that are not frames, after which the server closes the connection, each with the error that they cause.
const NO_FRAMES: &[(&[u8], &str)] = &[
    (&[0x7f; 4], "a frame of 2139062143 bytes, but at most 100000 are accepted"),
    (
        b"HTTP/1.1 408 Request Timeout\r\n\r\n",
        "the answer begins with \"HTTP\": this is not a ZooKeeper server",
    ),
    (&[0, 0, 1, 0, 7, 7], "the server hung up"),
    (&[], "the server hung up"),
];

/// On a client's first connection, opens a session, reads `REQUESTS` requests, calls `talk`, and waits until it leaves.
fn talks<const REQUESTS: usize>(
    talk: impl Fn(&mut Connection, [i32; REQUESTS]) -> io::Result<()> + Send + Sync + 'static,
) -> FakeServer {
    FakeServer::new(shared_server().address(), move |connection| {
        if connection.number > 0 {
            return connection.pass_on();
        }
        let _session = connection.introduce()?;
        let mut numbers = [0; REQUESTS];
        for number in &mut numbers {
            *number = xid(&connection.frame()?);
        }
        talk(connection, numbers)?;
        connection.linger()
    })
}

#[test]
fn malformed_answer_is_named_and_the_session_continues() {
    let is_named = |fake_server: FakeServer, call: Call, expected: &str| {
        let client =
            builder(&fake_server.address(), SESSION).max_answer(LONGEST).connect().unwrap();
        let session = client.session_id();
        let (kind, text) = said(call(&client));
        assert_eq!(kind, ErrorKind::ConnectionLoss, "{expected}: {text}");
        assert!(text.contains(expected), "{text:?} does not say {expected:?}");
        client.exists("/").unwrap();
        assert_eq!(client.session_id(), session, "{expected}");
    };
    for (call, answer, expected) in NONSENSE {
        is_named(talks(|connection, [number]| connection.send(&answer(number).0)), *call, expected);
    }
    for (bytes, expected) in NO_FRAMES {
        let fake_server = talks(|connection, [_]| {
            connection.stream.write_all(bytes)?;
            connection.leave()
        });
        is_named(fake_server, DATA, expected);
    }
}

/// The first callback sends another request on the reader's own thread, which is as early as possible.
#[test]
fn request_made_on_a_bad_answer_uses_the_next_connection() {
    // The answer to `exists` lacks its body, or reports that the session has moved.
    for code in [0, -118] {
        let fake_server =
            talks(move |connection, [number]| connection.send(&header(number, code).0));
        let client = client_of(&fake_server.address(), SESSION);
        let (sender, again) = crossbeam_channel::bounded(1);
        let asking = client.clone();
        client.submit(|batch| {
            batch.exists("/", None).on_done(move |first| {
                let again = asking.submit(|batch| batch.exists("/", None));
                sender.send((first, again)).unwrap();
            });
        });
        let (first, again) = again.recv_timeout(SOON).unwrap();
        assert!(first.is_err(), "{code}");
        again.wait().unwrap();
    }
}

#[test]
fn deletion_is_sent_again_when_a_server_answers_that_the_session_has_moved() {
    let fake_server = talks(|connection, [number]| connection.send(&header(number, -118).0));
    let (client, path) = (client_of(&fake_server.address(), SESSION), root("moved"));
    client.delete_eventually(&path).wait().unwrap();
    assert!(!shared_probe().unwrap().exists(&path).unwrap());
}

/// Servers refuse unsupported requests in this way, out of order. Any other answer out of order is invalid.
#[test]
fn refusal_out_of_order_is_of_its_request() {
    let fake_server = talks(|connection, [first, second]| {
        connection.send(&header(second, -6).0)?;
        connection.send(&header(first, 0).stat().0)?;
        // The connection can still be used.
        let third = xid(&connection.frame()?);
        connection.send(&header(third, 0).stat().0)
    });
    let client = client_of(&fake_server.address(), SESSION);
    let [first, second] = client.submit(|batch| [(); 2].map(|()| batch.exists("/", None)));
    first.wait().unwrap();
    assert_eq!(said(second.wait()).0, ErrorKind::Unimplemented);
    client.exists("/").unwrap();
    assert_eq!(fake_server.connections(), 1);
}

/// The token of a hold is the zxid of its create, so zxids must not decrease.
#[test]
fn write_that_is_older_than_what_was_seen_is_rejected() {
    let fake_server = talks(|connection, [read]| {
        connection.send(&header(read, 0).stat().0)?;
        let write = xid(&connection.frame()?);
        connection.send(&header(write, 0).0)
    });
    let client = client_of(&fake_server.address(), SESSION);
    client.exists("/").unwrap();
    let (kind, text) = said(client.delete("/none", None));
    assert_eq!(kind, ErrorKind::ConnectionLoss);
    assert!(text.contains("a write has zxid 0x1 behind 0x1"), "{text}");
    client.exists("/").unwrap();
}

#[test]
fn unexpected_events_change_nothing() {
    const EVENTS: usize = 200_000;
    let fake_server = talks(|connection, [number]| {
        let paths: [&[u8]; 4] = [b"/", b"", b"no path at all", "/\u{1f512}".as_bytes()];
        let events = (0..EVENTS).map(|index| event([1, 2, 3, 4, -1][index % 5], paths[index % 4]));
        let bytes = events.flat_map(|event| framed(&event.0));
        connection.stream.write_all(&bytes.collect::<Vec<u8>>())?;
        connection.send(&header(number, 0).stat().0)
    });
    // Two thirds of this time suffice to read all events on a busy machine.
    let client = client_of(&fake_server.address(), SOON);
    let (watcher, events) = Watcher::channel();
    client.exists_w("/watched", &watcher).unwrap();
    assert_eq!(fake_server.connections(), 1);
    assert!(events.is_empty(), "{:?}", events.try_recv());
}
