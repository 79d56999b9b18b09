//! Clients that obtain no session, because servers never complete a handshake or because settings are invalid.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zoolock_test_support::{connect_string, shared_server, wait_until};
use zoolock_zookeeper::{ConnectFailure, ErrorKind, SessionEventKind, ZooKeeper};

use super::bytes::{Bytes, greeting};
use crate::util::fake_server::{Connection, FakeServer, Manner, framed};
use crate::util::{
    BRIEFLY, Events, SESSION, SOON, builder, client_of, files, in_own_process, said, shared_proxy,
    threads,
};

const MINE: i64 = 0x1234;
/// The length of a handshake, including the four bytes that contain its length.
const HANDSHAKE: usize = 4 + 45;
const HUNG_UP: &str = "the server hung up";
const TOO_LATE: &str = "no answer to the handshake in ";
const HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
const NO_ZOOKEEPER: &str = "the answer begins with \"HTTP\": this is not a ZooKeeper server";

/// Returns a server that reads the handshake, sends these bytes, and waits until the client leaves.
fn says(bytes: Vec<u8>) -> Manner {
    Arc::new(move |connection| {
        connection.frame()?;
        connection.stream.write_all(&bytes)?;
        connection.linger()
    })
}

/// Returns what servers of other kinds send, and invalid answers to a handshake, each with the error.
fn nonsense() -> Vec<(Vec<u8>, &'static str)> {
    let sound = greeting(10_000, MINE).0;
    let short = |length: usize| Bytes(sound[..length].to_vec());
    let others: [(&[u8], _); 7] = [
        (HTTP, NO_ZOOKEEPER),
        (b"SSH-2.0-OpenSSH_9.2p1\r\n", "begins with \"SSH-\": this is not a ZooKeeper server"),
        (b"\x15\x03\x03\0\x02\x02\x46", "expects TLS at this port"),
        (&i32::MAX.to_be_bytes(), "a frame of 2147483647 bytes, but at most 67108864 are accepted"),
        (&i32::MIN.to_be_bytes(), "a frame of 2147483648 bytes"),
        (&[0; 4], "a number of 4 bytes, but only 0 are left"),
        (&[0; 4000], "a number of 4 bytes, but only 0 are left"),
    ];
    let frames = [
        // The password is missing, incomplete or invalid.
        (short(16), "a number of 4 bytes, but only 0 are left"),
        (short(30), "a buffer of 16 bytes, but only 10 are left"),
        (short(16).int(-2), "a buffer of -2 bytes"),
        (short(16).int(i32::MAX), "a buffer of 2147483647 bytes, but only 0 are left"),
        // The flag that marks a read-only server must be true or false.
        (short(36).raw(&[7]), "7 as a boolean"),
        (short(36).raw(&[1]), "the server is read-only"),
        (greeting(10_000, MINE).raw(b"abc"), "3 bytes too many"),
        (greeting(0, MINE), "no session, although a new one was requested"),
        (greeting(-1, MINE), "no session, although a new one"),
        (greeting(7, MINE), "a session timeout of 7 ms is too short"),
        (greeting(10_000, 0), "no session, although a new one was requested"),
    ];
    let others = others.into_iter().map(|(bytes, reason)| (bytes.to_vec(), reason));
    others.chain(frames.map(|(frame, reason)| (framed(&frame.0), reason))).collect()
}

/// Returns the threads, and the number of open files, of this process.
fn belongings() -> (Vec<String>, usize) {
    (threads(), files())
}

/// Expects that the client is refused for one of these reasons and leaves nothing behind, and that it can connect once
/// the server is good.
fn check(manner: Manner, reasons: &[&str]) {
    let before = belongings();
    // The server of the parent process.
    let fake_server =
        FakeServer::new(connect_string().parse().unwrap(), move |connection| manner(connection));
    let (kind, text) =
        said(ZooKeeper::builder(&fake_server.address()).connect_timeout(SOON).connect());
    assert_eq!(kind, ErrorKind::ConnectFailed, "{reasons:?}: {text}");
    assert!(reasons.iter().any(|reason| text.contains(reason)), "{text:?}, not {reasons:?}");
    assert!(text.contains(&fake_server.address()), "{text:?} does not say who");
    fake_server.behave();
    client_of(&fake_server.address(), SESSION).exists("/").unwrap();
    drop(fake_server);
    wait_until(&format!("nothing is left after {reasons:?}"), SOON, || belongings() == before);
}

#[test]
fn invalid_handshake_is_named_and_leaves_nothing_behind() {
    in_own_process(|| {
        for (bytes, reason) in nonsense() {
            check(says(bytes), &[reason]);
        }
        // Servers that close the connection after they have read or written this many bytes.
        for count in [0, 1, 3, 4, 5, 8, 16, 24, 28, 44, HANDSHAKE - 1, HANDSHAKE] {
            let reads = move |connection: &mut Connection| {
                connection.stream.read_exact(&mut vec![0; count])
            };
            // If there are unread bytes, closing resets the connection.
            check(Arc::new(reads), &[HUNG_UP, "Connection reset by peer"]);
        }
        let answer = framed(&greeting(10_000, MINE).0);
        for count in 1..answer.len() {
            let begin = answer[..count].to_vec();
            let writes = move |connection: &mut Connection| {
                connection.frame()?;
                connection.stream.write_all(&begin)
            };
            check(Arc::new(writes), &[HUNG_UP]);
        }
    });
}

/// Returns a client that has a session, and whose server has then begun to behave in this way.
fn suspended(manner: Manner) -> (FakeServer, ZooKeeper, Events) {
    let fake_server = FakeServer::new(shared_server().address(), Connection::pass_on);
    let client = client_of(&fake_server.address(), SESSION);
    let events = Events::of(&client);
    fake_server.change(move |connection| manner(connection));
    events.until(SessionEventKind::Suspended);
    (fake_server, client, events)
}

#[test]
fn bad_answer_to_a_resume_is_named_and_a_good_server_resumes() {
    let only_reads = |connection: &mut Connection| {
        // The id of the session that the client requests.
        let session = connection.frame()?[16..24].try_into().unwrap();
        let answer = Bytes::default().int(0).int(10_000).long(i64::from_be_bytes(session));
        connection.send(&answer.buffer(&[7; 16]).raw(&[1]).0)?;
        connection.linger()
    };
    let a_byte_a_second = |connection: &mut Connection| {
        connection.frame()?;
        for byte in framed(&greeting(10_000, MINE).0) {
            connection.stream.write_all(&[byte])?;
            if connection.has_left_within(Duration::from_secs(1))? {
                break;
            }
        }
        Ok(())
    };
    for (manner, reason) in [
        (Arc::new(only_reads) as Manner, "the server is read-only"),
        (says(Vec::new()), TOO_LATE),
        (Arc::new(a_byte_a_second), TOO_LATE),
        (says(HTTP.to_vec()), NO_ZOOKEEPER),
    ] {
        let (fake_server, client, events) = suspended(manner);
        let session = client.session_id();
        // At first, the reason may still be that the connection was broken.
        wait_until(&format!("{reason:?} is named"), SOON, || {
            let (kind, text) = said(client.with_timeout(BRIEFLY).exists("/"));
            assert_eq!(kind, ErrorKind::NoConnection, "{reason:?}: {text}");
            text.contains(reason)
        });
        fake_server.behave();
        events.until(SessionEventKind::Resumed);
        assert_eq!(client.session_id(), session, "{reason:?}");
    }
}

#[test]
fn expiry_is_believed_and_the_next_session_opens() {
    // A negative timeout and the id of another session have the same meaning.
    for answer in [greeting(-5, 0), greeting(10_000, MINE)] {
        let (fake_server, client, events) = suspended(says(framed(&answer.0)));
        let expired = events.until(SessionEventKind::Expired);
        fake_server.behave();
        // Before that, the client may have connected to the bad server again.
        wait_until("the next session is served", SOON, || client.exists("/").is_ok());
        events.until(SessionEventKind::Connected);
        assert_ne!(client.session_id(), expired.session_id);
    }
}

/// One of these answers identifies ClickHouse Keeper, which ends a session with its connection.
#[test]
fn server_that_keeps_no_session_over_a_cut_is_refused_by_name() {
    let answer = |version: i32, session: i64, password: u8| {
        Bytes::default().int(version).int(10_000).long(session).buffer(&[password; 16])
    };
    for (name, answer) in [
        ("an empty password", answer(0, MINE, 0).raw(&[0])),
        ("another version", answer(1, MINE, 7).raw(&[0])),
        ("a session that is none", answer(0, -1, 7).raw(&[0])),
        ("not a word about reads", answer(0, MINE, 7)),
    ] {
        let manner = says(framed(&answer.0));
        let fake_server =
            FakeServer::new(shared_server().address(), move |connection| manner(connection));
        let connected = builder(&fake_server.address(), SESSION).connect_timeout(BRIEFLY).connect();
        let (_, text) = said(connected);
        assert!(text.contains("ClickHouse Keeper"), "{name}: {text}");
    }
}

#[test]
fn impossible_session_timeouts_are_refused() {
    let [short, long] = [Duration::from_nanos(1), Duration::from_millis(1 << 31)];
    for timeout in [Duration::ZERO, short, long, Duration::MAX] {
        let (kind, text) = said(ZooKeeper::connect("127.0.0.1:1", timeout));
        assert_eq!(kind, ErrorKind::BadArguments);
        assert!(text.contains(" ms, but must be 1 to 2147483647 ms"), "{text}");
    }
}

#[test]
fn every_server_of_the_list_is_named_with_its_own_reason() {
    let nobody = shared_proxy();
    nobody.refuse(true);
    let refused = nobody.address();
    let http = FakeServer::new(refused, |connection| {
        connection.stream.write_all(HTTP)?;
        connection.linger()
    });
    let begun = Instant::now();
    let servers = format!("{refused},{}", http.address());
    let error = ZooKeeper::builder(&servers).connect_timeout(SOON).connect().unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::ConnectFailed);
    assert_eq!(error.connect_failure(), Some(ConnectFailure::NoSession), "{text}");
    assert!(begun.elapsed() < SOON, "nothing was worth waiting for: {:?}", begun.elapsed());
    assert!(text.contains(&format!("{refused}: Connection refused")), "{text}");
    assert!(text.contains(&format!("{}: the answer begins with", http.address())), "{text}");
    // In spite of these two servers, a client connects to the good one.
    client_of(&format!("{servers},{}", connect_string()), SESSION).exists("/").unwrap();
}
