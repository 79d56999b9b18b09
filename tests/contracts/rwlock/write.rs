//! The core of the exclusive locks, for the writing side.

use zoolock::WriteLock;

use common::basics;

#[test]
fn smoke() {
    basics::smoke::<WriteLock>();
}

#[test]
fn excludes() {
    basics::excludes::<WriteLock>();
}

#[test]
fn fifo() {
    basics::fifo::<WriteLock>();
}

#[test]
fn times_out() {
    basics::times_out::<WriteLock>();
}

#[test]
fn cleans_up() {
    basics::cleans_up::<WriteLock>();
}

#[test]
fn survives_cut() {
    basics::survives_cut::<WriteLock>();
}

#[test]
fn survives_cut_while_held() {
    basics::survives_cut_while_held::<WriteLock>();
}
