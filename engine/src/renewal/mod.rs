//! Renewal: a hashed wheel per shard, batches by node, loss noticed at the deadline without any reply.
//!
//! `wheel`, `slab`, `batch`, `deadline_queue`, `ttl_check`, `manual`, `in_flight`, `slot_alignment`, `smoothing`, `shard` and
//! `shards` are pure. `inbox` carries orders from other threads to a shard. `driver` ticks the shards and sends their
//! batches. `stall_watchdog` runs on the calls thread and notices when the renewal thread stands still.

pub(crate) mod batch;
pub(crate) mod batch_outcomes;
mod deadline_queue;
pub(crate) mod driver;
mod in_flight;
pub(crate) mod inbox;
mod log_limiter;
pub(crate) mod manual;
pub(crate) mod shard;
mod shards;
pub(crate) mod slab;
mod slot_alignment;
mod smoothing;
pub(crate) mod stall_watchdog;
pub(crate) mod ttl_check;
pub(crate) mod wheel;
#[cfg(test)]
mod wheel_model;
