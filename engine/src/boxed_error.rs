//! The error of some work, in a box: for work whose own error type is no `std::error::Error`. Pure.

use std::{error::Error, fmt};

use crate::error::RunError;

/// The error of some work, whatever its type. [`RunError::boxed`] makes it. Text and source are those of the error in the
/// box.
///
/// # Examples
/// ```
/// use leasehold::BoxedError;
///
/// let error = BoxedError::new("the printer is out of paper");
/// assert_eq!(error.to_string(), "the printer is out of paper");
/// ```
pub struct BoxedError(Box<dyn Error + Send + Sync>);

impl BoxedError {
    /// Puts an error into a box: any `std::error::Error`, a text, a box, an `anyhow::Error`.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }

    /// The box with the error, for a `downcast`.
    pub fn into_inner(self) -> Box<dyn Error + Send + Sync> {
        self.0
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>, A> RunError<E, A> {
    /// The same error, with the error of the work in a box. The result is a `std::error::Error` also where the error of
    /// the work is none, as `anyhow::Error` and `Box<dyn Error + Send + Sync>`, so it goes with `?`.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// use std::error::Error;
    /// use leasehold::RunError;
    ///
    /// let done = engine.lock("acct:7").run(async |lease| {
    ///     lease.ensure_held()?;
    ///     let number: i32 = "42".parse()?; // errors of several types
    ///     Ok::<_, Box<dyn Error + Send + Sync>>(number) // or anyhow::Ok(number)
    /// });
    /// assert_eq!(done.await.map_err(RunError::boxed)?, 42);
    /// # Ok(())
    /// # }
    /// ```
    pub fn boxed(self) -> RunError<BoxedError, A> {
        match self {
            RunError::Acquire(error) => RunError::Acquire(error),
            RunError::Work(error) => RunError::Work(BoxedError::new(error)),
            RunError::Lost(reason) => RunError::Lost(reason),
            RunError::Release(error) => RunError::Release(error),
        }
    }
}

impl fmt::Debug for BoxedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for BoxedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for BoxedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

#[cfg(test)]
mod tests {
    use std::{io, num::ParseIntError};

    use super::*;
    use crate::{AcquireError, LossReason};

    fn texts(error: &dyn Error) -> Vec<String> {
        std::iter::successors(Some(error), |&error| error.source()).map(ToString::to_string).collect()
    }

    #[test]
    fn text_source_and_type_are_those_of_the_error_in_the_box() {
        let cause = "x".parse::<i32>().unwrap_err();
        let error: RunError<_> = RunError::<io::Error>::Work(io::Error::other(cause.clone())).boxed();
        assert_eq!(texts(&error), texts(&io::Error::other(cause)));
        let RunError::Work(boxed) = error else { panic!("{error:?}") };
        let inside = boxed.into_inner().downcast::<io::Error>().unwrap();
        assert!(inside.get_ref().unwrap().is::<ParseIntError>());
    }

    #[test]
    fn other_errors_stay_what_they_are() {
        let lost = RunError::<&str>::Lost(LossReason::Expired).boxed();
        assert!(matches!(lost, RunError::Lost(LossReason::Expired)));
        let refused = RunError::<&str>::Acquire(AcquireError::ShuttingDown).boxed();
        assert!(matches!(refused, RunError::Acquire(AcquireError::ShuttingDown)));
    }
}
