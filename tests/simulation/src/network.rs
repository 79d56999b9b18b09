//! The links between clients and servers, and the delays on them.

mod frame;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use kernel::Process;
use kernel::net::{self, Network};
use zookeeper_testing::ensemble::{Ensemble, Outgoing};

use crate::describe;
use crate::monitor::{self, outages};
use crate::plan::{FrameFault, Of, Plan};
use crate::raw;
use crate::recording::{self, Act};

/// The remote end of all sockets.
struct Net;

pub(crate) struct World {
    pub ensemble: Ensemble,
    random: Rng,
    latency: Duration,
    links: BTreeMap<u64, Link>,
    /// The socket of each connection of a server.
    sockets: BTreeMap<u64, u64>,
    /// The names of the servers, and for each process and server, the last lookup.
    names: Vec<Name>,
    asked: BTreeMap<(Process, usize), Question>,
    /// Whether all faults are over.
    is_well: bool,
    pub machines: BTreeMap<Process, Machine>,
    /// When the servers next have something to do, if this has been scheduled.
    planned: Option<Instant>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// The name of a server. If the server moves, its old address belongs to a server of another ensemble, a stranger.
#[derive(Default, Clone)]
struct Name {
    /// How many times the server has moved, which is a part of its address, and when it last moved.
    moves: u8,
    moved: Duration,
    /// Until this time, lookups fail, or, if `hangs` is true, receive no answer.
    unknown_until: Duration,
    hangs: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub asked: Duration,
    /// When the answer arrives, and whether it contains an address.
    pub answer: (Duration, bool),
}

#[derive(Default)]
struct Link {
    process: Process,
    server: usize,
    /// Whether the link leads to an address that the server has left.
    is_former: bool,
    connection: Option<u64>,
    /// Bytes that do not form a complete frame yet.
    sent: Vec<u8>,
    /// For each direction, when the last bytes arrive.
    last: [Duration; 2],
    /// Whether the client has sent a frame.
    has_begun: bool,
    /// For each direction, whether a frame has arrived.
    is_greeted: [bool; 2],
    /// Requests whose answers have not arrived yet.
    asked: BTreeMap<i32, (Of, String)>,
    /// Whether a request has been lost. If so, all later requests on the link are lost as well.
    is_useless: bool,
    is_over: bool,
}

#[derive(Default)]
pub(crate) struct Machine {
    /// For each direction, the time before which nothing passes.
    silent_until: [Duration; 2],
    pub refused_until: Duration,
    /// Until this time, sockets accept only some of the bytes.
    pub full_until: Duration,
    /// Until this time, requests are lost, but handshakes pass.
    pub useless_until: Duration,
    /// For each direction and kind, the number of frames so far.
    frames: BTreeMap<(usize, Of), u32>,
    pub faults: Vec<(bool, Of, u32, FrameFault)>,
}

/// The time that the slowest lookup of a name takes.
pub(crate) const SLOW_NAME: Duration = Duration::from_secs(3);
/// The longest latency after the last fault.
const FAST: Duration = Duration::from_millis(2);
const NO_AUTH: i32 = -102;

const UP: usize = 0;
const DOWN: usize = 1;

/// Starts a network to these servers.
pub(crate) fn begin(ensemble: Ensemble, random: Rng, latency: Duration, servers: usize) {
    WORLD.set(Some(World {
        ensemble,
        random,
        latency,
        links: BTreeMap::new(),
        sockets: BTreeMap::new(),
        names: vec![Name::default(); servers],
        asked: BTreeMap::new(),
        is_well: false,
        machines: BTreeMap::new(),
        planned: None,
    }));
    net::set_network(Rc::new(Net));
}

pub(crate) fn with<T>(act: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(|world| act(world.as_mut().expect("a network")))
}

/// Acts on the servers or the links, and then sends the frames that result from this.
pub(crate) fn act<T>(act: impl FnOnce(&mut World) -> T) -> T {
    let acted = with(act);
    with(World::carry);
    acted
}

/// Acts on the servers. They receive the true time.
pub(crate) fn serve<T>(acts: impl FnOnce(&mut Ensemble, Instant) -> T) -> T {
    act(|world| acts(&mut world.ensemble, kernel::instant()))
}

fn at(when: Duration, acts: impl FnOnce(&mut World) + 'static) {
    kernel::after(when.saturating_sub(kernel::elapsed()), move || act(acts));
}

impl World {
    /// Sends the servers' frames, reports their changes, and schedules their next step.
    fn carry(&mut self) {
        let outgoing = self.ensemble.take_outgoing();
        let committed = self.ensemble.take_committed();
        recording::done(&outgoing, &committed);
        for (connection, what) in outgoing {
            let Some(&socket) = self.sockets.get(&connection) else { continue };
            match what {
                Outgoing::Bytes(frame) => self.frame(socket, DOWN, frame),
                Outgoing::End => at(self.arrival(socket, DOWN), move |world| {
                    if world.is_open(socket) {
                        net::finish(socket, false);
                        outages::broken(socket);
                    }
                }),
            }
        }
        for one in &committed {
            monitor::committed(one);
            raw::committed(one);
        }
        let now = kernel::instant();
        if let Some(next) = self.ensemble.next()
            && self.planned.is_none_or(|planned| next < planned || planned <= now)
        {
            self.planned = Some(next);
            kernel::after(next.saturating_duration_since(now), move || {
                if with(|world| world.planned.take_if(|planned| *planned == next)).is_some() {
                    serve(Ensemble::advance);
                }
            });
        }
    }

    /// Returns when a frame that is sent now will arrive: after all earlier frames.
    fn arrival(&mut self, socket: u64, way: usize) -> Duration {
        let base = self.latency.as_nanos() as u64;
        let time = Duration::from_nanos(match self.random.u8(..20) {
            0 => self.random.u64(base..base * 10),
            _ => self.random.u64(base..base * 2),
        });
        let Some(link) = self.links.get_mut(&socket) else { return kernel::elapsed() + time };
        let machine = self.machines.get(&link.process);
        let silent = machine.map_or(Duration::ZERO, |machine| machine.silent_until[way]);
        let arrives = (kernel::elapsed().max(silent) + time).max(link.last[way]);
        link.last[way] = arrives + Duration::from_nanos(1);
        arrives
    }

    fn arrive(&mut self, socket: u64, way: usize, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(&socket).filter(|link| !link.is_over) else { return };
        let is_first = !std::mem::replace(&mut link.is_greeted[way], true);
        let process = link.process;
        match way {
            DOWN if is_first => monitor::has_session(process, describe::number(bytes, 12, 8)),
            DOWN => raw::answered(process),
            _ => {}
        }
        if kernel::is_traced() && bytes.len() > 4 {
            let (arrow, words) = match way {
                UP => ("->", describe::request(bytes, is_first)),
                _ => ("<-", describe::answer(bytes, is_first)),
            };
            if let Some(words) = words {
                kernel::note_of(process, "network", || format!("{arrow} {words}"));
            }
        }
        match (way, link.connection) {
            (UP, Some(connection)) => {
                recording::came(|| Act::Received(connection, bytes.to_vec()));
                self.ensemble.receive(connection, bytes, kernel::instant());
            }
            _ => {
                let answered = link.asked.remove(&describe::int(bytes, 4));
                if let Some((Of::Delete, path)) = answered
                    && describe::int(bytes, 16) == NO_AUTH
                {
                    monitor::may_not_delete(process, &path);
                }
                net::deliver(socket, bytes);
            }
        }
    }

    fn is_open(&self, socket: u64) -> bool {
        self.links.get(&socket).is_some_and(|link| !link.is_over)
    }

    /// Breaks a connection in such a way that both ends detect it.
    fn tear(&mut self, socket: u64) {
        net::finish(socket, true);
        outages::broken(socket);
        self.end(socket);
    }

    fn end(&mut self, socket: u64) {
        if let Some(link) = self.links.get_mut(&socket) {
            link.is_over = true;
            if let Some(connection) = link.connection.take() {
                self.hang_up(connection);
            }
        }
    }

    fn hang_up(&mut self, connection: u64) {
        self.sockets.remove(&connection);
        recording::came(|| Act::HungUp(connection));
        self.ensemble.hang_up(connection, kernel::instant());
    }

    /// Breaks all connections of a machine in such a way that the machine detects it.
    pub(crate) fn cut(&mut self, process: Process) {
        self.tear_all(|link| link.process == process && !link.is_over);
    }

    fn tear_all(&mut self, is_meant: impl Fn(&Link) -> bool) {
        let meant = self.links.iter().filter(|(_, link)| is_meant(link));
        let meant: Vec<u64> = meant.map(|(socket, _)| *socket).collect();
        meant.into_iter().for_each(|socket| self.tear(socket));
    }

    /// Gives a server a new address, which all later lookups return. Its old address is given to a stranger.
    pub(crate) fn move_away(&mut self, server: usize) {
        let name = &mut self.names[server];
        (name.moves, name.moved) = (name.moves + 1, kernel::elapsed());
        self.tear_all(|link| link.server == server && !link.is_over);
    }

    /// Makes lookups of a server's name fail for a while.
    pub(crate) fn forget_name(&mut self, server: usize, time: Duration, hangs: bool) {
        let name = &mut self.names[server];
        (name.unknown_until, name.hangs) = (kernel::elapsed() + time, hangs);
    }

    /// Ends all faults. Frames that are delayed are lost with their connections.
    pub(crate) fn heal(&mut self) {
        self.machines.clear();
        self.is_well = true;
        self.latency = self.latency.min(FAST);
        let late = kernel::elapsed() + self.latency * 20;
        self.tear_all(|link| link.is_useless || link.last.iter().any(|last| *last > late));
    }

    /// Blocks all frames in one direction, for this time.
    pub(crate) fn silence(&mut self, process: Process, is_up: bool, time: Duration) {
        let until = &mut self.machine(process).silent_until[if is_up { UP } else { DOWN }];
        *until = (*until).max(kernel::elapsed() + time);
    }

    pub(crate) fn machine(&mut self, process: Process) -> &mut Machine {
        self.machines.entry(process).or_default()
    }

    /// Takes bytes from a client, and sends the frames that are complete.
    fn send(&mut self, socket: u64, bytes: &[u8]) -> usize {
        let Some(link) = self.links.get_mut(&socket) else { return bytes.len() };
        let machine = self.machines.get(&link.process);
        let is_full = machine.is_some_and(|machine| machine.full_until > kernel::elapsed());
        let bytes = if is_full { &bytes[..self.random.usize(..=bytes.len())] } else { bytes };
        link.sent.extend_from_slice(bytes);
        let mut sent = std::mem::take(&mut link.sent);
        let mut start = 0;
        while let Some(length) = sent[start..].first_chunk() {
            let end = start + 4 + u32::from_be_bytes(*length) as usize;
            let Some(frame) = sent.get(start..end) else { break };
            self.frame(socket, UP, frame.to_vec());
            start = end;
        }
        sent.drain(..start);
        if let Some(link) = self.links.get_mut(&socket) {
            link.sent = sent;
        }
        bytes.len()
    }

    /// Lookups are sometimes answered late, and sometimes with an error.
    fn resolve(&mut self, process: Process, name: &str) -> (Duration, io::Result<Vec<SocketAddr>>) {
        let number = name.strip_prefix("zk").and_then(|number| number.parse::<u8>().ok());
        let Some(number) = number else {
            return (Duration::ZERO, Err(io::Error::other(format!("no such name: {name}"))));
        };
        let server = usize::from(number) - 1;
        let chance = if self.is_well { u8::MAX } else { self.random.u8(..16) };
        let now = kernel::elapsed();
        let Name { moves, unknown_until, hangs, .. } = self.names[server];
        let is_unknown = unknown_until > now && !self.is_well;
        let time = match chance {
            _ if is_unknown && hangs => unknown_until - now,
            0 => SLOW_NAME,
            // The answer may take about as long as connecting, or longer.
            2..8 => self.latency * self.random.u32(1..20),
            _ => Duration::from_millis(1),
        };
        let found = match chance == 1 || is_unknown {
            true => Err(io::Error::other(format!("the lookup failed: {name}"))),
            false => Ok(vec![SocketAddr::from(([10, 0, moves, number], PORT))]),
        };
        kernel::count(match found.is_ok() {
            true => "net: a name is resolved",
            false => "fault: a name is not resolved",
        });
        let question = Question { asked: now, answer: (now + time, found.is_ok()) };
        self.asked.insert((process, server), question);
        (time, found)
    }
}

const PORT: u16 = 2181;

/// Returns a connect string with either the names or the addresses of the servers.
pub(crate) fn hosts(plan: &Plan) -> String {
    let host = if plan.has_names { "zk" } else { "10.0.0." };
    let list = (1..=plan.servers).map(|server| format!("{host}{server}:{PORT}"));
    list.collect::<Vec<_>>().join(",")
}

impl Network for Net {
    fn connect(&self, process: Process, socket: u64, address: SocketAddr) {
        monitor::connects(process);
        let (server, moves) = match address {
            SocketAddr::V4(address) => {
                let [_, _, moves, number] = address.ip().octets();
                (usize::from(number) - 1, moves)
            }
            SocketAddr::V6(_) => (0, 0),
        };
        let (is_refused, arrives) = with(|world| {
            world.links.insert(socket, Link { process, server, ..Link::default() });
            let refused_until = world.machine(process).refused_until;
            (refused_until > kernel::elapsed(), world.arrival(socket, UP))
        });
        at(arrives, move |world| {
            let is_former = moves < world.names[server].moves;
            let connection = match is_refused || is_former {
                true => None,
                false => world.ensemble.connect(server, kernel::instant()),
            };
            if let Some(connection) = connection {
                recording::came(|| Act::Connected(connection));
                world.sockets.insert(connection, socket);
            }
            match world.links.get_mut(&socket) {
                Some(link) if !link.is_over => {
                    (link.is_former, link.connection) = (is_former, connection);
                }
                _ => connection.into_iter().for_each(|connection| world.hang_up(connection)),
            }
            let is_taken = connection.is_some() || is_former && !is_refused;
            at(world.arrival(socket, DOWN), move |_| net::answered(socket, is_taken));
        });
    }

    fn send(&self, socket: u64, bytes: &[u8]) -> usize {
        with(|world| world.send(socket, bytes))
    }

    fn shut(&self, socket: u64) {
        outages::broken(socket);
        // The end of the connection arrives after all bytes that were sent before.
        at(with(|world| world.arrival(socket, UP)), move |world| {
            world.end(socket);
            world.links.remove(&socket);
        });
    }

    fn resolve(&self, process: Process, name: &str) -> (Duration, io::Result<Vec<SocketAddr>>) {
        with(|world| world.resolve(process, name))
    }
}
