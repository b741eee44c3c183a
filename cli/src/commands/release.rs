//! `leasehold release --force NAME`.

use std::io::{self, BufRead, IsTerminal, Write};

use leasehold::{Engine, InspectError};
use leasehold_redis::ConfigFile;
use serde_json::json;

use crate::{
    arguments::{Lock, Release},
    exit,
    failure::Failure,
    look::{Look, Shape, look},
    output::Output,
    report::Report,
    servers,
    system_error::words,
};

pub(crate) async fn release(
    release: Release,
    configuration: ConfigFile,
    output: Output,
) -> Result<u8, Failure> {
    check(&release)?;
    let servers = servers::shown(&configuration.redis);
    let (engine, name) = (servers::engine(configuration, output).await?, &release.lock.name);
    let tell = |released, text: &str| tell(output, (name, &servers), released, text);
    let (shape, report) = see(&engine, &release.lock).await?;
    if !report.is_free() && !release.yes {
        if !is_wanted(&report, &servers)? {
            return tell(false, "type yes in full to release; nothing was released");
        }
        let (_, now) = see(&engine, &release.lock).await?;
        if now.owners() != report.owners() {
            return tell(false, "the holders have changed meanwhile: nothing was released");
        }
    }
    let released = !report.is_free() && force(&engine, name, shape).await?;
    tell(released, if released { "released" } else { "the lock is free" })
}

async fn see(engine: &Engine, lock: &Lock) -> Result<(Shape, Report), Failure> {
    let look = look(engine, &lock.name, lock.kind).await?;
    Ok((shape_of(&look)?, Report::of(look)))
}

fn check(release: &Release) -> Result<(), Failure> {
    if !release.force {
        let text = "a lock is released by its holder; --force takes it away from the holder";
        return Err(Failure::new(exit::USAGE, text));
    }
    if !release.yes && !io::stdin().is_terminal() {
        return Err(Failure::new(exit::USAGE, "there is no terminal to ask at; give --yes"));
    }
    Ok(())
}

fn shape_of(look: &Look) -> Result<Shape, Failure> {
    match look {
        Look::Lock(shape, _) => Ok(*shape),
        Look::Permits(_) => Err(Failure::new(
            exit::USAGE,
            "permits are not released by force; end the process that holds them, and they come back after their ttl",
        )),
    }
}

/// Says what would happen, and asks.
fn is_wanted(report: &Report, servers: &str) -> Result<bool, Failure> {
    let unusable = |error: io::Error| Failure::new(exit::OUTPUT, format!("cannot ask: {}", words(&error)));
    let mut stderr = io::stderr().lock();
    write!(stderr, "{report}\n{WARNING}\nRelease it at {servers}? Type yes: ")
        .and_then(|()| stderr.flush())
        .map_err(unusable)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(unusable)?;
    Ok(answer.trim() == "yes")
}

async fn force(engine: &Engine, name: &str, shape: Shape) -> Result<bool, InspectError> {
    match shape {
        Shape::Exclusive => engine.lock(name).force_release().await,
        Shape::Fair => engine.fair_lock(name).force_release().await,
        Shape::ReadWrite => engine.rw_lock(name).write().force_release().await,
    }
}

fn tell(output: Output, (name, servers): (&str, &str), released: bool, text: &str) -> Result<u8, Failure> {
    let document = json!({ "name": name, "servers": servers, "released": released });
    output.result(&format_args!("{name:?} at {servers}: {text}"), &document)?;
    Ok(if released { exit::SUCCESS } else { exit::NO })
}

const WARNING: &str = "The holder is not asked. If it still runs, it goes on until its next renewal, at most a \
                       third of its ttl, while others can have the lock.";
