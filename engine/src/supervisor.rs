//! Restarts a service of the engine that panics. Each service runs for the life of its engine. Without the service,
//! leases would be lost or callers would wait for ever.

use std::{future::Future, time::Duration};

use crate::{clock::Clock, guard, log};

/// Runs a service until it ends by itself. A service that panics is restarted after [`PAUSE`].
pub(crate) async fn run<F: Future<Output = ()>>(clock: Clock, name: &'static str, begin: impl Fn() -> F) {
    while guard::run(begin()).await.is_none() {
        log::line(tracing::Level::ERROR, move || {
            tracing::error!(service = name, "a service of the engine panicked and is begun again");
        });
        clock.sleep_until(clock.now() + PAUSE).await;
    }
}

/// The pause before a restart. Short compared with the shortest time to a deadline, 900 ms. Long enough that a service
/// that panics at once costs little.
const PAUSE: Duration = Duration::from_millis(50);
