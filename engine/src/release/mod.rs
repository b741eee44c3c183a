//! How a hold ends: lost, released, or given back because no caller accepted it.
//!
//! `end` ends a lease locally, `send` sends its release and reports the outcome, `retry` repeats it for one command
//! timeout. `reconciler` repeats the release of every owner that no server has confirmed; `silent_nodes` (pure) says when
//! the owners of a node that does not answer are due.

pub(crate) mod end;
pub(crate) mod reconciler;
mod retry;
pub(crate) mod send;
mod silent_nodes;
