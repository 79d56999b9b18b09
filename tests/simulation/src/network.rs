//! The links between clients and servers, with their delays.

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
use zookeeper_testing::ensemble::{Committed, Ensemble, Outgoing};

use crate::plan::{FrameFault, Of, Plan};
use crate::raw;
use crate::recording::{self, Act};
use crate::story;
use crate::witness::{self, outages};

pub(crate) struct Net(Rc<RefCell<World>>);

pub(crate) struct World {
    pub ensemble: Ensemble,
    random: Rng,
    latency: Duration,
    links: BTreeMap<u64, Link>,
    /// Sockets by the servers' connections.
    sockets: BTreeMap<u64, u64>,
    /// The servers' names, and the last question of each process for each server.
    names: Vec<Name>,
    asked: BTreeMap<(Process, usize), Question>,
    /// All faults are over.
    is_well: bool,
    pub machines: BTreeMap<Process, Machine>,
    /// When the servers next have to act.
    planned: Option<Instant>,
    tell: Tell,
}

/// Learns what the servers have carried out.
type Tell = Box<dyn Fn(&Committed)>;

/// The name of a server. Its earlier addresses belong to strangers of another ensemble.
#[derive(Default, Clone)]
struct Name {
    /// Number of the server's moves, which is part of its address, and time of the last one.
    moves: u8,
    moved: Duration,
    /// The name is not found until then, or only answered then.
    unknown_until: Duration,
    hangs: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub asked: Duration,
    /// When the answer comes, and whether it is an address.
    pub answer: (Duration, bool),
}

#[derive(Default)]
struct Link {
    process: Process,
    server: usize,
    /// The link leads to an earlier address of the server.
    is_former: bool,
    connection: Option<u64>,
    /// Bytes that are no whole frame yet.
    sent: Vec<u8>,
    /// When the last bytes of each direction arrive.
    last: [Duration; 2],
    /// The client has sent a frame.
    has_begun: bool,
    /// A frame has arrived, up and down.
    is_greeted: [bool; 2],
    /// An answer that arrives after the next one.
    swapped: Option<Vec<u8>>,
    /// Requests without an answer that has arrived.
    asked: BTreeMap<i32, (Of, String)>,
    /// A request was lost, and later ones are lost, too.
    is_useless: bool,
    is_over: bool,
}

#[derive(Default)]
pub(crate) struct Machine {
    /// Nothing passes up or down until then.
    silent_until: [Duration; 2],
    pub refused_until: Duration,
    /// Sockets take only a part of the bytes until then.
    pub full_until: Duration,
    /// Requests are lost until then, but handshakes pass.
    pub useless_until: Duration,
    /// Number of frames of each kind so far, up and down.
    frames: BTreeMap<(usize, Of), u32>,
    pub faults: Vec<(bool, Of, u32, FrameFault)>,
}

/// Time of the slowest answer to a question for a name.
pub(crate) const SLOW_NAME: Duration = Duration::from_secs(3);
/// Limit on the latency after the last fault.
const FAST: Duration = Duration::from_millis(2);
const NO_AUTH: i32 = -102;

const UP: usize = 0;
const DOWN: usize = 1;

impl Net {
    pub(crate) fn new(
        ensemble: Ensemble,
        random: Rng,
        latency: Duration,
        servers: usize,
        tell: impl Fn(&Committed) + 'static,
    ) -> Net {
        Net(Rc::new(RefCell::new(World {
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
            tell: Box::new(tell),
        })))
    }

    pub(crate) fn share(&self) -> Net {
        Net(Rc::clone(&self.0))
    }

    /// Acts on the servers or the links, and sends the resulting frames.
    pub(crate) fn act<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        let acted = act(&mut self.0.borrow_mut());
        self.carry();
        acted
    }

    /// Acts on the servers at the true time.
    pub(crate) fn serve<T>(&self, act: impl FnOnce(&mut Ensemble, Instant) -> T) -> T {
        self.act(|world| act(&mut world.ensemble, kernel::instant()))
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&World) -> T) -> T {
        look(&self.0.borrow())
    }

    /// Sends the servers' frames, reports their changes and plans their next step.
    fn carry(&self) {
        let mut world = self.0.borrow_mut();
        let outgoing = world.ensemble.take_outgoing();
        let committed = world.ensemble.take_committed();
        recording::done(&outgoing, &committed);
        for (connection, what) in outgoing {
            let Some(&socket) = world.sockets.get(&connection) else { continue };
            match what {
                Outgoing::Bytes(frame) => world.frame(self, socket, DOWN, frame),
                Outgoing::End => {
                    let arrives = world.arrival(socket, DOWN);
                    world.at(self, arrives, move |world, _| {
                        if world.is_open(socket) {
                            net::finish(socket, false);
                            outages::broken(socket);
                        }
                    });
                }
            }
        }
        committed.iter().for_each(|one| (world.tell)(one));
        let next = world.ensemble.next();
        if let Some(next) = next
            && world.planned.is_none_or(|planned| next < planned || planned <= kernel::instant())
        {
            world.planned = Some(next);
            let wait = next.saturating_duration_since(kernel::instant());
            let net = self.share();
            kernel::after(wait, move || {
                let is_next = net.0.borrow().planned == Some(next);
                if is_next {
                    net.0.borrow_mut().planned = None;
                    net.serve(Ensemble::advance);
                }
            });
        }
    }
}

impl World {
    fn at(&self, net: &Net, when: Duration, act: impl FnOnce(&mut World, &Net) + 'static) {
        let net = net.share();
        let wait = when.saturating_sub(kernel::elapsed());
        kernel::after(wait, move || {
            act(&mut net.0.borrow_mut(), &net);
            net.carry();
        });
    }

    /// Returns when a frame sent now arrives, after all frames sent before.
    fn arrival(&mut self, socket: u64, way: usize) -> Duration {
        let base = self.latency.as_nanos() as u64;
        let time = Duration::from_nanos(match self.random.u8(..20) {
            0 => self.random.u64(base..base * 10),
            _ => self.random.u64(base..base * 2),
        });
        let Some(link) = self.links.get_mut(&socket) else { return kernel::elapsed() + time };
        let silent = self
            .machines
            .get(&link.process)
            .map_or(Duration::ZERO, |machine| machine.silent_until[way]);
        let arrives = (kernel::elapsed().max(silent) + time).max(link.last[way]);
        link.last[way] = arrives + Duration::from_nanos(1);
        arrives
    }

    fn arrive(&mut self, socket: u64, way: usize, bytes: &[u8]) {
        let Some(link) = self.links.get_mut(&socket).filter(|link| !link.is_over) else { return };
        let is_first = !std::mem::replace(&mut link.is_greeted[way], true);
        let process = link.process;
        match way {
            DOWN if is_first => {
                witness::has_session(process, story::number(bytes, 12, 8));
            }
            DOWN => raw::heard(process),
            _ => {}
        }
        if kernel::is_traced() && bytes.len() > 4 {
            let (arrow, words) = match way {
                UP => ("->", story::request(bytes, is_first)),
                _ => ("<-", story::answer(bytes, is_first)),
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
                let answered = link.asked.remove(&story::int(bytes, 4));
                if let Some((Of::Delete, path)) = answered
                    && story::int(bytes, 16) == NO_AUTH
                {
                    witness::may_not_delete(process, &path);
                }
                net::deliver(socket, bytes);
            }
        }
    }

    fn is_open(&self, socket: u64) -> bool {
        self.links.get(&socket).is_some_and(|link| !link.is_over)
    }

    /// Breaks a connection so that both ends notice.
    fn tear(&mut self, socket: u64) {
        net::finish(socket, true);
        outages::broken(socket);
        self.end(socket);
    }

    fn end(&mut self, socket: u64) {
        if let Some(link) = self.links.get_mut(&socket) {
            link.is_over = true;
            if let Some(connection) = link.connection.take() {
                self.sockets.remove(&connection);
                self.hang_up(connection);
            }
        }
    }

    fn hang_up(&mut self, connection: u64) {
        recording::came(|| Act::HungUp(connection));
        self.ensemble.hang_up(connection, kernel::instant());
    }

    /// Breaks all connections of a machine so that it notices.
    pub(crate) fn cut(&mut self, process: Process) {
        self.tear_all(|link| link.process == process && !link.is_over);
    }

    fn tear_all(&mut self, is_meant: impl Fn(&Link) -> bool) {
        let meant = self.links.iter().filter(|(_, link)| is_meant(link));
        let meant: Vec<u64> = meant.map(|(socket, _)| *socket).collect();
        meant.into_iter().for_each(|socket| self.tear(socket));
    }

    /// Gives a server another address, which all later questions find. A stranger gets the old one.
    pub(crate) fn move_away(&mut self, server: usize) {
        let name = &mut self.names[server];
        (name.moves, name.moved) = (name.moves + 1, kernel::elapsed());
        self.tear_all(|link| link.server == server && !link.is_over);
    }

    /// Makes a server's name unknown for a while.
    pub(crate) fn forget_name(&mut self, server: usize, time: Duration, hangs: bool) {
        let name = &mut self.names[server];
        (name.unknown_until, name.hangs) = (kernel::elapsed() + time, hangs);
    }

    /// Ends all faults. Frames that are late are lost with their connections.
    pub(crate) fn heal(&mut self) {
        self.machines.clear();
        self.is_well = true;
        self.latency = self.latency.min(FAST);
        let late = kernel::elapsed() + self.latency * 20;
        self.tear_all(|link| link.is_useless || link.last.iter().any(|last| *last > late));
    }

    /// Lets nothing pass up, or down, for this time.
    pub(crate) fn silence(&mut self, process: Process, is_up: bool, time: Duration) {
        let until = &mut self.machine(process).silent_until[if is_up { UP } else { DOWN }];
        *until = (*until).max(kernel::elapsed() + time);
    }

    pub(crate) fn machine(&mut self, process: Process) -> &mut Machine {
        self.machines.entry(process).or_default()
    }
}

const PORT: u16 = 2181;

/// Returns a connect string with the servers' names or addresses.
pub(crate) fn hosts(plan: &Plan) -> String {
    let host = if plan.has_names { "zk" } else { "10.0.0." };
    let list = (1..=plan.servers).map(|server| format!("{host}{server}:{PORT}"));
    list.collect::<Vec<_>>().join(",")
}

impl Network for Net {
    fn connect(&self, process: Process, socket: u64, address: SocketAddr) {
        let mut world = self.0.borrow_mut();
        let (server, moves) = match address {
            SocketAddr::V4(address) => {
                let [_, _, moves, number] = address.ip().octets();
                (usize::from(number) - 1, moves)
            }
            SocketAddr::V6(_) => (0, 0),
        };
        let link = Link { process, server, ..Link::default() };
        world.links.insert(socket, link);
        let now = kernel::elapsed();
        let machine = world.machine(process);
        let is_refused = machine.refused_until > now;
        let arrives = world.arrival(socket, UP);
        world.at(self, arrives, move |world, net| {
            let is_former = moves < world.names[server].moves;
            let connection = match is_refused || is_former {
                true => None,
                false => world.ensemble.connect(server, kernel::instant()),
            };
            if let Some(connection) = connection {
                recording::came(|| Act::Connected(connection));
            }
            if let Some(link) = world.links.get_mut(&socket) {
                link.is_former = is_former;
            }
            let is_open = world.is_open(socket);
            match connection {
                Some(connection) if !is_open => world.hang_up(connection),
                Some(connection) => {
                    world.sockets.insert(connection, socket);
                    if let Some(link) = world.links.get_mut(&socket) {
                        link.connection = Some(connection);
                    }
                }
                None => {}
            }
            let back = world.arrival(socket, DOWN);
            let is_taken = connection.is_some() || is_former && !is_refused;
            world.at(net, back, move |_, _| match is_taken {
                true => net::accepted(socket),
                false => net::refused(socket),
            });
        });
    }

    fn send(&self, socket: u64, bytes: &[u8]) -> usize {
        let mut world = self.0.borrow_mut();
        let World { links, machines, random, .. } = &mut *world;
        let Some(link) = links.get_mut(&socket) else { return bytes.len() };
        let machine = machines.get(&link.process);
        let is_full = machine.is_some_and(|machine| machine.full_until > kernel::elapsed());
        let bytes = if is_full { &bytes[..random.usize(..=bytes.len())] } else { bytes };
        link.sent.extend_from_slice(bytes);
        let mut sent = std::mem::take(&mut link.sent);
        let mut start = 0;
        while let Some(length) = sent[start..].first_chunk() {
            let end = start + 4 + u32::from_be_bytes(*length) as usize;
            let Some(frame) = sent.get(start..end) else { break };
            world.frame(self, socket, UP, frame.to_vec());
            start = end;
        }
        sent.drain(..start);
        if let Some(link) = world.links.get_mut(&socket) {
            link.sent = sent;
        }
        bytes.len()
    }

    fn shut(&self, socket: u64) {
        outages::broken(socket);
        let mut world = self.0.borrow_mut();
        // The end arrives after all bytes sent before.
        let arrives = world.arrival(socket, UP);
        world.at(self, arrives, move |world, _| {
            world.end(socket);
            world.links.remove(&socket);
        });
    }

    /// Sometimes answers late, and sometimes with an error.
    fn resolve(&self, process: Process, name: &str) -> (Duration, io::Result<Vec<SocketAddr>>) {
        let mut world = self.0.borrow_mut();
        let number = name.strip_prefix("zk").and_then(|number| number.parse::<u8>().ok());
        let Some(number) = number else {
            return (Duration::ZERO, Err(io::Error::other(format!("no such name: {name}"))));
        };
        let server = usize::from(number) - 1;
        let chance = if world.is_well { u8::MAX } else { world.random.u8(..16) };
        let now = kernel::elapsed();
        let Name { moves, unknown_until, hangs, .. } = world.names[server];
        let is_unknown = unknown_until > now && !world.is_well;
        let time = match chance {
            _ if is_unknown && hangs => unknown_until - now,
            0 => SLOW_NAME,
            // About as long as connecting takes, or longer.
            2..8 => world.latency * world.random.u32(1..20),
            _ => Duration::from_millis(1),
        };
        let found = match chance == 1 || is_unknown {
            true => Err(io::Error::other(format!("nobody can tell: {name}"))),
            false => Ok(vec![SocketAddr::from(([10, 0, moves, number], PORT))]),
        };
        kernel::count(if found.is_ok() {
            "net: a name is resolved"
        } else {
            "fault: a name is not resolved"
        });
        let question = Question { asked: now, answer: (now + time, found.is_ok()) };
        world.asked.insert((process, server), question);
        (time, found)
    }
}
