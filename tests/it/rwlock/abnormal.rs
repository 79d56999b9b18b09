//! Sequences that do not tell a place. No test can wait for two thousand million creates: a relay
//! makes the client's sequential creates plain ones, with digits of its own.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use zoolock::{HoldState, LossReason};
use zoolock_test_support::{fresh_path, wait_until};

use super::{assert_lost, assert_not_held, await_lost, delete_node, rw_of, would_deadlock};
use crate::lock::core::{await_nodes, hold_of};
use crate::util::{SESSION, SOON, children, client, client_of, shared_address};

const CREATE: i32 = 1;
const EPHEMERAL: i32 = 1;
const EPHEMERAL_SEQUENTIAL: i32 = 3;

fn int(body: &[u8], at: usize) -> Option<i32> {
    let bytes = body.get(at..at.checked_add(4)?)?;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

/// The request with these digits behind its path, not sequential, if it was.
fn numbered(body: &[u8], digits: &str) -> Option<Vec<u8>> {
    let flags_at = body.len().checked_sub(4)?;
    if int(body, 4)? != CREATE || int(body, flags_at)? != EPHEMERAL_SEQUENTIAL {
        return None;
    }
    let path = int(body, 8)? as usize;
    let mut changed = body[..8].to_vec();
    changed.extend(((path + digits.len()) as i32).to_be_bytes());
    changed.extend(&body[12..12 + path]);
    changed.extend(digits.as_bytes());
    changed.extend(&body[12 + path..flags_at]);
    changed.extend(EPHEMERAL.to_be_bytes());
    Some(changed)
}

fn pump(mut from: &TcpStream, mut to: &TcpStream, digits: &str) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        from.read_exact(&mut body)?;
        let body = numbered(&body, digits).unwrap_or(body);
        to.write_all(&(body.len() as u32).to_be_bytes())?;
        to.write_all(&body)?;
    }
}

/// Relays to the shared server, for as long as the test runs.
fn relay(digits: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(shared_address()).unwrap();
            for stream in [&client, &server] {
                stream.set_nodelay(true).unwrap();
            }
            let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                let _ = pump(&client, &server, digits);
                let _ = server.shutdown(Shutdown::Both);
            });
            thread::spawn(move || {
                let (client, mut server) = ends;
                let _ = io::copy(&mut server, &mut &client);
                let _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    address
}

#[test]
fn a_read_under_a_write_of_an_abnormal_sequence_keeps_the_write() {
    for digits in ["2147483647", "-2147483648", "-000000001"] {
        let [ours, others] = [client_of(&relay(digits).to_string(), SESSION), client()];
        let path = fresh_path("abnormal");
        let lock = rw_of(&ours, &path);
        let (read, write) = (lock.read_lock(), lock.write_lock());
        let rival = rw_of(&others, &path);
        write.lock().unwrap();
        let node = hold_of(&write).node();
        assert!(node.ends_with(&format!("__WRIT__{digits}")), "{node}");
        read.lock().unwrap();
        read.lock().unwrap();
        println!("{digits}: {:?}, {:?}", hold_of(&read), children(&path));
        assert_eq!(hold_of(&read).node(), node, "one seat for both");
        assert_eq!(children(&path), [node.as_str()]);
        let tokens = [hold_of(&read), hold_of(&write)].map(|hold| hold.fencing_token().unwrap());
        assert_eq!(tokens[0], tokens[1]);
        // The read goes first, and comes again.
        read.unlock().unwrap();
        read.unlock().unwrap();
        assert_eq!((write.is_held(), read.is_held()), (true, false));
        assert_eq!(children(&path), [node.as_str()]);
        read.lock().unwrap();
        // The write goes first: the read keeps its node, and everybody out.
        write.unlock().unwrap();
        assert_eq!((write.is_held(), read.is_held()), (false, true));
        assert_eq!((write.hold_count(), read.hold_count()), (0, 1));
        assert_not_held(&write.unlock());
        assert_eq!(hold_of(&read).state(), HoldState::Held);
        assert_eq!(hold_of(&read).fencing_token().unwrap(), tokens[0]);
        assert_eq!(children(&path), [node.as_str()]);
        assert!(!rival.write_lock().try_lock().unwrap());
        let refused = write.lock();
        assert!(would_deadlock(&refused, &path), "{refused:?}");
        await_nodes(&path, 1);
        read.lock().unwrap();
        read.unlock().unwrap();
        read.unlock().unwrap();
        assert_not_held(&read.unlock());
        await_nodes(&path, 0);
        assert!(rival.write_lock().try_lock().unwrap());
        rival.write_lock().unlock().unwrap();
        assert_eq!(ours.stats().seats, 0);
    }
}

#[test]
fn a_shared_seat_that_is_lost_is_told_to_both_sides() {
    let ours = client_of(&relay("2147483647").to_string(), SESSION);
    let path = fresh_path("abnormal-lost");
    let lock = rw_of(&ours, &path);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    for write_first in [true, false] {
        write.lock().unwrap();
        read.lock().unwrap();
        let hold = hold_of(&write);
        delete_node(&hold);
        await_lost(&hold);
        let unlocked = match write_first {
            true => [write.unlock(), read.unlock()],
            false => [read.unlock(), write.unlock()],
        };
        println!("{unlocked:?}, {:?}", ours.stats());
        for unlocked in &unlocked {
            assert_lost(unlocked, &path, LossReason::NodeDeleted);
        }
        assert_not_held(&write.unlock());
        assert_not_held(&read.unlock());
    }
    // It is counted behind the end that is announced.
    wait_until("both losses are counted", SOON, || {
        ours.stats().seats_lost == 2
    });
    assert_eq!(ours.stats().seats, 0);
    write.lock().unwrap();
    read.lock().unwrap();
    write.unlock().unwrap();
    read.unlock().unwrap();
    // The last handle has both to give back.
    write.lock().unwrap();
    read.lock().unwrap();
    drop((lock, read, write));
    await_nodes(&path, 0);
    assert_eq!(ours.stats().seats, 0);
}
