//! Histories of a correct lock: threads queue for it, are granted it one after another, and
//! sometimes give up, lose it, lose an answer, or die.

#![allow(unreachable_pub)]

use std::collections::VecDeque;

use fastrand::Rng;
use zoolock_judge::{
    Answer, Call, Carried, Commit, Grant, History, HoldId, Kind, LockIndex, Loss, Missed, Mode,
    Nanos, Unlocked, Use, WorkerId,
};

const THREADS_OF_A_CLIENT: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Thread {
    Idle,
    Called {
        started: Nanos,
        mode: Mode,
    },
    Queued {
        started: Nanos,
        mode: Mode,
        ticket: u64,
    },
    /// The servers have let it in, and it does not know.
    LetIn {
        started: Nanos,
        mode: Mode,
        ticket: u64,
    },
    Holds {
        hold: HoldId,
        ticket: u64,
        commits: u32,
    },
    Commits {
        hold: HoldId,
        ticket: u64,
        commits: u32,
        started: Nanos,
    },
    Leaves {
        hold: HoldId,
        ticket: u64,
    },
    Left {
        hold: HoldId,
    },
}

/// The truth, and the threads.
pub struct Lock {
    path: LockIndex,
    what: Use,
    threads: Vec<(WorkerId, u32, Thread)>,
    queue: VecDeque<(u64, Mode)>,
    /// Who is let in, with the units that it takes.
    inside: Vec<(u64, u32)>,
    /// What the servers take away at some time: holds that are lost, and those of the dead.
    given_up: Vec<u64>,
    tickets: u64,
    zxid: i64,
    now: Nanos,
}

impl Lock {
    pub fn new(path: LockIndex, what: Use, threads: usize) -> Lock {
        let worker = |thread| WorkerId {
            // Each lock has clients and a clock of its own.
            process: path * threads + thread / THREADS_OF_A_CLIENT,
            incarnation: 0,
            thread: thread % THREADS_OF_A_CLIENT,
        };
        Lock {
            path,
            what,
            threads: (0..threads).map(|thread| (worker(thread), 0, Thread::Idle)).collect(),
            queue: VecDeque::new(),
            inside: Vec::new(),
            given_up: Vec::new(),
            tickets: 0,
            zxid: 0,
            now: 0,
        }
    }

    /// Goes on until there are so many holds more, and everybody is out again.
    pub fn run(&mut self, history: &mut History, rng: &mut Rng, holds: usize) {
        let enough = history.holds.len() + holds;
        while history.holds.len() < enough || !self.is_at_rest() {
            self.now += rng.u64(0..20);
            if !self.given_up.is_empty() && rng.u8(0..8) == 0 {
                let ticket = self.given_up.swap_remove(rng.usize(0..self.given_up.len()));
                self.leave(ticket);
                continue;
            }
            let index = rng.usize(0..self.threads.len());
            let (by, mut holds, thread) = self.threads[index];
            let begins = history.holds.len() < enough;
            let thread = self.step(history, rng, (by, &mut holds), thread, begins);
            self.threads[index] = (by, holds, thread);
            if rng.u16(0..2000) == 0 {
                self.kill(history, by);
            }
        }
    }

    fn is_at_rest(&self) -> bool {
        self.given_up.is_empty()
            && self.threads.iter().all(|(_, _, thread)| matches!(thread, Thread::Idle))
    }

    fn step(
        &mut self,
        history: &mut History,
        rng: &mut Rng,
        (by, holds): (WorkerId, &mut u32),
        thread: Thread,
        begins: bool,
    ) -> Thread {
        let now = self.now;
        match thread {
            Thread::Idle if begins => Thread::Called { started: now, mode: self.pick_mode(rng) },
            Thread::Idle => thread,
            Thread::Called { started, mode } => {
                self.tickets += 1;
                self.queue.push_back((self.tickets, mode));
                Thread::Queued { started, mode, ticket: self.tickets }
            }
            Thread::Queued { started, mode, ticket } if rng.u8(0..40) == 0 => {
                let certain = rng.bool();
                if certain {
                    self.queue.retain(|&(queued, _)| queued != ticket);
                } else {
                    self.given_up.push(ticket);
                }
                self.miss(history, by, started, Missed { mode, certain });
                Thread::Idle
            }
            Thread::Queued { started, mode, ticket } => match self.let_in(ticket) {
                true => Thread::LetIn { started, mode, ticket },
                false => thread,
            },
            Thread::LetIn { started, mode, ticket } => {
                *holds += 1;
                let hold = HoldId { by, number: *holds };
                self.grant(history, hold, started, mode, ticket);
                Thread::Holds { hold, ticket, commits: 0 }
            }
            Thread::Holds { hold, ticket, commits } => match rng.u8(0..40) {
                0 => {
                    history.lost(hold, Loss { at: now, reason: "lost".into() });
                    history.left(hold, now + 1);
                    history.unlocked(hold, Some(now + 2), Unlocked::Lost);
                    self.given_up.push(ticket);
                    Thread::Idle
                }
                1 => {
                    history.left(hold, now);
                    history.unlocked(hold, None, Unlocked::Silent);
                    self.given_up.push(ticket);
                    Thread::Idle
                }
                2..8 if !matches!(self.what, Use::Semaphore(_)) => {
                    Thread::Commits { hold, ticket, commits, started: now }
                }
                8..24 => thread,
                _ => {
                    history.left(hold, now);
                    Thread::Leaves { hold, ticket }
                }
            },
            Thread::Commits { hold, ticket, commits, started } => {
                self.commit(history, (hold, ticket), commits, started);
                Thread::Holds { hold, ticket, commits: commits + 1 }
            }
            Thread::Leaves { hold, ticket } => {
                self.leave(ticket);
                Thread::Left { hold }
            }
            Thread::Left { hold } => {
                history.unlocked(hold, Some(now), Unlocked::Fine);
                Thread::Idle
            }
        }
    }

    /// All threads of a client end, and the next ones take their places.
    fn kill(&mut self, history: &mut History, of: WorkerId) {
        self.now += 1;
        history.died(of.incarnation(), self.now);
        for (by, holds, thread) in &mut self.threads {
            if by.incarnation() != of.incarnation() {
                continue;
            }
            match *thread {
                Thread::Queued { ticket, .. }
                | Thread::LetIn { ticket, .. }
                | Thread::Holds { ticket, .. }
                | Thread::Commits { ticket, .. }
                | Thread::Leaves { ticket, .. } => self.given_up.push(ticket),
                Thread::Idle | Thread::Called { .. } | Thread::Left { .. } => {}
            }
            by.incarnation += 1;
            (*holds, *thread) = (0, Thread::Idle);
        }
        self.now += 1;
    }

    fn pick_mode(&self, rng: &mut Rng) -> Mode {
        match self.what {
            Use::Exclusive | Use::Ephemeral => Mode::Exclusive,
            Use::ReadWrite if rng.u8(0..3) > 0 => Mode::Shared,
            Use::ReadWrite => Mode::Exclusive,
            Use::Semaphore(most) => Mode::Permits(rng.u32(1..=most)),
        }
    }

    /// In the order of the queue.
    fn let_in(&mut self, ticket: u64) -> bool {
        let Some(&(first, mode)) = self.queue.front() else {
            return false;
        };
        // One whose client has given up is let in as well: nobody has told the servers.
        let mine = first == ticket || self.given_up.contains(&first);
        let units = self.what.units(mode);
        let taken: u32 = self.inside.iter().map(|&(_, units)| units).sum();
        if !mine || taken + units > self.what.capacity() {
            return false;
        }
        self.queue.pop_front();
        self.inside.push((first, units));
        first == ticket
    }

    fn leave(&mut self, ticket: u64) {
        self.queue.retain(|&(queued, _)| queued != ticket);
        self.inside.retain(|&(inside, _)| inside != ticket);
    }

    fn miss(&self, history: &mut History, by: WorkerId, started: Nanos, missed: Missed) {
        history.called(
            by,
            Call {
                op: "try_lock_for".into(),
                path: self.path,
                started,
                deadline: None,
                ended: self.now,
                missed: Some(missed),
            },
        );
    }

    fn grant(&self, history: &mut History, hold: HoldId, started: Nanos, mode: Mode, ticket: u64) {
        history.granted(Grant {
            hold,
            under: None,
            kind: Kind::Exclusive,
            path: self.path,
            mode,
            member: 0,
            op: "lock".into(),
            waited: true,
            nodes: vec![format!("lock-{ticket:010}")],
            token: (!matches!(mode, Mode::Permits(_))).then_some(ticket),
            started,
            at: self.now,
            still_held: true,
            witness_free: true,
        });
    }

    fn commit(
        &mut self,
        history: &mut History,
        (hold, token): (HoldId, u64),
        number: u32,
        started: Nanos,
    ) {
        self.zxid += 1;
        let ended = self.now;
        let answer = Answer::Done;
        history.committed(Commit { holds: vec![hold], number, held: true, started, ended, answer });
        let (path, zxid) = (self.path, self.zxid);
        history.carried_out.push(Carried { path, token, hold, number, zxid });
    }
}
