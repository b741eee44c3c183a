//! Tells every loss, with its time and reason, and ends the windows of contenders that lost.

use std::{collections::BTreeMap, time::Duration};

use leasehold::{Loss, LossEvent, Losses};
use tokio::sync::oneshot;

use crate::{
    crew::{Crew, Shared, now},
    terminal,
};

/// Follows the stream until `end`, or until the engine has ended.
pub(crate) async fn follow(crew: Shared, mut losses: Losses, mut end: oneshot::Receiver<()>) {
    loop {
        let first = tokio::select! {
            biased;
            Some(notice) = losses.next() => notice,
            _ = &mut end => return,
            else => return,
        };
        // What is lost together is told together.
        tokio::time::sleep(TOGETHER).await;
        let more = std::iter::from_fn(|| losses.try_next());
        tell(&crew, std::iter::once(first).chain(more));
    }
}

fn tell(crew: &Crew, notices: impl Iterator<Item = LossEvent>) {
    let mut by_reason: BTreeMap<&str, Vec<Loss>> = BTreeMap::new();
    for notice in notices {
        match notice {
            LossEvent::Missed(count) => {
                crew.log.missed(count);
                terminal::say(&crew.tally.at(now(), &format!("{count} more losses, not kept for telling")));
            }
            LossEvent::Lost(loss) => {
                crew.log.lost(&loss);
                end_window(crew, &loss);
                by_reason.entry(loss.reason.as_str()).or_default().push(loss);
            }
            other => terminal::say(&crew.tally.at(now(), &format!("{other:?}"))),
        }
    }
    by_reason.values().for_each(|losses| tell_alike(crew, losses));
}

fn end_window(crew: &Crew, loss: &Loss) {
    if let Some(key) = crew.contended_key(&loss.name) {
        crew.windows.lost(key, loss.fencing_token, loss.at.min(loss.deadline));
    }
}

fn tell_alike(crew: &Crew, losses: &[Loss]) {
    for loss in losses.iter().take(TOLD_SINGLY) {
        let held = loss.held.as_secs_f64();
        let what = format!("lost {} (held for {held:.1} s): {}", loss.name, loss.reason);
        terminal::say(&crew.tally.at(loss.at, &what));
    }
    if let Some(loss) = losses.get(TOLD_SINGLY) {
        let what = format!("lost {} more: {}", losses.len() - TOLD_SINGLY, loss.reason);
        terminal::say(&crew.tally.at(loss.at, &what));
    }
}

const TOGETHER: Duration = Duration::from_millis(50);
const TOLD_SINGLY: usize = 3;
