//! A lock held for a time: what its holder may believe, and what it shares with its renewal.

mod held;
pub(crate) mod open_sends;
mod rare;
pub(crate) mod shared;
pub(crate) mod state;

pub use held::Lease;
