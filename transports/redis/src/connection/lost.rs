//! Why a connection has ended, in words for an operator.

use std::{fmt, io, sync::Arc};

use super::plain_error;
use crate::wire::shown;

/// Why a connection has ended. It keeps the details as the library gave them: the tables of errors look there.
#[derive(Clone, Debug)]
pub(crate) struct Lost(Arc<str>);

impl Lost {
    pub(crate) fn of_details(details: impl Into<Arc<str>>) -> Self {
        Self(details.into())
    }

    /// The cause of a connection that was closed here.
    pub(super) fn here() -> Self {
        Self::of_details("connection lost")
    }

    pub(crate) fn of_io(error: &io::Error) -> Self {
        Self(format!("{error:?}").into())
    }

    pub(super) fn details(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown::shown(&plain_error::plain(&self.0)))
    }
}
