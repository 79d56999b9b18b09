//! Servers that never complete a handshake.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{iter, thread};

use zoolock_test_support::{connect_string, shared_server, wait_until};
use zoolock_zookeeper::{Builder, ErrorKind, SessionEventKind, ZooKeeper};

use super::bytes::{Bytes, greeting};
use crate::util::door::{Door, Guest, Manner, framed};
use crate::util::{
    BRIEFLY, OwnProcess, SESSION, SOON, Told, builder, client_of, files, in_own_process, said,
    threads,
};

const MINE: i64 = 0x1234;
const HUNG_UP: &str = "the server hung up";
const TOO_LATE: &str = "no answer to the handshake in ";

/// A server's greeting, and its name.
struct Greeting {
    name: String,
    manner: Manner,
    /// The error contains one of these.
    said: Vec<&'static str>,
}

fn greeter(
    name: impl Into<String>,
    said: &[&'static str],
    manner: impl Fn(&mut Guest) -> io::Result<()> + Send + Sync + 'static,
) -> Greeting {
    Greeting { name: name.into(), manner: Arc::new(manner), said: said.to_vec() }
}

/// Reads the handshake, sends these bytes, and waits.
fn says(name: &str, bytes: Vec<u8>, said: &'static str) -> Greeting {
    greeter(name, &[said], move |guest| {
        guest.frame()?;
        guest.stream.write_all(&bytes)?;
        guest.linger()
    })
}

fn says_frame(name: &str, frame: Bytes, said: &'static str) -> Greeting {
    says(name, framed(&frame.0), said)
}

/// Other kinds of servers, and answers that are no handshake.
fn nonsense() -> Vec<Greeting> {
    let sound = greeting(10_000, MINE).0;
    let short = |length: usize| Bytes(sound[..length].to_vec());
    vec![
        says(
            "HTTP",
            b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec(),
            "the answer begins with \"HTTP\": this is no ZooKeeper server",
        ),
        says(
            "SSH",
            b"SSH-2.0-OpenSSH_9.2p1\r\n".to_vec(),
            "the answer begins with \"SSH-\": this is no ZooKeeper server",
        ),
        says("a TLS alert", b"\x15\x03\x03\0\x02\x02\x46".to_vec(), "speaks TLS at this port"),
        says(
            "a huge length",
            i32::MAX.to_be_bytes().to_vec(),
            "a frame of 2147483647 bytes, 67108864 are allowed",
        ),
        says("a length of -1", vec![0xff; 4], "a frame of 4294967295 bytes"),
        says("the least length", i32::MIN.to_be_bytes().to_vec(), "a frame of 2147483648 bytes"),
        says("an empty frame", vec![0; 4], "a number of 4 bytes where 0 are left"),
        says("many empty frames", vec![0; 4000], "a number of 4 bytes where 0 are left"),
        says_frame("no password", short(16), "a number of 4 bytes where 0 are left"),
        says_frame("half a password", short(30), "a buffer of 16 bytes where 10 are left"),
        says_frame("a password of -2 bytes", short(16).int(-2), "a buffer of -2 bytes"),
        says_frame(
            "a password without an end",
            short(16).int(i32::MAX),
            "a buffer of 2147483647 bytes where 0 are left",
        ),
        says_frame("neither true nor false", short(36).raw(&[7]), "7 as a truth value"),
        says_frame("too much", greeting(10_000, MINE).raw(b"abc"), "3 bytes too many"),
        says_frame("only reads", short(36).raw(&[1]), "the server only takes reads"),
        says_frame("a timeout of 0", greeting(0, MINE), "no session where a new one was asked for"),
        says_frame("a timeout of -1", greeting(-1, MINE), "no session where a new one"),
        says_frame("the least timeout", greeting(i32::MIN, MINE), "no session where a new one"),
        says_frame("a short timeout", greeting(7, MINE), "a session timeout of 7 ms is too short"),
        says_frame("no session", greeting(10_000, 0), "no session where a new one was asked for"),
    ]
}

/// Servers that hang up after each byte that they read or write.
fn hang_ups() -> Vec<Greeting> {
    let request = 4 + 45;
    let answer = framed(&greeting(10_000, MINE).0);
    // Closing with unread bytes resets the connection.
    let reset = "Connection reset by peer";
    let readers = [0, 1, 3, 4, 5, 8, 16, 24, 28, 44, request - 1, request].map(|count| {
        greeter(format!("hangs up after {count} bytes"), &[HUNG_UP, reset], move |guest| {
            guest.stream.read_exact(&mut vec![0; count])
        })
    });
    let writers = (1..answer.len()).map(|count| {
        let begin = answer[..count].to_vec();
        greeter(format!("hangs up after {count} bytes of answer"), &[HUNG_UP], move |guest| {
            guest.frame()?;
            guest.stream.write_all(&begin)
        })
    });
    readers.into_iter().chain(writers).collect()
}

/// Servers that take their time.
fn sluggards() -> Vec<Greeting> {
    let mute = greeter("never answers", &[TOO_LATE], |guest| guest.linger());
    let deaf = greeter("never even reads", &[TOO_LATE], |guest| guest.ignore());
    let slow = greeter("answers a byte a second", &[TOO_LATE], |guest| {
        guest.frame()?;
        for byte in framed(&greeting(10_000, MINE).0) {
            guest.stream.write_all(&[byte])?;
            if guest.has_left() {
                return Ok(());
            }
            thread::sleep(Duration::from_secs(1));
        }
        Ok(())
    });
    vec![mute, deaf, slow]
}

/// Expects the connect to fail, and returns its error.
#[track_caller]
fn refused(name: &str, builder: Builder, timeout: Duration) -> String {
    let begun = Instant::now();
    println!("{name}:");
    let (kind, text) = said(builder.connect_timeout(timeout).connect());
    let took = begun.elapsed();
    assert_eq!(kind, ErrorKind::ConnectFailed, "{name}: {text}");
    assert!(took < timeout + SOON, "{name}: it took {took:?}");
    text
}

/// All threads and files of this process.
fn belongings() -> (Vec<String>, usize) {
    (threads(), files())
}

/// Expects the client to be refused with a reason, to leave nothing behind, and to be served once the server
/// is good or another one is.
fn check(greeting: &Greeting, timeout: Duration) {
    let server = shared_server_address();
    let before = belongings();
    let name = &greeting.name;
    let manner = Arc::clone(&greeting.manner);
    let door = Door::new(server, move |guest| manner(guest));
    let bad = door.address();
    // A short timeout, so that silent servers get little time.
    let builder = ZooKeeper::builder(&bad).session_timeout(Duration::from_secs(3));
    let mut timeout = timeout;
    let text = loop {
        let text = refused(name, builder.clone(), timeout);
        if greeting.said.iter().any(|said| text.contains(said)) {
            break text;
        }
        // A slow machine may need longer to notice silence.
        assert!(timeout < SOON, "{name}: {text:?} says none of {:?}", greeting.said);
        timeout *= 4;
    };
    assert!(text.contains(&bad), "{name}: {text:?} does not say who");
    door.behave();
    let client = client_of(&bad, SESSION);
    client.exists("/").unwrap();
    client.close().unwrap();
    drop(client);
    drop(door);
    let gone = || belongings() == before;
    wait_until(&format!("{name} has left nothing behind"), SOON, gone);
}

/// The server of the process that started this one.
fn shared_server_address() -> SocketAddr {
    connect_string().parse().unwrap()
}

#[test]
fn invalid_handshake_is_named_and_leaves_nothing_behind() {
    let name = "hostile::handshakes::invalid_handshake_is_named_and_leaves_nothing_behind";
    if in_own_process(name) == OwnProcess::Yes {
        let all = nonsense().into_iter().chain(hang_ups());
        let count = all.map(|greeting| check(&greeting, SOON)).count();
        println!("{count} servers, {:?}", belongings());
    }
}

#[test]
fn silent_or_slow_server_has_bounded_time() {
    let name = "hostile::handshakes::silent_or_slow_server_has_bounded_time";
    if in_own_process(name) == OwnProcess::Yes {
        // Long enough to give up one server and try it again.
        sluggards().iter().for_each(|greeting| check(greeting, Duration::from_secs(3)));
    }
}

#[test]
fn client_skips_a_bad_server_for_a_good_one() {
    let server = shared_server().address();
    let slow = greeter("never answers", &[], |guest| guest.linger());
    let sorts: Vec<Greeting> =
        nonsense().into_iter().step_by(5).chain(hang_ups().into_iter().step_by(17)).collect();
    for greeting in sorts.iter().chain(iter::once(&slow)) {
        let manner = Arc::clone(&greeting.manner);
        let door = Door::new(server, move |guest| manner(guest));
        let servers = format!("{},{server}", door.address());
        // Each client chooses the first server at random.
        let mut clients = 0;
        while door.connections() == 0 {
            let client = client_of(&servers, Duration::from_secs(3));
            client.exists("/").unwrap();
            clients += 1;
        }
        println!("{}: met by client {clients}, which is served all the same", greeting.name);
    }
}

#[test]
fn bad_answer_to_a_resume_is_named_and_a_good_server_resumes() {
    let sorts = [
        greeter("only reads", &["the server only takes reads"], |guest| {
            // The session that the client asks for.
            let session = guest.frame()?[16..24].try_into().unwrap();
            let session = i64::from_be_bytes(session);
            let bytes = Bytes::default().int(0).int(10_000).long(session);
            guest.send(&bytes.buffer(&[7; 16]).raw(&[1]).0)?;
            guest.linger()
        }),
        says("HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "this is no ZooKeeper server"),
        says_frame("too much", greeting(10_000, MINE).raw(b"abc"), "3 bytes too many"),
        says("a huge length", vec![0x7f; 4], "bytes, 67108864 are allowed"),
        greeter("hangs up", &[HUNG_UP], |guest| guest.frame().map(drop)),
        greeter("never answers", &[TOO_LATE], |guest| guest.linger()),
    ];
    let server = shared_server().address();
    for Greeting { name, manner, said: expected } in sorts {
        let door = Door::new(server, Guest::pass_on);
        let client = client_of(&door.address(), SESSION);
        let (session, told) = (client.session_id(), Told::by(&client));
        door.change(move |guest| manner(guest));
        told.until(SessionEventKind::Suspended);
        // The first reason may be the cut.
        wait_until(&format!("{name} is named"), SOON, || {
            let (kind, text) = said(client.with_timeout(BRIEFLY).exists("/"));
            assert_eq!(kind, ErrorKind::NoConnection, "{name}: {text}");
            expected.iter().any(|expected| text.contains(expected))
        });
        door.behave();
        client.exists("/").unwrap();
        println!("{name}: {:?}", told.kinds());
        assert_eq!(client.session_id(), session, "{name}");
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
        told.until(SessionEventKind::Connected);
        client.exists("/").unwrap();
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
