//! fakedev-exporter and fakedev-workload as processes: what a stock deployment and its tests would
//! see, what was promised and never built, and that none of the known defects is here.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "fakedev/bench.rs"]
mod bench;
#[path = "fakedev/client.rs"]
mod client;
#[path = "fakedev/connections.rs"]
mod connections;
#[path = "fakedev/page.rs"]
mod page;
#[path = "fakedev/process.rs"]
mod process;
