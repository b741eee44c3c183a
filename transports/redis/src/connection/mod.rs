//! One connection to one server: opened, checked, watched over, and what is asked on it.

pub(crate) mod abilities;
pub(crate) mod backoff;
pub(crate) mod batches;
pub(crate) mod check;
mod checked;
mod denial;
pub(crate) mod dialling;
mod evaluation;
mod handshake;
pub(crate) mod identity;
mod limit;
pub(crate) mod link;
mod offset;
pub(crate) mod plain_error;
mod relay;
mod renewal;
mod requests;
pub(crate) mod sparse;
pub(crate) mod watchdog;

pub(crate) use batches::Batches;
pub(crate) use checked::{Connection, Terms};
pub(crate) use denial::Denial;
pub(crate) use evaluation::Manner;
pub(crate) use renewal::{answer_all, is_about_the_batch, is_passing};
