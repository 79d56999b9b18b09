//! What does not change during a run: times, servers, and which faults there are.

use super::chance::Rng;
use super::stage::Time;

/// What the client's clocks may do beside going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClockFaults {
    None,
    /// The system clock is set forwards and backwards.
    Jumps,
    /// The machine is suspended: its monotonic clock stands still. (Together with a system clock that
    /// is set back nobody could tell.)
    Suspends,
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Cut,
    /// The server does not notice.
    HalfOpenThere,
    /// The client does not notice.
    HalfOpenHere,
    Hole,
    /// A follower hears nothing of its leader, nor the other way round.
    CutOff,
    Depose,
    /// All servers, often for longer than the session timeout.
    Down,
    Restart,
    /// A server does nothing for a while.
    Freeze,
    /// A handshake is never answered.
    Hush,
    /// A server leaves out an answer, which no real one does.
    Confuse,
    Behind,
    /// No server can be reached.
    Isolate,
    Stall,
    Clock,
    /// All servers are restored from what they had long ago, or from nothing.
    Restore,
}

const FAULTS: [(Fault, f64); 15] = [
    (Fault::Cut, 0.6),
    (Fault::HalfOpenThere, 0.3),
    (Fault::HalfOpenHere, 0.3),
    (Fault::Hole, 0.35),
    (Fault::CutOff, 0.35),
    (Fault::Depose, 0.4),
    (Fault::Down, 0.15),
    (Fault::Restart, 0.25),
    (Fault::Freeze, 0.25),
    (Fault::Hush, 0.15),
    (Fault::Confuse, 0.1),
    (Fault::Behind, 0.35),
    (Fault::Isolate, 0.25),
    (Fault::Stall, 0.25),
    (Fault::Clock, 0.4),
];

#[derive(Debug, Clone)]
pub(super) struct World {
    /// The session timeout, whole milliseconds.
    pub(super) timeout: Time,
    pub(super) tick: Time,
    /// How long a server follows a leader that it hears nothing of.
    pub(super) sync_limit: Time,
    /// Servers that vote. The observer, if there is one, has the number behind theirs.
    pub(super) voters: usize,
    /// The server that the observer is behind, if it is behind one that is not the leader.
    pub(super) observer: Option<usize>,
    /// One way between client and server, and between follower and leader, at the most.
    pub(super) way: Time,
    pub(super) hop: Time,
    /// How much later than that the servers' messages may be.
    pub(super) jitter: Time,
    /// How long a quorum takes for a proposal.
    pub(super) quorum: Time,
    /// How far the client's clocks run slow, in millionths.
    pub(super) slow: u64,
    pub(super) clock: ClockFaults,
    pub(super) faults: Vec<Fault>,
    /// The mean time between faults.
    pub(super) pace: Time,
    /// For how long there are faults.
    pub(super) length: Time,
    /// Pings are answered before what is under way.
    pub(super) overtake: bool,
    /// Events bear the transaction's number, as those of servers from 3.9 on.
    pub(super) numbered_events: bool,
    /// How often a server is too busy.
    pub(super) throttle: f64,
    /// The mean time between calls.
    pub(super) calls: Time,
    /// How late the client's timer may be.
    pub(super) late: Time,
    /// How often the lease is looked at.
    pub(super) looks: f64,
    /// The client is closed at the end of the faults, or before.
    pub(super) close: Option<Time>,
    /// Somebody keeps the lease all the time.
    pub(super) kept: bool,
    /// The only server that the client knows.
    pub(super) only: Option<usize>,
    /// Somebody uses credentials.
    pub(super) auth: bool,
    /// What names of nodes end with: if it is long, the watches do not fit into one request.
    pub(super) suffix: String,
    /// The servers are restored from a time when the session was there already.
    pub(super) keeps_session: bool,
}

impl World {
    pub(super) fn random(rng: &mut Rng) -> World {
        let observed = rng.chance(0.2);
        let least = if observed { 4.0 } else { 2.0 };
        let ticks = if rng.chance(0.3) { least } else { rng.between(least, 20.0) };
        let longest = if rng.chance(0.1) { 40_000.0 } else { 8000.0 };
        let timeout = rng.between(1000.0, longest) as Time * 1000;
        let mut world = World::with(rng, timeout, (timeout as f64 / ticks) as Time);
        world.observer = observed.then(|| rng.below(world.voters as u64) as usize);
        world
    }

    /// Everything else by chance. The tick is rounded down: two ticks are never more than the timeout.
    pub(super) fn with(rng: &mut Rng, timeout: Time, tick: Time) -> World {
        let share = |rng: &mut Rng, least: f64, most: f64| {
            (timeout as f64 * rng.between(least, most)) as Time
        };
        // What makes the servers' signs of life late and the client's clocks slow is paid from the
        // fiftieth that a lease is shorter.
        let drifts = rng.chance(0.5);
        let (slow, jitter) = match drifts {
            true => (rng.below(18_000), 0.0003),
            false => (0, 0.003),
        };
        let mut faults: Vec<Fault> =
            FAULTS.iter().filter(|fault| rng.chance(fault.1)).map(|fault| fault.0).collect();
        if rng.chance(0.06) {
            faults.push(Fault::Restore);
        }
        World {
            timeout,
            tick,
            sync_limit: tick * (2 + rng.below(9)),
            voters: [1, 3, 3, 5, 5][rng.below(5) as usize],
            observer: None,
            way: share(rng, 0.0005, 0.02),
            hop: share(rng, 0.0002, 0.008),
            jitter: share(rng, 0.0, jitter),
            quorum: share(rng, 0.0002, 0.01),
            slow,
            clock: [ClockFaults::None, ClockFaults::Jumps, ClockFaults::Suspends]
                [rng.below(3) as usize],
            faults,
            pace: share(rng, 0.1, 1.5),
            length: share(rng, 2.0, 7.0),
            overtake: rng.chance(0.3),
            numbered_events: rng.chance(0.5),
            throttle: [0.0, 0.0, 0.0, 0.0, 0.05, 0.4][rng.below(6) as usize],
            calls: share(rng, 0.03, 0.4),
            late: if rng.chance(0.8) { 2000 } else { timeout / 100 },
            looks: [0.02, 0.3, 1.0][rng.below(3) as usize],
            close: rng.chance(0.2).then(|| share(rng, 0.2, 9.0)),
            kept: rng.chance(0.5),
            only: None,
            auth: rng.chance(0.3),
            suffix: if rng.chance(0.004) { "x".repeat(66_000) } else { String::new() },
            keeps_session: rng.chance(0.3),
        }
    }

    pub(super) fn servers(&self) -> usize {
        self.voters + usize::from(self.observer.is_some())
    }

    pub(super) fn observer_index(&self) -> Option<usize> {
        self.observer.map(|_| self.voters)
    }
}
