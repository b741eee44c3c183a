//! All losses of one engine in one stream. The ring keeps a loss until every reader has read it; without a reader it
//! keeps none. It keeps at most the last [`LOSSES_KEPT`] losses, and [`LOSS_NAME_BYTES_KEPT`] bytes of names. A reader
//! that falls behind gets the number of losses that it missed.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;
use tokio::sync::Notify;

use crate::{
    clock::Instant, fencing::FencingToken, guard, lease::state::LossReason, process::Process, serialized,
};

/// How many losses an engine keeps for its slowest reader.
pub const LOSSES_KEPT: usize = 1 << 17;
/// How many bytes of lock names the kept losses may have together: 64 MiB. A name has at most 8 KiB.
pub const LOSS_NAME_BYTES_KEPT: usize = 64 << 20;
const SPARE_LOSSES: usize = 64;

/// One lost lease. Serde leaves out `at` and `deadline`, which other processes cannot read;
/// [`Engine::system_time`](crate::Engine::system_time) turns them into wall-clock times.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// The lock's name, without the engine's `name_prefix`.
    #[serde(serialize_with = "serialized::text")]
    pub name: Arc<str>,
    /// The token of the lost lease.
    pub fencing_token: FencingToken,
    /// Why the lease was lost.
    pub reason: LossReason,
    /// When the loss was reported, on the engine's clock.
    #[serde(skip)]
    pub at: Instant,
    /// The deadline of the lease: the lease was not held after it.
    #[serde(skip)]
    pub deadline: Instant,
    /// How long the lease had been held.
    #[serde(rename = "held_ms", serialize_with = "serialized::millis")]
    pub held: Duration,
}

/// An item of the stream of losses.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LossEvent {
    /// A lease was lost.
    Lost(Loss),
    /// The reader fell behind, and this number of losses is not kept any more.
    Missed(u64),
}

/// The losses that at least one reader has not read yet.
#[derive(Debug, Default)]
pub(crate) struct LossRing {
    kept: Mutex<Kept>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Kept {
    losses: VecDeque<Loss>,
    /// The number of the first loss that is kept.
    first: u64,
    /// The total length in bytes of the kept names.
    name_bytes: usize,
    /// The number of the next loss for each reader.
    readers: HashMap<ReaderId, u64>,
    next_reader: u64,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ReaderId(u64);

impl LossRing {
    pub(crate) fn push(&self, loss: Loss) {
        let mut kept = self.lock();
        kept.push(loss);
        drop(kept);
        self.wake();
    }

    /// Marks that the engine has ended: no loss will follow.
    pub(crate) fn close(&self) {
        self.lock().ended = true;
        self.wake();
    }

    // Not under the lock: a waker is code of the user.
    fn wake(&self) {
        let _ = guard::call(|| self.news.notify_waiters());
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn end(&self) -> u64 {
        self.first + self.losses.len() as u64
    }

    fn push(&mut self, loss: Loss) {
        if self.readers.is_empty() {
            self.first += 1;
            return;
        }
        self.name_bytes += loss.name.len();
        self.losses.push_back(loss);
        while self.losses.len() > LOSSES_KEPT || self.name_bytes > LOSS_NAME_BYTES_KEPT {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(loss) = self.losses.pop_front() {
            self.first += 1;
            self.name_bytes -= loss.name.len();
        }
    }

    fn join(&mut self) -> ReaderId {
        let (id, end) = (ReaderId(self.next_reader), self.end());
        self.next_reader += 1;
        self.readers.insert(id, end);
        id
    }

    fn leave(&mut self, id: ReaderId) {
        self.readers.remove(&id);
        self.forget_read();
    }

    fn read(&mut self, id: ReaderId) -> Option<LossEvent> {
        let next = self.readers.get_mut(&id)?;
        if *next < self.first {
            let missed = self.first - *next;
            *next = self.first;
            return Some(LossEvent::Missed(missed));
        }
        let loss = self.losses.get(usize::try_from(*next - self.first).ok()?)?.clone();
        let was_slowest = *next == self.first;
        *next += 1;
        if was_slowest {
            self.forget_read();
        }
        Some(LossEvent::Lost(loss))
    }

    // A loss that every reader has read is not read again.
    fn forget_read(&mut self) {
        let slowest = self.readers.values().copied().min().unwrap_or(self.end());
        while self.first < slowest {
            self.forget_first();
        }
        if self.losses.is_empty() {
            self.losses.shrink_to(SPARE_LOSSES);
        }
    }
}

/// A stream of all losses of one engine, from the moment when [`Engine::losses`](crate::Engine::losses) made it. The
/// stream keeps no engine alive.
///
/// The engine keeps a loss until every reader has read it, at most [`LOSSES_KEPT`] losses and [`LOSS_NAME_BYTES_KEPT`]
/// bytes of names. A reader that falls behind gets [`LossEvent::Missed`] with the number of losses that it missed.
///
/// # Examples
/// ```
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use std::time::Duration;
/// use leasehold::{LossEvent, LossReason};
///
/// let mut losses = engine.losses();
/// let lease = engine.lock("orders:42").acquire().await?;
/// engine.shutdown(Duration::from_secs(1)).await;
/// let Some(LossEvent::Lost(loss)) = losses.next().await else { panic!("one lease was held") };
/// assert_eq!((&*loss.name, loss.reason), ("orders:42", LossReason::Shutdown));
/// # drop(lease);
/// # Ok(())
/// # }
/// ```
pub struct Losses {
    ring: Arc<LossRing>,
    id: ReaderId,
    process: Process,
}

impl Losses {
    pub(crate) fn new(ring: Arc<LossRing>, process: Process) -> Self {
        let id = if process.is_forked() { ReaderId(u64::MAX) } else { ring.lock().join() };
        Self { ring, id, process }
    }

    /// Waits for the next loss. `None`: the engine has ended, and this reader has read every loss.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use leasehold::LossEvent;
    ///
    /// let mut losses = engine.losses();
    /// # drop(engine);
    /// while let Some(event) = losses.next().await {
    ///     match event {
    ///         LossEvent::Lost(loss) => eprintln!("lost {}: {}", loss.name, loss.reason),
    ///         LossEvent::Missed(count) => eprintln!("{count} more losses"),
    ///         other => eprintln!("{other:?}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn next(&mut self) -> Option<LossEvent> {
        loop {
            let news = self.ring.news.notified();
            tokio::pin!(news);
            if self.process.is_forked() {
                return None;
            }
            news.as_mut().enable();
            let ended = self.ring.lock().ended; // before the last read: the last loss comes before the end
            let notice = self.ring.lock().read(self.id);
            if notice.is_some() || ended {
                return notice;
            }
            let _ = self.process.here(news).await; // in a forked child the next round returns
        }
    }

    /// Returns the next loss if there is one already. `None`: no loss since the last call.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let mut losses = engine.losses();
    /// assert!(losses.try_next().is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_next(&mut self) -> Option<LossEvent> {
        if self.process.is_forked() { None } else { self.ring.lock().read(self.id) }
    }
}

impl Drop for Losses {
    fn drop(&mut self) {
        if !self.process.is_forked() {
            self.ring.lock().leave(self.id);
        }
    }
}

impl fmt::Debug for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Losses({:?})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(n: u64, name: &str) -> Loss {
        Loss {
            name: name.into(),
            fencing_token: FencingToken::at_server_micros(n),
            reason: LossReason::Expired,
            at: Instant::default(),
            deadline: Instant::default(),
            held: Duration::ZERO,
        }
    }

    fn kept(ring: &Arc<LossRing>) -> (usize, usize) {
        let kept = ring.lock();
        (kept.losses.len(), kept.name_bytes)
    }

    fn missed(losses: &mut Losses) -> u64 {
        match losses.try_next() {
            Some(LossEvent::Missed(missed)) => missed,
            other => panic!("{other:?}"),
        }
    }

    fn token(losses: &mut Losses) -> FencingToken {
        match losses.try_next() {
            Some(LossEvent::Lost(loss)) => loss.fencing_token,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_falls_behind_is_told_how_many_were_missed() {
        let ring = Arc::<LossRing>::default();
        let mut losses = Losses::new(ring.clone(), Process::current());
        for n in 0..LOSSES_KEPT as u64 + 3 {
            ring.push(loss(n, "a"));
        }
        assert_eq!(missed(&mut losses), 3);
        assert_eq!(token(&mut losses), FencingToken::at_server_micros(3));
        assert!(Losses::new(ring, Process::current()).try_next().is_none());
    }

    #[test]
    fn losses_that_no_reader_can_read_are_not_kept() {
        let ring = Arc::<LossRing>::default();
        ring.push(loss(1, "before any reader"));
        assert_eq!(kept(&ring), (0, 0));
        let (mut one, mut two) =
            (Losses::new(ring.clone(), Process::current()), Losses::new(ring.clone(), Process::current()));
        (2..=4).for_each(|n| ring.push(loss(n, "abc")));
        assert_eq!(token(&mut one), FencingToken::at_server_micros(2));
        assert_eq!(kept(&ring), (3, 9), "the other has not read it");
        assert_eq!(token(&mut two), FencingToken::at_server_micros(2));
        assert_eq!(kept(&ring), (2, 6));
        drop(two);
        assert_eq!(token(&mut one), FencingToken::at_server_micros(3));
        assert_eq!(kept(&ring), (1, 3));
        drop(one);
        assert_eq!(kept(&ring), (0, 0));
    }

    #[test]
    fn a_reader_that_never_reads_keeps_a_bounded_amount() {
        let ring = Arc::<LossRing>::default();
        let mut losses = Losses::new(ring.clone(), Process::current());
        let name = "x".repeat(8192);
        let fit = LOSS_NAME_BYTES_KEPT / name.len();
        (0..fit as u64 + 5).for_each(|n| ring.push(loss(n, &name)));
        assert_eq!(kept(&ring), (fit, LOSS_NAME_BYTES_KEPT));
        assert_eq!(missed(&mut losses), 5);
        assert_eq!(token(&mut losses), FencingToken::at_server_micros(5));
    }
}
