//! `DistributedLock`; and the core that every exclusive lock type is tested for.

use common::basics;
use zoolock::DistributedLock;

#[test]
fn smoke() {
    basics::smoke::<DistributedLock>();
}

#[test]
fn excludes() {
    basics::excludes::<DistributedLock>();
}

#[test]
fn fifo() {
    basics::fifo::<DistributedLock>();
}

#[test]
fn times_out() {
    basics::times_out::<DistributedLock>();
}

#[test]
fn cleans_up() {
    basics::cleans_up::<DistributedLock>();
}

#[test]
fn survives_cut() {
    basics::survives_cut::<DistributedLock>();
}

#[test]
fn survives_cut_while_held() {
    basics::survives_cut_while_held::<DistributedLock>();
}
