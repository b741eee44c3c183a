//! Locks that one engine holds and the other waits for, until a test releases them: at a moment of its choice.

use std::time::Duration;

use leasehold::Lease;
use leasehold_tests::harness::polling::holds_within;

use crate::{
    context::{Context, L5, PATIENCE},
    leases::LEASES_ENGINE,
    moment::Moment,
    waiters::{WAITERS_ENGINE, Waiter},
};

pub(crate) struct Wakes(Vec<(Lease, Waiter)>);

impl Wakes {
    /// Locks of the first part. Each waiter has asked when this returns.
    pub(crate) fn prepare(context: &Context) -> Self {
        let names: Vec<String> = context.deployment.names(0, "wake").take(COUNT).collect();
        let leases = names.into_iter().map(|name| {
            let acquire = context.engines[LEASES_ENGINE].lock(name).acquire();
            context.runtime.block_on(acquire).expect("a lease")
        });
        let leases: Vec<Lease> = leases.collect();
        let wait = |lease: Lease| {
            let (engine, key) = (&context.engines[WAITERS_ENGINE], lease.name().to_owned());
            (lease, Waiter::start(&context.runtime, engine, key, &context.log))
        };
        let wakes: Vec<_> = leases.into_iter().map(wait).collect();
        let waiting = (context.waiters.len() + COUNT) as u64;
        let all_wait = || context.engines[WAITERS_ENGINE].snapshot().waiting >= waiting;
        assert!(holds_within(PATIENCE, all_wait), "the waiters wait");
        Self(wakes)
    }

    /// Releases all; how long the last of them waited.
    pub(crate) fn release(self, context: &Context) -> Duration {
        let (leases, waiters): (Vec<_>, Vec<_>) = self.0.into_iter().unzip();
        let released = Moment::now();
        for lease in leases {
            context.log.add_release(context.runtime.block_on(lease.release()));
        }
        assert!(holds_within(PATIENCE, || waiters.iter().all(|waiter| waiter.granted().is_some())));
        let woken = waiters.iter().filter_map(Waiter::granted).map(|granted| granted.since(released));
        let longest = woken.max().unwrap_or_default();
        waiters.into_iter().for_each(|waiter| waiter.end(&context.runtime));
        assert!(longest <= L5, "{longest:?}");
        longest
    }
}

const COUNT: usize = 20;
