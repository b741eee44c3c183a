//! Why a connection has ended, in words for an operator.

use std::{fmt, io, sync::Arc};

use super::plain_error;
use crate::wire::shown;

/// Why a connection has ended. It keeps the details as the library gave them: the tables of errors look there.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    details: Arc<str>,
    /// The connection had ended before the request.
    before_request: bool,
}

impl Lost {
    pub(crate) fn of_details(details: impl Into<Arc<str>>) -> Self {
        Self { details: details.into(), before_request: false }
    }

    /// The cause of a connection that was closed here.
    pub(super) fn here() -> Self {
        Self::of_details("connection lost")
    }

    pub(crate) fn of_io(error: &io::Error) -> Self {
        Self::of_details(format!("{error:?}"))
    }

    pub(super) fn details(&self) -> &str {
        &self.details
    }

    /// The same, for a request that was not sent because of it.
    pub(super) fn before_request(self) -> Self {
        Self { before_request: true, ..self }
    }

    /// Whether the request was not sent, so that it has no effect.
    pub(super) fn is_before_request(&self) -> bool {
        self.before_request
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown::shown(&plain_error::plain(&self.details)))
    }
}
