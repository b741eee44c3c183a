//! The leases that are to be kept: each is taken, held until the end, and taken again if it is lost.

use std::sync::Arc;

use leasehold::Lock;
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    crew::{Crew, Shared, now},
    kinds::Kind,
};

/// One task for each lease, as a service has that does one piece of work under each.
pub(crate) fn start(crew: &Shared, kind: Kind, tasks: &mut JoinSet<()>) {
    let room = Arc::new(Semaphore::new(AT_ONCE));
    for number in 0..crew.options.leases {
        tasks.spawn(keep(crew.clone(), room.clone(), lock(crew, kind, number)));
    }
}

async fn keep(crew: Shared, room: Arc<Semaphore>, lock: Lock) {
    loop {
        let permit = room.acquire().await;
        let Some(lease) = crew.acquire(&lock).await else { return };
        drop(permit);
        crew.log.granted(&lease, now());
        crew.tally.granted();
        crew.tally.keeps();
        let lost = tokio::select! {
            biased;
            _ = lease.lost() => true,
            _ = crew.stop.reason() => false,
        };
        crew.tally.keeps_no_more();
        if lost {
            crew.log.heard(&lease, now());
            crew.tally.lost();
            continue;
        }
        let _permit = room.acquire().await;
        crew.note_end(&lease);
        return crew.release(lease).await;
    }
}

fn lock(crew: &Crew, kind: Kind, number: usize) -> Lock {
    let (lock, _) = (kind.lock)(&crew.engine, &crew.own_name("lease", number), number);
    match number % crew.options.classes {
        0 => lock.class("leases"),
        class => lock.class(&format!("leases_{class}")),
    }
}

/// Enough to fill a connection's pipeline, and few enough that none waits for its answer behind thousands of others.
const AT_ONCE: usize = 512;
