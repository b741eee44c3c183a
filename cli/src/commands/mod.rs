//! The commands, one file each.

mod doctor;
mod inspect;
mod list;
mod pages;
mod release;
mod top;
mod top_metrics;
mod watch;
mod who;

use leasehold_redis::ConfigFile;

use crate::{
    arguments::{Arguments, Command},
    failure::Failure,
    output::Output,
    run, servers,
};

/// Runs the command and returns the exit code.
///
/// # Errors
/// Why there is no result.
pub(crate) async fn dispatch(mut arguments: Arguments, output: Output) -> Result<u8, Failure> {
    let servers = arguments.take_servers();
    let is_server_named = servers.config.is_some() || servers.url.is_some();
    let configuration = || -> Result<ConfigFile, Failure> { servers::configuration(servers, output) };
    match arguments.command {
        Command::Run(run) => run::run(run, configuration()?, output).await,
        Command::Inspect(inspect) => inspect::inspect(inspect, configuration()?, output).await,
        Command::List(list) => list::list(list, configuration()?, output).await,
        Command::Top(top) if !top.metrics.is_empty() => top_metrics::top(top, is_server_named, output).await,
        Command::Top(top) => top::top(top, configuration()?, output).await,
        Command::Release(release) => release::release(release, configuration()?, output).await,
        Command::Doctor(doctor) => doctor::doctor(doctor, configuration()?, output).await,
        Command::Who(who) => who::who(who, configuration()?, output).await,
        Command::Watch(watch) => watch::watch(watch, configuration()?, output).await,
        Command::Completions(completions) => pages::completions(&completions, output),
        Command::Man(man) => pages::man(&man, output),
        Command::Guard => Ok(run::guard()),
        Command::Foreground { group } => Ok(run::foreground(group)),
    }
}
