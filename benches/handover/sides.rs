//! The two processes of one contestant, as the process sees them that started them.

use std::{thread, time::Duration};

use super::side::{ACQUIRE, Kind, READY, RELEASE};
use crate::orders::Ordered;

pub(super) struct Sides {
    holder: Ordered,
    waiter: Ordered,
}

impl Sides {
    pub(super) fn start(kind: Kind, url: &str) -> Self {
        let side = |number| {
            let arguments = ["--hand-over-side", &format!("{kind:?}"), url, number];
            let mut side = Ordered::start_this_program(&arguments);
            assert_eq!(side.line(), READY);
            side
        };
        Self { holder: side("1"), waiter: side("2") }
    }

    /// From the call of `release()` in one process to the grant in the other. The lock is free again afterwards.
    ///
    /// A waiter that was granted the lock by its first command did not wait: then the next hand-over counts.
    pub(super) fn hand_over(&mut self, hold: Duration) -> Duration {
        loop {
            let (took, asks) = self.hand_over_once(hold);
            if asks > 1 {
                return took;
            }
        }
    }

    /// How often the waiter has asked, too.
    fn hand_over_once(&mut self, hold: Duration) -> (Duration, u64) {
        self.holder.tell(ACQUIRE);
        answer(&mut self.holder);
        self.waiter.tell(ACQUIRE);
        thread::sleep(hold); // what holders do with a lock
        self.holder.tell(RELEASE);
        let (released, _) = answer(&mut self.holder);
        let (granted, asks) = answer(&mut self.waiter);
        self.waiter.tell(RELEASE);
        answer(&mut self.waiter);
        (Duration::from_nanos(granted.saturating_sub(released)), asks)
    }
}

/// When it did what it was told, in nanoseconds of the machine's clock, and how often it asked for the lock.
fn answer(side: &mut Ordered) -> (u64, u64) {
    let line = side.line();
    let (nanos, asks) = line.split_once(' ').expect("two numbers");
    (nanos.parse().expect("a number"), asks.parse().expect("a number"))
}
