//! The core of the exclusive locks, for the writing side.

use zoolock::WriteLock;

use crate::lock::core;

#[test]
fn smoke() {
    core::smoke::<WriteLock>();
}

#[test]
fn excludes() {
    core::excludes::<WriteLock>();
}

#[test]
fn fifo() {
    core::fifo::<WriteLock>();
}

#[test]
fn times_out() {
    core::times_out::<WriteLock>();
}

#[test]
fn cleans_up() {
    core::cleans_up::<WriteLock>();
}

#[test]
fn survives_cut() {
    core::survives_cut::<WriteLock>();
}

#[test]
fn survives_cut_while_held() {
    core::survives_cut_while_held::<WriteLock>();
}
