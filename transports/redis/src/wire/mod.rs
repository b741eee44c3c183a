//! What is on the wire: names, scripts, and what their replies mean. Pure.

pub mod names;
pub(crate) mod refusal;
pub(crate) mod reply;
pub(crate) mod scripts;
