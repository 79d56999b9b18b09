//! Faults between the clients and the servers.

use std::time::{Duration, Instant};

use zoolock_test_support::{Direction, Op, Then};

use crate::Outcome;
use crate::field::Field;
use crate::setting::TIMEOUT;

const STORM: Duration = Duration::from_secs(7);
const DELAYS: usize = 8;
/// In milliseconds, each way. Round trips of more than an eighth of the session timeout leave too
/// little of a lease that is renewed by heartbeats alone.
const LONGEST_DELAY: u64 = TIMEOUT.as_millis() as u64 / 16;
const EXPIRIES: usize = 8;
/// How often each of [`LOSABLE`] is lost.
const LOSSES: usize = 4;
const LOSABLE: [Op; 5] = [Op::Create, Op::Delete, Op::GetChildren, Op::GetData, Op::SetData];

pub(crate) fn cut_storm(field: &mut Field) -> Outcome<()> {
    let begun = Instant::now();
    while begun.elapsed() < STORM {
        field.pass(10, 100);
        let with_fin = field.rng.bool();
        field.some_network().each(|proxy| match with_fin {
            true => proxy.cut(),
            false => proxy.reset(),
        });
    }
    Ok(())
}

/// Each direction, for less than the session timeout and for more.
pub(crate) fn black_hole(field: &mut Field) -> Outcome<()> {
    let timeout = TIMEOUT.as_millis() as u64;
    for direction in [Direction::ToServer, Direction::ToClient, Direction::Both] {
        for (least, most) in [(timeout / 5, timeout / 2), (timeout, timeout * 3 / 2)] {
            field.pass(200, 600);
            field.network_of_some_holder().each(|proxy| proxy.black_hole(direction));
            field.pass(least, most);
            field.restore_networks();
        }
    }
    Ok(())
}

/// The server has done what it was asked for, and the client cannot know.
pub(crate) fn lost_answers(field: &mut Field) -> Outcome<()> {
    for _ in 0..LOSSES {
        for op in LOSABLE {
            let nth = field.rng.u64(1..=5);
            let then = match field.rng.u8(0..10) {
                0 => Then::Hold,
                _ => Then::Cut,
            };
            let request_too = field.rng.u8(0..4) == 0;
            field.some_network().each(|proxy| {
                match request_too {
                    true => proxy.drop_request(op, nth, then),
                    false => proxy.drop_answer(op, nth, then),
                };
            });
            field.pass(150, 500);
        }
    }
    field.restore_networks();
    Ok(())
}

pub(crate) fn delays(field: &mut Field) -> Outcome<()> {
    for _ in 0..DELAYS {
        let delay = Duration::from_millis(field.rng.u64(1..=LONGEST_DELAY));
        let direction = match field.rng.u8(0..3) {
            0 => Direction::ToServer,
            1 => Direction::ToClient,
            _ => Direction::Both,
        };
        field.some_network().each(|proxy| proxy.delay(direction, delay));
        field.pass(500, 900);
    }
    field.restore_networks();
    Ok(())
}

/// The servers end the sessions of a client that is there.
pub(crate) fn expire(field: &mut Field) -> Outcome<()> {
    for _ in 0..EXPIRIES {
        field.pass(300, 900);
        field.network_of_some_holder().expire_sessions()?;
    }
    Ok(())
}
