//! Who wants a key: the callers queued for it, the one attempt to get it, and whose turn it is.

pub(crate) mod attempt;
pub(crate) mod caller;
pub(crate) mod entry;
pub(crate) mod queue;
pub(crate) mod turns;
