//! Pages for operators, services, and users of other libraries. This module contains documentation
//! only. The [crate's page](crate) has everything that a program needs to know.
//!
//! - [Operating](operating): settings of servers and clients, observability, log lines, what happens
//!   to held locks in outages, limits, stuck locks, stability.
//! - [Kubernetes](kubernetes): probes, the end of a pod, servers in the cluster, a reaper.
//! - [Guarded writes](guarded_writes): how to stop the late write of a holder that has lost its
//!   lock.
//! - [Services](services): a lock for each request, with readiness, outages, errors, callers that
//!   disconnect, several items, names and shutdown. Jobs from cron.
//! - [Asynchronous programs](asynchronous): how to use the blocking locks in tasks: guards,
//!   cancelled waits, threads, losses, leadership.
//! - [Names in ZooKeeper](names): the nodes of a lock, their data and their directories.
//! - [With other clients](other_clients): programs in other languages that can share a lock.
//! - [Curator](from_curator), for Java: its names and ours, and how to move a fleet step by step.
//! - [kazoo](from_kazoo), for Python: its names and ours, and how to share locks and permits.
//! - [parking_lot](from_parking_lot), for threads of one process: how distributed locks differ, and
//!   what happens if a thread locks again.

// Each link of a page has two definitions, and a renderer uses the first one that it reads. rustdoc
// reads `links.txt` first, where the definitions lead to items. A forge reads only the definitions
// at the end of the page, which lead to files. `tests/api` checks both. Pictures have two
// definitions as well: rustdoc serves no files, so `pictures.txt` contains the pictures themselves.

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/pictures/pictures.txt")]
#[doc = include_str!("guide/operating.md")]
pub mod operating {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/kubernetes.md")]
pub mod kubernetes {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/pictures/pictures.txt")]
#[doc = include_str!("guide/guarded_writes.md")]
pub mod guarded_writes {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/pictures/pictures.txt")]
#[doc = include_str!("guide/services.md")]
pub mod services {}

#[doc = include_str!("guide/links.txt")]
#[doc = include_str!("guide/asynchronous.md")]
pub mod asynchronous {}

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
