//! Permits that expire: contenders acquire one to three of a key's permits and release them. Fleets on one server share
//! them. The permits of a fleet that is killed come back after their ttl, so nothing is set anew.

use std::{sync::Arc, time::Duration};

use leasehold::{Permit, Permits, PermitsDescription};
use tokio::task::JoinSet;

use super::kind::{Contest, Kind, plain};
use crate::{
    crew::{Crew, Shared, now},
    usage::Usage,
};

pub(crate) const PERMITS: Kind =
    Kind { name: "permits", lock: plain, contest: Contest::Own(|crew| Box::pin(run(crew))) };

async fn run(crew: Shared) {
    for key in 0..crew.options.keys {
        while let Err(error) = permits(&crew, key).try_set_total(crew.options.permits).await {
            crew.bear_count(error).await;
            if crew.stop.is_over() {
                return;
            }
        }
    }
    let usage = Arc::new(Usage::new(crew.options.keys, crew.options.permits));
    let mut tasks = JoinSet::new();
    for number in 0..crew.options.contenders {
        tasks.spawn(contend(crew.clone(), usage.clone(), number));
    }
    while tasks.join_next().await.is_some() {}
    check_totals(&crew).await;
}

async fn contend(crew: Shared, usage: Arc<Usage>, number: usize) {
    let mut turn = number;
    while !crew.stop.is_over() {
        let (key, wanted) = (turn % crew.options.keys, wanted(&crew, turn));
        let asked = now();
        turn += 1;
        let acquired = tokio::select! {
            biased;
            _ = crew.stop.reason() => return,
            acquired = permits(&crew, key).acquire(wanted) => acquired,
        };
        match acquired {
            Ok(permit) => {
                crew.waits.add(now() - asked);
                hold(&crew, &usage, permit, key).await;
            }
            Err(error) => crew.bear(error).await,
        }
    }
}

async fn hold(crew: &Crew, usage: &Usage, permit: Permit, key: usize) {
    crew.tally.granted();
    let count = permit.count();
    if !usage.took(key, count) && permit.is_held() {
        crew.faults.found("more permits were held than there are", now());
    }
    let lost = tokio::select! {
        biased;
        _ = permit.lost() => true,
        () = tokio::time::sleep(crew.options.hold) => false,
        _ = crew.stop.reason() => false,
    };
    usage.gives(key, count);
    if lost {
        crew.tally.lost();
    } else {
        crew.tally.given_back(permit.release().await.is_ok());
    }
}

/// What is available and what is held add up to the total, whoever else holds permits.
async fn check_totals(crew: &Crew) {
    for key in 0..crew.options.keys {
        let total = i64::from(crew.options.permits);
        let seen = settled(&permits(crew, key), total).await;
        if seen.is_some_and(|seen| sum(&seen) != total) {
            crew.faults.found("permits were missing, or there were too many, at the end", now());
        }
    }
}

/// What there is, once the expired permits are counted. `None`: the server does not answer.
async fn settled(permits: &Permits, total: i64) -> Option<PermitsDescription> {
    let mut seen = None;
    for _ in 0..LOOKS {
        seen = permits.describe().await.ok();
        if seen.as_ref().is_some_and(|seen| sum(seen) == total) {
            break;
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    seen
}

fn sum(seen: &PermitsDescription) -> i64 {
    seen.available.saturating_add(i64::try_from(seen.held).unwrap_or(i64::MAX))
}

fn permits(crew: &Crew, key: usize) -> Permits {
    // Fleets with other totals have other permits.
    crew.engine.permits(format!("fleet:permits:{}:{key}", crew.options.permits)).class("contended")
}

fn wanted(crew: &Crew, turn: usize) -> u32 {
    let most = crew.options.permits.min(WANTED_MAX);
    u32::try_from(turn).unwrap_or_default() % most + 1
}

const WANTED_MAX: u32 = 3;
const LOOKS: u32 = 25;
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
