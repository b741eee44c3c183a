//! A sleep that ends with the engine.

use std::{sync::Arc, time::Duration};

use crate::{compose::timer, inner::Inner};

/// Sleeps for this time in the task of the caller, which may have no runtime. Returns early when the engine ends.
///
/// # Cancel safety
/// Dropping the future ends the timer.
pub(super) async fn sleep(engine: &Arc<Inner>, time: Duration) {
    tokio::select! {
        () = timer::sleep(std::slice::from_ref(engine), time) => {}
        () = engine.ended_for_users() => {}
    }
}
