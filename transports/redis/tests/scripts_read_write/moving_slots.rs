//! A slot that is being moved: some keys of a lock are at one node, the others still at the other.

use crate::{
    keyspace::{CHANNEL, LOCK, timeout_key},
    model::{OWNERS, UNIT},
    ours::{self, NEVER},
    resp::{Client, Reply},
    server::{Server, programs},
};

/// Two nodes of a cluster, of which the first gives the lock's slot to the second.
struct Moving {
    source: Client,
    target: Client,
    target_port: u16,
    slot: String,
    // Dropped behind the connections.
    _servers: [Server; 2],
}

impl Moving {
    fn start(program: &std::path::Path) -> Self {
        let cluster = &["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"];
        let servers = [Server::start_program(program, cluster), Server::start_program(program, cluster)];
        let (mut source, mut target) = (servers[0].client(), servers[1].client());
        let slot = source.ok(&["CLUSTER", "KEYSLOT", LOCK]).number().to_string();
        // A node that gives its last slot away becomes a replica.
        source.ok(&["CLUSTER", "ADDSLOTS", &slot, "0"]);
        source.ok(&["CLUSTER", "MEET", "127.0.0.1", &servers[1].port.to_string()]);
        let [of_source, of_target] =
            [&mut source, &mut target].map(|node| node.ok(&["CLUSTER", "MYID"]).text());
        until(|| {
            let nodes = source.ok(&["CLUSTER", "NODES"]).text();
            nodes.contains(&of_target) && !nodes.contains("handshake")
        });
        until(|| target.ok(&["CLUSTER", "NODES"]).text().contains(&of_source));
        until(|| [&mut source, &mut target].iter_mut().all(|node| is_up(node)));
        hold_both(&mut source);
        let mut moving = Self { source, target, target_port: servers[1].port, slot, _servers: servers };
        moving.begin(&of_source, &of_target);
        moving
    }

    fn begin(&mut self, of_source: &str, of_target: &str) {
        // The target knows the slot's owner a little later.
        until(|| {
            self.target.send(&["CLUSTER", "SETSLOT", &self.slot, "IMPORTING", of_source]).error().is_none()
        });
        self.source.ok(&["CLUSTER", "SETSLOT", &self.slot, "MIGRATING", of_target]);
    }

    /// The slot is the target's.
    fn finish(&mut self) {
        let id = self.target.ok(&["CLUSTER", "MYID"]).text();
        for node in [&mut self.target, &mut self.source] {
            node.ok(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &id]);
        }
    }

    fn migrate(&mut self, key: &str) {
        let port = self.target_port.to_string();
        let moved = self.source.ok(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
        assert_eq!(moved.text(), "OK", "{key}");
    }

    fn at_target(&mut self, ask: impl FnOnce(&mut Client) -> Reply) -> Reply {
        // The first sends the text, so that the command behind ASKING is the one.
        self.target.ok(&["ASKING"]);
        ask(&mut self.target)
    }
}

/// What a source says of keys of which some have moved. Redis 6.2 asks to go to the target, which says TRYAGAIN.
fn is_split(reply: &Reply) -> bool {
    reply.error().is_some_and(|text| text.starts_with("TRYAGAIN") || text.starts_with("ASK"))
}

fn is_up(node: &mut Client) -> bool {
    node.ok(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok")
}

fn until(mut happens: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !happens() {
        assert!(std::time::Instant::now() < end, "not within 30 s");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// The text of a script, so that one command is enough behind ASKING.
fn load(client: &mut Client, script: &str) {
    client.ok(&["SCRIPT", "LOAD", script]);
}

fn release(client: &mut Client, keys: &[&str], look: &str) -> Reply {
    client.eval(ours::READ_RELEASE, keys, &[OWNERS[0], CHANNEL, ours::PUBLISH, look])
}

/// The owners in the lock's hash, at a node that has it.
fn readers(client: &mut Client) -> Vec<String> {
    let fields = client.ok(&["HKEYS", LOCK]);
    fields.list().iter().map(Reply::text).filter(|field| field != "mode").collect()
}

#[test]
fn a_read_release_behind_asking_leaves_a_reader_whose_key_has_not_moved() {
    for program in programs() {
        let mut moving = Moving::start(&program);
        let (own, other) = (timeout_key(OWNERS[0], 1), timeout_key(OWNERS[1], 1));
        moving.migrate(LOCK);
        moving.migrate(&own);
        load(&mut moving.target, ours::READ_RELEASE);
        let reply = moving.at_target(|node| release(node, &[LOCK, &own], "0"));
        assert_eq!(reply.list()[..2], [Reply::Number(1), Reply::Number(-1)], "{program:?}");
        moving.migrate(&other);
        moving.finish();
        assert_eq!(readers(&mut moving.target), [OWNERS[1]], "{program:?}");
    }
}

/// What the argument is for: the same release that looks takes the other reader for dead.
#[test]
fn a_key_that_has_not_moved_looks_like_one_that_has_expired() {
    let mut moving = Moving::start(std::path::Path::new("redis-server"));
    let own = timeout_key(OWNERS[0], 1);
    moving.migrate(LOCK);
    moving.migrate(&own);
    load(&mut moving.target, ours::READ_RELEASE);
    moving.at_target(|node| release(node, &[LOCK, &own], "1"));
    moving.migrate(&timeout_key(OWNERS[1], 1));
    moving.finish();
    assert!(readers(&mut moving.target).is_empty(), "the server tells: the argument is not needed any more");
}

#[test]
fn a_read_release_leaves_a_reader_whose_key_has_moved() {
    for program in programs() {
        let mut moving = Moving::start(&program);
        moving.migrate(&timeout_key(OWNERS[1], 1));
        let reply = release(&mut moving.source, &[LOCK, &timeout_key(OWNERS[0], 1)], "1");
        assert_eq!(reply.list()[..2], [Reply::Number(1), Reply::Number(-1)], "{program:?}");
        assert_eq!(readers(&mut moving.source), [OWNERS[1]], "{program:?}");
        assert!(moving.source.ok(&["PTTL", LOCK]).number() > 2 * UNIT, "{program:?}: expiry untouched");
    }
}

#[test]
fn a_read_release_of_one_key_needs_no_other_to_be_there() {
    for program in programs() {
        let mut moving = Moving::start(&program);
        let own = timeout_key(OWNERS[0], 1);
        moving.migrate(&own);
        let refused = release(&mut moving.source, &[LOCK, &own], "1");
        assert!(is_split(&refused), "{program:?}: {refused:?}");
        let reply = release(&mut moving.source, &[LOCK], "1");
        assert_eq!(reply.list()[..2], [Reply::Number(1), Reply::Number(-1)], "{program:?}");
        assert_eq!(readers(&mut moving.source), [OWNERS[1]], "{program:?}");
    }
}

#[test]
fn a_read_hold_with_a_key_at_each_node_is_renewed_in_two_commands() {
    for program in programs() {
        let mut moving = Moving::start(&program);
        let own = timeout_key(OWNERS[0], 1);
        moving.migrate(&own);
        let both = ours::read_renew(&mut moving.source, OWNERS[0], 5 * UNIT, NEVER);
        assert!(is_split(&both), "{program:?}: {both:?}");
        let (head, number) = ours::split(OWNERS[0]);
        let (ttl, numbers) = ((5 * UNIT).to_string(), ours::pack(&[number]));
        let args: [&[u8]; 4] = [NEVER.as_bytes(), ttl.as_bytes(), head.as_bytes(), &numbers];
        let of_lock = moving.source.eval(ours::RENEW, &[LOCK], &args);
        assert!(matches!(ours::found(&of_lock)[..], [Ok(left)] if left > 0), "{program:?}: {of_lock:?}");
        let elsewhere = moving.source.eval(ours::READ_RENEW_TIMEOUT, &[&own], &[NEVER, &ttl]);
        assert!(elsewhere.error().is_some_and(|text| text.starts_with("ASK")), "{program:?}: {elsewhere:?}");
        load(&mut moving.target, ours::READ_RENEW_TIMEOUT);
        let of_key = moving.at_target(|node| node.eval(ours::READ_RENEW_TIMEOUT, &[&own], &[NEVER, &ttl]));
        assert!(matches!(ours::found(&of_key)[..], [Ok(left)] if left > 0), "{program:?}: {of_key:?}");
    }
}

/// The first holds for 1 unit, the second for 3.
fn hold_both(source: &mut Client) {
    for (owner, units) in [(OWNERS[0], 1), (OWNERS[1], 3)] {
        assert_eq!(ours::read_acquire(source, owner, units * UNIT, NEVER).code(), 1);
    }
}
