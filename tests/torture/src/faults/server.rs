//! Faults of the servers.

use crate::Outcome;
use crate::field::Field;
use crate::setting::TIMEOUT;

const TIMES: usize = 2;

pub(crate) fn kill(field: &mut Field) -> Outcome<()> {
    for _ in 0..TIMES {
        field.pass(500, 1500);
        let index = field.some_server();
        field.servers.server(index).kill()?;
        field.pass(0, 800);
        field.servers.start_again(index)?;
    }
    Ok(())
}

pub(crate) fn restart(field: &mut Field) -> Outcome<()> {
    for _ in 0..TIMES {
        field.pass(500, 1500);
        let index = field.some_server();
        field.servers.server(index).restart()?;
        field.servers.wait_ready()?;
    }
    Ok(())
}

/// Shorter than the session timeout and longer.
pub(crate) fn pause(field: &mut Field) -> Outcome<()> {
    let timeout = TIMEOUT.as_millis() as u64;
    let spans = [
        (timeout / 10, timeout / 4),
        (timeout / 3, timeout * 2 / 3),
        (timeout, timeout * 5 / 4),
        (timeout * 5 / 4, timeout * 3 / 2),
    ];
    for (least, most) in spans {
        field.pass(500, 1000);
        let index = field.some_server();
        pause_one(field, index, least, most)?;
    }
    Ok(())
}

pub(crate) fn kill_leader(field: &mut Field) -> Outcome<()> {
    for _ in 0..TIMES {
        field.pass(500, 1500);
        let leader = field.servers.ensemble()?.kill_leader()?;
        field.pass(1000, 4000);
        field.servers.start_again(leader)?;
    }
    Ok(())
}

/// A follower first, then the leader.
pub(crate) fn pause_member(field: &mut Field) -> Outcome<()> {
    let followers = field.servers.ensemble()?.followers()?;
    let leader = field.servers.ensemble()?.leader()?;
    let follower = field.rng.choice(followers).ok_or("no follower")?;
    let timeout = TIMEOUT.as_millis() as u64;
    for index in [follower, leader] {
        field.pass(500, 1000);
        pause_one(field, index, timeout, timeout * 2)?;
        field.servers.wait_ready()?;
    }
    Ok(())
}

pub(crate) fn rolling_restart(field: &mut Field) -> Outcome<()> {
    field.pass(500, 1000);
    Ok(field.servers.ensemble()?.rolling_restart()?)
}

/// It answers reads for a while, and knows nothing of what the others decide.
pub(crate) fn cut_off_follower(field: &mut Field) -> Outcome<()> {
    for _ in 0..TIMES {
        field.pass(500, 1000);
        let followers = field.servers.ensemble()?.followers()?;
        let follower = field.rng.choice(followers).ok_or("no follower")?;
        field.servers.ensemble()?.cut_off(follower);
        let timeout = TIMEOUT.as_millis() as u64;
        field.pass(timeout * 3 / 2, timeout * 5 / 2);
        field.servers.ensemble()?.heal();
        field.servers.wait_ready()?;
    }
    Ok(())
}

fn pause_one(field: &mut Field, index: usize, least: u64, most: u64) -> Outcome<()> {
    field.servers.server(index).pause()?;
    field.pass(least, most);
    Ok(field.servers.server(index).resume()?)
}
