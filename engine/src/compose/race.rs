//! The first of several futures.

use std::{future::poll_fn, task::Poll};

use crate::transport::BoxFuture;

/// Resolves with the first of these futures that is ready; never if there is none.
///
/// # Cancel safety
/// As that of the futures: they stay where they are.
pub(super) async fn first_of<T>(futures: &mut [BoxFuture<'_, T>]) -> T {
    poll_fn(|context| {
        for future in futures.iter_mut() {
            if let Poll::Ready(done) = future.as_mut().poll(context) {
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    })
    .await
}
