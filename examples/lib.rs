//! What the small examples share: where the locks are, and errors that read well when `main` returns them.

#[cfg(feature = "otlp")]
pub mod otlp;
#[cfg(feature = "redis")]
mod servers;

use std::{error::Error, fmt};

#[cfg(feature = "redis")]
pub use servers::{Servers, servers};

/// Any error, shown by its own words. (`main` shows what it returns with `Debug`.)
pub struct Trouble(Box<dyn Error + Send + Sync>);

impl<E: Error + Send + Sync + 'static> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl fmt::Debug for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The first screen of the project compiles.
#[doc = include_str!("../README.md")]
#[cfg(all(doctest, feature = "redis"))]
mod first_screen {}
