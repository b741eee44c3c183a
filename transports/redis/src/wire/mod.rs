//! What is on the wire: names, scripts, and what their replies mean. Pure.

pub(crate) mod cluster_nodes;
pub(crate) mod depth;
pub mod names;
pub(crate) mod pack;
mod place;
pub(crate) mod redirect;
pub(crate) mod refusal;
pub(crate) mod reply;
pub(crate) mod scripts;
pub(crate) mod sentinel;
pub(crate) mod shown;
