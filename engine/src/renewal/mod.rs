//! Renewal: a hashed wheel per shard, batches by node, loss noticed at the deadline without any reply.
//!
//! `wheel`, `slab`, `batch`, `pile`, `found_ttl`, `wishes`, `flights`, `phase`, `spread`, `shard` and `shards` are pure.
//! `inbox` is how other threads reach a shard, `driver` ticks and sends, `belt` watches the driver from the other thread.

pub(crate) mod batch;
pub(crate) mod belt;
pub(crate) mod driver;
mod flights;
pub(crate) mod found_ttl;
mod grumble;
pub(crate) mod inbox;
mod phase;
mod pile;
pub(crate) mod shard;
mod shards;
pub(crate) mod slab;
mod spread;
pub(crate) mod tally;
pub(crate) mod wheel;
#[cfg(test)]
mod wheel_model;
pub(crate) mod wishes;
