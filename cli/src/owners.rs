//! Which connections belong to the owners of a lock. Pure.

use std::{fmt, time::Duration};

use leasehold::transport::ForeignText;
use serde_json::{Value, json};

use crate::{
    duration::{millis, shown},
    report::{Report, client_of, left},
};

/// What `who` shows.
pub(crate) struct Owners {
    report: Report,
    owners: Vec<Owner>,
    /// Why the connections are not known.
    unknown: Option<String>,
}

/// What `who --owner` shows: a client by the id in its owners, and its connections.
pub(crate) struct Client {
    id: ForeignText<String>,
    connections: Vec<Connection>,
}

/// An owner that holds the lock or waits in its line, and its connections.
struct Owner {
    owner: ForeignText<String>,
    is_holder: bool,
    remaining: Option<Duration>,
    connections: Vec<Connection>,
}

/// A connection of any client, as a server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) server: ForeignText<String>,
    pub(crate) address: ForeignText<String>,
    pub(crate) name: ForeignText<String>,
    pub(crate) age: Duration,
}

impl Owners {
    /// The owners in the report, each with those of the connections whose name has its client.
    pub(crate) fn new(report: Report, connections: Result<Vec<Connection>, String>) -> Self {
        let (connections, unknown) = match connections {
            Ok(connections) => (connections, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let holders = report.holders.iter().map(|holder| (&holder.owner, true, holder.remaining));
        let line = report.line.iter().map(|owner| (owner, false, None));
        let owner = |(owner, is_holder, remaining): (&ForeignText<String>, bool, Option<Duration>)| Owner {
            connections: connections.iter().filter(|one| one.is_of(client_of(&owner.0))).cloned().collect(),
            owner: owner.clone(),
            is_holder,
            remaining,
        };
        let owners = holders.chain(line).map(owner).collect();
        Self { report, owners, unknown }
    }

    /// As a JSON document. `connections` is `null` if they are not known, and empty if none names the owner.
    pub(crate) fn json(&self) -> Value {
        let owners: Vec<Value> = self.owners.iter().map(|owner| self.of_owner(owner)).collect();
        let Report { name, kind, mode, .. } = &self.report;
        json!({ "name": name, "kind": kind, "mode": mode, "owners": owners, "connections_unknown": self.unknown })
    }

    fn of_owner(&self, owner: &Owner) -> Value {
        let connections: Vec<Value> = owner.connections.iter().map(Connection::json).collect();
        json!({
            "owner": owner.owner.0,
            "client": client_of(&owner.owner.0),
            "holds": owner.is_holder,
            "remaining_ms": owner.remaining.map(millis),
            "connections": self.unknown.is_none().then_some(connections),
        })
    }
}

impl Client {
    /// The client of this owner, with those of the connections whose name has it.
    pub(crate) fn new(owner: &str, connections: Vec<Connection>) -> Self {
        let id = client_of(owner.strip_suffix(WRITE_FIELD).unwrap_or(owner)).to_owned();
        Self {
            connections: connections.into_iter().filter(|one| one.is_of(&id)).collect(),
            id: ForeignText(id),
        }
    }

    /// As a JSON document. `connections` is empty if none names the client.
    pub(crate) fn json(&self) -> Value {
        let connections: Vec<Value> = self.connections.iter().map(Connection::json).collect();
        json!({ "client": self.id.0, "connections": connections })
    }
}

/// What the field of a write hold has behind its owner.
const WRITE_FIELD: &str = ":write";

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}", self.id)?;
        if self.connections.is_empty() {
            write!(f, "\n  {NO_NAME}")?;
        }
        self.connections.iter().try_for_each(|connection| write!(f, "\n  {connection}"))
    }
}

impl Connection {
    fn is_of(&self, client: &str) -> bool {
        self.name.0.split(':').nth(1) == Some(client)
    }

    /// The label of the engine, if its name has one: `purpose:client:label`.
    fn label(&self) -> Option<ForeignText<&str>> {
        self.name.0.splitn(3, ':').nth(2).map(ForeignText)
    }

    fn json(&self) -> Value {
        let Self { server, address, name, age } = self;
        let label = self.label().map(|label| label.0);
        json!({ "address": address.0, "server": server.0, "name": name.0, "label": label, "age_ms": millis(*age) })
    }
}

impl fmt::Display for Owners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { name, kind, mode, .. } = &self.report;
        if *kind == "permits" {
            return write!(
                f,
                "{name:?}: the server does not tell which clients hold permits\n{}",
                self.report
            );
        }
        write!(f, "{name:?}: {mode}")?;
        for owner in &self.owners {
            write!(f, "\n  {owner}")?;
            if let Some(why) = &self.unknown {
                write!(f, "\n    its connections are not known: {why}")?;
            } else if owner.connections.is_empty() {
                write!(f, "\n    {NO_NAME}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_holder {
            true => write!(f, "held by {}, {}", self.owner, left(self.remaining))?,
            false => write!(f, "in line {}", self.owner)?,
        }
        self.connections.iter().try_for_each(|connection| write!(f, "\n    {connection}"))
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let purpose = ForeignText(self.name.0.split(':').next().unwrap_or_default());
        write!(f, "from {} to {}, {purpose}, open for {}", self.address, self.server, shown(self.age))?;
        self.label().iter().try_for_each(|label| write!(f, ", {label}"))
    }
}

const NO_NAME: &str = "no connection names this owner: it is a client that does not name its connections, \
                       as Redisson, or one that has gone; then the hold ends with its ttl";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::OwnerReport;

    fn report(owners: &[&str], line: &[&str]) -> Report {
        let holder = |owner: &&str| OwnerReport {
            owner: ForeignText((*owner).into()),
            mode: "fair",
            count: 1,
            remaining: Some(Duration::from_secs(9)),
        };
        Report {
            name: "job".into(),
            kind: "fair",
            mode: "fair",
            remaining: None,
            holders: owners.iter().map(holder).collect(),
            line: line.iter().map(|owner| ForeignText((*owner).into())).collect(),
            permits: None,
        }
    }

    fn connection(name: &str) -> Connection {
        let [server, address, name] = ["s:6379", "c:1", name].map(|text| ForeignText(text.to_owned()));
        Connection { server, address, name, age: Duration::from_secs(60) }
    }

    #[test]
    fn a_connection_belongs_to_the_client_that_its_name_ends_with() {
        let all =
            ["leasehold-calls:c-1", "leasehold-calls:c-10", "leasehold-calls", "c-1", ""].map(connection);
        let owners = Owners::new(report(&["c-1:7"], &["c-10:1"]), Ok(all.to_vec()));
        let found: Vec<_> = owners.owners.iter().map(|owner| owner.connections.len()).collect();
        assert_eq!(found, [1, 1]);
        let text = "\"job\": fair\n  held by c-1:7, 9s left\n    \
                    from c:1 to s:6379, leasehold-calls, open for 60s\n  in line c-10:1\n    \
                    from c:1 to s:6379, leasehold-calls, open for 60s";
        assert_eq!(owners.to_string(), text);
    }

    #[test]
    fn the_label_of_the_process_is_told() {
        let all = vec![connection("leasehold-calls:c-1:orders@web:7")];
        let owners = Owners::new(report(&["c-1:7"], &[]), Ok(all));
        assert!(owners.to_string().ends_with("leasehold-calls, open for 60s, orders@web:7"), "{owners}");
        assert_eq!(owners.json()["owners"][0]["connections"][0]["label"], json!("orders@web:7"));
        assert_eq!(connection("leasehold-calls:c-1").json()["label"], Value::Null);
    }

    #[test]
    fn a_client_is_found_by_an_owner_and_by_its_id() {
        let all = ["leasehold-calls:c-1:orders@web:7", "leasehold-calls:c-10", ""].map(connection);
        for owner in ["c-1:7", "c-1:7:write", "c-1"] {
            let client = Client::new(owner, all.to_vec());
            let text = "client c-1\n  from c:1 to s:6379, leasehold-calls, open for 60s, orders@web:7";
            assert_eq!(client.to_string(), text);
            assert_eq!(client.json()["connections"][0]["label"], json!("orders@web:7"));
        }
        assert!(Client::new("c-2:7", all.to_vec()).to_string().contains("no connection names this owner"));
    }

    #[test]
    fn what_is_not_known_is_said() {
        let unconnected = Owners::new(report(&["java:63"], &[]), Ok(vec![]));
        assert!(
            unconnected.to_string().contains("as Redisson")
                && unconnected.json()["owners"][0]["connections"] == json!([])
        );
        let refused = Owners::new(report(&["java:63"], &[]), Err("NOPERM".into()));
        assert!(refused.to_string().contains("are not known: NOPERM"), "{refused}");
        assert_eq!(refused.json()["owners"][0]["connections"], Value::Null);
    }
}
