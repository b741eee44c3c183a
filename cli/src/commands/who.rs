//! `leasehold who NAME`, and `leasehold who --owner OWNER`.

use std::time::Duration;

use leasehold::{Engine, transport::TransportError};
use leasehold_redis::{ClientConnection, ConfigFile, RedisAdmin, RedisTransport};

use crate::{
    arguments::Who,
    exit,
    failure::Failure,
    look::look,
    output::Output,
    owners::{Client, Connection, Owners},
    report::Report,
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
    let client = Client::new(owner, connections(&transport, timeout).await?);
    output.result(&client, &client.json())?;
    Ok(exit::SUCCESS)
}

async fn of_lock(name: &str, who: &Who, configuration: ConfigFile, output: Output) -> Result<u8, Failure> {
    let (transport, timeout) =
        (RedisTransport::new(configuration.redis), configuration.engine.command_timeout());
    let engine = Engine::builder(transport.clone()).config(configuration.engine).build().await?;
    let report = Report::of(look(&engine, name, who.kind).await?);
    let connections = connections(&transport, timeout).await;
    let owners = Owners::new(report, connections.map_err(|error| error.to_string()));
    output.result(&owners, &owners.json())?;
    Ok(exit::SUCCESS)
}

/// Those of all clients.
async fn connections(
    transport: &RedisTransport,
    timeout: Duration,
) -> Result<Vec<Connection>, TransportError> {
    let all = RedisAdmin::connect(transport, timeout).await?.clients().await?;
    Ok(all.into_iter().map(connection).collect())
}

fn connection(seen: ClientConnection) -> Connection {
    let ClientConnection { server, address, name, age, .. } = seen;
    Connection { server, address, name, age }
}
