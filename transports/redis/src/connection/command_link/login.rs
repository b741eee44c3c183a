//! The first commands of a connection: the user and the database.

use std::time::Duration;

use fred::error::{Error as FredError, ErrorKind as FredKind};

use super::CommandLink;
use crate::{
    connection::{connect::Target, link::Failure},
    wire::arg::Arg,
};

impl CommandLink {
    /// Logs in and chooses the database. It takes one round trip, at most `step`.
    ///
    /// # Errors
    /// The first command that the server has refused, or why there was no answer.
    pub(super) async fn log_in(
        &self,
        target: &Target<'_>,
        password: Option<String>,
        step: Duration,
    ) -> Result<(), FredError> {
        let (command, args) = match password {
            Some(password) => ("AUTH", credentials(target.username(), password)),
            // A server that wants a password, or no connection at all, says so now.
            None => ("PING", Vec::new()),
        };
        let select = async {
            match target.database() {
                Some(database) => self.sent("SELECT", vec![Arg::Number(database.into())], step).await,
                None => Ok(()),
            }
        };
        let (logged_in, selected) = tokio::join!(self.sent(command, args, step), select);
        logged_in.and(selected)
    }

    async fn sent(&self, command: &'static str, args: Vec<Arg>, step: Duration) -> Result<(), FredError> {
        self.ask(command, &args, step).await.map(drop).map_err(error_of)
    }
}

fn credentials(username: Option<&str>, password: String) -> Vec<Arg> {
    let username = username.map(|username| Arg::Text(username.into()));
    username.into_iter().chain([Arg::Text(password.into())]).collect()
}

fn error_of(failure: Failure) -> FredError {
    match failure {
        Failure::Refused(text) => FredError::new(FredKind::Unknown, text.to_string()),
        Failure::TimedOut => FredError::new(FredKind::Timeout, "no answer"),
        Failure::Lost(lost) => FredError::new(FredKind::IO, lost.details().to_owned()),
    }
}
