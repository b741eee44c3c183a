//! Proxies between an engine and its servers.

mod wrong_answers;
