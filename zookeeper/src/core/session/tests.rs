//! Tests of single rules of the session.

use super::*;
use crate::core::connection::Share;
use crate::error::code;

#[derive(Clone)]
struct Nobody;

impl Listen for Nobody {
    fn is_live(&self) -> bool {
        false
    }

    fn id(&self) -> usize {
        0
    }
}

/// Takes the handshake: a session of 30 s.
fn open(core: &mut Core<i32, Nobody>, now: Moment) {
    core.dialed(true, now);
    core.receive(&granted(), now).expect("a session");
}

/// Returns the answer to a handshake.
fn granted() -> Vec<u8> {
    let (timeout, session) = (30_000_i32.to_be_bytes(), 7_i64.to_be_bytes());
    [&[0; 4][..], &timeout, &session, &16_i32.to_be_bytes(), &[7; 16], &[0]].concat()
}

fn opened(now: Moment) -> Core<i32, Nobody> {
    let mut core = Core::new(Duration::from_secs(30), now);
    open(&mut core, now);
    core
}

#[test]
fn request_numbers_wrap_around_and_skip_reserved_ones() {
    let now = Moment::now();
    let mut core = opened(now);
    core.outbox.xid = i32::MAX - 2;
    core.outbox.bytes.clear();
    for slot in 0..4 {
        let mut call = Call::nobodys(OpCode::Sync, |_| {});
        call.slot = Some(slot);
        core.submit([call], now);
    }
    let sent: Vec<i32> = core
        .outbox
        .bytes
        .chunks(12)
        .map(|frame| i32::from_be_bytes([frame[4], frame[5], frame[6], frame[7]]))
        .collect();
    println!("{sent:?}");
    assert_eq!(sent, [i32::MAX - 1, i32::MAX, 1, 2]);
    for (slot, xid) in (0..).zip(sent) {
        let mut answer = xid.to_be_bytes().to_vec();
        answer.extend([0; 12]);
        let answer = core.receive(&answer, now).expect("it belongs to this request");
        assert_eq!(answer.into_iter().map(|answer| answer.slot).collect::<Vec<_>>(), [slot]);
    }
}

/// Whether a request that was sent is carried out is not known, however its session ends.
#[test]
fn request_that_was_sent_does_not_fail_as_if_it_was_not() {
    let now = Moment::now();
    for (is_sent, expires, expected) in [
        (true, false, ErrorKind::ConnectionLoss),
        (true, true, ErrorKind::ConnectionLoss),
        (false, false, ErrorKind::Closed),
        (false, true, ErrorKind::SessionExpired),
    ] {
        let mut core = opened(now);
        let mut call = Call::nobodys(OpCode::Delete, |_| {});
        (call.slot, call.repeat) = (Some(1), expires);
        let (sent, waiting) = if is_sent { (Some(call), None) } else { (None, Some(call)) };
        core.submit(sent, now);
        if expires || !is_sent {
            core.broke("it is cut", now);
        }
        core.submit(waiting, now);
        if expires {
            core.dialed(true, now);
            core.receive(&[&[0; 16][..], &16_i32.to_be_bytes(), &[0; 17]].concat(), now).unwrap();
        } else {
            core.end();
        }
        let is_it =
            |output| matches!(output, Output::Answer(1, Err(error)) if error.kind() == expected);
        assert!(core.answers().into_iter().any(is_it), "{expected:?}, sent: {is_sent}");
    }
}

/// Only handshakes could keep the session alive, and none was sent.
#[test]
fn client_retries_at_once_after_a_silence_on_a_used_connection() {
    let start = Moment::now();
    for is_held in [false, true] {
        let mut core = opened(start);
        if is_held {
            core.keep_lease(start);
        }
        core.used(start);
        let mut silent = start;
        while !core.is_doomed() {
            let next = core.tick(silent) + Duration::from_millis(1);
            silent = start.after(next - start.monotonic);
        }
        core.broke("it is silent", silent);
        // Behind a silent server, there is time for another one.
        assert!(!is_held || core.patience(silent) * 2 <= core.look_at_lease(silent).1);
        let (now, next) = (start.after(Duration::from_secs(31)), Duration::from_secs(32));
        println!("held: {is_held}, silent for {:?}", silent.monotonic - start.monotonic);
        assert!(core.next_handshake(now) <= start.after(next).monotonic);
        open(&mut core, now);
        assert!(core.vitals.under_way() > 0, "it asks at once, for it has little time");
    }
}

/// A busy server may refuse the first requests of each session. With short sessions, a client that
/// left it at once would never get a request through.
#[test]
fn new_session_has_time_for_a_busy_server() {
    let start = Moment::now();
    let mut core: Core<i32, Nobody> = Core::new(Duration::from_secs(30), start);
    core.keep_lease(start);
    let late = start.after(Duration::from_secs(20));
    open(&mut core, late);
    let mut now = late;
    while core.vitals.under_way() == 0 {
        now = now.after(core.tick(now) + Duration::from_millis(1) - now.monotonic);
    }
    let xid = core.outbox.xid;
    let busy = [&xid.to_be_bytes()[..], &[0; 8], &code::THROTTLED.to_be_bytes()].concat();
    core.receive(&busy, now).unwrap();
    assert!(!core.is_doomed());
}

/// Otherwise, each long pause of a process would end its connection.
#[test]
fn answers_that_arrived_during_a_pause_are_read_first() {
    let mut now = Moment::now();
    let mut core = opened(now);
    core.used(now);
    while core.vitals.under_way() == 0 {
        now = now.after(core.tick(now) + Duration::from_millis(1) - now.monotonic);
    }
    let paused = now.after(Duration::from_secs(25));
    let next = core.tick(paused);
    assert!(!core.is_doomed());
    core.tick(paused.after(next - paused.monotonic));
    assert!(core.is_doomed());
}

#[test]
fn pings_alone_keep_no_session_alive() {
    for latency in [10, 100, 300, 1000, 3000] {
        let start = Moment::now();
        let at = |passed: Duration| start.after(passed);
        let mut core = opened(start);
        core.used(start);
        core.outbox.bytes.clear();
        let mut call = Call::nobodys(OpCode::Delete, |_| {});
        call.repeat = true;
        core.submit([call], start);
        let mut way: VecDeque<(Duration, Vec<u8>)> = VecDeque::new();
        let mut now = Duration::ZERO;
        while now < Duration::from_secs(600) && !core.is_doomed() {
            core.tick(at(now));
            let out = std::mem::take(&mut core.outbox.bytes);
            let mut rest = &out[..];
            while rest.len() >= 4 {
                let length = i32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
                let xid: [u8; 4] = rest[4..8].try_into().unwrap();
                rest = &rest[4 + length..];
                let code: i32 = if i32::from_be_bytes(xid) == message::PING {
                    code::OK
                } else {
                    code::CONNECTION_LOSS
                };
                let answer = [&xid[..], &[0; 8], &code.to_be_bytes()].concat();
                way.push_back((now + Duration::from_millis(latency), answer));
            }
            now += Duration::from_millis(7);
            while way.front().is_some_and(|(due, _)| *due <= now) {
                core.receive(&way.pop_front().unwrap().1, at(now)).unwrap();
            }
        }
        assert!(core.is_doomed() && now < Duration::from_secs(60), "{latency} ms: {now:?}");
    }
}

/// A refusal of the client's own request ends the connection, because watches are lost.
#[test]
fn refused_watches_of_a_caller_fail_alone() {
    let now = Moment::now();
    let mut core = opened(now);
    let mut call = Call::nobodys(OpCode::SetWatches, |_| {});
    (call.slot, call.effect) = (Some(7), Effect::WatchEach(vec!["/a".into()], Nobody));
    core.submit([call], now);
    let answer = [&core.outbox.xid.to_be_bytes()[..], &[0; 8], &code::THROTTLED.to_be_bytes()];
    let answers = core.receive(&answer.concat(), now).unwrap();
    let told: Vec<_> = answers.iter().map(|answer| (answer.slot, answer.code)).collect();
    assert_eq!((told, core.is_doomed()), (vec![(7, code::THROTTLED)], false));
    assert!(core.watches.take(EventType::NodeDeleted, "/a").is_empty());
}

/// A server that is behind what the client has seen hangs up. Asking it whether the session exists extends the session.
#[test]
fn servers_that_are_behind_do_not_keep_the_session_alive() {
    let (start, timeout) = (Moment::now(), Duration::from_secs(30));
    let mut core = opened(start);
    core.session.zxid = 5;
    core.used(start);
    core.broke("it is cut", start);
    let (mut now, mut asked) = (Duration::ZERO, Vec::new());
    while asked.len() < 4 {
        let next = core.next_handshake(start.after(now)) - start.monotonic;
        now = now.max(next) + Duration::from_millis(100);
        assert!(now < timeout * 20, "{asked:?}");
        core.dialed(true, start.after(now));
        let (_, zxid) = core.outbox.bytes.split_at(8);
        if zxid.starts_with(&0_i64.to_be_bytes()) {
            asked.push(now);
            core.receive(&granted(), start.after(now)).expect("the session is alive");
            assert!(core.is_doomed());
        }
        core.broke("the server hangs up", start.after(now));
    }
    println!("{asked:?}");
    assert!(asked.windows(2).all(|two| two[1] - two[0] > timeout * 3 / 2), "{asked:?}");
}

/// Perhaps the server hangs up because the transactions are too long for it.
#[test]
fn transactions_get_shorter_after_each_connection_that_ends_with_one() {
    let now = Moment::now();
    let mut core: Core<i32, Nobody> = Core::new(Duration::from_secs(30), now);
    let mut longest = Vec::new();
    for _ in 0..8 {
        open(&mut core, now);
        core.outbox.bytes.clear();
        core.submit(
            (0..40).map(|slot| {
                let mut call = Call::nobodys(OpCode::Delete, |out| out.extend([0; 2000]));
                (call.slot, call.share) = (Some(slot), Some(Share { ops: 1, created_in: None }));
                call
            }),
            now,
        );
        let (mut rest, mut most) = (&core.outbox.bytes[..], 0);
        while let Some((length, behind)) = rest.split_first_chunk() {
            let length = u32::from_be_bytes(*length) as usize;
            most = most.max(length);
            rest = &behind[length..];
        }
        longest.push(most);
        core.broke("it is too long", now);
    }
    println!("{longest:?}");
    assert!((30_000..33_000).contains(&longest[0]));
    assert!(longest.is_sorted_by(|before, after| before >= after));
    assert!(longest[7] < 4300, "two at a time");
}
