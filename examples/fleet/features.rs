//! What this fleet was built with, and what an option says that needs more. Pure.

use crate::options::{Options, Place, Wrong};

/// Features of the crate `leasehold-examples`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features {
    /// Real servers.
    redis: bool,
    /// `--metrics`.
    metrics: bool,
    /// `--otlp`.
    otlp: bool,
}

/// The features of this program.
pub(crate) const BUILT: Features = Features {
    redis: cfg!(feature = "redis"),
    metrics: cfg!(feature = "metrics"),
    otlp: cfg!(feature = "otlp"),
};

impl Features {
    /// Checks that every option given has its feature.
    ///
    /// # Errors
    /// The first option without its feature, and the command that builds a fleet for all the options given.
    pub(crate) fn check(self, options: &Options) -> Result<(), Wrong> {
        let used = Used::by(options);
        let missing = [
            (used.place, "redis", self.redis),
            (used.metrics, "metrics", self.metrics),
            (used.otlp, "otlp", self.otlp),
        ];
        match missing.into_iter().find_map(|(flag, feature, built)| Some((flag.filter(|_| !built)?, feature)))
        {
            None => Ok(()),
            Some((flag, feature)) => Err(Wrong::not_built(flag, feature, used.features().command())),
        }
    }

    fn has(self, wanted: Self) -> bool {
        let Self { redis, metrics, otlp } = wanted;
        (self.redis || !redis) && (self.metrics || !metrics) && (self.otlp || !otlp)
    }

    /// The smallest command that has these features.
    fn command(self) -> &'static str {
        let found = ALIASES.iter().find(|(_, features)| features.has(self));
        found.map_or(EVERYTHING, |(command, _)| command)
    }
}

/// The options that need a feature, by the name that was written.
struct Used {
    place: Option<&'static str>,
    metrics: Option<&'static str>,
    otlp: Option<&'static str>,
}

impl Used {
    fn by(options: &Options) -> Self {
        let place = match options.place {
            Place::Memory => None,
            Place::Url(_) => Some("--url"),
            Place::File(_) => Some("--config"),
        };
        let metrics = options.metrics.map(|_| "--metrics");
        Self { place, metrics, otlp: options.otlp.as_ref().map(|_| "--otlp") }
    }

    fn features(&self) -> Features {
        Features { redis: self.place.is_some(), metrics: self.metrics.is_some(), otlp: self.otlp.is_some() }
    }
}

/// The aliases of `.cargo/config.toml`, the smallest build first.
const ALIASES: [(&str, Features); 3] = [
    ("cargo fleet", Features { redis: false, metrics: true, otlp: false }),
    ("cargo fleet-redis", Features { redis: true, metrics: true, otlp: false }),
    (EVERYTHING, Features { redis: true, metrics: true, otlp: true }),
];
const EVERYTHING: &str = "cargo fleet-otlp";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Asked;

    fn options(line: &str) -> Options {
        match Options::parse(line.split_whitespace().map(str::to_owned)) {
            Ok(Asked::Run(options)) => options,
            Ok(Asked::Help) => panic!("{line} asks for help"),
            Err(wrong) => panic!("{line}: {wrong}"),
        }
    }

    fn said(built: Features, line: &str) -> String {
        built.check(&options(line)).expect_err("refused").to_string()
    }

    #[test]
    fn an_option_without_its_feature_names_the_command_that_has_it() {
        let none = Features::default();
        for (line, flag, feature, command) in [
            ("--url redis://:hunter2@h", "--url", "redis", "`cargo fleet-redis`"),
            ("--config leasehold.toml", "--config", "redis", "`cargo fleet-redis`"),
            ("--metrics 127.0.0.1:0", "--metrics", "metrics", "`cargo fleet`"),
            ("--otlp http://:hunter2@h", "--otlp", "otlp", "`cargo fleet-otlp`"),
            ("--metrics 127.0.0.1:0 --url redis://h", "--url", "redis", "`cargo fleet-redis`"),
            ("--url redis://h --otlp http://h", "--url", "redis", "`cargo fleet-otlp`"),
        ] {
            let said = said(none, line);
            assert!(said.starts_with(flag) && said.contains(&format!("`{feature}`")), "{said}");
            assert!(said.contains(command) && !said.contains("hunter2"), "{said}");
        }
        assert_eq!(
            said(ALIASES[0].1, "--url redis://h"),
            "--url needs the feature `redis`, which this fleet was built without: run `cargo fleet-redis` with the \
             same options"
        );
    }

    #[test]
    fn a_fleet_takes_every_option_that_its_features_allow() {
        let (everything, memory) = (ALIASES[2].1, Features::default());
        assert!(memory.check(&options("--leases 5 --json")).is_ok());
        assert!(ALIASES[0].1.check(&options("--metrics 127.0.0.1:0")).is_ok());
        assert!(ALIASES[1].1.check(&options("--config f --metrics 127.0.0.1:0")).is_ok());
        assert!(everything.check(&options("--url redis://h --metrics 127.0.0.1:0 --otlp http://h")).is_ok());
    }

    #[test]
    fn every_command_is_an_alias_with_the_features_it_is_named_for() {
        let config = include_str!("../../.cargo/config.toml");
        for (command, features) in ALIASES {
            let alias = command.strip_prefix("cargo ").expect("a command of cargo");
            let line =
                config.lines().find_map(|line| line.strip_prefix(&format!("{alias} = "))).expect(command);
            assert!(line.contains("--no-default-features"), "{line}");
            let listed = line.split_once("--features ").map_or("", |(_, behind)| behind);
            let listed: Vec<_> = listed.split(' ').next().unwrap_or_default().split(',').collect();
            let is_listed = |feature| listed.contains(&feature);
            let found = Features {
                redis: is_listed("redis"),
                metrics: is_listed("metrics"),
                otlp: is_listed("otlp"),
            };
            assert_eq!(found, features, "{line}");
        }
    }
}
