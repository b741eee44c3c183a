//! `leasehold release --force NAME`.

use std::io::{self, BufRead, IsTerminal, Write};

use leasehold::{Engine, InspectError};
use leasehold_redis::ConfigFile;
use serde_json::json;

use crate::{
    arguments::Release,
    exit,
    failure::Failure,
    look::{Look, Shape, look},
    output::Output,
    report::Report,
    servers,
};

pub(crate) async fn release(
    release: Release,
    configuration: ConfigFile,
    output: Output,
) -> Result<u8, Failure> {
    check(&release)?;
    let engine = servers::engine(configuration).await?;
    let look = look(&engine, &release.lock.name, release.lock.kind).await?;
    let shape = shape_of(&look)?;
    let report = Report::of(look);
    if !report.is_free() && !release.yes && !is_wanted(&report)? {
        return tell(output, &release.lock.name, false, "nothing was released");
    }
    let released = !report.is_free() && force(&engine, &release.lock.name, shape).await?;
    tell(output, &release.lock.name, released, if released { "released" } else { "the lock is free" })
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
fn is_wanted(report: &Report) -> Result<bool, Failure> {
    let unusable = |error: io::Error| Failure::new(exit::OUTPUT, format!("cannot ask: {error}"));
    let mut stderr = io::stderr().lock();
    write!(stderr, "{report}\n{WARNING}\nRelease it? Type yes: ")
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

fn tell(output: Output, name: &str, released: bool, text: &str) -> Result<u8, Failure> {
    output.result(&format_args!("{name:?}: {text}"), &json!({ "name": name, "released": released }))?;
    Ok(if released { exit::SUCCESS } else { exit::NO })
}

const WARNING: &str = "The holder is not asked. If it still runs, it goes on until its next renewal, at most a \
                       third of its ttl, while others can have the lock.";
