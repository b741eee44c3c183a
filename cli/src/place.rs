//! Where the servers are named: an option or a variable. Pure.

use std::{fmt, path::PathBuf};

/// A configuration file, or a URL. Not `Debug`: the URL may have a password.
#[derive(PartialEq, Eq)]
pub(crate) enum Place {
    File(PathBuf),
    Url(String),
    /// Variables `LEASEHOLD_<SECTION>__<KEY>`, without a file.
    Settings,
}

/// What names the servers, of the command line or of the environment.
#[derive(Default)]
pub(crate) struct Named {
    pub(crate) config: Option<PathBuf>,
    pub(crate) url: Option<String>,
}

/// Why there is no place: one sentence with the remedy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoPlace(&'static str);

/// The place. An option wins over the environment, and a file or a URL over single settings: `has_addresses` says whether
/// the variables name the addresses of servers.
///
/// # Errors
/// Two places are named, or none.
pub(crate) fn choose(options: Named, environment: Named, has_addresses: bool) -> Result<Place, NoPlace> {
    const OPTIONS: &str = "--config and --url cannot be combined; give one of them";
    const VARIABLES: &str =
        "LEASEHOLD_CONFIG and LEASEHOLD_URL are both set; unset one, or give --config or --url";
    if let Some(place) = one_of(options, OPTIONS)? {
        return Ok(place);
    }
    one_of(environment, VARIABLES)?.or(has_addresses.then_some(Place::Settings)).ok_or(NoPlace(
        "no server is named; give --config FILE or --url URL, or set LEASEHOLD_CONFIG, LEASEHOLD_URL or \
         LEASEHOLD_REDIS__ADDRESSES",
    ))
}

fn one_of(named: Named, both: &'static str) -> Result<Option<Place>, NoPlace> {
    match (named.config, named.url) {
        (Some(_), Some(_)) => Err(NoPlace(both)),
        (Some(file), None) => Ok(Some(Place::File(file))),
        (None, Some(url)) => Ok(Some(Place::Url(url))),
        (None, None) => Ok(None),
    }
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(config: Option<&str>, url: Option<&str>) -> Named {
        Named { config: config.map(PathBuf::from), url: url.map(str::to_owned) }
    }

    #[test]
    fn an_option_wins_over_the_environment() {
        let chosen = choose(named(None, Some("redis://a")), named(Some("b.toml"), Some("redis://b")), true);
        assert!(chosen == Ok(Place::Url("redis://a".into())));
        assert!(
            choose(Named::default(), named(Some("b.toml"), None), true) == Ok(Place::File("b.toml".into()))
        );
    }

    #[test]
    fn addresses_in_the_environment_need_no_file() {
        assert!(choose(Named::default(), Named::default(), true) == Ok(Place::Settings));
    }

    #[test]
    fn two_places_or_none_are_refused() {
        let refused =
            |options, environment| choose(options, environment, false).err().expect("refused").to_string();
        assert!(refused(named(Some("a"), Some("b")), Named::default()).contains("cannot be combined"));
        assert!(refused(Named::default(), named(Some("a"), Some("b"))).contains("both set"));
        assert!(refused(Named::default(), Named::default()).contains("no server is named"));
    }
}
