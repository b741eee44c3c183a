//! The tasks that contend: take the lock of a key, hold it a little, give it back, go on to the next key.

use leasehold::Lease;
use tokio::task::JoinSet;

use crate::crew::{Shared, now};

pub(crate) fn start(crew: &Shared, tasks: &mut JoinSet<()>) {
    for number in 0..crew.options.contenders {
        tasks.spawn(contend(crew.clone(), number));
    }
}

async fn contend(crew: Shared, number: usize) {
    let mut key = number % crew.options.keys;
    let mut lock = crew.contended_lock(key);
    while !crew.stop.is_over() {
        let asked = now();
        let Some(lease) = crew.acquire(&lock).await else { return };
        let from = now();
        crew.tally.granted();
        crew.log.granted(&lease, from);
        crew.waits.add(from - asked);
        crew.windows.begin(key, lease.fencing_token(), from);
        let lost = hold(&crew, &lease).await;
        if let Some(until) = crew.note_end(&lease) {
            crew.windows.end(key, lease.fencing_token(), until);
        } // else the news of its loss ends the window
        if lost {
            crew.log.heard(&lease, now());
            crew.tally.lost()
        } else {
            crew.release(lease).await
        }
        key = (key + 1) % crew.options.keys;
        lock = crew.contended_lock(key);
    }
}

/// Whether it was lost meanwhile.
async fn hold(crew: &Shared, lease: &Lease) -> bool {
    if crew.options.hold.is_zero() {
        return false; // the shortest sleep takes up to a millisecond
    }
    tokio::select! {
        biased;
        _ = lease.lost() => true,
        () = tokio::time::sleep(crew.options.hold) => false,
        _ = crew.stop.reason() => false,
    }
}
