//! Renewal: a hashed wheel per shard, batches by node, loss noticed at the deadline without any reply.
//!
//! `wheel`, `slab`, `batch`, `found_ttl`, `wishes`, `flights`, `phase` and `shard` are pure. `inbox` is how other threads reach a shard,
//! `driver` ticks and sends, `belt` watches the driver from the other thread.

pub(crate) mod batch;
pub(crate) mod belt;
pub(crate) mod driver;
mod flights;
pub(crate) mod found_ttl;
pub(crate) mod inbox;
mod phase;
pub(crate) mod shard;
pub(crate) mod slab;
pub(crate) mod wheel;
pub(crate) mod wishes;
