//! A lock held for a time: what its holder may believe, and what it shares with its renewal.

mod cold;
mod held;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod unanswered;

pub use held::Lease;
