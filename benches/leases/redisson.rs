//! A JVM with a live Redisson: the driver of the interop tests, `tests/interop/java`, whose README.md has its protocol.

use std::{
    env,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};

use super::hold::name;
use crate::orders::Ordered;

/// Starts it. `None`: this machine has no Java, or the driver is not built and there is no Maven.
pub(super) fn start(url: &str, watchdog: Duration) -> Option<Ordered> {
    if !runs("java") {
        return None;
    }
    let mut command = Command::new("java");
    command.arg("-jar").arg(driver_jar()?).args(["--url", url]);
    let mut jvm = Ordered::start(command.args(["--watchdog-ms", &watchdog.as_millis().to_string()]));
    assert!(jvm.line().starts_with("ready "), "a Redisson that is connected");
    Some(jvm)
}

/// Takes as many locks, which its watchdog renews from then on.
pub(super) fn take(jvm: &mut Ordered, leases: usize) {
    // It reads on while its threads wait for locks, so all orders can be given before the first answer is read.
    (0..leases).for_each(|number| jvm.tell(&format!("{number} lock t{} {}", number % THREADS, name(number))));
    for _ in 0..leases {
        let answer = jvm.line();
        assert!(answer.contains(" ok "), "{answer}");
    }
}

/// The driver's jar, built if it is missing.
fn driver_jar() -> Option<PathBuf> {
    if let Some(jar) = env::var_os("LEASEHOLD_REDISSON_JAR") {
        return Some(jar.into());
    }
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/interop/java");
    let jar = project.join("target/leasehold-redisson-driver.jar");
    // The interop tests take the same lock: what Maven is halfway through is no jar.
    let lock = File::open(project.join("pom.xml")).expect("the driver's project");
    flock(&lock, FlockOperation::LockExclusive).expect("a lock on the driver's project");
    if !jar.exists() && runs("mvn") {
        let mut maven = Command::new("mvn");
        let built = maven.args(["-q", "-B", "package"]).current_dir(&project).stdout(Stdio::null()).status();
        assert!(built.is_ok_and(|status| status.success()), "mvn -q -B package in {}", project.display());
    }
    jar.exists().then_some(jar)
}

fn runs(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("-version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A lock belongs to the thread that took it; these take them side by side.
const THREADS: usize = 64;
