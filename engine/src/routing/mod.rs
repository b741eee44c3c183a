//! Where a key lives: hash tag, slot, and the topology that maps slots to nodes. Pure.

pub mod hash_tag;
pub mod slot;
pub mod topology;
