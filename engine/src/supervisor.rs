//! Restarts a service of the engine that panics. Each service runs for the life of its engine, and without it leases
//! are lost or callers wait for ever.

use std::{future::Future, sync::Arc, time::Duration};

use crate::{guard, inner::Inner, log};

/// Runs a service until it ends by itself. A service that panics is begun again after [`PAUSE`].
pub(crate) async fn run<F: Future<Output = ()>>(
    inner: Arc<Inner>,
    name: &'static str,
    begin: impl Fn(Arc<Inner>) -> F,
) {
    while guard::run(begin(inner.clone())).await.is_none() {
        log::line(tracing::Level::ERROR, move || {
            tracing::error!(service = name, "a service of the engine panicked and is begun again");
        });
        inner.clock.sleep_until(inner.clock.now() + PAUSE).await;
    }
}

/// Short beside the shortest time to a deadline, 900 ms; long enough that a service that panics at once costs little.
const PAUSE: Duration = Duration::from_millis(50);
