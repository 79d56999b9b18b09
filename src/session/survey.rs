//! Reading all nodes of a directory, for those who look at a lock from outside.

use std::sync::Arc;

use crossbeam_channel::{select_biased, unbounded};

use super::call::{Failure, Until};
use super::connection::Connection;
use super::wire::Wire;
use crate::data::Origin;
use crate::path::LockPath;

/// How many requests are under way at once.
const AT_ONCE: usize = 16;

/// A node and what it says.
#[derive(Debug, Clone)]
pub(crate) struct Znode {
    /// Empty if it was asked for by its path.
    pub(crate) name: String,
    pub(crate) data: Vec<u8>,
    pub(crate) origin: Origin,
    /// The id of its session, 0 if it belongs to none.
    pub(crate) session: i64,
}

/// The nodes in `directory`; none if there is no directory. Those that vanish meanwhile are left
/// out.
pub(crate) fn survey(
    connection: &Arc<Connection>,
    directory: &LockPath,
    until: &Until,
) -> Result<Vec<Znode>, Failure> {
    let listed = directory.clone();
    let names = connection.call(until, move |wire| wire.children(listed.as_str(), false))?;
    let (sender, answers) = unbounded();
    // The jobs end when this is dropped.
    let waiting = Arc::new(());
    let share = names.len().div_ceil(AT_ONCE).max(1);
    for names in names.chunks(share) {
        let (names, directory, sender) = (names.to_vec(), directory.clone(), sender.clone());
        let waiting = Arc::downgrade(&waiting);
        connection.run(move |wire| {
            let nodes = names.iter().map(|name| {
                if waiting.strong_count() == 0 {
                    return Err(Failure::Cancelled);
                }
                let node = read(wire, &directory.child(name))?;
                Ok(node.map(|node| Znode { name: name.clone(), ..node }))
            });
            // Nobody may be waiting any more.
            let _ = sender.send(nodes.collect::<Result<Vec<_>, _>>());
        });
    }
    drop(sender);
    let mut nodes = Vec::with_capacity(names.len());
    while nodes.len() < names.len() {
        select_biased! {
            recv(answers) -> answer => nodes.extend(answer.unwrap_or(Err(Failure::Dead))?),
            recv(connection.died()) -> _ => return Err(Failure::Dead),
            recv(until.expiry()) -> _ => return Err(Failure::Deadline),
        }
    }
    Ok(nodes.into_iter().flatten().collect())
}

/// The node at `path`, if there is one.
pub(crate) fn look(
    connection: &Arc<Connection>,
    path: &LockPath,
    until: &Until,
) -> Result<Option<Znode>, Failure> {
    let path = path.as_str().to_owned();
    connection.call(until, move |wire| read(wire, &path))
}

fn read(wire: &Wire<'_>, path: &str) -> Result<Option<Znode>, Failure> {
    match wire.data(path, false) {
        Ok((data, stat)) => Ok(Some(Znode {
            name: String::new(),
            data,
            origin: Origin::from(&stat),
            session: stat.ephemeral_owner,
        })),
        Err(failure) if failure.is_no_node() => Ok(None),
        Err(failure) => Err(failure),
    }
}
