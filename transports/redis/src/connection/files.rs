//! Reads files of the settings within a time limit.

use std::time::Duration;

/// Runs on a separate thread, because a file system that hangs must not block the lane.
pub(super) async fn read_files<T: Send + 'static>(
    what: &str,
    read: impl FnOnce() -> Result<T, String> + Send + 'static,
    step: Duration,
) -> Result<T, String> {
    tokio::time::timeout(step, tokio::task::spawn_blocking(read))
        .await
        .map_err(|_| format!("{what}: no answer from the file system; use a local one"))
        .and_then(|read| read.unwrap_or_else(|error| Err(format!("{what}: {error}"))))
}
