//! The transport against a redis-server that each test starts for itself.

mod asking;
mod authority;
mod clusters;
mod failures;
mod fake;
mod locks;
mod sentinels;
mod server;
mod tls;
