//! The basis of all other modules: the vocabulary of locks and of ZooKeeper, plain data, and ways
//! to wait and to wake threads. Everything except [`sys`] is pure.

pub(crate) mod acl;
pub(crate) mod contender;
pub(crate) mod data;
pub(crate) mod error;
pub(crate) mod kind;
pub(crate) mod names;
pub(crate) mod options;
pub(crate) mod outages;
pub(crate) mod panics;
pub(crate) mod path;
pub(crate) mod signal;
pub(crate) mod stay;
pub(crate) mod sys;
pub(crate) mod version;
pub(crate) mod wait;
