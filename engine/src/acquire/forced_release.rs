//! A release by force that this engine sends: while it is in progress, no grant of its lock is handed off. Once a server has
//! answered it, the leases that this engine had before it was sent are lost.

use std::sync::Arc;

use crate::{
    inner::Inner,
    key::LockKey,
    lease::{shared::LeaseCore, state::LossReason},
    release::loss,
    transport::{Lane, TransportError},
};

/// Lives from the call until the answer.
pub(crate) struct ForcedRelease {
    inner: Arc<Inner>,
    key: Arc<LockKey>,
}

impl ForcedRelease {
    pub(crate) fn begin(inner: Arc<Inner>, key: Arc<LockKey>) -> Self {
        inner.table.with(&key, |slot| slot.entry.begin_forced_release());
        Self { inner, key }
    }

    /// Sends the release. `true`: the lock was held.
    ///
    /// # Errors
    /// The release was not answered, so no lease ends here.
    pub(crate) async fn send(self, lane: Arc<dyn Lane>) -> Result<bool, TransportError> {
        let held = self.held();
        let was_held = lane.force_release(&self.key).await?;
        // Whatever was held then is gone, also if the server found nothing to release.
        held.iter().for_each(|lease| loss::lose(&self.inner, lease, LossReason::NotOurs));
        Ok(was_held)
    }

    // A grant that arrives from now on is not among them: the server may give it after the release.
    fn held(&self) -> Vec<Arc<LeaseCore>> {
        let keys = self.key.of_one_lock();
        let leases_of =
            |key| self.inner.table.with(key, |slot| slot.entry.leases().cloned().collect::<Vec<_>>());
        keys.iter().flat_map(leases_of).collect()
    }
}

impl Drop for ForcedRelease {
    fn drop(&mut self) {
        self.inner.table.with(&self.key, |slot| slot.entry.end_forced_release());
    }
}
