use std::time::Duration;

/// What became of one try to run a [`Job`](crate::Job).
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use leasehold::Engine;
/// # use leasehold_memory::MemoryTransport;
/// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
/// use std::time::Duration;
/// use leasehold::{Job, JobOutcome};
///
/// let job = Job::new(&engine, "invoices", Duration::from_secs(3_600));
/// match job.run_if_due(|_lease| async { Ok::<_, std::io::Error>(12) }).await? {
///     JobOutcome::Ran(count) => println!("{count} invoices sent"),
///     JobOutcome::Stopped => println!("it took longer than at_most_for and was stopped"),
///     JobOutcome::AlreadyRan { again_in } => println!("another process has run it; due again in {again_in:?}"),
///     JobOutcome::Running => println!("another process runs it now"),
///     other => println!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobOutcome<T> {
    /// This call ran the work to its end, under the lock for the whole time.
    Ran(T),
    /// This call ran the work for `at_most_for`, and then dropped it. The job counts as run.
    Stopped,
    /// The job was begun less than `at_least_for` ago, by any process. The work did not start.
    AlreadyRan {
        /// How long until the job is due again. `None`: the server did not say.
        again_in: Option<Duration>,
    },
    /// Another caller runs the job now. The work did not start.
    Running,
}
