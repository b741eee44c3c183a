//! `leasehold who NAME`, and `leasehold who --owner OWNER`.

use std::time::Duration;

use leasehold::transport::{ForeignText, TransportError};
use leasehold_redis::{ClientConnection, ConfigFile, RedisAdmin, RedisTransport};

use super::list::check_whole;
use crate::{
    arguments::Who,
    exit,
    failure::Failure,
    look::look,
    output::Output,
    owners::{Client, Connection, Owners},
    report::Report,
    servers,
};

pub(crate) async fn who(who: Who, configuration: ConfigFile, output: Output) -> Result<u8, Failure> {
    match (&who.name, &who.owner) {
        (Some(name), _) => of_lock(name, &who, configuration, output).await,
        (None, owner) => of_owner(owner.as_deref().unwrap_or_default(), configuration, output).await,
    }
}

async fn of_owner(owner: &str, configuration: ConfigFile, output: Output) -> Result<u8, Failure> {
    let (transport, timeout) =
        (RedisTransport::new(configuration.redis), configuration.engine.command_timeout());
    let Connections { seen, whole } = connections(&transport, timeout).await?;
    let client = Client::new(owner, seen);
    output.result(&client, &client.json())?;
    whole.map(|()| exit::SUCCESS)
}

async fn of_lock(name: &str, who: &Who, configuration: ConfigFile, output: Output) -> Result<u8, Failure> {
    let timeout = configuration.engine.command_timeout();
    let (engine, transport) = servers::engine_and_transport(configuration, output).await?;
    let report = Report::of(look(&engine, name, who.kind).await?);
    let (seen, whole) = match connections(&transport, timeout).await {
        Ok(Connections { seen, whole }) => (Ok(seen), whole),
        Err(error) => (Err(error.to_string()), Ok(())),
    };
    let owners = Owners::new(report, seen);
    output.result(&owners, &owners.json())?;
    whole.map(|()| exit::SUCCESS)
}

/// Those of all clients.
struct Connections {
    seen: Vec<Connection>,
    /// Whether every master was asked.
    whole: Result<(), Failure>,
}

async fn connections(transport: &RedisTransport, timeout: Duration) -> Result<Connections, TransportError> {
    let admin = RedisAdmin::connect(transport, timeout).await?;
    let seen = admin.clients().await?.into_iter().map(connection).collect();
    Ok(Connections { seen, whole: check_whole(&admin, "the list of connections") })
}

fn connection(seen: ClientConnection) -> Connection {
    let ClientConnection { server, address, name, age, .. } = seen;
    let [server, address, name] = [server, address, name].map(ForeignText);
    Connection { server, address, name, age }
}
