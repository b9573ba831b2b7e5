//! Ways to the API server. Its address among services: pods look for it there, and a cluster without kube-proxy has nobody who leads
//! them on; this does, for that one address. And a gate that can be shut, for whoever is to be cut off alone.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};

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

/// A way of its own to the API server.
pub(super) struct Gate {
    way: Arc<Mutex<Way>>,
    kubeconfig: PathBuf,
}

struct Way {
    is_open: bool,
    /// Both ends of what goes through.
    streams: Vec<TcpStream>,
}

impl Gate {
    /// An open gate; `kubeconfig` is the one of whom it leads, and a copy of it in `scratch` goes this way.
    pub(super) fn new(kubeconfig: &Path, scratch: &Path) -> Result<Gate> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listening as a gate")?;
        let address = listener.local_addr().context("the gate's address")?;
        let text = fs::read_to_string(kubeconfig)
            .with_context(|| format!("reading {}", kubeconfig.display()))?;
        ensure!(
            text.contains(API),
            "{} does not lead to {API}",
            kubeconfig.display()
        );
        let copy = scratch.join(format!("gate-{}.kubeconfig", address.port()));
        fs::write(&copy, text.replace(API, &address.to_string()))
            .with_context(|| format!("writing {}", copy.display()))?;
        let way = Arc::new(Mutex::new(Way {
            is_open: true,
            streams: Vec::new(),
        }));
        let its = Arc::clone(&way);
        thread::spawn(move || {
            for inward in listener.incoming().flatten() {
                let mut way = lock(&its);
                if way.is_open
                    && let Ok(outward) = TcpStream::connect(API)
                {
                    let ends = [&inward, &outward].map(TcpStream::try_clone);
                    way.streams.extend(ends.into_iter().flatten());
                    lead(inward, outward);
                }
            }
        });
        Ok(Gate {
            way,
            kubeconfig: copy,
        })
    }

    /// The kubeconfig that leads through it.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Cuts off who went through, and lets nobody in.
    pub(super) fn shut(&self) {
        let mut way = lock(&self.way);
        way.is_open = false;
        for stream in way.streams.drain(..) {
            // Gone already is what is wanted.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets all in again.
    pub(super) fn open(&self) {
        lock(&self.way).is_open = true;
    }
}

fn lock(way: &Mutex<Way>) -> MutexGuard<'_, Way> {
    way.lock().unwrap_or_else(PoisonError::into_inner)
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
