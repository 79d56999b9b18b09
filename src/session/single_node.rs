//! A lock that is a single node, made and deleted. Its name does not say who made it, so both
//! happen on one connection, whose session owns the node, and nothing is left to the garbage list:
//! what cannot be deleted there goes with the session.

use std::sync::Arc;

use zookeeper::ZkError;

use super::call::Failure;
use super::connection::Connection;
use super::death::Cause;
use super::garbage::Deleted;
use super::seat::Seat;
use super::wire::{Make, Wire, rules_out};
use crate::data;

/// Makes the node. Afterwards it is the seat's, or there is none of this call's.
pub(crate) fn create_single(
    seat: &Seat,
    wire: &Wire<'_>,
    on: &Arc<Connection>,
) -> Result<(), Failure> {
    let id = seat.enter(on)?;
    let claim = seat.claim();
    let data = data::encode_single(&id, &claim.identity);
    match wire.create(claim.lock.as_str(), &data, Make::Named) {
        Ok(_) => {}
        Err(Failure::Refused(error)) if !rules_out(error) => match was_made(seat, wire, &id) {
            Ok(true) => {}
            Ok(false) => {
                seat.strike(&id);
                return Err(Failure::Refused(error));
            }
            Err(_) => {
                // There may be a node, which nobody would ever delete while the session lives.
                wire.connection().kill(Cause::Failed(error));
                return Err(Failure::Dead);
            }
        },
        Err(Failure::Dead) => return Err(Failure::Dead),
        Err(failure) => {
            seat.strike(&id);
            return Err(failure);
        }
    }
    let (_, name) = claim.lock.split();
    if seat.entered(&id, name) {
        return Ok(());
    }
    // Nobody wants it any more.
    delete_single(seat, wire)?;
    Err(Failure::Cancelled)
}

/// Was the node made by the create that carried `id`? For a refusal that the crate does not know.
fn was_made(seat: &Seat, wire: &Wire<'_>, id: &str) -> Result<bool, Failure> {
    match wire.data(seat.claim().lock.as_str(), false) {
        Ok((data, _)) => Ok(data.starts_with(id.as_bytes())),
        Err(failure) if failure.is_no_node() => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Deletes the node. Only for the connection that made it.
pub(super) fn delete_single(seat: &Seat, wire: &Wire<'_>) -> Result<Deleted, Failure> {
    match wire.delete(seat.claim().lock.as_str()) {
        Ok(()) => Ok(Deleted::Now),
        Err(failure) if failure.is_no_node() => Ok(Deleted::Before),
        Err(failure) => Err(failure),
    }
}

/// Asks whoever made the node to let go. What it says of its maker stays: its name does not tell.
pub(crate) fn revoke_single(wire: &Wire<'_>, path: &str) -> Result<(), Failure> {
    loop {
        let (data, stat) = wire.data(path, false)?;
        match wire.set(path, &data::revoke_single(&data), Some(stat.version)) {
            Err(Failure::Refused(ZkError::BadVersion)) => {}
            asked => return asked,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zoolock_test_support::{connect_string, fresh_path, shared_probe, wait_until};

    use crate::client::Client;
    use crate::clock::Moment;
    use crate::ephemeral::EphemeralLock;

    /// The lease may run out although the server answers, so that the session would live on.
    #[test]
    fn a_hold_that_is_lost_on_a_live_connection_leaves_no_node() {
        let hosts = connect_string();
        let client = Client::connect(&hosts, Duration::from_secs(10)).expect("connect");
        let path = fresh_path("lapsed");
        let lock = EphemeralLock::new(&client, &path).expect("a path");
        lock.lock().expect("held");
        let session = client.session();
        let connection = session.live().expect("a connection");
        let now = Moment::now();
        let later = Duration::from_secs(3600);
        session.lapse(Moment { monotonic: now.monotonic + later, system: now.system + later });
        assert!(connection.is_dead(), "{connection:?}");
        let probe = shared_probe().expect("a probe");
        let there = || probe.stat(&path).expect("an answer").is_some();
        let took = wait_until("the node is gone", later / 180, || !there());
        println!("gone after {took:?}: {:?}", client.stats());
        assert!(lock.unlock().is_err_and(|error| error.is_lost()), "told");
        lock.lock().expect("held again");
        lock.unlock().expect("unlocked");
    }
}
