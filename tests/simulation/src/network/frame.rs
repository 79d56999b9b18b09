//! What happens to a whole frame on the network: it arrives, perhaps late or truncated, or another client changes the
//! request's node before it arrives.

use std::time::Duration;

use kernel::net;

use super::{DOWN, UP, World, at};
use crate::client::stands_still;
use crate::coverage::count_variant;
use crate::describe;
use crate::monitor::{self, outages};
use crate::plan::{FrameFault, Meddling, Of, Place};
use crate::raw;

const EVENT: i32 = -1;
/// How long a client takes to process an answer and react to it, in nanoseconds.
const TAKEN_IN: u64 = 300_000;

/// ClickHouse Keeper's answer to a handshake with any session: a different session, for 10 s, without a password.
const KEEPER_SESSION: [u8; 40] = {
    let mut frame = [0; 40];
    (frame[3], frame[10], frame[11]) = (36, 0x27, 0x10);
    (frame[12], frame[19], frame[23]) = (0x77, 1, 16);
    frame
};

/// A server's answer to a handshake with a session that it does not know.
const NO_SESSION: [u8; 25] = {
    let mut frame = [0; 25];
    frame[3] = 21;
    frame
};

impl World {
    /// Sends a whole frame in one direction, with the fault that applies to it.
    pub(super) fn frame(&mut self, socket: u64, way: usize, frame: Vec<u8>) {
        let Some(link) = self.links.get_mut(&socket) else { return };
        kernel::mix(&frame);
        let (process, server, is_former) = (link.process, link.server, link.is_former);
        let is_first = way == UP && !std::mem::replace(&mut link.has_begun, true);
        if is_first {
            raw::greeted(process);
        }
        if is_first && is_former {
            return self.shown(socket, server, &frame);
        }
        // An answer has the xid of its request. The xids of all other frames are zero or negative.
        let asked = describe::int(&frame, 4);
        if way == UP && asked > 0 {
            let (of, path) = (kind(&frame), describe::text(&frame, 12));
            link.asked.insert(asked, (of, path));
            let is_create =
                |(of, path): &&(Of, String)| *of == Of::Create && !path.starts_with(monitor::LONG);
            let creates = link.asked.values().filter(is_create).count();
            monitor::asks_for_nodes(process, creates);
        }
        let of = match asked {
            EVENT if way == DOWN => Of::Event,
            _ => link.asked.get(&asked).map_or(Of::Any, |(of, _)| *of),
        };
        let machine = self.machines.entry(process).or_default();
        link.is_useless |= way == UP && !is_first && machine.useless_until > kernel::elapsed();
        if way == UP && !is_first {
            // By now, the client has processed the answer to its handshake.
            outages::connected(link.process, socket);
        }
        if way == UP && link.is_useless {
            kernel::count("net: a request is lost where handshakes pass");
            return;
        }
        let mut count = |of: Of| {
            let count = machine.frames.entry((way, of)).or_default();
            *count += 1;
            *count
        };
        let number = count(Of::Any);
        let its_number = if of == Of::Any { number } else { count(of) };
        let is_due = |its: Of, nth: u32| match its {
            Of::Any => nth == number,
            _ => its == of && nth == its_number,
        };
        let is_it = |(is_up, its, nth, _): &&(bool, Of, u32, FrameFault)| {
            *is_up == (way == UP) && is_due(*its, *nth)
        };
        let fault = machine.faults.iter().find(is_it).map(|(_, _, _, fault)| *fault);
        let mut arrives = self.arrival(socket, way);
        let mut bytes = frame;
        if let Some(fault) = fault {
            count_variant("fault", &fault);
            kernel::note(|| format!("frame {number} {}: {fault:?}", ["up", "down"][way]));
        }
        let behind = arrives + Duration::from_nanos(1);
        let tear = move |world: &mut World| world.tear(socket);
        match fault {
            None => {}
            Some(FrameFault::CutBefore) => return at(arrives, tear),
            Some(FrameFault::CutBehind) => at(behind, tear),
            Some(FrameFault::Tear) => {
                bytes.truncate(bytes.len() / 2);
                at(behind, tear);
            }
            Some(FrameFault::Freezes(time)) => {
                let soon = kernel::with_random(|random| random.u64(..TAKEN_IN));
                at(arrives + Duration::from_nanos(soon), move |_| {
                    stands_still(process, time);
                    kernel::freeze(process, time);
                });
            }
            Some(FrameFault::Away(time)) => {
                self.machine(process).refused_until = arrives + time;
                return at(arrives, tear);
            }
            Some(FrameFault::Delay(time) | FrameFault::Meets(_, time)) => {
                if let Some(FrameFault::Meets(what, _)) = fault {
                    // In a transaction, this is the path of the first operation.
                    let begins = if of == Of::Transaction { 21 } else { 12 };
                    let path = describe::text(&bytes, begins);
                    at(arrives, move |world| world.meddle(&path, what));
                }
                arrives += time;
                if let Some(link) = self.links.get_mut(&socket) {
                    link.last[way] = arrives + Duration::from_nanos(1);
                }
            }
        }
        at(arrives, move |world| world.arrive(socket, way, &bytes));
    }

    /// Changes a contender's node or its directory, as another client would.
    fn meddle(&mut self, path: &str, what: Meddling) {
        let (now, servers) = (kernel::instant(), &mut self.ensemble);
        let directory = path.split("/_c_").next().unwrap_or_default();
        let is_place = Place::ALL.contains(&directory);
        let owner = servers.node(path).map_or(0, |(stat, _)| stat.ephemeral_owner);
        let is_of_a_lock = owner != 0 && !path.starts_with(raw::ROOT);
        let done = match what {
            // No revocation can be requested for an `EphemeralLock`'s node, because its data identify the owner.
            Meddling::Asks if is_of_a_lock && path.contains("/_c_") => {
                servers.set_data(path, b"__REVOKE__", now)
            }
            Meddling::Deletes if is_of_a_lock => servers.delete(path, now),
            Meddling::Furnishes if is_place => servers.set_data(directory, b"furnished", now),
            Meddling::Makes if is_place => servers.create(directory, b"", now),
            Meddling::Joins if is_place => {
                monitor::monitor(|monitor| monitor.has_strangers = true);
                servers.create(&format!("{directory}/note"), b"", now)
            }
            _ => return,
        };
        kernel::note(|| format!("== somebody {what:?} {path}: {done:?}"));
        kernel::count(match what {
            Meddling::Asks | Meddling::Deletes => "fault: somebody is faster with a node",
            _ => "fault: somebody is faster with a directory",
        });
    }

    /// Handles a handshake with a stranger. Most strangers do not know the session, and close the connection. Others
    /// open a new session for every client.
    fn shown(&mut self, socket: u64, server: usize, handshake: &[u8]) {
        let Some(link) = self.links.get(&socket) else { return };
        let asked = self.asked.get(&(link.process, server)).copied();
        // If the client looked up the name before the server moved, it could not know the new address.
        let could_know = asked.filter(|question| question.asked >= self.names[server].moved);
        let session = describe::number(handshake, 20, 8);
        if let Some(question) = could_know {
            kernel::count("net: a stranger is shown a session");
            raw::revealed(link.process, session, question);
        }
        let is_keeper = self.random.u8(..4) == 0;
        let [there, back] = [UP, DOWN].map(|way| self.arrival(socket, way));
        at(there.max(back), move |world| {
            if world.is_open(socket) && is_keeper {
                kernel::count("net: a stranger opens a session for everybody");
                return net::deliver(socket, &KEEPER_SESSION);
            }
            if world.is_open(socket) && could_know.is_some() && session != 0 {
                net::deliver(socket, &NO_SESSION);
            }
            net::finish(socket, false);
        });
    }
}

fn kind(frame: &[u8]) -> Of {
    match describe::int(frame, 8) {
        1 | 15 => Of::Create,
        2 => Of::Delete,
        4 => Of::Read,
        // Clients only write below `/zookeeper` in order to receive an answer.
        5 if !describe::text(frame, 12).starts_with("/zookeeper/") => Of::Write,
        8 | 12 | 22 => Of::List,
        14 => Of::Transaction,
        _ => Of::Any,
    }
}
