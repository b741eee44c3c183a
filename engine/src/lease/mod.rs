//! A lock held for a time: what its holder may believe, and what it shares with its renewal.

mod cold;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod unanswered;
pub(crate) mod unconfirmed_owner;
