//! A sleep in the task of a caller. The caller may run outside of any runtime, so the timer runs on the calls thread of
//! an engine.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use crate::inner::Inner;

/// Sleeps for this time, on the thread of the first engine that is open. Returns at once if none is.
///
/// # Cancel safety
/// Dropping the future ends the timer.
pub(crate) async fn sleep(engines: &[Arc<Inner>], time: Duration) {
    let Some(first) = engines.first() else { return };
    let end = first.clock.now() + time;
    let is_open = |engine: &&Arc<Inner>| !engine.process.is_forked() && engine.check_open().is_ok();
    for engine in engines.iter().filter(is_open) {
        let left = end - first.clock.now();
        let slept = engine.process.here(started(engine, left)).await;
        if !matches!(slept, Ok(Err(_))) {
            return; // at once in a forked child
        } // else the engine ended, and its thread with it
    }
}

fn started(engine: &Inner, time: Duration) -> oneshot::Receiver<()> {
    let (mut sender, over) = oneshot::channel();
    let clock = engine.clock;
    engine.spawn(async move {
        tokio::select! {
            () = clock.sleep_until(clock.now() + time) => drop(sender.send(())),
            () = sender.closed() => {}
        }
    });
    over
}
