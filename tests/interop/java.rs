//! A JVM with a live Redisson in it; `java/README.md` has its protocol.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use leasehold_tests::harness::{
    deployment::{Deployment, Topology},
    sentinel::SERVICE,
    talker::Talker,
};
use rustix::fs::{FlockOperation, flock};

/// A JVM.
struct Jvm {
    talker: Talker,
    next: AtomicU64,
}

/// Threads of one test in a JVM. When the last is dropped that have the JVM, it is killed.
pub struct Java {
    jvm: Arc<Jvm>,
    tag: String,
}

/// A command that was given and may not be answered yet.
#[derive(Clone, Copy, Debug)]
pub struct Given(u64);

impl Java {
    /// Starts a JVM whose Redisson is connected; its watchdog renews every third of this time.
    pub fn start(servers: &Deployment, watchdog: Duration, tag: &str) -> Self {
        Self { jvm: Arc::new(Jvm::start(servers, watchdog)), tag: tag.to_owned() }
    }

    /// Starts a JVM with a client for each of these servers, for locks on all of them.
    pub fn start_over(urls: &[String], watchdog: Duration, tag: &str) -> Self {
        let mut arguments = Vec::new();
        for (place, url) in urls.iter().enumerate() {
            arguments.extend([if place == 0 { "--url" } else { "--also-url" }.to_owned(), url.clone()]);
        }
        Self { jvm: Arc::new(Jvm::launch(&arguments, watchdog)), tag: tag.to_owned() }
    }

    /// The JVM with this watchdog that all tests on a topology share; it ends with this process.
    pub fn shared(servers: &Deployment, watchdog: Duration, tag: &str) -> Self {
        type Seats = BTreeMap<(Topology, Duration), Arc<OnceLock<Arc<Jvm>>>>;
        static SEATS: Mutex<Seats> = Mutex::new(BTreeMap::new());
        let place = (servers.topology(), watchdog);
        let seat = SEATS.lock().expect("no panic").entry(place).or_default().clone();
        let jvm = seat.get_or_init(|| Arc::new(Jvm::start(servers, watchdog)));
        Self { jvm: jvm.clone(), tag: tag.to_owned() }
    }

    /// Gives a command and waits for its answer. `Err` is what Java threw.
    pub fn call(&self, command: &str) -> Result<String, String> {
        self.answer(self.give(command), ANSWERED_BY)
    }

    /// Gives a command: a verb, a thread that no other test has, and what else belongs to it.
    pub fn give(&self, command: &str) -> Given {
        let (verb, rest) = command.split_once(' ').expect("a verb and a thread");
        let given = Given(self.jvm.next.fetch_add(1, Ordering::Relaxed));
        self.jvm.talker.say(&format!("{} {verb} {}-{rest}", given.0, self.tag)).expect("a JVM that reads");
        given
    }

    /// The answer to a command: its result, or what Java threw.
    pub fn answer(&self, given: Given, within: Duration) -> Result<String, String> {
        let id = format!("{} ", given.0);
        let line = self.jvm.talker.line(within, |line| line.starts_with(&id)).expect("an answer");
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
        self.jvm.talker.has_said(|line| line.starts_with(&id))
    }

    /// Ends a JVM that no other test has, as a kill would, and waits until it is gone.
    pub fn halt(self) {
        let jvm = Arc::into_inner(self.jvm).expect("nobody else's JVM");
        jvm.talker.say("0 halt").expect("a JVM that reads");
        drop(jvm.talker.last_words(STARTED_BY).expect("a JVM that ends"));
    }
}

impl Jvm {
    fn start(servers: &Deployment, watchdog: Duration) -> Self {
        let mut arguments = Vec::new();
        for address in servers.addresses() {
            arguments.extend(["--url".to_owned(), format!("redis://{address}")]);
        }
        arguments.extend(match servers.topology() {
            Topology::Single => ["--topology", "single"].map(str::to_owned).to_vec(),
            Topology::Sentinel => ["--topology", "sentinel", "--master", SERVICE].map(str::to_owned).to_vec(),
            Topology::Cluster => ["--topology", "cluster"].map(str::to_owned).to_vec(),
        });
        Self::launch(&arguments, watchdog)
    }

    fn launch(arguments: &[String], watchdog: Duration) -> Self {
        let jar = driver_jar();
        let mut command = Command::new("java");
        // The JVM lives for seconds: the second compiler would only take the cores from the others.
        command.args(["-XX:TieredStopAtLevel=1", "-jar"]).arg(jar);
        command.args(["--watchdog-ms", &watchdog.as_millis().to_string()]).args(arguments);
        let talker = Talker::start(&mut command).unwrap_or_else(|why| missing("java", &why));
        talker.line(STARTED_BY, |line| line.starts_with("ready ")).expect("a Redisson that is connected");
        Self { talker, next: AtomicU64::new(1) }
    }
}

/// The driver's jar, built if it is missing or older than its source; or that of another Redisson.
fn driver_jar() -> PathBuf {
    if let Some(jar) = env::var_os("LEASEHOLD_REDISSON_JAR") {
        return jar.into();
    }
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/java");
    let version = redisson();
    let folder = version.as_ref().map_or("target".into(), |version| format!("target/redisson-{version}"));
    let jar = project.join(&folder).join("leasehold-redisson-driver.jar");
    // Tests of several processes may find it missing at the same time. What Maven is halfway through is no jar, either.
    let lock = File::open(project.join("pom.xml")).expect("the driver's project");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock on the driver's project");
    if changed(&jar) < newest(&project.join("src")).max(changed(&project.join("pom.xml"))) {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "package"]).current_dir(&project);
        if let Some(version) = version {
            maven.args([format!("-Dredisson.version={version}"), format!("-Ddriver.directory={folder}")]);
        }
        let built = maven.status().unwrap_or_else(|why| missing("mvn", &why));
        assert!(built.success(), "mvn -q -B package failed in {}", project.display());
    }
    jar
}

/// The Redisson that `LEASEHOLD_REDISSON` asks for, such as `3.27.2`. `None`: that of the driver's project.
pub fn redisson() -> Option<String> {
    env::var("LEASEHOLD_REDISSON").ok().filter(|version| !version.is_empty())
}

/// Whether each client of this Redisson chooses by chance, on a cluster, how it publishes and listens: those from 3.22 to 3.27
/// ask a server for it in a way that only one of the masters answers.
pub fn chooses_notices_by_chance() -> bool {
    let version = redisson().unwrap_or_default();
    let minor = version.strip_prefix("3.").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    minor.is_some_and(|minor| (22..28).contains(&minor))
}

/// Before anything else if it is not there.
fn changed(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn newest(folder: &Path) -> SystemTime {
    let files = fs::read_dir(folder).expect("the driver's source").map(|file| file.expect("a file").path());
    let times = files.map(|path| if path.is_dir() { newest(&path) } else { changed(&path) });
    times.max().expect("a source")
}

fn missing<T>(program: &str, why: &io::Error) -> T {
    panic!("{program}: {why}; install it with: apt-get install maven openjdk-17-jre-headless")
}

const STARTED_BY: Duration = Duration::from_secs(60);
const ANSWERED_BY: Duration = Duration::from_secs(60);
