//! Where the server is, and what the processors of the machine do.

use std::{fmt, time::Duration};

use leasehold_tests::harness::redis_server::RedisServer;

use crate::{links::Link, processors::Processors, size::Size};

pub(super) struct Place {
    pub(super) server: RedisServer,
    /// Between the contestants and the server. `None`: they are on one machine, and nothing delays them.
    link: Option<Link>,
    pub(super) processors: Processors,
}

impl Place {
    pub(super) fn near(processors: Processors) -> Self {
        Self { server: RedisServer::start().expect("a redis-server"), link: None, processors }
    }

    /// All contestants go through the same link.
    pub(super) fn far(processors: Processors) -> Self {
        let near = Self::near(processors);
        let link = Link::start(near.server.port(), ROUND_TRIP).expect("a free port");
        Self { link: Some(link), ..near }
    }

    pub(super) fn is_far(&self) -> bool {
        self.link.is_some()
    }

    /// Where the contestants connect to.
    pub(super) fn port(&self) -> u16 {
        self.link.as_ref().map_or(self.server.port(), Link::port)
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Pairs of one round: few tasks far away make few pairs a second.
    pub(super) fn pairs(&self, size: Size, tasks: usize) -> usize {
        if self.is_far() { size.pairs.min(tasks * size.pairs / 20) } else { size.pairs }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_far() { "0.5 ms away, " } else { "" }, self.processors)
    }
}

const ROUND_TRIP: Duration = Duration::from_micros(500);
