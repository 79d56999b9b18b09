//! Servers that never complete a handshake.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zoolock_test_support::{connect_string, shared_server, wait_until};
use zoolock_zookeeper::{ErrorKind, SessionEventKind, ZooKeeper};

use super::bytes::{Bytes, greeting};
use crate::util::door::{Door, Guest, Manner, framed};
use crate::util::{
    BRIEFLY, SESSION, SOON, Told, builder, client_of, files, in_own_process, said, threads,
};

const MINE: i64 = 0x1234;
const HUNG_UP: &str = "the server hung up";
const TOO_LATE: &str = "no answer to the handshake in ";

/// How a server greets, and the errors of which one is reported.
type Greeting = (Manner, Vec<&'static str>);

fn greeter(
    said: &[&'static str],
    manner: impl Fn(&mut Guest) -> io::Result<()> + Send + Sync + 'static,
) -> Greeting {
    (Arc::new(manner), said.to_vec())
}

/// Reads the handshake, sends these bytes, and waits.
fn says(bytes: Vec<u8>, said: &'static str) -> Greeting {
    greeter(&[said], move |guest| {
        guest.frame()?;
        guest.stream.write_all(&bytes)?;
        guest.linger()
    })
}

/// Other kinds of servers, and answers that are no handshake.
fn nonsense() -> Vec<Greeting> {
    let sound = greeting(10_000, MINE).0;
    let short = |length: usize| Bytes(sound[..length].to_vec());
    let others: [(&[u8], _); 8] = [
        (
            b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
            "the answer begins with \"HTTP\": this is no ZooKeeper server",
        ),
        (
            b"SSH-2.0-OpenSSH_9.2p1\r\n",
            "the answer begins with \"SSH-\": this is no ZooKeeper server",
        ),
        (b"\x15\x03\x03\0\x02\x02\x46", "speaks TLS at this port"),
        (&i32::MAX.to_be_bytes(), "a frame of 2147483647 bytes, 67108864 are allowed"),
        (&[0xff; 4], "a frame of 4294967295 bytes"),
        (&i32::MIN.to_be_bytes(), "a frame of 2147483648 bytes"),
        (&[0; 4], "a number of 4 bytes where 0 are left"),
        (&[0; 4000], "a number of 4 bytes where 0 are left"),
    ];
    let frames = [
        // Without a password, with a part of it, and with impossible ones.
        (short(16), "a number of 4 bytes where 0 are left"),
        (short(30), "a buffer of 16 bytes where 10 are left"),
        (short(16).int(-2), "a buffer of -2 bytes"),
        (short(16).int(i32::MAX), "a buffer of 2147483647 bytes where 0 are left"),
        // A server may only take reads, which is true or false.
        (short(36).raw(&[7]), "7 as a truth value"),
        (short(36).raw(&[1]), "the server only takes reads"),
        (greeting(10_000, MINE).raw(b"abc"), "3 bytes too many"),
        (greeting(0, MINE), "no session where a new one was asked for"),
        (greeting(-1, MINE), "no session where a new one"),
        (greeting(i32::MIN, MINE), "no session where a new one"),
        (greeting(7, MINE), "a session timeout of 7 ms is too short"),
        (greeting(10_000, 0), "no session where a new one was asked for"),
    ];
    let others = others.into_iter().map(|(bytes, said)| says(bytes.to_vec(), said));
    others.chain(frames.map(|(frame, said)| says(framed(&frame.0), said))).collect()
}

/// Servers that hang up after each byte that they read or write.
fn hang_ups() -> impl Iterator<Item = Greeting> {
    let request = 4 + 45;
    let answer = framed(&greeting(10_000, MINE).0);
    // Closing with unread bytes resets the connection.
    let reset = "Connection reset by peer";
    let readers = [0, 1, 3, 4, 5, 8, 16, 24, 28, 44, request - 1, request].map(|count| {
        greeter(&[HUNG_UP, reset], move |guest| guest.stream.read_exact(&mut vec![0; count]))
    });
    let writers = (1..answer.len()).map(move |count| {
        let begin = answer[..count].to_vec();
        greeter(&[HUNG_UP], move |guest| {
            guest.frame()?;
            guest.stream.write_all(&begin)
        })
    });
    readers.into_iter().chain(writers)
}

/// Servers that take their time: one never answers, one never even reads, and one sends a byte a second.
fn sluggards() -> [Greeting; 3] {
    let slow = greeter(&[TOO_LATE], |guest| {
        guest.frame()?;
        for byte in framed(&greeting(10_000, MINE).0) {
            guest.stream.write_all(&[byte])?;
            if guest.has_left_within(Duration::from_secs(1))? {
                return Ok(());
            }
        }
        Ok(())
    });
    [greeter(&[TOO_LATE], Guest::linger), greeter(&[TOO_LATE], Guest::ignore), slow]
}

/// All threads and files of this process.
fn belongings() -> (Vec<String>, usize) {
    (threads(), files())
}

/// Expects the client to be refused with a reason, to leave nothing behind, and to be served once the server
/// is good.
fn check((manner, expected): Greeting, mut timeout: Duration) {
    let before = belongings();
    let door = Door::new(shared_server_address(), move |guest| manner(guest));
    let bad = door.address();
    // A short timeout, so that silent servers get little time.
    let builder = ZooKeeper::builder(&bad).session_timeout(Duration::from_secs(3));
    let text = loop {
        let begun = Instant::now();
        let (kind, text) = said(builder.clone().connect_timeout(timeout).connect());
        let took = begun.elapsed();
        assert_eq!(kind, ErrorKind::ConnectFailed, "{expected:?}: {text}");
        assert!(took < timeout + SOON, "{expected:?}: it took {took:?}");
        if expected.iter().any(|expected| text.contains(expected)) {
            break text;
        }
        // A slow machine may need longer to notice silence.
        assert!(timeout < SOON, "{text:?} says none of {expected:?}");
        timeout *= 4;
    };
    assert!(text.contains(&bad), "{text:?} does not say who");
    door.behave();
    let client = client_of(&bad, SESSION);
    client.exists("/").unwrap();
    client.close().unwrap();
    drop(client);
    drop(door);
    wait_until(&format!("nothing is left after {expected:?}"), SOON, || belongings() == before);
}

/// The server of the process that started this one.
fn shared_server_address() -> SocketAddr {
    connect_string().parse().unwrap()
}

#[test]
fn invalid_handshake_is_named_and_leaves_nothing_behind() {
    in_own_process(|| {
        let all = nonsense().into_iter().chain(hang_ups());
        let count = all.map(|greeting| check(greeting, SOON)).count();
        println!("{count} servers, {:?}", belongings());
    });
}

#[test]
fn silent_or_slow_server_has_bounded_time() {
    // Long enough to give up one server and try it again.
    in_own_process(|| {
        for greeting in sluggards() {
            check(greeting, Duration::from_secs(3));
        }
    });
}

#[test]
fn bad_answer_to_a_resume_is_named_and_a_good_server_resumes() {
    let only_reads = greeter(&["the server only takes reads"], |guest| {
        // The session that the client asks for.
        let session = guest.frame()?[16..24].try_into().unwrap();
        let session = i64::from_be_bytes(session);
        let bytes = Bytes::default().int(0).int(10_000).long(session);
        guest.send(&bytes.buffer(&[7; 16]).raw(&[1]).0)?;
        guest.linger()
    });
    let hangs_up = greeter(&[HUNG_UP], |guest| guest.frame().map(drop));
    let [silent, ..] = sluggards();
    // Another server, an impossible length, and more than a handshake.
    let [http, long, more] = [0, 3, 14].map(|index| nonsense().swap_remove(index));
    let server = shared_server().address();
    for (manner, expected) in [only_reads, hangs_up, silent, http, long, more] {
        let door = Door::new(server, Guest::pass_on);
        let client = client_of(&door.address(), SESSION);
        let (session, told) = (client.session_id(), Told::by(&client));
        door.change(move |guest| manner(guest));
        told.until(SessionEventKind::Suspended);
        // The first reason may be the cut.
        wait_until(&format!("{expected:?} is named"), SOON, || {
            let (kind, text) = said(client.with_timeout(BRIEFLY).exists("/"));
            assert_eq!(kind, ErrorKind::NoConnection, "{expected:?}: {text}");
            expected.iter().any(|expected| text.contains(expected))
        });
        door.behave();
        client.exists("/").unwrap();
        println!("{:?}", told.kinds());
        assert_eq!(client.session_id(), session, "{expected:?}");
    }
}

#[test]
fn expiry_is_believed_and_the_next_session_opens() {
    let server = shared_server().address();
    // A negative timeout and another session mean the same.
    for answer in [greeting(-5, 0), greeting(10_000, MINE)] {
        let door = Door::new(server, Guest::pass_on);
        let client = client_of(&door.address(), SESSION);
        let (session, told) = (client.session_id(), Told::by(&client));
        door.change(move |guest| {
            guest.frame()?;
            guest.send(&answer.0)?;
            guest.linger()
        });
        told.until(SessionEventKind::Expired);
        door.behave();
        // The client may have come once more before that.
        wait_until("the next session is served", SOON, || client.exists("/").is_ok());
        told.until(SessionEventKind::Connected);
        println!("{:?}", told.kinds());
        assert_ne!(client.session_id(), session);
    }
}

/// ClickHouse Keeper shows itself by one of these. It ends a session with its connection.
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
        let door = Door::new(shared_server().address(), move |guest| {
            guest.frame()?;
            guest.send(&answer.0)?;
            guest.linger()
        });
        let connected = builder(&door.address(), SESSION).connect_timeout(BRIEFLY).connect();
        let text = connected.unwrap_err().to_string();
        println!("{name}: {text}");
        assert!(text.contains("ClickHouse Keeper"), "{name}: {text}");
    }
}
