//! `leasehold run NAME -- COMMAND...`.

mod group;
mod guard;
mod held;
mod news;
mod process_table;
mod signals;
mod stop_plan;
mod supervision;

pub(crate) use self::guard::guard;

use std::{io, time::Duration};

use leasehold::{
    Engine, ReleaseError,
    clock::{Clock, Instant},
};
use leasehold_redis::ConfigFile;

use self::{
    group::Group,
    guard::Guard,
    held::Held,
    news::News,
    signals::Signals,
    stop_plan::StopPlan,
    supervision::{Ended, supervise},
};
use crate::{
    arguments::Run,
    duration::{millis, shown},
    exit,
    failure::Failure,
    kind::{Acquired, Inspected},
    look::look,
    output::Output,
    report::Report,
    servers,
    system_error::words,
};

/// Runs the command under the lock, and returns its exit code.
///
/// # Errors
/// The lock could not be asked for, or the command not be started.
pub(crate) async fn run(run: Run, configuration: ConfigFile, output: Output) -> Result<u8, Failure> {
    check_permits(&run)?;
    let ttl = run.ttl.unwrap_or(configuration.engine.ttl());
    let plan = StopPlan::new(ttl, run.grace).map_err(|text| Failure::new(exit::USAGE, text))?;
    let mut signals = Signals::listen().map_err(|error| Failure::new(exit::CANNOT_START, words(&error)))?;
    let engine = tokio::select! {
        signal = signals.end() => return Ok(News::new(&run, output).ended_in_wait(signal)),
        engine = servers::engine(configuration, output) => engine?,
    };
    let code = under_lock(&engine, &run, (ttl, plan), &mut signals, output).await;
    engine.shutdown(SHUTDOWN).await;
    code
}

/// An option of permits without `--kind permits` would have no effect: the lock would be exclusive.
fn check_permits(run: &Run) -> Result<(), Failure> {
    if run.kind == Acquired::Permits || (run.count.is_none() && run.limit.is_none()) {
        return Ok(());
    }
    let text = format!(
        "--count and --limit are for permits, and --kind is {}; add --kind permits",
        run.kind.as_str()
    );
    Err(Failure::new(exit::USAGE, text))
}

async fn under_lock(
    engine: &Engine,
    run: &Run,
    (ttl, plan): (Duration, StopPlan),
    signals: &mut Signals,
    output: Output,
) -> Result<u8, Failure> {
    let news = News::new(run, output);
    let held = tokio::select! {
        signal = signals.end() => return Ok(news.ended_in_wait(signal)),
        failure = look_while_waiting(engine, run, &news) => return Err(failure),
        held = Held::acquire(engine, run, ttl, &news) => held?,
    };
    let Some(held) = held else { return conflict(engine, run, &news).await };
    news.granted(held.remaining(), held.token());
    let since = Clock::Boot.now();
    let ended = work(run, &held, plan, signals, &news).await;
    if let Ok(Ended { was_stopped: false, .. }) = ended {
        keep(run, &held, since, signals, &news).await;
    }
    let code = ended.as_ref().map_or_else(|failure| failure.code, Ended::code);
    let released = held.release().await;
    let code = if is_lost(&released) { exit::LOST } else { code };
    news.released(&released, code);
    ended.map(|_| code)
}

/// Looks at the lock from time to time while the program waits for it. Ends if the key holds a hash that is no lock: that
/// looks as if it was held, and the wait would be in vain. Tells if the server stops answering.
async fn look_while_waiting(engine: &Engine, run: &Run, news: &News<'_>) -> Failure {
    let (mut pause, mut answers) = (UNTIL_LOOK, true);
    loop {
        Clock::Boot.sleep_until(Clock::Boot.now() + pause).await;
        match look_at_lock(engine, run).await {
            Ok(_) => answers = true,
            Err(failure) if failure.code == exit::NO_LOCK => return failure,
            Err(failure) if answers && failure.code == exit::UNAVAILABLE => {
                answers = false;
                news.unanswered(&failure.text);
            }
            // Told before, or this user may not look: the wait can end well all the same.
            Err(_) => {}
        }
        pause = BETWEEN_LOOKS;
    }
}

async fn look_at_lock(engine: &Engine, run: &Run) -> Result<Report, Failure> {
    let kind = if run.kind == Acquired::Permits { Inspected::Permits } else { Inspected::Auto };
    Ok(Report::of(look(engine, &run.name, kind).await?))
}

async fn conflict(engine: &Engine, run: &Run, news: &News<'_>) -> Result<u8, Failure> {
    let report = match tokio::time::timeout(LOOK_MAX, look_at_lock(engine, run)).await {
        Ok(Err(failure)) if failure.code == exit::NO_LOCK => return Err(failure),
        Ok(report) => report.map_err(|failure| failure.text),
        Err(_elapsed) => Err(format!("no answer within {}", shown(LOOK_MAX))),
    };
    let code = if run.once { exit::SUCCESS } else { run.conflict_exit_code };
    news.conflict(report.as_ref(), code);
    Ok(code)
}

async fn work(
    run: &Run,
    held: &Held,
    plan: StopPlan,
    signals: &mut Signals,
    news: &News<'_>,
) -> Result<Ended, Failure> {
    let mut guard = Guard::start(plan).map_err(unguarded)?;
    let mut environment = environment(run, held);
    environment.push(guard.announce(held.remaining()));
    let group = Group::start(&run.command, environment, guard.mark().to_owned())?;
    guard.watch(group.id());
    supervise((group, guard), held, plan, signals, news).await
}

fn unguarded(error: io::Error) -> Failure {
    Failure::new(
        exit::CANNOT_START,
        format!("the process that guards the command cannot be started: {}", words(&error)),
    )
}

fn environment(run: &Run, held: &Held) -> Vec<(&'static str, Option<String>)> {
    let deadline = unix_millis().saturating_add(millis(held.remaining()));
    vec![
        ("LEASEHOLD_NAME", Some(run.name.clone())),
        ("LEASEHOLD_DEADLINE", Some(deadline.to_string())),
        ("LEASEHOLD_TOKEN", held.token().map(|token| token.to_string())),
    ]
}

#[allow(clippy::disallowed_methods, reason = "what the command gets is a time of this machine's wall clock")]
fn unix_millis() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::SystemTime::UNIX_EPOCH).map_or(0, millis)
}

/// Waits until the lock was held for `--at-least`. A signal or the loss of the lease ends the wait.
async fn keep(run: &Run, held: &Held, since: Instant, signals: &mut Signals, news: &News<'_>) {
    let Some(until) = run.at_least.map(|time| since + time) else { return };
    let left = until.since(Clock::Boot.now());
    if left.is_zero() {
        return;
    }
    news.keeping(left);
    tokio::select! {
        _lost = held.lost() => {}
        _asked = signals.end() => {}
        () = Clock::Boot.sleep_until(until) => {}
    }
}

fn is_lost(released: &Result<(), ReleaseError>) -> bool {
    matches!(released, Err(ReleaseError::AlreadyLost(_)))
}

/// How long a wait may take before the program looks at what holds the lock.
const UNTIL_LOOK: Duration = Duration::from_millis(500);
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);
/// How long the program tries to say who holds the lock after a wait in vain.
const LOOK_MAX: Duration = Duration::from_secs(1);
/// Time for releases that were not confirmed at once.
const SHUTDOWN: Duration = Duration::from_secs(2);
