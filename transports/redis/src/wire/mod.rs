//! The wire format: names, scripts, and the meaning of their replies. Pure.

pub(crate) mod arg;
pub(crate) mod client_list;
pub(crate) mod cluster_nodes;
pub(crate) mod encode;
pub(crate) mod error_reply;
pub(crate) mod fair_reply;
mod host_port;
pub(crate) mod lock_hash;
pub(crate) mod many_reply;
pub(crate) mod msgpack;
pub mod names;
pub(crate) mod redirect;
pub(crate) mod reply;
pub(crate) mod reply_check;
pub(crate) mod scripts;
pub(crate) mod sentinel;
pub(crate) mod shown;
