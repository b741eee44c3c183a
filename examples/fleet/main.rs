//! A service that holds thousands of leases, beside tasks that contend for a few keys: the engine's main job, as a load
//! test that judges itself.
//!
//! `cargo fleet` runs it in memory; `cargo fleet-redis --url redis://127.0.0.1` (several at once, if you like) on a
//! server, `cargo fleet-redis --config examples/config/cluster.toml` on the servers of a file. `cargo fleet-otlp` can
//! send its metrics by OTLP, too.
//! `--help` lists the options and the exit codes.

mod contenders;
mod crew;
#[cfg(feature = "metrics")]
mod endpoint;
mod faults;
mod features;
mod kinds;
mod leases;
mod log;
mod losses;
mod options;
mod recipes;
mod servers;
mod status;
mod stop;
mod summary;
mod tally;
mod telemetry;
mod terminal;
mod usage;
mod waits;
mod windows;

use std::{process::ExitCode, sync::Arc, time::Duration};

use leasehold::Engine;
use tokio::{sync::oneshot, task::JoinSet};

use crate::{
    crew::{Crew, now},
    kinds::Kind,
    log::Log,
    options::{Asked, HELP, Options},
    stop::Reason,
    summary::Summary,
    telemetry::Telemetry,
};

#[tokio::main]
async fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)) {
        Ok(Asked::Help) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Asked::Run(options)) => match features::BUILT.check(&options) {
            Ok(()) => match kinds::find(&options.kind) {
                Ok(kind) => run(options, kind).await,
                Err(wrong) => cannot_run(&wrong.to_string()),
            },
            Err(wrong) => cannot_run(&wrong.to_string()),
        },
        Err(wrong) => cannot_run(&wrong.to_string()),
    }
}

async fn run(mut options: Options, kind: Kind) -> ExitCode {
    let engine = match servers::connect(&mut options).await {
        Ok(engine) => engine,
        Err(why) => return cannot_run(&why),
    };
    let log = match options.log.as_deref().map(Log::create).transpose() {
        Ok(log) => log.unwrap_or_default(),
        Err(why) => return cannot_run(&why),
    };
    let telemetry = match Telemetry::start(&engine, &options).await {
        Ok(telemetry) => telemetry,
        Err(why) => return cannot_run(&why),
    };
    show_audit(&engine).await;
    let (crew, reason) = work(Crew::new(engine, options, log), kind).await;
    let unconfirmed = crew.engine.shutdown(SHUTDOWN_PATIENCE).await.unconfirmed.len();
    let summary = Summary::of(&crew, &reason, unconfirmed);
    telemetry.end().await;
    summary.print();
    if let Reason::Failed(why) = reason {
        return cannot_run(&why);
    }
    if summary.is_good() { ExitCode::SUCCESS } else { ExitCode::from(FAULTS_FOUND) }
}

/// What about the servers may cost a lock one day, before it does.
async fn show_audit(engine: &Engine) {
    let report = engine.audit().await;
    report.findings().iter().for_each(|finding| terminal::say(&format!("audit: {finding}")));
}

/// Everything between the first acquire and the last release.
async fn work(crew: Crew, kind: Kind) -> (Arc<Crew>, Reason) {
    let crew = Arc::new(crew);
    let (tell_end, end) = oneshot::channel();
    let losses = tokio::spawn(losses::follow(crew.clone(), crew.engine.losses(), end));
    let status = tokio::spawn(status::show(crew.clone()));
    let mut tasks = JoinSet::new();
    leases::start(&crew, kind, &mut tasks);
    contenders::start(&crew, kind, &mut tasks);
    recipes::start(&crew, &mut tasks);

    let reason = crew.stop.reason().await;
    crew.tally.stopped(now());
    status.abort();
    terminal::say(&format!("{reason}: releasing {} leases", crew.tally.held()));
    release_all(&crew, tasks).await;
    drop(tell_end);
    let _ = losses.await;
    (crew, reason)
}

// Whoever has not ended in time is dropped, and with it its lease: `shutdown` tells which releases stay unconfirmed.
async fn release_all(crew: &Crew, mut tasks: JoinSet<()>) {
    let begun = now();
    let all = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(RELEASE_PATIENCE, all).await.is_ok() {
        let (released, took) = (crew.tally.released_at_the_end(), now() - begun);
        terminal::say(&format!("released {released} leases in {:.2} s", took.as_secs_f64()));
    } else {
        terminal::say(&format!(
            "{} tasks are not done after {RELEASE_PATIENCE:?}; leaving them",
            tasks.len()
        ));
    }
    tasks.shutdown().await;
}

fn cannot_run(why: &str) -> ExitCode {
    eprintln!("fleet: {why}");
    ExitCode::from(CANNOT_RUN)
}

const FAULTS_FOUND: u8 = 1;
const CANNOT_RUN: u8 = 2;
const RELEASE_PATIENCE: Duration = Duration::from_secs(20);
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(3);
