//! What `run` holds: a lease, or permits.

use std::{future::Future, pin::Pin, time::Duration};

use leasehold::{
    AcquireError, Engine, Lease, LeaseState, Lock, LossReason, Permit, Permits, PermitsDescription,
    ReleaseError,
};

use crate::{arguments::Run, exit, failure::Failure, kind::Acquired, output::counted, run::news::News};

/// A lease of any kind.
pub(crate) enum Held {
    Lease(Lease),
    Permit(Permit),
}

impl Held {
    /// Acquires what the options ask for. `None`: another holder had it for the whole wait.
    ///
    /// # Errors
    /// No definite answer, or a refusal.
    ///
    /// # Cancel safety
    /// Dropping the future gives back what was granted meanwhile.
    pub(crate) async fn acquire(
        engine: &Engine,
        run: &Run,
        ttl: Duration,
        news: &News<'_>,
    ) -> Result<Option<Self>, Failure> {
        let wait = if run.once { Some(Duration::ZERO) } else { run.wait };
        match run.kind {
            Acquired::Permits => {
                let semaphore = engine.permits(&run.name).ttl(ttl);
                must_suffice(&semaphore, run, news).await?;
                permits(semaphore, run, wait).await
            }
            Acquired::Exclusive => lease(engine.lock(&run.name), ttl, wait).await,
            Acquired::Fenced => lease(engine.fenced_lock(&run.name), ttl, wait).await,
            Acquired::Fair => lease(engine.fair_lock(&run.name), ttl, wait).await,
            Acquired::Read => lease(engine.rw_lock(&run.name).read(), ttl, wait).await,
            Acquired::Write => lease(engine.rw_lock(&run.name).write(), ttl, wait).await,
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Self::Lease(lease) => lease.remaining(),
            Self::Permit(permit) => permit.remaining(),
        }
    }

    pub(crate) fn is_in_jeopardy(&self) -> bool {
        let state = match self {
            Self::Lease(lease) => lease.state(),
            Self::Permit(permit) => permit.state(),
        };
        state == LeaseState::Jeopardy
    }

    /// The fencing token. Permits have none.
    pub(crate) fn token(&self) -> Option<i64> {
        match self {
            Self::Lease(lease) => Some(lease.fencing_token().as_i64()),
            Self::Permit(_) => None,
        }
    }

    pub(crate) fn lost(&self) -> Pin<Box<dyn Future<Output = LossReason> + Send>> {
        match self {
            Self::Lease(lease) => Box::pin(lease.lost()),
            Self::Permit(permit) => Box::pin(permit.lost()),
        }
    }

    pub(crate) async fn release(self) -> Result<(), ReleaseError> {
        match self {
            Self::Lease(lease) => lease.release().await,
            Self::Permit(permit) => permit.release().await,
        }
    }
}

async fn lease(lock: Lock, ttl: Duration, wait: Option<Duration>) -> Result<Option<Held>, Failure> {
    let lock = lock.ttl(ttl);
    let granted = match wait {
        Some(Duration::ZERO) => lock.try_acquire().await?,
        Some(wait) => in_time(lock.wait(wait).acquire().await)?,
        None => in_time(lock.acquire().await)?,
    };
    Ok(granted.map(Held::Lease))
}

async fn permits(permits: Permits, run: &Run, wait: Option<Duration>) -> Result<Option<Held>, Failure> {
    let count = run.count.unwrap_or(1);
    let granted = match wait {
        Some(Duration::ZERO) => permits.try_acquire(count).await?,
        Some(wait) => in_time(permits.wait(wait).acquire(count).await)?,
        None => in_time(permits.acquire(count).await)?,
    };
    Ok(granted.map(Held::Permit))
}

// A caller that wants more permits than there are would wait in vain.
async fn must_suffice(permits: &Permits, run: &Run, news: &News<'_>) -> Result<(), Failure> {
    let was_set = match run.limit {
        Some(limit) => permits.try_set_total(limit).await?,
        None => false,
    };
    let total = total(&permits.describe().await?);
    if let (Some(limit), false) = (run.limit, was_set) {
        news.limit(limit, total);
    }
    let count = run.count.unwrap_or(1);
    match total {
        0 => Err(format!("the semaphore {:?} has no permits; give their number with --limit", run.name)),
        _ if u64::from(count) > total => Err(format!(
            "the semaphore {:?} has {}, and --count is {count}; take fewer",
            run.name,
            counted(total, "permit")
        )),
        _ => Ok(()),
    }
    .map_err(|text| Failure::new(exit::USAGE, text))
}

// `available` is negative while more are held than a smaller total allows. The sum is the total.
fn total(seen: &PermitsDescription) -> u64 {
    u64::try_from(i128::from(seen.available) + i128::from(seen.held)).unwrap_or(0)
}

/// `None`: the wait is over, and the lock was held.
fn in_time<T>(granted: Result<T, AcquireError>) -> Result<Option<T>, Failure> {
    match granted {
        Ok(granted) => Ok(Some(granted)),
        Err(AcquireError::TimedOut { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
