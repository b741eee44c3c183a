//! A lock held for a time: what its holder may believe, and what it shares with its renewal.

pub(crate) mod open_sends;
pub(crate) mod shared;
pub mod state;
