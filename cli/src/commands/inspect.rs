//! `leasehold inspect NAME`.

use leasehold_redis::ConfigFile;

use crate::{
    arguments::Inspect, exit, failure::Failure, look::look, output::Output, report::Report, servers,
};

pub(crate) async fn inspect(
    inspect: Inspect,
    configuration: ConfigFile,
    output: Output,
) -> Result<u8, Failure> {
    let engine = servers::engine(configuration, output).await?;
    let report = Report::of(look(&engine, &inspect.lock.name, inspect.lock.kind).await?);
    output.result(&report, &report.json())?;
    Ok(exit::SUCCESS)
}
