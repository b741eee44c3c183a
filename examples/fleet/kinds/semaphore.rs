//! The semaphore: contenders take one to three of a key's permits and give them back.
//!
//! Fleets on one server share the semaphores. Each has a read hold of one lock while it runs. A fleet that gets the write
//! side of that lock is alone: at its start it sets each semaphore to its total, at its end it looks for what is missing.

use std::{sync::Arc, time::Duration};

use leasehold::{CountError, Engine, Lease, RwLock, Semaphore};
use tokio::task::JoinSet;

use super::kind::{Contest, Kind, plain};
use crate::{
    crew::{Crew, Shared, now},
    usage::Usage,
};

pub(crate) const SEMAPHORE: Kind =
    Kind { name: "semaphore", lock: plain, contest: Contest::Own(|crew| Box::pin(run(crew))) };

async fn run(crew: Shared) {
    let Some(running) = enter(&crew).await else { return };
    let usage = Arc::new(Usage::new(crew.options.keys, crew.options.permits));
    let mut tasks = JoinSet::new();
    for number in 0..crew.options.contenders {
        tasks.spawn(contend(crew.clone(), usage.clone(), number));
    }
    while tasks.join_next().await.is_some() {}
    leave(&crew, running).await;
}

/// The hold of a fleet that runs. `None`: the run is over before it could begin.
async fn enter(crew: &Shared) -> Option<Lease> {
    let fleets = fleets(crew);
    if let Ok(Some(alone)) = fleets.write().try_acquire().await {
        for key in 0..crew.options.keys {
            while let Err(error) = reset(crew, key).await {
                crew.bear_count(error).await;
                if crew.stop.is_over() {
                    return None;
                }
            }
        }
        if let Ok(running) = alone.downgrade().await {
            return Some(running);
        }
    }
    crew.acquire(&fleets.read()).await
}

async fn reset(crew: &Crew, key: usize) -> Result<(), CountError> {
    let (semaphore, total) = (semaphore(crew, key), crew.options.permits);
    if !semaphore.try_set(total).await? {
        let before = semaphore.drain().await?;
        let missing = i64::from(total) - before.min(0);
        semaphore.add(i32::try_from(missing).unwrap_or(i32::MAX)).await?;
    }
    Ok(())
}

async fn contend(crew: Shared, usage: Arc<Usage>, number: usize) {
    let mut turn = number;
    while !crew.stop.is_over() {
        let (key, permits) = (turn % crew.options.keys, wanted(&crew, turn));
        let (semaphore, asked) = (semaphore(&crew, key), now());
        turn += 1;
        let taken = tokio::select! {
            biased;
            _ = crew.stop.reason() => return,
            taken = semaphore.acquire(permits) => taken,
        };
        match taken {
            Ok(()) => {
                crew.waits.add(now() - asked);
                hold(&crew, &usage, &semaphore, key, permits).await;
            }
            Err(error) => crew.bear_count(error).await,
        }
    }
}

async fn hold(crew: &Crew, usage: &Usage, semaphore: &Semaphore, key: usize, permits: u32) {
    crew.tally.granted();
    if !usage.took(key, permits) {
        crew.faults.found("more permits were taken than there are", now());
    }
    if !crew.options.hold.is_zero() {
        tokio::select! {
            biased;
            _ = crew.stop.reason() => {}
            () = tokio::time::sleep(crew.options.hold) => {}
        }
    }
    usage.gives(key, permits);
    let answer = semaphore.release(permits).await;
    crew.tally.given_back(answer.is_ok());
    if let Err(error) = answer {
        crew.bear_count(error).await;
    }
}

/// The last fleet that ends finds every permit where it was.
async fn leave(crew: &Crew, running: Lease) {
    let _ = running.release().await;
    let Ok(Some(alone)) = fleets(crew).write().try_acquire().await else { return };
    for key in 0..crew.options.keys {
        let total = i64::from(crew.options.permits);
        let left = settled(&semaphore(crew, key), total).await;
        if left.is_some_and(|left| left != total) {
            crew.faults.found("the permits of a semaphore were not all there at the end", now());
        }
    }
    let _ = alone.release().await;
}

/// What is available, once takes that were given up have been taken back. `None`: the server does not answer.
async fn settled(semaphore: &Semaphore, total: i64) -> Option<i64> {
    let mut left = None;
    for _ in 0..LOOKS {
        left = semaphore.available().await.ok();
        if left == Some(total) {
            break;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    left
}

fn semaphore(crew: &Crew, key: usize) -> Semaphore {
    // Fleets with other totals have other semaphores.
    let name = format!("fleet:semaphore:{}:{key}", crew.options.permits);
    crew.engine.semaphore(name)
}

fn fleets(crew: &Crew) -> RwLock {
    let engine: &Engine = &crew.engine;
    engine.rw_lock(format!("fleet:semaphore:{}:fleets", crew.options.permits))
}

fn wanted(crew: &Crew, turn: usize) -> u32 {
    let most = crew.options.permits.min(WANTED_MAX);
    u32::try_from(turn).unwrap_or_default() % most + 1
}

const WANTED_MAX: u32 = 3;
const LOOKS: u32 = 25;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
