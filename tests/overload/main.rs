//! One client with many holds and waiters, and busy servers that refuse requests.

mod holding;
mod leftovers;
