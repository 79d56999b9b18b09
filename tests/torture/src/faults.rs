//! The faults of a plan, caused in real networks, processes and servers, or by an operator.

use std::io;
use std::time::Duration;

use zoolock_test_support::{Direction, FaultProxy, Op, Probe, Then};

use crate::Outcome;
use crate::plan::{Fault, FaultKind, FrameFault, Of, Place};
use crate::protocol::now;
use crate::run::shortened;
use crate::scene::Scene;
use crate::servers::{below, delete_if_there};

impl Scene<'_> {
    /// Causes a fault, and ends it. Returns false if the fault was skipped.
    pub(crate) fn carry_out(&self, fault: Fault) -> Outcome<bool> {
        match fault {
            Fault::Frame { client, is_up, of, nth, what } => {
                Ok(self.meet_frame(client, is_up, of, nth, what))
            }
            Fault::At { when, .. } if self.is_over_in(shortened(when)) => Ok(false),
            Fault::At { what, .. } => self.fault(what),
        }
    }

    fn fault(&self, fault: FaultKind) -> Outcome<bool> {
        match fault {
            FaultKind::Cut { client } => Ok(self.each(client, FaultProxy::cut)),
            FaultKind::BlackHole { client, time } => {
                Ok(self.for_a_while(client, time, |proxy| proxy.black_hole(Direction::Both)))
            }
            FaultKind::Deaf { client, is_up, time } => {
                let direction = if is_up { Direction::ToServer } else { Direction::ToClient };
                Ok(self.for_a_while(client, time, |proxy| proxy.black_hole(direction)))
            }
            FaultKind::Refuse { client, time } => {
                Ok(self.for_a_while(client, time, FaultProxy::cut_off))
            }
            // A signal stops all threads of a process. To others, this looks like a suspended machine.
            FaultKind::Freeze { client, time }
            | FaultKind::Stall { client, time }
            | FaultKind::Sleep { client, time, .. } => {
                let is_stopped = self.stop(client)?;
                if let Some(since) = is_stopped {
                    self.is_over_in(time);
                    self.resume(client, since)?;
                }
                Ok(is_stopped.is_some())
            }
            FaultKind::Kill { client } => self.kill(client),
            FaultKind::Expire { client } => self.expire(client),
            FaultKind::Crash { .. }
            | FaultKind::FreezeServer { .. }
            | FaultKind::CutOffServer { .. }
            | FaultKind::Depose => match self.may_disturb_servers {
                true => self.servers.fault(fault),
                false => Ok(false),
            },
            FaultKind::Delete { place, nth } => {
                self.operate(|probe| match self.node(probe, place, nth)? {
                    Some(node) => self.delete(probe, &node),
                    None => Ok(false),
                })
            }
            FaultKind::Clear { place, pause } => self.operate(|probe| {
                self.nodes(probe, place)?.iter().try_fold(false, |_, node| {
                    self.is_over_in(pause);
                    self.delete(probe, node)
                })
            }),
            // The replay covers these at a real server. `tests/contracts` tests how clients react to them.
            FaultKind::Plant { .. } | FaultKind::Scribble { .. } => Ok(false),
            // These faults would require another machine, which has its own clock, memory and names.
            FaultKind::ClockStep { .. } | FaultKind::Full { .. } | FaultKind::NoThreads { .. } => {
                Ok(false)
            }
            FaultKind::Move { .. } | FaultKind::NoName { .. } => Ok(false),
            // A proxy cannot determine when to cause these faults, and servers do not cause them on request.
            FaultKind::Useless { .. } | FaultKind::Lag { .. } | FaultKind::Rob => Ok(false),
            // The torture run does not change permissions. Tests in `tests/faults` do.
            FaultKind::Hide { .. } | FaultKind::HideDirectory { .. } | FaultKind::Forbid { .. } => {
                Ok(false)
            }
        }
    }

    /// Makes the client's proxies lose or delay a frame.
    fn meet_frame(&self, client: usize, is_up: bool, of: Of, nth: u32, what: FrameFault) -> bool {
        let (op, nth) = (op(of), nth.into());
        match what {
            FrameFault::CutBefore | FrameFault::Away(_) | FrameFault::Tear if is_up => {
                self.each(client, |proxy| drop(proxy.on(op).nth(nth).drop_request(Then::Cut)))
            }
            FrameFault::CutBefore
            | FrameFault::CutBehind
            | FrameFault::Away(_)
            | FrameFault::Tear => {
                self.each(client, |proxy| drop(proxy.drop_answer(op, nth, Then::Cut)))
            }
            FrameFault::Delay(time) => self.each(client, |proxy| {
                let held =
                    if is_up { proxy.hold_request(op, nth) } else { proxy.hold_answer(op, nth) };
                if held.wait(Duration::ZERO) || !self.is_over_in(time) {
                    held.release();
                }
            }),
            // Not supported, because other clients cannot be made to act at that exact moment.
            FrameFault::Freezes(_) | FrameFault::Meets(..) => false,
        }
    }

    /// Applies the fault to all proxies of a client, because the client uses one at a time and may switch to another.
    pub(crate) fn each(&self, client: usize, fault: impl Fn(&FaultProxy)) -> bool {
        self.networks.get(client).map(|network| network.iter().for_each(fault)).is_some()
    }

    fn for_a_while(&self, client: usize, time: Duration, fault: impl Fn(&FaultProxy)) -> bool {
        let is_there = self.each(client, fault);
        if is_there {
            self.is_over_in(time);
            self.each(client, FaultProxy::restore);
        }
        is_there
    }

    /// Acts as an operator, who gives up if the node is already deleted or the servers are unavailable.
    fn operate(&self, act: impl Fn(&Probe) -> io::Result<bool>) -> Outcome<bool> {
        self.servers.ask(|probe| Ok(act(probe).unwrap_or_default())).map_err(Into::into)
    }

    /// Returns the ephemeral nodes at a place and below it.
    fn nodes(&self, probe: &Probe, place: Place) -> io::Result<Vec<String>> {
        let all = below(probe, &format!("{}{place}", self.root))?;
        let of_sessions = all.into_iter().filter(|(_, stat)| stat.ephemeral_owner > 0);
        Ok(of_sessions.map(|(node, _)| node).collect())
    }

    fn node(&self, probe: &Probe, place: Place, nth: usize) -> io::Result<Option<String>> {
        let mut nodes = self.nodes(probe, place)?;
        Ok((!nodes.is_empty()).then(|| nodes.swap_remove(nth % nodes.len())))
    }

    /// Deletes a node, as an operator does who assumes that its owner is dead.
    pub(crate) fn delete(&self, probe: &Probe, node: &str) -> io::Result<bool> {
        self.recorder.state().deletes(node, now());
        delete_if_there(probe, node).map(|()| true)
    }

    /// Ends a client's session from outside.
    pub(crate) fn expire(&self, client: usize) -> Outcome<bool> {
        let begun = now();
        let is_there = self.each(client, |proxy| drop(proxy.expire_sessions()));
        if is_there {
            self.doubt(client, begun);
        }
        Ok(is_there)
    }
}

fn op(of: Of) -> Op {
    match of {
        // Lists stand for any request, because they are the most frequent ones.
        Of::Any | Of::List => Op::GetChildren,
        Of::Create => Op::Create,
        Of::Delete => Op::Delete,
        Of::Write => Op::SetData,
        Of::Read => Op::GetData,
        Of::Transaction => Op::Multi,
        Of::Event => Op::Event,
    }
}
