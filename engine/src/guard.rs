//! Calls user code and catches its panics. Recorders, `tracing` subscribers and wakers also run on the engine's own
//! threads, and no lease may depend on them.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Poll,
};

/// Calls `user_code`. `None`: it panicked.
///
/// What the closure has changed before the panic stays changed. Callers pass only closures for which that is harmless.
pub(crate) fn call<T>(user_code: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(user_code)).map_err(discard).ok()
}

/// Drops values whose drop runs user code, each behind a guard of its own: two panics in the drop of one list would end
/// the process.
pub(crate) fn drop_each<T>(values: impl IntoIterator<Item = T>) {
    for value in values {
        let _ = call(|| drop(value));
    }
}

/// Polls a future to its end. `None`: the future panicked and has been dropped.
pub(crate) async fn run<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut running = Some(Box::pin(future));
    poll_fn(|context| {
        let Some(future) = &mut running else { return Poll::Ready(None) };
        match call(|| future.as_mut().poll(context)) {
            Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready(done)) => Poll::Ready(Some(done)),
            None => {
                let broken = running.take();
                let _ = call(|| drop(broken));
                Poll::Ready(None)
            }
        }
    })
    .await
}

// Dropping the payload of a panic may panic as well. That second payload is leaked.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::panic::resume_unwind;

    use super::*;

    pub(crate) struct PanicsInDrop;

    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            resume_unwind(Box::new("in drop"));
        }
    }

    #[test]
    fn a_panic_ends_at_the_guard() {
        assert_eq!(call(|| 7), Some(7));
        assert_eq!(call(|| resume_unwind(Box::new("text"))), None::<()>);
        assert_eq!(call(|| resume_unwind(Box::new(PanicsInDrop))), None::<()>);
    }

    #[test]
    fn values_that_panic_in_their_drops_keep_no_other_from_its_drop() {
        let last = std::sync::Arc::new(());
        let values = vec![(PanicsInDrop, None), (PanicsInDrop, None), (PanicsInDrop, Some(last.clone()))];
        drop_each(values);
        assert_eq!(std::sync::Arc::strong_count(&last), 1);
    }

    #[tokio::test]
    async fn a_future_that_panics_is_dropped_and_told() {
        assert_eq!(run(async { 7 }).await, Some(7));
        let broken = async {
            let _panics = PanicsInDrop;
            tokio::task::yield_now().await;
        };
        assert_eq!(run(broken).await, None);
    }
}
