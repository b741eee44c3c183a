//! Where a key lives: its hash tag, its slot, the topology that maps slots to nodes, and the changes between two
//! topologies. Pure.

pub mod hash_tag;
pub(crate) mod moves;
pub mod slot;
pub mod topology;
