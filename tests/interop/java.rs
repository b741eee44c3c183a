//! A JVM with a live Redisson in it; `java/README.md` has its protocol.

use std::env;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use leasehold_tests::harness::talker::Talker;
use rustix::fs::{FlockOperation, flock};

/// The JVM. Dropping it kills it.
pub struct Java {
    talker: Talker,
    next: u64,
}

/// A command that was given and may not be answered yet.
#[derive(Clone, Copy, Debug)]
pub struct Given(u64);

impl Java {
    /// Starts a JVM whose Redisson is connected; its watchdog renews every third of this time.
    pub fn start(url: &str, watchdog: Duration) -> Self {
        let jar = driver_jar();
        let mut command = Command::new("java");
        // The JVM lives for seconds: the second compiler would only take the cores from the others.
        command.args(["-XX:TieredStopAtLevel=1", "-jar"]).arg(jar);
        command.args(["--url", url, "--watchdog-ms", &watchdog.as_millis().to_string()]);
        let talker = Talker::start(&mut command).unwrap_or_else(|why| missing("java", &why));
        talker.line(STARTED_BY, |line| line.starts_with("ready ")).expect("a Redisson that is connected");
        Self { talker, next: 1 }
    }

    /// Gives a command and waits for its answer. `Err` is what Java threw.
    pub fn call(&mut self, command: &str) -> Result<String, String> {
        let given = self.give(command);
        self.answer(given, ANSWERED_BY)
    }

    /// Gives a command.
    pub fn give(&mut self, command: &str) -> Given {
        let given = Given(self.next);
        self.next += 1;
        self.talker.say(&format!("{} {command}", given.0)).expect("a JVM that reads");
        given
    }

    /// The answer to a command: its result, or what Java threw.
    pub fn answer(&self, given: Given, within: Duration) -> Result<String, String> {
        let id = format!("{} ", given.0);
        let line = self.talker.line(within, |line| line.starts_with(&id)).expect("an answer");
        match line[id.len()..].split_once(' ') {
            Some(("ok", result)) => {
                Ok(result.rsplit_once("at=").map_or(result, |(r, _)| r).trim().to_owned())
            }
            Some(("err", story)) => Err(story.to_owned()),
            _ => panic!("no answer: {line:?}"),
        }
    }

    /// Whether a command has been answered by now.
    pub fn has_answered(&self, given: Given) -> bool {
        let id = format!("{} ", given.0);
        self.talker.has_said(|line| line.starts_with(&id))
    }

    /// Ends it as a kill would, and waits until it is gone.
    pub fn halt(mut self) {
        self.talker.say("0 halt").expect("a JVM that reads");
        drop(self.talker.last_words(STARTED_BY).expect("a JVM that ends"));
    }
}

/// The driver's jar, built if it is missing.
fn driver_jar() -> PathBuf {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/java");
    let jar = project.join("target/leasehold-redisson-driver.jar");
    // Tests of several processes may find it missing at the same time. What Maven is halfway through is no jar, either.
    let lock = File::open(project.join("pom.xml")).expect("the driver's project");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock on the driver's project");
    if !jar.exists() {
        let built = Command::new("mvn").args(["-q", "-B", "package"]).current_dir(&project).status();
        let built = built.unwrap_or_else(|why| missing("mvn", &why));
        assert!(built.success(), "mvn -q -B package failed in {}", project.display());
    }
    jar
}

fn missing<T>(program: &str, why: &io::Error) -> T {
    panic!("{program}: {why}; install it with: apt-get install maven openjdk-17-jre-headless")
}

const STARTED_BY: Duration = Duration::from_secs(60);
const ANSWERED_BY: Duration = Duration::from_secs(60);
