//! The lock-delay: a call that is first in its queue waits if the holder before it was lost.

use log::info;
use zookeeper::{CreateMode, ErrorKind, Op, OpResult, Stat};

use super::attempt::{Attempt, Pass, Stop, Want};
use crate::error::Error;
use crate::inner::{Failure, Record, Taken};
use crate::names::Number;
use crate::sys;

/// What becomes of a call that is first.
enum Delay {
    /// Nobody keeps it out.
    Over,
    /// The delay goes on, and the call does not wait.
    Lasts,
    /// Its node is gone.
    Gone,
}

/// The outcome of a write of the record.
enum Wrote {
    Done(Option<Stat>),
    /// The own node is gone.
    Gone,
    /// The record is not as the write expects it.
    Refused,
}

impl Attempt<'_> {
    /// Takes its nodes, which are first, as soon as no lost holder keeps others out. Only a claim of
    /// one node has a lock-delay. `only_number` is that of the only node, if it is alone.
    pub(super) fn grant_after_delay(&mut self, only_number: Option<Number>) -> Result<Pass, Stop> {
        if let Some(delay) = self.want.claim.delay {
            match self.pass_delay(&Record::held(delay, &self.own[0]))? {
                Delay::Over => self.own[0].takes = Some(Taken::Record),
                Delay::Lasts => return Ok(Pass::Busy),
                Delay::Gone => return Ok(Pass::Again),
            }
        }
        self.grant(only_number)
    }

    /// Waits until no lost holder keeps this call out, and records the call as the holder.
    fn pass_delay(&mut self, held: &Record) -> Result<Delay, Stop> {
        loop {
            match self.write_record(held, None)? {
                Wrote::Done(_) => return Ok(Delay::Over),
                Wrote::Gone => return Ok(Delay::Gone),
                Wrote::Refused => {}
            }
            let Some((found, stat)) = self.read_record()? else {
                sys::reached("the record of a lost holder goes");
                continue;
            };
            if found.node == held.node {
                sys::reached("a call finds itself in the record");
                return Ok(Delay::Over);
            }
            // Later calls see since when the loss is known. The answer has the servers' time.
            let lost = found.seen(stat.mtime);
            let now = match self.write_record(&lost, Some(stat.version))? {
                Wrote::Done(Some(now)) => now,
                Wrote::Gone => return Ok(Delay::Gone),
                Wrote::Done(None) | Wrote::Refused => continue,
            };
            match self.await_end(&lost, now.mtime)? {
                Delay::Over => {}
                ended => return Ok(ended),
            }
            match self.write_record(held, Some(now.version))? {
                Wrote::Done(_) => return Ok(Delay::Over),
                Wrote::Gone => return Ok(Delay::Gone),
                Wrote::Refused => sys::reached("a record is changed while its delay lasts"),
            }
        }
    }

    /// Waits until the delay of a lost holder is over, if the call waits and keeps its node.
    fn await_end(&mut self, lost: &Record, now: i64) -> Result<Delay, Stop> {
        let left = lost.left(now);
        if left.is_zero() {
            sys::reached("a delay is over that an earlier call has seen");
            return Ok(Delay::Over);
        }
        self.seen_ahead = true;
        if !self.want.waits {
            sys::reached("a try comes while a delay lasts");
            return Ok(Delay::Lasts);
        }
        sys::reached("a lost holder delays the next one");
        let lock = self.path();
        info!(
            target: "zoolock::queue", lock:%;
            "{lock}: the holder before was lost; waiting for its lock-delay, {left:?}"
        );
        let end = sys::now() + left;
        loop {
            let look = sys::now() + self.requests().timeout();
            self.requests().pause(end.min(look), self.want.until)?;
            if end <= look {
                return Ok(Delay::Over);
            }
            // Otherwise it would notice only at the end that it has to queue again.
            if self.stat(&self.own[0].name)?.is_none() {
                sys::reached("a node goes while a delay lasts");
                return Ok(Delay::Gone);
            }
        }
    }

    /// Creates the record, or sets it if it has this version, as long as the own node exists.
    fn write_record(&self, record: &Record, version: Option<i32>) -> Result<Wrote, Stop> {
        let Want { claim, until, .. } = self.want;
        let (path, data) = (claim.directory.record(), record.encode());
        let write = match version {
            None => {
                Op::Create(&path, data.as_bytes(), self.requests().acl(), CreateMode::Persistent)
            }
            version => Op::SetData(&path, data.as_bytes(), version),
        };
        let session = Some(self.session_id);
        let ops = [Op::Check(&claim.path_of(&self.own[0]), None), write];
        let written = self.requests().ask_one(session, until, |batch| batch.multi(&ops));
        let error = match written {
            Ok(results) => {
                return Ok(Wrote::Done(results.into_iter().find_map(|result| match result {
                    OpResult::Set(stat) => Some(stat),
                    _ => None,
                })));
            }
            Err(Failure::Refused(error)) => error,
            Err(failure) => return Err(failure.into()),
        };
        match (error.failed_op(), error.kind()) {
            (Some(0), ErrorKind::NoNode) => Ok(Wrote::Gone),
            (_, ErrorKind::NodeExists | ErrorKind::NoNode | ErrorKind::BadVersion) => {
                Ok(Wrote::Refused)
            }
            _ => Err(self.requests().error(&path, Failure::Refused(error)).into()),
        }
    }

    fn read_record(&self) -> Result<Option<(Record, Stat)>, Stop> {
        let path = self.want.claim.directory.record();
        let read = |batch: &mut zookeeper::Batch<'_>| batch.get_data(&path, None);
        let (data, stat) =
            match self.requests().ask_one(Some(self.session_id), self.want.until, read) {
                Ok(read) => read,
                Err(failure) if failure.is(ErrorKind::NoNode) => return Ok(None),
                Err(failure @ Failure::Refused(_)) => {
                    return Err(self.requests().error(&path, failure).into());
                }
                Err(failure) => return Err(failure.into()),
            };
        match Record::decode(&data) {
            Some(record) => Ok(Some((record, stat))),
            None => {
                let reason = "it exists, and is not the record of a lock-delay".to_owned();
                Err(Error::InvalidPath { path, reason }.into())
            }
        }
    }
}
