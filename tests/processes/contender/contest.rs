//! The run of one process: its engines, their tasks, and the good order in which they end.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{AcquireError, Engine};
use leasehold_redis::{RedisConfig, RedisTransport};
use leasehold_tests::harness::recorder::Recorder;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;

use super::arguments::Arguments;
use super::holder::Holder;
use super::tally::Tally;

/// Builds the engines, waits for `begun`, runs the tasks, gives everything back, and writes the windows out.
pub async fn hold(arguments: Arguments, begun: impl FnOnce()) -> Result<Tally, String> {
    let arguments = Arc::new(arguments);
    let recorder = Recorder::create(&arguments.windows, arguments.process).map_err(|why| why.to_string())?;
    let recorder = Arc::new(Mutex::new(recorder));
    let mut engines = Vec::new();
    for _ in 0..arguments.engines {
        engines.push(build(&arguments).await?);
    }
    begun();
    let mut tally = run(&arguments, &engines, &recorder).await;
    for engine in engines {
        tally.unconfirmed.extend(engine.shutdown(ENOUGH).await.unconfirmed);
        let left = engine.snapshot();
        tally.left_behind += left.held + left.waiting + left.entries + left.closing;
        tally.asks += left.asks;
    }
    recorder.lock().expect("no task panics with it").flush().map_err(|why| why.to_string())?;
    Ok(tally)
}

async fn build(arguments: &Arguments) -> Result<Engine, String> {
    let config = RedisConfig::from_url(&arguments.url).map_err(|why| why.to_string())?;
    let builder = Engine::builder(RedisTransport::new(config)).ttl(arguments.ttl);
    builder.build().await.map_err(|why| why.to_string())
}

async fn run(arguments: &Arc<Arguments>, engines: &[Engine], recorder: &Arc<Mutex<Recorder>>) -> Tally {
    let until = Instant::now() + arguments.time;
    let mut tasks = JoinSet::new();
    for (process, engine) in (arguments.process..).zip(engines) {
        for task in 0..arguments.tasks {
            let holder = Holder::new(arguments.clone(), recorder.clone(), process, task);
            tasks.spawn(contend(holder, engine.clone(), until));
        }
    }
    let mut tally = Tally::default();
    while let Some(done) = tasks.join_next().await {
        tally.add(done.expect("a task of the contest panicked"));
    }
    tally
}

/// One task: a lock by chance, held for a time by chance, again and again.
async fn contend(mut holder: Holder, engine: Engine, until: Instant) -> Tally {
    let arguments = holder.arguments().clone();
    let mut chance = StdRng::seed_from_u64(arguments.seed ^ holder.number());
    let mut tally = Tally::default();
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        let key = format!("{}{}", arguments.prefix, chance.random_range(0..arguments.keys));
        let time = Duration::from_micros(chance.random_range(arguments.hold.clone()));
        let lock = if arguments.fair { engine.fair_lock(&key) } else { engine.lock(&key) };
        let lock = lock.wait(left);
        let lock = if arguments.no_renewal { lock.no_renewal() } else { lock };
        match lock.acquire().await {
            Ok(lease) => holder.hold(lease, time, &mut tally).await,
            Err(AcquireError::TimedOut { .. }) => {}
            Err(last_error) => tally.fail(&last_error),
        }
    }
    tally
}

/// Far above what giving back takes on a server that answers.
const ENOUGH: Duration = Duration::from_secs(5);
