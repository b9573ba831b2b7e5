//! The binary from outside: real processes, loopback ports the system chose, temporary directories.
//! Waiting means looking again until it is so, for half a minute at most; nothing here depends on how
//! fast anything is.

#[path = "../../../k8s/tests/support/api.rs"]
mod api;
mod check;
mod control;
mod ctl;
mod exporter;
mod http;
mod pods;
mod reload;
mod simulate;
mod support;
mod up;
mod web;
mod workloads;
