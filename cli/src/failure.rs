//! Why the program ends without a result: an exit code and one sentence. Pure.

use leasehold::{AcquireError, BuildError, CountError, InspectError, transport::TransportError};

use crate::exit;

/// One sentence says what is wrong and what to do. It never has a secret in it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

impl From<TransportError> for Failure {
    fn from(error: TransportError) -> Self {
        Self::new(exit::of_error(error.kind), error.to_string())
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let code = match &error {
            BuildError::Refused(last_error) => exit::of_error(last_error.kind),
            BuildError::Invalid(_) => exit::CONFIG,
            _ => exit::UNAVAILABLE,
        };
        Self::new(code, error.to_string())
    }
}

impl From<InspectError> for Failure {
    fn from(error: InspectError) -> Self {
        let code = match &error {
            InspectError::Transport(last_error) => exit::of_error(last_error.kind),
            InspectError::Invalid(_) => exit::USAGE,
            _ => exit::UNAVAILABLE,
        };
        Self::new(code, error.to_string())
    }
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Self {
        let code = match &error {
            AcquireError::Invalid(_) => exit::USAGE,
            AcquireError::TimedOut { .. } => exit::NO,
            AcquireError::Refused(last_error) => exit::of_error(last_error.kind),
            AcquireError::Unsupported { .. } => exit::CONFIG,
            _ => exit::UNAVAILABLE,
        };
        Self::new(code, error.to_string())
    }
}

impl From<CountError> for Failure {
    fn from(error: CountError) -> Self {
        let code = match &error {
            CountError::Invalid(_) => exit::USAGE,
            CountError::Refused(last_error) => exit::of_error(last_error.kind),
            CountError::Unsupported { .. } => exit::CONFIG,
            _ => exit::UNAVAILABLE,
        };
        Self::new(code, error.to_string())
    }
}
