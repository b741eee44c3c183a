//! A lease: a lock that is held for a time. Defines how long its holder may believe that the lock is held, and the
//! state that the holder shares with the renewal scheduler.

mod cold;
pub(crate) mod shared;
pub(crate) mod state;
mod stored_kind;
pub(crate) mod unanswered;
pub(crate) mod unconfirmed_owner;
