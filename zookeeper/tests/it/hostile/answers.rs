//! Servers that open a session and then answer with nonsense.

use std::io::{self, Write};
use std::iter;
use std::sync::Arc;

use zoolock_test_support::shared_server;
use zoolock_zookeeper::{ErrorKind, Op, Result, Watcher, ZooKeeper};

use super::bytes::{AUTH, PING, event, header, xid};
use crate::util::door::{Door, Guest, framed};
use crate::util::{SESSION, SOON, builder, client_of, said};

/// The longest answer that these clients accept.
const LONGEST: usize = 100_000;

type Call = fn(&ZooKeeper) -> Result<()>;
type Manner = fn(&mut Guest, i32) -> io::Result<()>;

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

/// A request, the server's reaction to its number, and the reported error.
const NONSENSE: &[(&str, Call, Manner, &str)] = &[
    (
        "half a header",
        EXISTS,
        |guest, xid| guest.send(&header(xid, 0).0[..7]),
        "a number of 8 bytes",
    ),
    ("no header", EXISTS, |guest, _| guest.send(&[]), "a number of 4 bytes where 0 are left"),
    ("no body", EXISTS, |guest, xid| guest.send(&header(xid, 0).0), "a number of 8 bytes where 0"),
    (
        "half a Stat",
        EXISTS,
        |guest, xid| guest.send(&header(xid, 0).raw(&[0; 30]).0),
        "a number of 8 bytes where 6 are left",
    ),
    (
        "more than a Stat",
        EXISTS,
        |guest, xid| guest.send(&header(xid, 0).stat().raw(b"abc").0),
        "3 bytes too many",
    ),
    (
        "more than nothing",
        DELETE,
        |guest, xid| guest.send(&header(xid, 0).raw(b"abc").0),
        "3 bytes too many",
    ),
    (
        "an error with a body",
        EXISTS,
        |guest, xid| guest.send(&header(xid, -101).stat().0),
        "68 bytes too many",
    ),
    (
        "data without an end",
        DATA,
        |guest, xid| guest.send(&header(xid, 0).int(i32::MAX).stat().0),
        "a buffer of 2147483647 bytes where 68 are left",
    ),
    (
        "data of -2 bytes",
        DATA,
        |guest, xid| guest.send(&header(xid, 0).int(-2).stat().0),
        "a buffer of -2 bytes",
    ),
    (
        "names without an end",
        CHILDREN,
        |guest, xid| guest.send(&header(xid, 0).int(i32::MAX).stat().0),
        "a list that cannot be in the 68 bytes left",
    ),
    (
        "-2 names",
        CHILDREN,
        |guest, xid| guest.send(&header(xid, 0).int(-2).stat().0),
        "a list that cannot be in the 68 bytes left",
    ),
    (
        "names that are not UTF-8",
        CHILDREN,
        |guest, xid| guest.send(&header(xid, 0).int(1).buffer(b"a\xff").stat().0),
        "a text that is not UTF-8: invalid utf-8 sequence of 1 bytes from index 1",
    ),
    (
        "an ACL without an end",
        ACL,
        |guest, xid| guest.send(&header(xid, 0).int(6).stat().0),
        "a list that cannot be in the 68 bytes left",
    ),
    (
        "a path that is not UTF-8",
        SYNC,
        |guest, xid| guest.send(&header(xid, 0).buffer(b"/\xc3\x28").0),
        "a text that is not UTF-8",
    ),
    (
        "results without an end",
        MULTI,
        |guest, xid| guest.send(&header(xid, 0).int(2).raw(&[0]).int(0).0),
        "a number of 4 bytes where 0 are left",
    ),
    (
        "the result of nothing that was asked",
        MULTI,
        |guest, xid| guest.send(&header(xid, 0).int(77).raw(&[0]).int(0).0),
        "the result of an operation 77",
    ),
    (
        "no results",
        MULTI,
        |guest, xid| guest.send(&header(xid, 0).int(-1).raw(&[1]).int(-1).0),
        "0 results of 2 operations",
    ),
    (
        "three results of two operations",
        MULTI,
        |guest, xid| guest.send(&header(xid, 0).raw(&[0, 0, 0, 13, 0, 0, 0, 0, 0].repeat(3)).0),
        "more than 2 results",
    ),
    (
        "failures of nothing",
        MULTI,
        |guest, xid| {
            let failed = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0].repeat(2);
            guest.send(&header(xid, 0).raw(&failed).int(-1).raw(&[1]).int(-1).0)
        },
        "failed operations without a cause",
    ),
    (
        "an answer to nobody",
        EXISTS,
        |guest, xid| guest.send(&header(xid + 77, 0).stat().0),
        "where 1 was due",
    ),
    (
        "a negative number",
        EXISTS,
        |guest, _| guest.send(&header(i32::MIN, 0).stat().0),
        "an answer to request -2147483648, where 1 was due",
    ),
    (
        "the answer to a ping",
        EXISTS,
        |guest, _| guest.send(&header(PING, 0).0),
        "an answer to a ping that was not sent",
    ),
    (
        "the answer to a ping with a body",
        EXISTS,
        |guest, _| guest.send(&header(PING, 0).stat().0),
        "68 bytes too many",
    ),
    (
        "the answer to credentials",
        EXISTS,
        |guest, _| guest.send(&header(AUTH, 0).0),
        "an answer to credentials that were not sent",
    ),
    (
        "an unknown event",
        EXISTS,
        |guest, _| guest.send(&event(99, b"/").0),
        "an event of the type 99",
    ),
    (
        "an event without a path",
        EXISTS,
        |guest, _| guest.send(&event(1, b"/").0[..24]),
        "a number of 4 bytes where 0 are left",
    ),
    (
        "an event about a path that is not UTF-8",
        EXISTS,
        |guest, _| guest.send(&event(1, b"/\xff").0),
        "a text that is not UTF-8",
    ),
    (
        "an event and more",
        EXISTS,
        |guest, _| guest.send(&event(1, b"/").raw(b"abc").0),
        "3 bytes too many",
    ),
    (
        "the session is over",
        EXISTS,
        |guest, xid| guest.send(&header(xid, -112).0),
        "the server refused a request with the code -112",
    ),
    (
        "the session is elsewhere",
        EXISTS,
        |guest, xid| guest.send(&header(xid, -118).0),
        "the server refused a request with the code -118",
    ),
    (
        "too long an answer",
        DATA,
        |guest, xid| guest.send(&header(xid, 0).buffer(&[7; LONGEST]).stat().0),
        "a frame of 100088 bytes, 100000 are allowed",
    ),
    (
        "a huge length",
        DATA,
        |guest, _| guest.stream.write_all(&[0x7f; 4]),
        "a frame of 2139062143 bytes, 100000 are allowed",
    ),
    (
        "HTTP",
        DATA,
        |guest, _| guest.stream.write_all(b"HTTP/1.1 408 Request Timeout\r\n\r\n"),
        "the answer begins with \"HTTP\": this is no ZooKeeper server",
    ),
    (
        "half an answer",
        DATA,
        |guest, _| guest.stream.write_all(&[0, 0, 1, 0, 7, 7]).and_then(|()| guest.leave()),
        "the server hung up",
    ),
    ("no answer", DATA, |guest, _| guest.leave(), "the server hung up"),
    ("the handshake again", EXISTS, |guest, _| guest.send(&[0; 37]), "an answer to request 0"),
];

#[test]
fn malformed_answer_is_named_and_the_session_continues() {
    let server = shared_server().address();
    for (name, call, manner, expected) in NONSENSE {
        let misbehave = |guest: &mut Guest| {
            let _session = guest.introduce()?;
            let number = xid(&guest.frame()?);
            manner(guest, number)?;
            guest.linger()
        };
        let door = Door::once(server, Arc::new(misbehave));
        let client = builder(&door.address(), SESSION).max_answer(LONGEST).connect().unwrap();
        let session = client.session_id();
        println!("{name}:");
        let (kind, text) = said(call(&client));
        assert_eq!(kind, ErrorKind::ConnectionLoss, "{name}: {text}");
        assert!(text.contains(expected), "{name}: {text:?} does not say {expected:?}");
        client.exists("/").unwrap();
        assert_eq!(client.session_id(), session, "{name}");
    }
}

/// The first callback asks again on the reader's own thread, which is the earliest moment.
#[test]
fn request_made_on_a_bad_answer_uses_the_next_connection() {
    for (name, manner) in [
        ("no body", (|guest, xid| guest.send(&header(xid, 0).0)) as Manner),
        ("the session is elsewhere", |guest, xid| guest.send(&header(xid, -118).0)),
    ] {
        let misbehave = move |guest: &mut Guest| {
            let _session = guest.introduce()?;
            let number = xid(&guest.frame()?);
            manner(guest, number)?;
            guest.linger()
        };
        let door = Door::once(shared_server().address(), Arc::new(misbehave));
        let client = client_of(&door.address(), SESSION);
        let (sender, again) = crossbeam_channel::bounded(1);
        let asking = client.clone();
        client.submit(|batch| {
            batch.exists("/", None).on_done(move |first| {
                let again = asking.submit(|batch| batch.exists("/", None));
                sender.send((first, again)).unwrap();
            });
        });
        let (first, again) = again.recv_timeout(SOON).unwrap();
        println!("{name}: {first:?}");
        assert!(first.is_err(), "{name}");
        let again = again.wait();
        println!("again: {again:?}");
        assert!(again.is_ok(), "{name}");
    }
}

/// Two requests are under way when the server begins to talk.
fn two_requests(talk: fn(&mut Guest, [i32; 2]) -> io::Result<()>) -> [Result<()>; 2] {
    let talk = move |guest: &mut Guest| {
        let _session = guest.introduce()?;
        let numbers = [xid(&guest.frame()?), xid(&guest.frame()?)];
        talk(guest, numbers)?;
        guest.linger()
    };
    let door = Door::once(shared_server().address(), Arc::new(talk));
    let client = client_of(&door.address(), SESSION);
    let pending =
        client.submit(|batch| [batch.exists("/zookeeper", None), batch.exists("/", None)]);
    let answers = pending.map(|pending| pending.wait().map(drop));
    println!("{answers:?}");
    client.exists("/").unwrap();
    answers
}

#[test]
fn answers_out_of_order_are_rejected() {
    let answers = two_requests(|guest, [_, second]| guest.send(&header(second, 0).stat().0));
    for answer in answers {
        let (kind, text) = said(answer);
        assert_eq!(kind, ErrorKind::ConnectionLoss);
        assert!(text.contains("an answer to request 2, where 1 was due"), "{text}");
    }
}

/// So do servers with a request that they do not know.
#[test]
fn refusal_out_of_order_is_of_its_request() {
    let answers = two_requests(|guest, [first, second]| {
        guest.send(&header(second, -6).0)?;
        guest.send(&header(first, 0).stat().0)?;
        // The connection goes on.
        let third = xid(&guest.frame()?);
        guest.send(&header(third, 0).stat().0)
    });
    let [first, second] = answers;
    first.unwrap();
    assert_eq!(said(second).0, ErrorKind::Unimplemented);
}

/// A hold's token is the zxid of its create.
#[test]
fn write_that_is_older_than_what_was_seen_is_rejected() {
    let door = Door::once(
        shared_server().address(),
        Arc::new(|guest: &mut Guest| {
            let _session = guest.introduce()?;
            let read = xid(&guest.frame()?);
            guest.send(&header(read, 0).stat().0)?;
            let write = xid(&guest.frame()?);
            guest.send(&header(write, 0).0)?;
            guest.linger()
        }),
    );
    let client = client_of(&door.address(), SESSION);
    client.exists("/").unwrap();
    let (kind, text) = said(client.delete("/none", None));
    println!("{text}");
    assert_eq!(kind, ErrorKind::ConnectionLoss);
    assert!(text.contains("a write has zxid 0x1 behind 0x1"), "{text}");
    client.exists("/").unwrap();
}

#[test]
fn unexpected_events_change_nothing() {
    const EVENTS: usize = 200_000;
    let flood = |guest: &mut Guest| {
        let _session = guest.introduce()?;
        let number = xid(&guest.frame()?);
        let paths: [&[u8]; 4] = [b"/", b"", b"no path at all", "/\u{1f512}".as_bytes()];
        let events = (0..EVENTS).map(|index| event([1, 2, 3, 4, -1][index % 5], paths[index % 4]));
        let bytes = events.flat_map(|event| framed(&event.0));
        guest.stream.write_all(&bytes.collect::<Vec<u8>>())?;
        guest.send(&header(number, 0).stat().0)?;
        guest.linger()
    };
    let door = Door::once(shared_server().address(), Arc::new(flood));
    // Two thirds of it are enough to read them all on a busy machine.
    let client = client_of(&door.address(), SOON);
    let (watcher, events) = Watcher::channel();
    let stat = client.exists_w("/watched", &watcher).unwrap();
    println!("{stat:?} behind {EVENTS} events");
    assert_eq!(door.connections(), 1);
    assert!(events.is_empty(), "{:?}", events.try_recv());
}

#[test]
fn calls_meet_their_deadline_at_a_server_that_breaks_connections() {
    let grant_and_break = |guest: &mut Guest| {
        let _session = guest.introduce()?;
        guest.frame()?;
        guest.send(b"nonsense")
    };
    let door = Door::new(shared_server().address(), grant_and_break);
    let client = client_of(&door.address(), SESSION);
    let session = client.session_id();
    let texts: Vec<String> = iter::repeat_with(|| {
        let (kind, text) = said(client.exists("/"));
        let is_loss = [ErrorKind::ConnectionLoss, ErrorKind::Timeout].contains(&kind);
        assert!(is_loss, "{text}");
        text
    })
    .take(20)
    .collect();
    assert!(texts.iter().any(|text| text.contains("a number of ")), "{texts:?}");
    door.behave();
    // The first may have been under way when the door changed its manner.
    let _ = client.exists("/");
    client.exists("/").unwrap();
    assert_eq!(client.session_id(), session);
}
