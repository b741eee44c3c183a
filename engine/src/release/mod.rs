//! How a hold ends: lost, released, or given back because no caller accepted it.
//!
//! `end` gives holds back, `hold` ends one hold locally, `loss` handles a lost lease. `exchange`
//! is one release that is sent, with its answer: every release goes through it. `send` sends the first release of a lease
//! and reports its outcome (`told`), `bulk` is one of many releases that are sent in turn. `in_progress` is a release that
//! is not answered yet. `reconciler` keeps every owner that no server has confirmed as gone, with the caller that waits for
//! it, and decides when its next release is due; `reconcile` sends that release, as the outbox of its node allows.
//! `downgrade` turns write leases into read leases.

pub(crate) mod bulk;
pub(crate) mod downgrade;
pub(crate) mod end;
mod exchange;
mod hold;
pub(crate) mod in_progress;
pub(crate) mod loss;
pub(crate) mod reconcile;
pub(crate) mod reconciler;
pub(crate) mod send;
mod told;
