//! Tests of the test support itself, against real servers.

mod orphans;

use std::time::Duration;

/// Long enough for a busy machine. No test waits for it to pass.
const SOON: Duration = Duration::from_secs(30);
