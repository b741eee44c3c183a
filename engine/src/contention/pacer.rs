//! Bounds how many entries ask again by themselves: after a reconnect all of them want to at once. The longest wait
//! goes first (promise L2). Asks that follow an arrival, a notice or a release are not held back.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{clock::Instant, works::Works};

/// Hands out turns to ask.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    window: u64,
    used: usize,
    waiting: BinaryHeap<Reverse<Turn>>,
    served: bool,
    next: u64,
}

/// Ordered by how long its caller has waited.
#[derive(Debug)]
struct Turn {
    oldest: Instant,
    number: u64,
    go: oneshot::Sender<()>,
}

impl Pacer {
    /// Waits for a turn.
    ///
    /// # Cancel safety
    /// Dropping it gives the turn to the next.
    pub(crate) async fn turn(&self, works: &Arc<Works>, oldest: Instant) {
        let Some(go) = self.enqueue(works, oldest) else { return };
        let _ = go.await; // a dropped sender means the engine has ended
    }

    fn enqueue(&self, works: &Arc<Works>, oldest: Instant) -> Option<oneshot::Receiver<()>> {
        let mut line = self.lock();
        if line.waiting.is_empty() && line.admit(works.clock.now()) {
            return None;
        }
        let (go, gone) = oneshot::channel();
        let number = line.next;
        line.next += 1;
        line.waiting.push(Reverse(Turn { oldest, number, go }));
        if !std::mem::replace(&mut line.served, true) {
            works.spawn(serve(works.clone()));
        }
        Some(gone)
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn admit(&mut self, now: Instant) -> bool {
        let window = now.as_nanos() / WINDOW_NANOS;
        if window != self.window {
            (self.window, self.used) = (window, 0);
        }
        self.used += 1;
        self.used <= PER_WINDOW
    }

    fn forget_gone(&mut self) {
        while self.waiting.peek().is_some_and(|Reverse(turn)| turn.go.is_closed()) {
            self.waiting.pop();
        }
    }

    fn take_admitted(&mut self, now: Instant) -> Vec<oneshot::Sender<()>> {
        let mut admitted = Vec::new();
        self.forget_gone();
        while !self.waiting.is_empty() && self.admit(now) {
            admitted.extend(self.waiting.pop().map(|Reverse(turn)| turn.go));
            self.forget_gone();
        }
        self.served = !self.waiting.is_empty();
        admitted
    }
}

// Lives only while somebody waits.
async fn serve(works: Arc<Works>) {
    loop {
        works.clock.sleep_until(works.clock.now() + WINDOW).await;
        let (admitted, more) = {
            let mut line = works.pacer.lock();
            (line.take_admitted(works.clock.now()), line.served)
        };
        for go in admitted {
            let _ = go.send(());
        }
        if !more {
            return;
        }
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Turn {}
impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Turn {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.oldest, self.number).cmp(&(other.oldest, other.number))
    }
}

/// 50 in each 10 ms: 5,000 a second.
const PER_WINDOW: usize = 50;
const WINDOW: Duration = Duration::from_millis(10);
const WINDOW_NANOS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn l2_no_more_than_5000_a_second_and_the_longest_wait_first() {
        let mut line = Line::default();
        assert_eq!((0..200).filter(|_| line.admit(at(1000))).count(), PER_WINDOW);
        let mut gone = Vec::new();
        for (number, oldest) in [30u64, 10, 20].into_iter().enumerate() {
            let (go, receiver) = oneshot::channel();
            line.waiting.push(Reverse(Turn { oldest: at(oldest), number: number as u64, go }));
            gone.push(receiver);
        }
        line.used = PER_WINDOW - 2;
        assert_eq!(
            line.take_admitted(at(1000)).into_iter().filter(|_| true).map(|go| drop(go.send(()))).count(),
            2
        );
        assert_eq!(
            gone.iter_mut().map(|gone| gone.try_recv().is_ok()).collect::<Vec<_>>(),
            [false, true, true]
        );
        assert!(line.served);
    }
}
