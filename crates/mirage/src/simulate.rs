//! `mirage simulate`: the same engine offline, as fast as the CPU goes. No sockets, no files, no wall
//! clock: the same arguments print the same bytes.

mod csv;
mod json;
mod pages;
mod summary;

use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use mirage_metrics::Exporter;
use mirage_model::plan::Plan;
use mirage_sim::{Event, World};
use mirage_state::Image;

use self::pages::Pages;
use crate::cli::usage;
use crate::exporter::IdentityArgs;
use crate::machine::duration;
use crate::publish::{self, Clock};
use crate::source::Source;

/// When every offline simulation begins: 1 January 2025, midnight UTC.
const START_UNIX_MS: u64 = 1_735_689_600_000;
/// The node's name where nobody gives one; the machine's would differ from one to the next.
const HOST: &str = "node";
/// Events a node's ring holds.
const RING: usize = 256;
/// Most samples one run may print.
const SAMPLES: u128 = 10_000_000;

/// Arguments of `mirage simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    mirage simulate --for 1h --print summary\n  \
    mirage simulate --config scenario.yaml --for 1h --every 1m --print csv > run.csv\n  \
    mirage simulate --model tesla-k80 --gpus 2 --for 5m --print metrics\n\n\
    The same arguments print the same bytes, on every machine.")]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// How much time to simulate, as in 90s or 1h30m
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    length: Duration,
    /// Time between samples, each taken at the first tick by then [default: one sample, at the end]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,
    /// What to print
    #[arg(long, value_enum, default_value_t = Print::Summary)]
    print: Print,
    #[command(flatten)]
    exporter: IdentityArgs,
}

/// What a simulation prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Print {
    /// The exporter's page at each sample
    Metrics,
    /// A JSON object per line and sample: time, GPUs, and the events since the last one
    Json,
    /// A line per GPU and sample
    Csv,
    /// What happened, in a few lines
    Summary,
}

/// Runs and prints.
pub fn run(args: &Args) -> Result<()> {
    let exporter = args.exporter.compile()?;
    let mut printer = Printer::new(args.print, exporter, args.exporter.clock_window_ms());
    let every = args.every.unwrap_or(args.length);
    if every.is_zero() && !args.length.is_zero() {
        return Err(usage("--every 0: must be longer, as in 1m"));
    }
    if !every.is_zero() && args.length.as_nanos() / every.as_nanos() > SAMPLES {
        return Err(usage(format!(
            "--for and --every make more than {SAMPLES} samples; take fewer"
        )));
    }
    let mut offline = Offline::new(args.source.plan(HOST)?);
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    play(args, every, &mut offline, &mut printer, &mut out)
        .and_then(|()| Ok(out.flush()?))
        .context("writing the simulation to standard output")
}

fn play(
    args: &Args,
    every: Duration,
    offline: &mut Offline,
    printer: &mut Printer,
    out: &mut impl Write,
) -> Result<()> {
    printer.begin(offline, out)?;
    loop {
        let next = following(every, offline.world.now()).min(args.length);
        while offline.world.now() < next {
            offline.tick(args.length, &mut |offline, events| {
                printer.tick(offline, events);
            });
        }
        if printer.wants_samples() {
            offline.refresh();
            printer.sample(offline, args.every.is_some(), out)?;
        }
        if offline.world.now() >= args.length {
            break;
        }
    }
    printer.finish(offline, out)
}

/// The first multiple of `every` after `now`. A tick may reach beyond several: they share a sample.
fn following(every: Duration, now: Duration) -> Duration {
    let past = now.as_nanos() / every.as_nanos().max(1);
    let next = every.as_nanos().saturating_mul(past + 1);
    Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX))
}

/// A world without a wall clock.
#[derive(Debug)]
pub struct Offline {
    /// The plan.
    pub plan: Plan,
    /// The world.
    pub world: World,
    /// The tables of its nodes, as of the last [`Offline::refresh`].
    pub nodes: Vec<Arc<Image>>,
    clock: Clock,
    ticks: u64,
}

impl Offline {
    /// A world that has just begun.
    pub fn new(plan: Plan) -> Self {
        let clock = Clock {
            start_unix_ms: START_UNIX_MS,
            period: plan.tick,
            epoch: 0,
        };
        let mut offline = Self {
            world: World::new(&plan),
            nodes: publish::images(&plan, clock),
            plan,
            clock,
            ticks: 0,
        };
        offline.refresh();
        offline
    }

    /// The clock its tables tell.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Lets a tick pass, cut to fit before `end`, and shows its events. Ticks are the plan's, however often
    /// somebody looks: looking changes nothing.
    pub fn tick(&mut self, end: Duration, show: &mut dyn FnMut(&Self, &[Event])) {
        let step = self.plan.tick.min(end.saturating_sub(self.world.now()));
        self.world.step(&[], step);
        self.ticks += 1;
        let events = self.world.drain_events();
        for event in &events {
            if let Some(image) = self.nodes.get_mut(event.node as usize) {
                publish::append(Arc::make_mut(image), event, self.clock, RING);
            }
        }
        show(self, &events);
    }

    /// Brings the tables up to date.
    pub fn refresh(&mut self) {
        for (index, image) in self.nodes.iter_mut().enumerate() {
            let image = Arc::make_mut(image);
            image.header.tick = self.ticks;
            publish::refresh(image, &self.plan, &self.world, index, self.clock);
        }
    }
}

/// Prints in the form asked for.
enum Printer {
    Metrics(Box<Pages>),
    Json(json::Lines),
    Csv,
    Summary(summary::Summary),
}

impl Printer {
    fn new(print: Print, exporter: Exporter, clock_window_ms: u64) -> Self {
        match print {
            Print::Metrics => Self::Metrics(Box::new(Pages::new(exporter, clock_window_ms))),
            Print::Json => Self::Json(json::Lines::default()),
            Print::Csv => Self::Csv,
            Print::Summary => Self::Summary(summary::Summary::default()),
        }
    }

    fn wants_samples(&self) -> bool {
        !matches!(self, Self::Summary(_))
    }

    fn begin(&mut self, offline: &Offline, out: &mut impl Write) -> Result<()> {
        match self {
            Self::Csv => csv::header(out)?,
            Self::Summary(summary) => summary.begin(offline),
            Self::Metrics(_) | Self::Json(_) => {}
        }
        Ok(())
    }

    fn tick(&mut self, offline: &Offline, events: &[Event]) {
        match self {
            Self::Summary(summary) => summary.tick(offline, events),
            Self::Json(lines) => lines.tick(offline, events),
            Self::Metrics(pages) => pages.tick(offline),
            Self::Csv => {}
        }
    }

    fn sample(&mut self, offline: &Offline, several: bool, out: &mut impl Write) -> Result<()> {
        match self {
            Self::Metrics(pages) => pages.sample(offline, several, out)?,
            Self::Json(lines) => lines.sample(offline, out)?,
            Self::Csv => csv::sample(offline, out)?,
            Self::Summary(_) => {}
        }
        Ok(())
    }

    fn finish(&mut self, offline: &Offline, out: &mut impl Write) -> Result<()> {
        match self {
            Self::Summary(summary) => summary.finish(offline, out),
            Self::Metrics(_) | Self::Json(_) | Self::Csv => Ok(()),
        }
    }
}
