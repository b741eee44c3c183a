//! The engine: a cheap handle to everything.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use super::{
    alive::Handle,
    audit::{self, AuditReport},
    bulk::AcquireAll,
    lease::Lease,
    lock::{Lock, ReentryScope},
    shutdown::{self, ShutdownReport},
};
use crate::{
    acquire::caller::ScopeId,
    clock::Instant,
    error::ReleaseError,
    inner::Inner,
    log,
    losses::Losses,
    metrics::{ContendedLock, Metrics},
    release::in_progress::ReleasedBy,
};

/// A distributed lock engine: holds leases, renews them, and tells when one is lost.
///
/// Cheap to clone; all clones are one engine. Its two threads live while any handle of it lives: the engine itself, a
/// [`Lock`], a [`Lease`](crate::Lease) or a scope. When the last is gone they send what is queued, for at most one
/// command timeout, and end; nobody waits for them. So a program that ends right after a drop
/// leaves the key to its ttl: `release().await` or [`shutdown`](Self::shutdown) first.
#[derive(Clone)]
pub struct Engine {
    handle: Handle,
}

/// What an engine holds and does at one moment, and what it has counted since it was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Leases held now.
    pub held: u64,
    /// Leases of these in jeopardy.
    pub jeopardy: u64,
    /// Callers queued now.
    pub waiting: u64,
    /// Keys that somebody here holds, wants or is giving back now.
    pub entries: u64,
    /// Owners that are being closed in the background.
    pub closing: u64,
    /// Since when the longest waiting caller waits.
    pub oldest_waiting: Option<Duration>,
    /// Leases returned to callers; a re-entry is none.
    pub granted: u64,
    /// Of these, released or dropped, whatever the answer.
    pub released: u64,
    /// Of these, lost.
    pub lost: u64,
    /// How often a lease got into jeopardy.
    pub jeopardies: u64,
    /// Renewals confirmed.
    pub renewals: u64,
    /// Renewals not confirmed: no answer, refused, or too late.
    pub renewals_failed: u64,
    /// Times the server was asked for a lock.
    pub asks: u64,
    /// Events that the [`Recorder`](crate::Recorder) was not told: it was too slow, or it has panicked.
    pub events_dropped: u64,
    /// The recorder panicked and is not called any more.
    pub recorder_panicked: bool,
    /// Log lines of all engines of this process that were not told: the `tracing` subscriber panicked or was too slow.
    pub log_lines_dropped: u64,
    /// Whether both lanes are open and every slot is served by a connected node. Nodes without slots do not count: an
    /// empty master that waits for a migration, or that nobody reaches, keeps no lock from working. A slot that no node
    /// serves does count: its locks cannot be had. `false` once [`shutdown`](Engine::shutdown) is over.
    pub connected: bool,
}

impl Engine {
    pub(crate) fn of(handle: Handle) -> Self {
        Self { handle }
    }

    /// The lock with this name. The handle is the builder of a call: it costs one allocation, nothing is sent. A bad
    /// name is an error of the call that uses it.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.handle.clone(), name.as_ref())
    }

    /// Many independent locks at once, side by side on each node, each with its own outcome; see [`AcquireAll`].
    pub fn acquire_all<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> AcquireAll {
        AcquireAll::new(self.handle.clone(), names)
    }

    /// Gives many leases back. From this call on none of them is held, whatever the answers, which come in the order of
    /// the leases. The releases go to each node side by side, `bulk_in_flight_max` of them unanswered at a time, the
    /// earliest deadline first.
    ///
    /// # Errors
    /// Each lease has its own, as [`Lease::release`]. Once a node has answered none of them for `unavailable_after`, all
    /// that are left there are [`Unknown`](ReleaseError::Unknown) and go on in the background.
    ///
    /// # Cancel safety
    /// Dropping it gives up the answers; the releases go on.
    pub fn release_all(
        &self,
        leases: Vec<Lease>,
    ) -> impl Future<Output = Vec<Result<(), ReleaseError>>> + Send + use<> {
        Lease::release_all(&self.handle, leases, ReleasedBy::ByCall)
    }

    /// A new re-entry scope: calls made with it share one hold of a lock instead of excluding each other.
    pub fn reentry(&self) -> ReentryScope {
        ReentryScope::new(self.handle.clone(), ScopeId::new(self.inner().next_id()))
    }

    /// All losses of this engine from now on, in one stream. It keeps no engine alive.
    pub fn losses(&self) -> Losses {
        Losses::new(self.inner().losses.clone())
    }

    /// What it holds and does now. Visits all entries; meant for a status page, not for every request.
    pub fn snapshot(&self) -> Snapshot {
        let inner = self.inner();
        let (totals, now) = (&inner.events.totals, inner.clock.now());
        let seen = Seen::of(inner, now);
        Snapshot {
            held: totals.held.value(),
            jeopardy: seen.jeopardy,
            waiting: totals.callers.value(),
            entries: inner.table.len() as u64,
            closing: totals.closing.value(),
            oldest_waiting: seen.oldest.map(|oldest| now - oldest),
            granted: totals.granted.value(),
            released: totals.released.value(),
            lost: totals.lost.value(),
            jeopardies: totals.jeopardies.value(),
            renewals: totals.renewals.value(),
            renewals_failed: totals.renewals_failed.value(),
            asks: totals.asks.value(),
            events_dropped: inner.events.dropped(),
            recorder_panicked: inner.events.recorder_panicked(),
            log_lines_dropped: log::dropped(),
            connected: inner.is_connected(),
        }
    }

    /// All metrics of this engine, if it was built with [`EngineBuilder::metrics`].
    pub fn metrics(&self) -> Option<Metrics> {
        let inner = self.inner();
        inner.events.numbers.clone().map(|numbers| Metrics::new(numbers, inner))
    }

    /// The locks that callers of this engine waited for longest in the last one to two minutes, the most contended
    /// first; at most 128. The first five are logged once a minute (`leasehold::contention`, INFO).
    pub fn most_contended(&self) -> Vec<ContendedLock> {
        self.inner().hot.top()
    }

    /// Looks at the servers and the settings for what may cost a lock one day; see [`AuditReport`]. Meant to be run at
    /// start and by hand: it asks each server about twenty questions.
    ///
    /// # Cancel safety
    /// Dropping it stops the asking; nothing is changed in any case.
    pub fn audit(&self) -> impl Future<Output = AuditReport> + Send + use<> {
        let (inner, handle) = (self.inner().clone(), self.handle.clone());
        async move {
            let report = audit::run(inner).await;
            drop(handle); // the engine lives until then
            report
        }
    }

    /// Ends the engine in good order: new and queued acquires get `ShuttingDown`, every lease becomes lost
    /// ([`LossReason::Shutdown`](crate::LossReason::Shutdown)) before its release is sent, and the answer lists what was
    /// not confirmed within `timeout`. The releases go out as those of [`release_all`](Self::release_all): 100,000 of
    /// them take seconds. A second call returns an empty report at once. Within `timeout` it also waits, for at most 1 s,
    /// until the [`Recorder`](crate::Recorder) has been told everything.
    ///
    /// # Cancel safety
    /// Dropping it stops the waiting; what was begun goes on until the last handle is gone.
    pub async fn shutdown(&self, timeout: Duration) -> ShutdownReport {
        let inner = self.inner().clone();
        if !inner.begin_shutdown() {
            return ShutdownReport::default();
        }
        let (sender, report) = tokio::sync::oneshot::channel();
        let until = inner.clock.now() + timeout;
        inner.spawn({
            let inner = inner.clone();
            async move { drop(sender.send(shutdown::run(&inner, until).await)) }
        });
        let report = report.await.unwrap_or_default();
        inner.end();
        report
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        self.handle.inner()
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({}, {:?})", self.inner().capabilities.name, self.inner().events)
    }
}

#[derive(Default)]
struct Seen {
    jeopardy: u64,
    oldest: Option<Instant>,
}

impl Seen {
    fn of(inner: &Inner, now: Instant) -> Self {
        let mut seen = Self::default();
        inner.table.for_each_busy(|_, slot| {
            seen.oldest = [seen.oldest, slot.entry.oldest()].into_iter().flatten().min();
        });
        inner.table.for_each_lease(|lease| {
            seen.jeopardy += u64::from(lease.is_in_jeopardy() && lease.is_held(now));
        });
        seen
    }
}
