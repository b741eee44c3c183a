//! The command line. Pure.

use std::{fmt, net::SocketAddr, ops::RangeInclusive, time::Duration};

/// What one run does. Not `Debug`: the URL may carry a password.
pub(crate) struct Options {
    pub(crate) place: Place,
    /// Which kind the contenders contend for: `kinds` knows the names.
    pub(crate) kind: String,
    pub(crate) leases: usize,
    /// How many lock classes the leases are spread over.
    pub(crate) classes: usize,
    pub(crate) contenders: usize,
    pub(crate) keys: usize,
    /// How many permits each semaphore has.
    pub(crate) permits: u32,
    pub(crate) hold: Duration,
    /// `None`: as the file says, or by default.
    pub(crate) ttl: Option<Duration>,
    pub(crate) time: Duration,
    /// Where grants, releases and losses are written.
    pub(crate) log: Option<String>,
    /// Where `/metrics` and `/health` are served.
    pub(crate) metrics: Option<SocketAddr>,
    /// Where metrics are sent by OTLP.
    pub(crate) otlp: Option<String>,
    pub(crate) json: bool,
    pub(crate) allow_loss: bool,
    /// Whether a candidate and a job run beside the leases.
    pub(crate) recipes: bool,
}

/// Where the locks are.
#[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "a fleet without `redis` refuses both unread"))]
pub(crate) enum Place {
    Memory,
    Url(String),
    File(String),
}

#[allow(clippy::large_enum_variant, reason = "there is one, once")]
pub(crate) enum Asked {
    Run(Options),
    Help,
}

/// An argument that cannot be used: which, its value, and what to do.
#[derive(Debug)]
pub(crate) struct Wrong {
    flag: String,
    value: Option<String>,
    remedy: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            place: Place::Memory,
            kind: "exclusive".to_owned(),
            leases: 10_000,
            classes: 1,
            contenders: 64,
            keys: 16,
            permits: 4,
            hold: Duration::from_millis(5),
            ttl: None,
            time: Duration::from_secs(15),
            log: None,
            metrics: None,
            otlp: None,
            json: false,
            allow_loss: false,
            recipes: false,
        }
    }
}

impl Options {
    /// Reads what stands behind the program's name: `--flag value` and `--flag=value` are the same.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Asked, Wrong> {
        let (mut options, mut arguments) = (Self::default(), arguments.into_iter());
        let mut place = 0;
        while let Some(argument) = arguments.next() {
            place += 1;
            let (flag, mut value) = split(&argument, place)?;
            match flag {
                // As behind other commands of cargo; the alias `cargo fleet` has one already.
                "--" => {}
                "--help" | "-h" => return Ok(Asked::Help),
                "--json" => options.json = no_value(flag, value)?,
                "--allow-loss" => options.allow_loss = no_value(flag, value)?,
                "--recipes" => options.recipes = no_value(flag, value)?,
                _ if !TAKES_A_VALUE.contains(&flag) => return Err(unknown(flag)),
                _ => {
                    if value.is_none() {
                        (value, place) = (arguments.next(), place + 1);
                    }
                    options.set(flag, value)?;
                }
            }
        }
        Ok(Asked::Run(options))
    }

    fn set(&mut self, flag: &str, value: Option<String>) -> Result<(), Wrong> {
        let Some(value) = value else {
            return Err(Wrong::new(flag, None, "needs a value behind it; --help shows them all"));
        };
        match flag {
            "--url" => self.set_place(flag, Place::Url(value))?,
            "--config" => self.set_place(flag, Place::File(value))?,
            "--kind" => self.kind = value,
            "--leases" => self.leases = count(flag, value, 0..=LEASES_MAX)?,
            "--classes" => self.classes = count(flag, value, 1..=CLASSES_MAX)?,
            "--contenders" => self.contenders = count(flag, value, 0..=CONTENDERS_MAX)?,
            "--keys" => self.keys = count(flag, value, 1..=KEYS_MAX)?,
            "--permits" => self.permits = number(flag, value, 1..=PERMITS_MAX)? as u32, // it fits
            "--hold-ms" => self.hold = Duration::from_millis(number(flag, value, 0..=DAY_MS)?),
            "--ttl-ms" => self.ttl = Some(Duration::from_millis(number(flag, value, TTL_MIN_MS..=DAY_MS)?)),
            "--seconds" => self.time = Duration::from_secs(number(flag, value, 1..=MONTH_SECONDS)?),
            "--log" => self.log = Some(value),
            "--metrics" => self.metrics = Some(address(flag, value)?),
            "--otlp" => self.otlp = Some(receiver(flag, value)?),
            _ => return Err(unknown(flag)),
        }
        Ok(())
    }
}

impl Options {
    // The value is not repeated: a URL may carry a password.
    fn set_place(&mut self, flag: &str, place: Place) -> Result<(), Wrong> {
        match self.place {
            Place::Memory => self.place = place,
            Place::Url(_) | Place::File(_) => {
                return Err(Wrong::new(flag, None, "is one place too many; give one --url or one --config"));
            }
        }
        Ok(())
    }
}

// What is no flag is not repeated: it may be a URL with a password in it.
fn split(argument: &str, place: usize) -> Result<(&str, Option<String>), Wrong> {
    if !argument.starts_with('-') {
        let remedy = "belongs to no option; write --url in front of a URL, and see --help";
        return Err(Wrong::new(&format!("argument {place}"), None, remedy));
    }
    Ok(match argument.split_once('=') {
        Some((flag, value)) => (flag, Some(value.to_owned())),
        None => (argument, None),
    })
}

fn unknown(flag: &str) -> Wrong {
    Wrong::new(flag, None, "is not known; --help lists the options")
}

fn no_value(flag: &str, value: Option<String>) -> Result<bool, Wrong> {
    match value {
        None => Ok(true),
        Some(value) => {
            Err(Wrong::new(flag, Some(value), "takes no value; leave out what stands behind the ="))
        }
    }
}

fn address(flag: &str, value: String) -> Result<SocketAddr, Wrong> {
    value.parse().map_err(|_| {
        Wrong::new(
            flag,
            Some(value),
            "give an address and a port, as 127.0.0.1:9464; port 0 takes a free one",
        )
    })
}

// The value is not repeated: a URL may carry a password.
fn receiver(flag: &str, value: String) -> Result<String, Wrong> {
    match value.strip_prefix("http://") {
        Some(host) if !host.is_empty() => Ok(value),
        Some(_) | None => {
            let remedy = "needs a URL without TLS, as http://127.0.0.1:4318/v1/metrics";
            Err(Wrong::new(flag, None, remedy))
        }
    }
}

fn count(flag: &str, value: String, range: RangeInclusive<u64>) -> Result<usize, Wrong> {
    // The ranges fit into 32 bits.
    number(flag, value, range).map(|number| number as usize)
}

fn number(flag: &str, value: String, range: RangeInclusive<u64>) -> Result<u64, Wrong> {
    match value.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        Ok(_) | Err(_) => {
            let remedy = format!("give a whole number from {} to {}", range.start(), range.end());
            Err(Wrong::new(flag, Some(value), remedy))
        }
    }
}

impl Wrong {
    pub(crate) fn new(flag: &str, value: Option<String>, remedy: impl Into<String>) -> Self {
        Self { flag: flag.to_owned(), value, remedy: remedy.into() }
    }

    /// The value is not repeated: a URL may carry a password.
    pub(crate) fn not_built(flag: &str, feature: &str, command: &str) -> Self {
        let remedy = format!(
            "needs the feature `{feature}`, which this fleet was built without: run `{command}` with the same options"
        );
        Self::new(flag, None, remedy)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{} is {value:?}: {}", self.flag, self.remedy),
            None => write!(f, "{} {}", self.flag, self.remedy),
        }
    }
}

pub(crate) const HELP: &str = "\
Holds thousands of leases and lets tasks contend for a few keys, for a while, and judges what it saw.

cargo fleet [OPTIONS]         in memory, the smallest build; the options of the other two name the command they need
cargo fleet-redis [OPTIONS]   the same with --url and --config
cargo fleet-otlp [OPTIONS]    the same with --url, --config and --otlp

  --url URL        the server: redis://[[user]:password@]host[:port][/database]
  --config FILE    servers and settings: a leasehold.toml, see examples/config; without both, in memory
  --kind KIND      what they contend for, and how it is judged        [exclusive]
    exclusive      the plain lock: no two hold it at once, and tokens rise
    spin           the spin lock: the same
    fenced         the fenced lock: the same, with tokens of a counter
    fair           the fair lock: the same, first come, first served
    read-write     three of four turns read, one writes: a writer holds it alone, and its token is above all before
    semaphore      one to three permits a turn: never more than --permits, and at the end all are there again
    permits        permits that expire: one to three a turn, never more than --permits, and none is missing at the end
    latch          all contenders of a key count it down: it opens for nobody before the last one, and then for all
  --leases N       leases held and renewed                            [10000]
  --classes C      lock classes the leases are spread over; above 64 they overflow    [1]
  --contenders M   tasks that contend for the keys                    [64]
  --keys K         keys they contend for                              [16]
  --permits P      permits of each key of --kind semaphore, permits   [4]
  --hold-ms MS     how long a contender holds                         [5]
  --ttl-ms MS      ttl of every lease, at least 1000                  [30000, or as FILE says]
  --seconds S      for how long, from the first acquire on            [15]
  --allow-loss     losses, and faults of semaphores, permits and latches, are printed and allowed: for runs in which
                   the server fails
  --recipes        one candidate for a leadership and one job run, too; fleets on one server share both
  --json           the last line of stdout is the summary as one JSON object
  --log FILE       writes a line of JSON for each event: granted, released, lost, and heard (its holder's task heard of
                   the loss), with name, token and at_ns; lost has deadline_ns and reason, too. Times are nanoseconds
                   of CLOCK_BOOTTIME, the same for all processes of a machine. Whole when the run has ended
  --metrics ADDR   serves /metrics (Prometheus) and /health (JSON) there: 127.0.0.1:9464, say
  --otlp URL       sends the same metrics by OTLP: http://127.0.0.1:4318/v1/metrics, say; once a minute, or every
                   OTEL_METRIC_EXPORT_INTERVAL milliseconds, and at the end
  --help           this

What the audit finds about the servers is printed first, on stderr, as the status lines are.
Ctrl-C ends it early and releases everything; a second one leaves at once.
Several at once on one server contend for the same keys of a kind. A latch belongs to one fleet. The leases held are
locks of the kind; with semaphore and latch they are plain locks. The semaphores stay on the server.

Exit codes: 0 everything was well; 1 overlaps or other faults of the kind, or losses without --allow-loss, or not all
leases were held, or not all releases confirmed; 2 wrong option, or the server cannot be reached or refuses.
";

const TAKES_A_VALUE: [&str; 14] = [
    "--url",
    "--config",
    "--kind",
    "--permits",
    "--leases",
    "--classes",
    "--contenders",
    "--keys",
    "--hold-ms",
    "--ttl-ms",
    "--seconds",
    "--log",
    "--metrics",
    "--otlp",
];
const LEASES_MAX: u64 = 10_000_000;
const CLASSES_MAX: u64 = 1_000;
const CONTENDERS_MAX: u64 = 1_000_000;
const KEYS_MAX: u64 = 1_000_000;
const PERMITS_MAX: u64 = 1_000_000;
const TTL_MIN_MS: u64 = 1_000;
const DAY_MS: u64 = 86_400_000;
const MONTH_SECONDS: u64 = 30 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        match Options::parse(line.split_whitespace().map(str::to_owned)) {
            Ok(Asked::Run(options)) => Ok(options),
            Ok(Asked::Help) => Err("help".into()),
            Err(wrong) => Err(wrong.to_string()),
        }
    }

    #[test]
    fn every_option_is_read_in_both_spellings() {
        let line = "--url redis://h --leases 1 --classes 9 --contenders=2 --keys 3 --hold-ms=4 --ttl-ms 5000 \
                    --seconds 6 --json --allow-loss --log=held.jsonl --kind=latch --permits 7";
        let options = parse(line).expect("good options");
        assert!(matches!(options.place, Place::Url(url) if url == "redis://h"));
        assert_eq!((options.leases, options.classes, options.contenders, options.keys), (1, 9, 2, 3));
        assert_eq!((options.hold.as_millis(), options.time.as_secs()), (4, 6));
        assert_eq!(options.ttl, Some(Duration::from_secs(5)));
        assert_eq!((options.kind.as_str(), options.permits), ("latch", 7));
        assert!(options.json && options.allow_loss);
        assert_eq!(options.log.as_deref(), Some("held.jsonl"));
        let options = parse("-- --config=leasehold.toml").expect("good options");
        assert!(matches!(options.place, Place::File(file) if file == "leasehold.toml"));
        assert_eq!(options.ttl, None);
    }

    #[test]
    fn help_goes_before_what_follows() {
        assert_eq!(parse("--json -h --nonsense").err().as_deref(), Some("help"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_value_and_a_remedy() {
        let said = |line: &str| parse(line).err().expect("refused");
        assert_eq!(said("--leases ten"), r#"--leases is "ten": give a whole number from 0 to 10000000"#);
        assert_eq!(said("--ttl-ms=999"), r#"--ttl-ms is "999": give a whole number from 1000 to 86400000"#);
        assert_eq!(said("--keys 0"), r#"--keys is "0": give a whole number from 1 to 1000000"#);
        assert_eq!(said("--seconds"), "--seconds needs a value behind it; --help shows them all");
        assert_eq!(said("--lease 3"), "--lease is not known; --help lists the options");
        assert_eq!(said("--json=1"), r#"--json is "1": takes no value; leave out what stands behind the ="#);
        for both in
            ["--config f --url redis://:secret@h", "--url redis://:secret@h --config f", "--url a --url b"]
        {
            assert!(said(both).contains("one place too many") && !said(both).contains("secret"), "{both}");
        }
    }

    #[test]
    fn a_receiver_of_metrics_needs_a_url_of_http() {
        let options = parse("--otlp http://127.0.0.1:4318/v1/metrics").expect("a good URL");
        assert_eq!(options.otlp.as_deref(), Some("http://127.0.0.1:4318/v1/metrics"));
        for url in ["https://:secret@h", "ftp://:secret@h", "127.0.0.1:4318", "http://"] {
            let said = parse(&format!("--otlp {url}")).err().expect("refused");
            assert!(said.starts_with("--otlp needs a URL") && !said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn a_misplaced_url_is_not_repeated() {
        for line in ["redis://:secret@h", "--json redis://:secret@h", "--uri=redis://:secret@h"] {
            assert!(!parse(line).err().expect("refused").contains("secret"), "{line}");
        }
    }
}
