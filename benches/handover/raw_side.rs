//! A process with two blocking sockets, one of them subscribed to the lock's channel: what a client costs that does
//! nothing but send the two scripts.

use std::io;

use leasehold_tests::harness::raw_client::RawClient;

use super::side::{Acquired, Acts, NAME, now};
use crate::raw::{ACQUIRE, FAR, RELEASE, load};

pub(super) struct RawSide {
    commands: RawClient,
    notices: RawClient,
    acquire: String,
    release: String,
    owner: String,
    channel: String,
}

impl RawSide {
    pub(super) fn connect(url: &str, number: &str) -> io::Result<Self> {
        let port = url.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a URL with a port");
        let (mut commands, mut notices) = (RawClient::connect(port)?, RawClient::connect(port)?);
        let channel = format!("redisson_lock__channel:{{{NAME}}}");
        notices.command(&["SUBSCRIBE", &channel])?;
        notices.wait_for_replies(None)?;
        let (acquire, release) = (load(&mut commands, ACQUIRE), load(&mut commands, RELEASE));
        Ok(Self { commands, notices, acquire, release, owner: format!("raw:{number}"), channel })
    }

    fn ask(&mut self) -> bool {
        let request = ["EVALSHA", &self.acquire, "1", NAME, "30000", &self.owner, FAR];
        let reply = self.commands.command(&request).expect("a reply");
        reply.items().first().and_then(|first| first.integer()) == Some(1)
    }
}

impl Acts for RawSide {
    fn acquire(&mut self) -> Acquired {
        let mut asks = 1;
        while !self.ask() {
            self.notices.read().expect("a notice");
            asks += 1;
        }
        Acquired { at: now(), asks }
    }

    fn release(&mut self) -> u64 {
        let at = now();
        let request = ["EVALSHA", &self.release, "1", NAME, &self.owner, &self.channel, "publish"];
        self.commands.command(&request).expect("a reply");
        at
    }
}
