//! The connections that clients have open at a master.

use std::time::Duration;

use leasehold::transport::TransportError;
use serde::{Serialize, Serializer};

use super::master::Master;
use crate::{
    connection::requests::text,
    wire::{client_list, reply},
};

/// One connection of a client, as a server lists it. serde writes it with `age_ms`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClientConnection {
    /// The address of the server.
    pub server: String,
    /// The address of the client, as the server sees it: that of a proxy, if there is one between.
    pub address: String,
    /// The name that the client has given to the connection. Empty: none. An engine of Leasehold names the connection's
    /// purpose, the client id of its owners, and its label: `leasehold-calls:30c9b6e8-...:orders@web-7`.
    pub name: String,
    /// Since when the connection is open.
    #[serde(rename = "age_ms", serialize_with = "millis")]
    pub age: Duration,
}

fn millis<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

pub(super) async fn of(master: &Master, timeout: Duration) -> Result<Vec<ClientConnection>, TransportError> {
    let answer = master.ask("CLIENT", vec![text("LIST")], timeout).await?;
    let listed = answer.as_ref().and_then(reply::text).ok_or_else(|| master.misread("CLIENT LIST"))?;
    let connection = |listed: client_list::Listed<'_>| ClientConnection {
        server: master.server.name.to_string(),
        address: listed.address.to_owned(),
        name: listed.name.to_owned(),
        age: Duration::from_secs(listed.age_seconds),
    };
    Ok(client_list::read(listed).map(connection).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn serde_writes_a_connection() {
        let connection = ClientConnection {
            server: "127.0.0.1:6379".into(),
            address: "127.0.0.1:50000".into(),
            name: "leasehold-calls:c-1:orders@web-7".into(),
            age: Duration::from_secs(7),
        };
        let expected = json!({
            "server": "127.0.0.1:6379",
            "address": "127.0.0.1:50000",
            "name": "leasehold-calls:c-1:orders@web-7",
            "age_ms": 7_000,
        });
        assert_eq!(to_value(connection).unwrap(), expected);
    }
}
