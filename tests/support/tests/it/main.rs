//! Tests of the test support itself, against real servers.

mod orphans;
