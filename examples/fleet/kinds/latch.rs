//! The latch: the contenders of a key set it, count it down, and wait until it is open, round after round.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use leasehold::{CountError, Latch};
use tokio::task::JoinSet;

use super::kind::{Contest, Kind, plain};
use crate::crew::{Crew, Shared, now};

pub(crate) const LATCH: Kind =
    Kind { name: "latch", lock: plain, contest: Contest::Own(|crew| Box::pin(run(crew))) };

/// One round of one latch.
#[derive(Default)]
struct Round {
    members: u32,
    /// How many members have begun to count it down.
    counted: AtomicU32,
    /// A member failed, so the latch is deleted and may open before its time.
    broken: AtomicBool,
}

async fn run(crew: Shared) {
    let groups = crew.options.keys.min(crew.options.contenders);
    let mut tasks = JoinSet::new();
    for key in 0..groups {
        let members = (key..crew.options.contenders).step_by(groups).count();
        tasks.spawn(repeat(crew.clone(), key, u32::try_from(members).unwrap_or(u32::MAX)));
    }
    while tasks.join_next().await.is_some() {}
}

async fn repeat(crew: Shared, key: usize, members: u32) {
    let latch = crew.engine.latch(crew.own_name("latch", key));
    while !crew.stop.is_over() {
        if let Err(error) = play(&crew, &latch, members).await {
            let _ = latch.delete().await;
            crew.bear_count(error).await;
        }
    }
}

async fn play(crew: &Shared, latch: &Latch, members: u32) -> Result<(), CountError> {
    if !latch.try_set(members).await? {
        crew.faults.found("a latch that was open was still set", now());
        return latch.delete().await.map(drop);
    }
    let round = Arc::new(Round { members, ..Round::default() });
    let mut tasks = JoinSet::new();
    for member in 0..members {
        tasks.spawn(pass(crew.clone(), latch.clone(), round.clone(), member));
    }
    while let Some(passed) = tasks.join_next().await {
        let Ok(Err(error)) = passed else { continue };
        round.broken.store(true, Ordering::SeqCst);
        return Err(error); // the other members are dropped
    }
    Ok(())
}

async fn pass(crew: Shared, latch: Latch, round: Arc<Round>, member: u32) -> Result<(), CountError> {
    // Some come late, most come together.
    let late = crew.options.hold * (member % 4) / 4;
    if !late.is_zero() {
        tokio::time::sleep(late).await;
    }
    round.counted.fetch_add(1, Ordering::SeqCst);
    let asked = now();
    latch.count_down().await?;
    await_opened(&crew, &latch, &round).await?;
    crew.waits.add(now() - asked);
    if round.counted.load(Ordering::SeqCst) < round.members && !round.broken.load(Ordering::SeqCst) {
        crew.faults.found("a latch opened before every member had counted it down", now());
    }
    Ok(())
}

async fn await_opened(crew: &Crew, latch: &Latch, round: &Round) -> Result<(), CountError> {
    let opened = latch.clone().wait(OPENS_WITHIN).opened().await;
    let is_late = matches!(opened, Err(CountError::TimedOut { .. }));
    if is_late && round.counted.load(Ordering::SeqCst) == round.members {
        crew.faults.found("a latch stayed closed after every member had counted it down", now());
    }
    opened
}

/// Far above the time that a round takes.
const OPENS_WITHIN: Duration = Duration::from_secs(15);
