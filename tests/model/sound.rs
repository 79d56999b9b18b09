//! With all its rules the protocol is sound.

use std::env;

use super::check;
use super::rules::Bounds;

/// The small bounds, or the large ones if the environment asks for them.
fn bounds(small: Bounds, large: Bounds) -> Bounds {
    match env::var("ZOOLOCK_MODEL") {
        Ok(size) if size == "large" => large,
        Ok(size) => panic!("ZOOLOCK_MODEL is {size:?}, can only be \"large\""),
        Err(_) => small,
    }
}

/// Two clients that reconnect often enough for a move to be interrupted and begun again.
#[test]
fn two_clients() {
    let small = Bounds { seats: &[0, 1], sessions: 4, sessions_each: 3, give_ups: 1, removals: 0 };
    let large = Bounds { sessions: 6, ..small };
    check::everything("two clients", bounds(small, large));
}

#[test]
fn three_clients() {
    let small =
        Bounds { seats: &[0, 1, 2], sessions: 4, sessions_each: 2, give_ups: 0, removals: 0 };
    let large = Bounds { sessions: 6, give_ups: 1, ..small };
    check::everything("three clients", bounds(small, large));
}

/// Two seats share one client: its connections, and what becomes of them.
#[test]
fn two_seats_of_one_client() {
    let small =
        Bounds { seats: &[0, 0, 1], sessions: 3, sessions_each: 2, give_ups: 0, removals: 0 };
    let large = Bounds { sessions: 4, give_ups: 1, ..small };
    check::everything("two seats of one client", bounds(small, large));
}

/// The numbering restarts, so that late nodes come into a directory that is not theirs.
#[test]
fn removed_directory() {
    let small = Bounds { seats: &[0, 1], sessions: 4, sessions_each: 2, give_ups: 0, removals: 1 };
    let large = Bounds { sessions: 5, sessions_each: 3, give_ups: 1, removals: 2, ..small };
    check::everything("removed directory", bounds(small, large));
}
