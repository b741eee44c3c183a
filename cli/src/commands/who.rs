//! `leasehold who NAME`.

use leasehold::Engine;
use leasehold_redis::{ClientConnection, ConfigFile, RedisAdmin, RedisTransport};

use crate::{
    arguments::Who,
    exit,
    failure::Failure,
    look::look,
    output::Output,
    owners::{Connection, Owners},
    report::Report,
};

pub(crate) async fn who(who: Who, configuration: ConfigFile, output: Output) -> Result<u8, Failure> {
    let (transport, timeout) =
        (RedisTransport::new(configuration.redis), configuration.engine.command_timeout());
    let engine = Engine::builder(transport.clone()).config(configuration.engine).build().await?;
    let report = Report::of(look(&engine, &who.lock.name, who.lock.kind).await?);
    let connections = match RedisAdmin::connect(&transport, timeout).await {
        Ok(admin) => admin.clients().await,
        Err(error) => Err(error),
    };
    let connections = connections.map(|all| all.into_iter().map(connection).collect());
    let owners = Owners::new(report, connections.map_err(|error| error.to_string()));
    output.result(&owners, &owners.json())?;
    Ok(exit::SUCCESS)
}

fn connection(seen: ClientConnection) -> Connection {
    let ClientConnection { server, address, name, age, .. } = seen;
    Connection { server, address, name, age }
}
