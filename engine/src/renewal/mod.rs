//! Renewal: a hashed wheel per shard, batches by node, loss noticed at the deadline without any reply.

pub(crate) mod batch;
pub(crate) mod found_ttl;
pub(crate) mod shard;
pub(crate) mod slab;
pub(crate) mod wheel;
