//! Real answers, of which some bytes are changed in transit. The client never panics or hangs: every request is
//! answered, and the client continues with a server whose bytes are not changed.
//!
//! `ZOOLOCK_FUZZ_SECONDS` is the duration, and `ZOOLOCK_FUZZ_SEED` is the first seed (1 by default).

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use zoolock_test_support::{shared_server, wait_until};
use zoolock_zookeeper::{Acl, Batch, CreateMode, Op, Pending, Watcher};

use crate::util::fake_server::{Connection, FakeServer, framed, read_frame};
use crate::util::{SHORT, SOON, builder, root};

const THREADS: u64 = 16;
/// The number of seeds if no duration is set.
const INPUTS: u64 = 400;
/// The number of connections of each client on which bytes are changed.
const BAD: u64 = 2;

/// Lengths, counts, numbers and codes that might confuse a client.
const INTERESTING: [i64; 20] = [
    -1, -2, -4, -8, -101, -110, -112, -115, -118, -127, 0, 1, 2, 5, 13, 0x100, 0xffff, 0xfff_ffff,
    0x7fffffff, 0x80000000,
];
const OTHERS: [&[u8]; 4] =
    [b"HTTP/1.1 400\r\n\r\n", b"\x15\x03\x03\0\x02\x02\x46", b"SSH-2.0-x\r\n", &[0xff; 4]];

/// A generator of numbers that look random and depend only on the seed (splitmix64).
struct Random(u64);

impl Random {
    /// Returns a number below `end`, which must not be 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut next = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        next = (next ^ (next >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (next ^ (next >> 31)) as usize % end
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Returns the bytes that are sent instead of this frame.
fn mutated(mut frame: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let at = random.below(frame.len().max(1));
    // Most fields begin at a multiple of four. The error code of an answer begins at 12.
    let field = random.pick(&[0, 12, at & !3, at & !3]);
    match random.below(10) {
        0 => frame.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (at % 8)),
        1 => frame.truncate(random.pick(&[at, at & !3, 16])),
        2 => frame.extend(vec![0; 1 + at % 8]),
        3 => drop(frame.drain(at..frame.len().min(at + 8))),
        4..7 => {
            let number = (random.pick(&INTERESTING) as i32).to_be_bytes();
            frame.iter_mut().skip(field).zip(number).for_each(|(byte, new)| *byte = new);
        }
        7 => return framed(&frame).repeat(2),
        8 => return [random.pick(&OTHERS), &framed(&frame)].concat(),
        _ => return framed(&frame)[random.below(5)..].to_vec(),
    }
    framed(&frame)
}

/// Passes on everything, but changes one frame of the server. Closes the connection when nothing more arrives.
fn mistreat(connection: &mut Connection, mut random: Random) -> io::Result<()> {
    let mut server = connection.connect()?;
    let (mut from, mut to) = (connection.stream.try_clone()?, server.try_clone()?);
    let there = thread::spawn(move || io::copy(&mut from, &mut to));
    // Handshakes, which other tests cover, are not changed.
    let last = 1 + random.below(8);
    for number in 0.. {
        // All other answers arrive within this time, unless no request is left to answer.
        server.set_read_timeout((number > last).then_some(Duration::from_millis(5)))?;
        let Ok(frame) = read_frame(&mut server) else { break };
        let bytes = if number == last { mutated(frame, &mut random) } else { framed(&frame) };
        if connection.stream.write_all(&bytes).is_err() {
            break;
        }
    }
    connection.leave()?;
    server.shutdown(std::net::Shutdown::Both)?;
    there.join().unwrap().map(drop)
}

/// Sends several requests of all kinds, and counts their answers.
fn ask(batch: &mut Batch<'_>, random: &mut Random, path: &str, answered: &Arc<AtomicUsize>) {
    fn count<T: Send + 'static>(pending: Pending<T>, answered: &Arc<AtomicUsize>) {
        let answered = Arc::clone(answered);
        pending.on_done(move |_| {
            answered.fetch_add(1, Ordering::SeqCst);
        });
    }
    let (watcher, acl) = (Watcher::new(|_| {}), Acl::open());
    let ops = [Op::Check(path, None), Op::SetData(path, b"", None)];
    for _ in 0..12 {
        match random.below(12) {
            0 => count(batch.create(path, b"data", &acl, CreateMode::Persistent), answered),
            1 => count(batch.delete(&format!("{path}/none"), None), answered),
            2 => count(batch.delete_eventually(&format!("{path}/none")), answered),
            3 => count(batch.exists(path, Some(&watcher)), answered),
            4 => count(batch.get_data(path, Some(&watcher)), answered),
            5 => count(batch.get_children("/", Some(&watcher)), answered),
            6 => count(batch.set_watches(0, &[path, "/none"], &watcher), answered),
            7 => count(batch.set_data(path, b"other", None), answered),
            8 => count(batch.get_acl(path), answered),
            9 => count(batch.sync(path), answered),
            10 => count(batch.who_am_i(), answered),
            _ => count(batch.multi(&ops), answered),
        }
    }
}

#[test]
fn client_survives_any_bytes_and_answers_every_call() {
    let setting = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seconds = setting("ZOOLOCK_FUZZ_SECONDS").map(Duration::from_secs);
    let seeds = AtomicU64::new(setting("ZOOLOCK_FUZZ_SEED").unwrap_or(1));
    let (begun, first) = (Instant::now(), seeds.load(Ordering::SeqCst));
    let one = |seed: u64| {
        let fake_server = FakeServer::new(shared_server().address(), move |connection| {
            match connection.number as u64 {
                number if number < BAD => mistreat(connection, Random(seed * BAD + number)),
                _ => connection.pass_on(),
            }
        });
        let path = root("mutated");
        let client = builder(&fake_server.address(), SHORT).max_answer(4096).connect();
        let client = client.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let (answered, mut random) = (Arc::default(), Random(!seed));
        for round in 1..=2 {
            client.submit(|batch| ask(batch, &mut random, &path, &answered));
            wait_until(&format!("seed {seed}: every call is answered"), SOON, || {
                answered.load(Ordering::SeqCst) == 12 * round
            });
        }
        let goes_on = || client.exists(&path).is_ok_and(|stat| stat.is_some());
        wait_until(&format!("seed {seed}: the client goes on"), SOON, goes_on);
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut next = seeds.fetch_add(1, Ordering::SeqCst);
                while seconds.map_or(next < first + INPUTS, |seconds| begun.elapsed() < seconds) {
                    one(next);
                    next = seeds.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    println!("{} inputs in {:.1?}", seeds.into_inner() - first, begun.elapsed());
}
