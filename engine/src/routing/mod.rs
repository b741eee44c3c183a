//! Where a key lives: hash tag, slot, and the topology that maps slots to nodes; what of it has changed. Pure.

pub mod hash_tag;
pub(crate) mod moves;
pub mod slot;
pub mod topology;
