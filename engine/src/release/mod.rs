//! How a hold ends: lost, released, or given back because no caller accepted it.
//!
//! `end` gives holds back, `hold` ends one hold locally, `loss` handles a lost lease. `send` sends a release and
//! reports the outcome, `retry` repeats a release for one command timeout, `bulk` is one of many releases that are sent
//! in turn. `in_progress` is a release that is not answered yet. `reconciler` keeps every owner that no server has
//! confirmed as gone and decides when its next release is due; `reconcile` sends that release. `silent_nodes` (pure)
//! decides when the owners of a node that does not answer are due. `downgrade` turns write leases into read leases.

pub(crate) mod bulk;
pub(crate) mod downgrade;
pub(crate) mod end;
mod hold;
pub(crate) mod in_progress;
pub(crate) mod loss;
pub(crate) mod reconcile;
pub(crate) mod reconciler;
mod retry;
pub(crate) mod send;
mod silent_nodes;
