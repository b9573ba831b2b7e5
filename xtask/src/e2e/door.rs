//! The API server's address among services. Pods look for it there, and a cluster without kube-proxy has nobody who leads them on; this
//! does, for that one address.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};

use super::fetch::Programs;
use super::plane::{API, SERVICE_IP};
use crate::shell;

/// Opens it, for as long as the run lasts.
pub(super) fn open(programs: &Programs) -> Result<()> {
    let mut address = Command::new(programs.usr("bin/busybox"));
    address.args(["ip", "address", "add", &format!("{SERVICE_IP}/32")]);
    shell::run(address.args(["dev", "lo"]))?;
    let listener = TcpListener::bind((SERVICE_IP, 443)).context("listening as the API service")?;
    thread::spawn(move || {
        for inward in listener.incoming().flatten() {
            // A server that is away refuses; so do we, by hanging up.
            if let Ok(outward) = TcpStream::connect(API) {
                lead(inward, outward);
            }
        }
    });
    Ok(())
}

fn lead(inward: TcpStream, outward: TcpStream) {
    let (Ok(inward_too), Ok(outward_too)) = (inward.try_clone(), outward.try_clone()) else {
        return;
    };
    thread::spawn(move || pass(inward, outward));
    thread::spawn(move || pass(outward_too, inward_too));
}

/// Passes on what comes, until one side has said all; then the other hears so.
fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
