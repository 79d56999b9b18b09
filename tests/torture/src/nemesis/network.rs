//! The network between the clients and the servers, and its faults.

use std::io;
use std::time::{Duration, Instant};

use zoolock_test_support::{Direction, FaultProxy, Op, Then};

use crate::Outcome;
use crate::clock::now;
use crate::nemesis::Nemesis;
use crate::nemesis::servers::Servers;
use crate::settings::TIMEOUT;

const STORM: Duration = Duration::from_secs(7);
const DELAYS: usize = 8;
/// In milliseconds, each way. Longer round trips than an eighth of the session timeout leave too little of a
/// lease that only heartbeats renew.
const LONGEST_DELAY: u64 = TIMEOUT.as_millis() as u64 / 16;
const EXPIRIES: usize = 8;
/// How often each of [`LOSABLE`] is lost.
const LOSSES: usize = 4;
const LOSABLE: [Op; 5] = [Op::Create, Op::Delete, Op::GetChildren, Op::GetData, Op::SetData];

/// The routes of one client process to the servers, with a proxy for each.
#[derive(Debug)]
pub(crate) struct Network(Vec<FaultProxy>);

impl Network {
    pub(crate) fn start(servers: &Servers) -> io::Result<Network> {
        let addresses = servers.addresses().into_iter();
        addresses.map(FaultProxy::start).collect::<Result<_, _>>().map(Network)
    }

    pub(crate) fn connect_string(&self) -> String {
        let addresses = self.0.iter().map(FaultProxy::connect_string);
        addresses.collect::<Vec<_>>().join(",")
    }

    /// Ends the sessions opened through these proxies, on the servers.
    pub(crate) fn expire_sessions(&self) -> io::Result<()> {
        let mut proxies = self.0.iter();
        proxies.try_for_each(|proxy| proxy.expire_sessions().map(drop))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &FaultProxy> {
        self.0.iter()
    }

    /// Applies the fault to all proxies: a client uses one at a time, and may move to any other.
    pub(crate) fn each(&self, fault: impl Fn(&FaultProxy)) {
        self.0.iter().for_each(fault);
    }
}

pub(crate) fn cut_storm(nemesis: &mut Nemesis) -> Outcome<()> {
    let begun = Instant::now();
    while begun.elapsed() < STORM {
        nemesis.pass(10, 100);
        let with_fin = nemesis.rng.bool();
        nemesis.some_network().each(|proxy| match with_fin {
            true => proxy.cut(),
            false => proxy.reset(),
        });
    }
    Ok(())
}

/// In each direction, for less than the session timeout and for longer.
pub(crate) fn black_hole(nemesis: &mut Nemesis) -> Outcome<()> {
    let timeout = TIMEOUT.as_millis() as u64;
    for direction in [Direction::ToServer, Direction::ToClient, Direction::Both] {
        for (least, most) in [(timeout / 5, timeout / 2), (timeout, timeout * 3 / 2)] {
            nemesis.pass(200, 600);
            nemesis.network_of_some_holder().each(|proxy| proxy.black_hole(direction));
            nemesis.pass(least, most);
            nemesis.restore_networks();
        }
    }
    Ok(())
}

/// The server has applied a request, and the client cannot know.
pub(crate) fn lost_answers(nemesis: &mut Nemesis) -> Outcome<()> {
    for _ in 0..LOSSES {
        for op in LOSABLE {
            let nth = nemesis.rng.u64(1..=5);
            let then = match nemesis.rng.u8(0..10) {
                0 => Then::Hold,
                _ => Then::Cut,
            };
            let request_too = nemesis.rng.u8(0..4) == 0;
            nemesis.some_network().each(|proxy| {
                match request_too {
                    true => proxy.drop_request(op, nth, then),
                    false => proxy.drop_answer(op, nth, then),
                };
            });
            nemesis.pass(150, 500);
        }
    }
    nemesis.restore_networks();
    Ok(())
}

pub(crate) fn delays(nemesis: &mut Nemesis) -> Outcome<()> {
    for _ in 0..DELAYS {
        let delay = Duration::from_millis(nemesis.rng.u64(1..=LONGEST_DELAY));
        let direction = match nemesis.rng.u8(0..3) {
            0 => Direction::ToServer,
            1 => Direction::ToClient,
            _ => Direction::Both,
        };
        nemesis.some_network().each(|proxy| proxy.delay(direction, delay));
        nemesis.pass(500, 900);
    }
    nemesis.restore_networks();
    Ok(())
}

/// The servers end the sessions of a running client.
pub(crate) fn expire(nemesis: &mut Nemesis) -> Outcome<()> {
    for _ in 0..EXPIRIES {
        nemesis.pass(300, 900);
        let (begun, process) = (now(), nemesis.process_of_some_holder());
        nemesis.networks[process].expire_sessions()?;
        nemesis.doubt(process, None, begun);
    }
    Ok(())
}
