//! The transport against a redis-server that each test starts for itself.

mod asking;
mod authority;
mod cluster_down;
mod clusters;
mod distances;
mod failures;
mod fair;
mod fake;
mod far;
mod locks;
mod nested;
mod read_write;
mod redirected_notices;
mod roles;
mod secrets;
mod sentinels;
mod server;
mod tls;
