//! What one node of a cluster says about all of them: `CLUSTER NODES`, read.

use std::collections::BTreeMap;
use std::io;

use crate::harness::node::Node;

/// One line of `CLUSTER NODES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Forty hex digits.
    pub id: String,
    /// The announced port.
    pub port: u16,
    /// `myself`, `master`, `slave`, `fail`, `fail?`, `handshake`, `noaddr` ...
    pub flags: Vec<String>,
    /// The master of a replica.
    pub master_id: Option<String>,
    /// The higher of two claims to a slot wins.
    pub config_epoch: u64,
    /// Ranges of slots it owns, both ends included.
    pub slots: Vec<(u16, u16)>,
}

/// All members as one of them sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View(pub Vec<Member>);

impl View {
    /// Asks the node.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn of(node: &Node) -> io::Result<Self> {
        let text = node.done(&["CLUSTER", "NODES"])?.text().unwrap_or_default();
        let members: Option<Vec<Member>> = text.lines().map(Member::parse).collect();
        members.map(Self).ok_or_else(|| io::Error::other(format!("CLUSTER NODES says {text:?}")))
    }

    /// The node that was asked.
    pub fn myself(&self) -> Option<&Member> {
        self.0.iter().find(|member| member.is("myself"))
    }

    /// The member with this announced port.
    pub fn at_port(&self, port: u16) -> Option<&Member> {
        self.0.iter().find(|member| member.port == port)
    }

    /// The master it believes to own the slot.
    pub fn owner(&self, slot: u16) -> Option<&Member> {
        self.0.iter().find(|member| member.is_master() && member.owns(slot))
    }

    /// Which master has which slots, by announced ports: what has to be the same in all views.
    pub(super) fn ownership(&self) -> BTreeMap<u16, Vec<(u16, u16)>> {
        let owners = self.0.iter().filter(|member| member.is_master() && !member.slots.is_empty());
        owners.map(|member| (member.port, member.slots.clone())).collect()
    }
}

impl Member {
    /// Whether it has this flag.
    pub fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// Whether it is a master, also a failed one.
    pub fn is_master(&self) -> bool {
        self.is("master")
    }

    /// Whether it owns the slot.
    pub fn owns(&self, slot: u16) -> bool {
        self.slots.iter().any(|(first, last)| (*first..=*last).contains(&slot))
    }

    /// Neither failed, nor suspected, nor half known.
    pub(super) fn is_well(&self) -> bool {
        !["fail", "fail?", "handshake", "noaddr"].iter().any(|flag| self.is(flag))
    }

    /// `<id> <ip:port@cport[,hostname]> <flags> <master> <ping> <pong> <epoch> <link> <slot> ...`
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, address, flags, master, _ping, _pong, epoch, _link, slots @ ..] = &words[..] else {
            return None;
        };
        let (_ip, port) = address.split('@').next()?.rsplit_once(':')?;
        // `[slot->-id]` is a migration, no ownership.
        let slots = slots.iter().filter(|word| !word.starts_with('['));
        Some(Self {
            id: (*id).to_owned(),
            port: port.parse().ok()?,
            flags: flags.split(',').map(str::to_owned).collect(),
            master_id: (*master != "-").then(|| (*master).to_owned()),
            config_epoch: epoch.parse().ok()?,
            slots: slots.map(|range| slot_range(range)).collect::<Option<_>>()?,
        })
    }
}

fn slot_range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_in_the_middle_of_a_migration_is_read() {
        let line =
            "07c3 127.0.0.1:30001@40001,host myself,master - 0 1426238317239 4 connected 0-99 200 [7->-ab]";
        let member = Member::parse(line).expect("a line");
        assert_eq!((member.port, member.config_epoch, member.master_id.clone()), (30001, 4, None));
        assert_eq!(member.slots, [(0, 99), (200, 200)]);
        assert!(member.is_master() && member.is_well() && member.owns(200) && !member.owns(100));
    }

    #[test]
    fn a_failed_replica_is_read() {
        let line = "a1 :0@0 slave,fail,noaddr 07c3 0 0 3 disconnected";
        let member = Member::parse(line).expect("a line");
        assert_eq!(member.master_id.as_deref(), Some("07c3"));
        assert!(!member.is_well() && !member.is_master());
        assert_eq!(Member::parse("nothing of that"), None);
    }
}
