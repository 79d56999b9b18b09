//! Pages for those who run programs with these locks, or come from another library. Nothing but
//! documentation; what a program needs to know is on the [crate's page](crate).
//!
//! - [Operating](operating): settings of the servers, what to watch, what log lines mean, what becomes of
//!   holds in which outage, what to do when a lock is stuck.
//! - [Guarded writes](guarded_writes): what to do about a holder that writes when it has lost its lock.
//! - [Names in ZooKeeper](names): the nodes of a lock, their data and their directories.
//! - [With other clients](other_clients): which programs in other languages can take part in a lock.
//! - [Curator](from_curator), for Java: the same nodes, so that both can take part in one lock.
//! - [kazoo](from_kazoo), for Python: what it calls alike, and what it takes to share a lock.
//! - [parking_lot](from_parking_lot), for threads of one process: what a lock cannot be any more when
//!   its other users are on other machines.

// There are two definitions for each link of a page, of which the first counts: by rustdoc those of `links.txt`,
// which lead to items; on a forge those at the end of the page, which lead to files. `tests/api` looks.

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/operating.md")]
pub mod operating {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/guarded_writes.md")]
pub mod guarded_writes {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/names.md")]
pub mod names {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/other_clients.md")]
pub mod other_clients {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/from_curator.md")]
pub mod from_curator {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/from_kazoo.md")]
pub mod from_kazoo {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/from_parking_lot.md")]
pub mod from_parking_lot {}
