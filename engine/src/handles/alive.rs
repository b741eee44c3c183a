//! Keeps the engine alive for as long as a public handle needs it.

use std::sync::Arc;

use crate::inner::Inner;

/// Held by every public handle and every lease. When the last one is dropped the engine ends, and its threads with it.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Alive>);

struct Alive {
    inner: Arc<Inner>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        if !self.inner.process.is_forked() {
            self.inner.end();
        }
    }
}

impl Handle {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self(Arc::new(Alive { inner }))
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0.inner
    }
}
