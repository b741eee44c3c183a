//! Moving slots from master to master: key by key, as Redis does it, or at once, as Valkey 9 can.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::RedisCluster;
use super::formation::AGREED_WITHIN;
use super::view::{Member, View};
use crate::harness::node::{Node, accepted};
use crate::harness::polling::found_within;
use crate::harness::resp::Value;

/// A slot between two masters: keys that are still there are served by the source, all others by `ASK` at the target.
///
/// Nothing happens by itself. Dropping it leaves the slot in between.
#[derive(Debug)]
pub struct SlotMigration<'a> {
    cluster: &'a RedisCluster,
    slot: u16,
    source: Arc<Node>,
    target: Arc<Node>,
}

impl RedisCluster {
    /// Moves a slot and its keys to another master, and waits until all nodes agree.
    ///
    /// # Errors
    /// When a node refuses.
    pub fn migrate_slot(&self, slot: u16, to: &Arc<Node>) -> io::Result<()> {
        let migration = self.begin_migration(slot, to)?;
        migration.move_keys()?;
        migration.finish()?;
        self.wait_until_whole()
    }

    /// `IMPORTING` at the target, then `MIGRATING` at the source: from now on the source answers `ASK` for keys it has not.
    ///
    /// # Errors
    /// When a node refuses, for one because the target has the slot already.
    pub fn begin_migration(&self, slot: u16, to: &Arc<Node>) -> io::Result<SlotMigration<'_>> {
        let (source, target) = (self.master_of(slot)?, to.clone());
        let number = slot.to_string();
        target.done(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &id(&source)?])?;
        source.done(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &id(&target)?])?;
        Ok(SlotMigration { cluster: self, slot, source, target })
    }

    /// Moves slots of one master at once, as Valkey 9 can, and waits until all nodes agree.
    ///
    /// # Errors
    /// When the server does not know it, or the migration fails.
    pub fn migrate_slots_atomically(&self, slots: RangeInclusive<u16>, to: &Arc<Node>) -> io::Result<()> {
        let source = self.master_of(*slots.start())?;
        let (first, last) = (slots.start().to_string(), slots.end().to_string());
        source.done(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &first, &last, "NODE", &id(to)?])?;
        let ended = found_within(AGREED_WITHIN, || state_of_last(&source).transpose());
        match ended.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))?.as_str() {
            "success" => self.wait_until_whole(),
            other => Err(io::Error::other(format!("the migration of {slots:?} ended as {other:?}"))),
        }
    }
}

impl SlotMigration<'_> {
    /// The master that has the slot.
    pub fn source(&self) -> &Arc<Node> {
        &self.source
    }

    /// The master that gets it.
    pub fn target(&self) -> &Arc<Node> {
        &self.target
    }

    /// Moves the keys that are at the source now, until none is left. Returns how many.
    ///
    /// # Errors
    /// When the source refuses.
    pub fn move_keys(&self) -> io::Result<usize> {
        let mut moved = 0;
        loop {
            let keys = self.keys(KEYS_AT_ONCE)?;
            if keys.is_empty() {
                return Ok(moved);
            }
            moved += keys.len();
            keys.iter().try_for_each(|key| self.move_key(key))?;
        }
    }

    /// Moves one key. One that is not there, because it has expired, is no error.
    ///
    /// # Errors
    /// When the source refuses.
    pub fn move_key(&self, key: &[u8]) -> io::Result<()> {
        let port = self.target.own_port().to_string();
        let mut command = ["MIGRATE", "127.0.0.1", &port, "", "0", TIMEOUT_MS].map(Vec::from).to_vec();
        if let Some(password) = self.target.password() {
            command.extend([b"AUTH".to_vec(), password.into()]);
        }
        command.extend([b"KEYS".to_vec(), key.to_vec()]);
        accepted(self.source.command(&command)?, "MIGRATE").map(drop)
    }

    /// Up to so many keys of the slot that are still at the source.
    ///
    /// # Errors
    /// When the source does not answer.
    pub fn keys(&self, at_most: usize) -> io::Result<Vec<Vec<u8>>> {
        let (slot, count) = (self.slot.to_string(), at_most.to_string());
        let keys = self.source.done(&["CLUSTER", "GETKEYSINSLOT", &slot, &count])?;
        Ok(keys.items().iter().filter_map(|key| key.bytes().map(<[u8]>::to_vec)).collect())
    }

    /// Gives the slot to the target: first there, then at the source, then at the other masters. Keys that a client has
    /// made at the source since [`Self::move_keys`] are moved before.
    ///
    /// # Errors
    /// When a node refuses.
    pub fn finish(self) -> io::Result<()> {
        self.move_keys()?;
        let others = self.cluster.masters()?;
        let others = others.iter().filter(|node| !self.is_end(node));
        // The target first: a source that gives up a slot nobody took would leave it without owner.
        [&self.target, &self.source].into_iter().chain(others).try_for_each(|node| self.own(node))
    }

    /// Ends the migration where it began: keys that were moved must be moved back by the test.
    ///
    /// # Errors
    /// When a node refuses.
    pub fn give_up(self) -> io::Result<()> {
        let slot = self.slot.to_string();
        for node in [&self.source, &self.target] {
            node.done(&["CLUSTER", "SETSLOT", &slot, "STABLE"])?;
        }
        Ok(())
    }

    fn own(&self, node: &Node) -> io::Result<()> {
        let told = node.done(&["CLUSTER", "SETSLOT", &self.slot.to_string(), "NODE", &id(&self.target)?]);
        // It may have heard of it on the bus meanwhile: a source that lost its last slot is the target's replica by then.
        let knows = || View::of(node).is_ok_and(|view| self.is_owner(view.owner(self.slot)));
        told.map(drop).or_else(|error| if knows() { Ok(()) } else { Err(error) })
    }

    fn is_owner(&self, owner: Option<&Member>) -> bool {
        owner.is_some_and(|owner| owner.port == self.target.port())
    }

    fn is_end(&self, node: &Arc<Node>) -> bool {
        Arc::ptr_eq(node, &self.source) || Arc::ptr_eq(node, &self.target)
    }
}

fn id(node: &Node) -> io::Result<String> {
    let id = node.done(&["CLUSTER", "MYID"])?.text();
    id.ok_or_else(|| io::Error::other(format!("{} has no id", node.port())))
}

/// The state of the latest migration, which is the first of the list, once it is one that does not change any more.
fn state_of_last(source: &Node) -> io::Result<Option<String>> {
    let migrations = source.done(&["CLUSTER", "GETSLOTMIGRATIONS"])?;
    let latest = migrations.items().first().map(Value::items).unwrap_or_default();
    let state = latest.chunks(2).find(|pair| pair[0].text().as_deref() == Some("state"));
    let state = state.and_then(|pair| pair.get(1)?.text());
    Ok(state.filter(|state| ["success", "failed", "canceled", "cancelled"].contains(&state.as_str())))
}

const KEYS_AT_ONCE: usize = 100;
const TIMEOUT_MS: &str = "5000";
