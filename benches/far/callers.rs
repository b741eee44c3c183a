//! The process of the callers. They come in waves, and each wants a name of its own.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::{task::JoinSet, time::timeout_at};

use super::client::{Client, Held, Refusal};
use crate::links;

/// How many callers come, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    /// Of a wave.
    pub(super) callers: usize,
    pub(super) waves: usize,
    /// From one wave to the next.
    pub(super) every: Duration,
}

/// What the process tells.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Told {
    /// Granted within [`PATIENCE`] of the caller's call.
    pub(super) in_time: usize,
    pub(super) unavailable: usize,
    /// Refused otherwise, or not answered at [`END`].
    pub(super) others: usize,
    /// From the first call to the last grant.
    last_grant_seconds: f64,
    /// Grants in each second from the first call on.
    pub(super) each_second: Vec<usize>,
    pub(super) released_seconds: f64,
    pub(super) not_confirmed: usize,
}

impl Told {
    /// Seconds. Infinite if a caller was not granted.
    pub(super) fn all_granted(&self) -> f64 {
        if self.unavailable + self.others == 0 { self.last_grant_seconds } else { f64::INFINITY }
    }

    /// Grants a second, over the time in which callers wait.
    pub(super) fn rate(&self) -> f64 {
        self.in_time as f64 / self.all_granted().min(PATIENCE.as_secs_f64())
    }
}

/// Runs it.
pub(super) fn measure(client: &str, url: &str, arrivals: Arrivals) -> Told {
    let mut command = Command::new(std::env::current_exe().expect("a program knows its path"));
    let numbers = [arrivals.callers as u128, arrivals.waves as u128, arrivals.every.as_millis()];
    command.args(["--far-callers", client, url]).args(numbers.map(|number| number.to_string()));
    let output = command.stderr(Stdio::inherit()).output().expect("this program can be started again");
    assert!(output.status.success(), "the callers' process: {}", output.status);
    serde_json::from_slice(&output.stdout).expect("figures")
}

/// What the process does under `--far-callers CLIENT URL CALLERS WAVES EVERY_MS`.
pub(crate) fn run(arguments: &[String]) {
    let [client, url, numbers @ ..] = arguments else { panic!("five words, not {arguments:?}") };
    let numbers: Vec<u64> = numbers.iter().map(|text| text.parse().expect("a number")).collect();
    let [callers, waves, every] = numbers[..] else { panic!("five words, not {arguments:?}") };
    let arrivals =
        Arrivals { callers: callers as usize, waves: waves as usize, every: Duration::from_millis(every) };
    let told = links::runtime().block_on(async {
        let client = Client::connect(client, url).await;
        let (mut told, held) = acquire_all(&client, arrivals).await;
        release_all(&mut told, held).await;
        told
    });
    println!("{}", serde_json::to_string(&told).expect("figures"));
    // What is not answered yet needs no end.
    std::process::exit(0);
}

async fn acquire_all(client: &Client, arrivals: Arrivals) -> (Told, Vec<Held>) {
    let (began, mut calls) = (Instant::now(), JoinSet::new());
    for wave in 0..arrivals.waves {
        tokio::time::sleep_until((began + arrivals.every * wave as u32).into()).await;
        let called = Instant::now();
        for number in 0..arrivals.callers {
            let acquiring = client.clone().acquire(format!("far:{wave}:{number}"));
            calls.spawn(async move { (acquiring.await, called.elapsed(), began.elapsed()) });
        }
    }
    let mut told = Told::default();
    let mut held = Vec::new();
    until_end(&mut calls, |(outcome, waited, at)| match outcome {
        Ok(lock) => {
            held.push(lock);
            told.note_grant(waited, at);
        }
        Err(Refusal::Unavailable) => told.unavailable += 1,
        Err(Refusal::Other) => told.others += 1,
    })
    .await;
    told.others += calls.len();
    (told, held)
}

async fn release_all(told: &mut Told, held: Vec<Held>) {
    let (began, mut calls) = (Instant::now(), JoinSet::new());
    held.into_iter().for_each(|lock| drop(calls.spawn(lock.release())));
    until_end(&mut calls, |confirmed| told.not_confirmed += usize::from(!confirmed)).await;
    told.not_confirmed += calls.len();
    told.released_seconds = began.elapsed().as_secs_f64();
}

/// Takes the outcomes until there is none left, or until [`END`] is over.
async fn until_end<T: 'static>(calls: &mut JoinSet<T>, mut take: impl FnMut(T)) {
    let end = (Instant::now() + END).into();
    while let Ok(Some(outcome)) = timeout_at(end, calls.join_next()).await {
        take(outcome.expect("no panic"));
    }
}

impl Told {
    fn note_grant(&mut self, waited: Duration, at: Duration) {
        self.in_time += usize::from(waited <= PATIENCE);
        self.last_grant_seconds = self.last_grant_seconds.max(at.as_secs_f64());
        let second = at.as_secs() as usize;
        self.each_second.resize(self.each_second.len().max(second + 1), 0);
        self.each_second[second] += 1;
    }
}

/// The engine's `unavailable_after`.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Twice that, and more: a caller whose answers come late is answered by then.
const END: Duration = Duration::from_secs(30);
