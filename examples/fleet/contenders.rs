//! The tasks that contend: take the lock of a key, hold it a little, give it back, go on to the next key.

use leasehold::Lease;
use tokio::task::JoinSet;

use crate::{
    crew::{Shared, now},
    kinds::{Contest, Kind},
};

pub(crate) fn start(crew: &Shared, kind: Kind, tasks: &mut JoinSet<()>) {
    match kind.contest {
        Contest::Own(contest) => drop(tasks.spawn(contest(crew.clone()))),
        Contest::Locks => {
            for number in 0..crew.options.contenders {
                tasks.spawn(contend(crew.clone(), kind, number));
            }
        }
    }
}

async fn contend(crew: Shared, kind: Kind, number: usize) {
    let mut turn = number;
    while !crew.stop.is_over() {
        let key = turn % crew.options.keys;
        // The turns of one key are not all of one side.
        let (lock, share) =
            (kind.lock)(&crew.engine, &crew.contended_name(key), number + turn / crew.options.keys);
        let lock = lock.class("contended");
        let asked = now();
        let Some(lease) = crew.acquire(&lock).await else { return };
        let from = now();
        crew.tally.granted();
        crew.log.granted(&lease, from);
        crew.waits.add(from - asked);
        crew.windows.begin(key, lease.fencing_token(), share, from);
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
        turn += 1;
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
