//! Many holds and waiters of one client, and requests that busy servers refuse.

mod holding;
mod leftovers;
