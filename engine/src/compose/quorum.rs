//! A quorum of independent servers.

use std::{fmt, sync::Arc};

use super::{
    arithmetic::majority,
    quorum_lock::{QuorumLock, same},
};
use crate::{Engine, error::Invalid};

/// Several engines over independent servers. A lock of the quorum is held while a majority of the servers holds it, so
/// a minority of servers may fail. This is the algorithm that the Redis documentation calls Redlock.
///
/// What it promises and what it does not: the [guide](crate::guide::quorum).
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use leasehold::{Engine, Quorum};
/// use leasehold_memory::MemoryTransport;
///
/// let mut engines = Vec::new();
/// for _server in 0..3 {
///     // Said: these servers forget nothing at a restart. Without an append-only file: the longest ttl.
///     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
/// }
/// let quorum = Quorum::over(engines)?;
/// let lease = quorum.lock("orders:42").acquire().await?;
/// lease.ensure_held()?; // before each guarded step
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "Redlock")]
#[derive(Clone)]
pub struct Quorum {
    engines: Arc<[Engine]>,
}

impl Quorum {
    /// The quorum of these engines. Each has one independent server, and every process uses the same servers.
    ///
    /// # Errors
    /// [`Invalid`]: fewer than three engines, an even number of them, one engine twice, or an engine whose
    /// [`restart_grace`](crate::EngineBuilder::restart_grace) was not set. A server that restarts empty within the ttl
    /// of a lease would grant the lock twice. So set it to the longest ttl of all clients. Zero is accepted if it was
    /// set: it says that the server forgets nothing (an append-only file with `appendfsync always`).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::{Engine, Quorum};
    /// # use leasehold_memory::MemoryTransport;
    /// let mut engines = Vec::new();
    /// for _server in 0..3 {
    ///     engines.push(Engine::builder(MemoryTransport::new()).build().await?);
    /// }
    /// let refused = Quorum::over(engines).unwrap_err();
    /// assert_eq!(refused.field, "restart_grace");
    /// # Ok(())
    /// # }
    /// ```
    pub fn over(engines: impl IntoIterator<Item = Engine>) -> Result<Self, Invalid> {
        let engines: Arc<[Engine]> = engines.into_iter().collect();
        check_number(engines.len())?;
        for (place, engine) in engines.iter().enumerate() {
            check_once(&engines, place)?;
            if engine.inner().config.restart_grace_ms.is_none() {
                let remedy = "set EngineBuilder::restart_grace to the longest ttl of all clients, or to zero if the \
                              server forgets nothing at a restart";
                return Err(Invalid::new("restart_grace", format_args!("not set in engine {place}"), remedy));
            }
        }
        Ok(Self { engines })
    }

    /// Returns a handle of the lock with this name. An invalid name is an error of the call that uses the handle.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use std::time::Duration;
    /// # use leasehold::{Engine, Quorum};
    /// # use leasehold_memory::MemoryTransport;
    /// # let mut engines = Vec::new();
    /// # for _server in 0..3 {
    /// #     engines.push(Engine::builder(MemoryTransport::new()).restart_grace(Duration::ZERO).build().await?);
    /// # }
    /// let quorum = Quorum::over(engines)?;
    /// let lock = quorum.lock("orders:42");
    /// let first = lock.acquire().await?;
    /// first.release().await?;
    /// assert!(lock.try_acquire().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, name: impl AsRef<str>) -> QuorumLock {
        QuorumLock::new(self.engines.clone(), name.as_ref())
    }
}

fn check_number(engines: usize) -> Result<(), Invalid> {
    if engines < ENGINES_MIN || engines % 2 == 0 {
        let remedy =
            "give an odd number of engines, 3 or more: an even one tolerates no more failures than one less";
        return Err(Invalid::new("engines", engines, remedy));
    }
    Ok(())
}

fn check_once(engines: &[Engine], place: usize) -> Result<(), Invalid> {
    let (before, engine) = (engines.get(..place).unwrap_or_default(), engines.get(place));
    let is_same = |other: &Engine| engine.is_some_and(|engine| Arc::ptr_eq(engine.inner(), other.inner()));
    match before.iter().position(is_same) {
        Some(first) => Err(same("engines", first, place, "are one engine")),
        None => Ok(()),
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quorum({} of {:?})", majority(self.engines.len()), self.engines)
    }
}

const ENGINES_MIN: usize = 3;
