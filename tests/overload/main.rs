//! Many holds and waiters of one client, and what busy servers refuse.

mod holding;
mod leftovers;
