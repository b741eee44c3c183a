//! One contestant in a process of its own, and what its window cost.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    str::FromStr,
};

use super::{
    arrival::Arrival,
    hold,
    job::{BEGIN, Contestant, END, Job, Names, Told},
    naive,
    servers::Servers,
    size::ScaleSize,
};

/// The same with what the servers tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    told: Told,
    pub(super) renewals: f64,
    pub(super) lost: f64,
    pub(super) late_ms: f64,
    pub(super) nearest: f64,
    pub(super) bytes_a_lease: f64,
    pub(super) taken_seconds: f64,
    server_seconds: f64,
    pub(super) commands: f64,
    pub(super) bytes_in: f64,
    pub(super) bytes_out: f64,
}

impl Measured {
    pub(super) fn client_percent(&self) -> f64 {
        100.0 * self.told.window.cpu_seconds / self.told.window.seconds
    }

    pub(super) fn server_percent(&self) -> f64 {
        100.0 * self.server_seconds / self.told.window.seconds
    }

    pub(super) fn client_micros(&self) -> f64 {
        1e6 * self.told.window.cpu_seconds / self.renewals
    }

    pub(super) fn server_micros(&self) -> f64 {
        1e6 * self.server_seconds / self.renewals
    }
}

/// Starts the contestant and reads the servers when its window begins and when it ends.
pub(super) fn measure(job: &Job, servers: &Servers) -> Measured {
    let mut child = start(job);
    let mut lines = BufReader::new(child.stdout.take().expect("its output is ours")).lines();
    let mut next = || lines.next().expect("it says when its window begins and ends").expect("text");
    assert_eq!(next(), BEGIN);
    let before = servers.usage();
    assert_eq!(next(), END);
    let used = servers.usage() - before;
    let told: Told = serde_json::from_str(&next()).expect("figures");
    assert!(child.wait().expect("it ends").success());
    let Told { renewals, lost, late_ms, nearest, bytes_a_lease, taken_seconds, .. } = told;
    let (server_seconds, commands) = (used.cpu_seconds, used.commands);
    let (bytes_in, bytes_out) = (used.bytes_in, used.bytes_out);
    Measured {
        told,
        renewals,
        lost,
        late_ms,
        nearest,
        bytes_a_lease,
        taken_seconds,
        server_seconds,
        commands,
        bytes_in,
        bytes_out,
    }
}

/// The same for one that needs no servers.
pub(super) fn measure_alone(job: &Job) -> Told {
    let output = command(job).output().expect("this program can be started again");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    serde_json::from_str(text.lines().last().expect("figures")).expect("figures")
}

fn start(job: &Job) -> Child {
    command(job).stdout(Stdio::piped()).spawn().expect("this program can be started again")
}

fn command(job: &Job) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a program knows its path"));
    let (contestant, arrival) = (format!("{:?}", job.contestant), format!("{:?}", job.arrival));
    let names = format!("{:?}", job.names);
    command.args(["--hold", &contestant, &arrival, &job.url, &names]).stderr(Stdio::inherit());
    command.args([job.size.leases.to_string(), job.size.ttl_ms.to_string()]);
    command
}

/// What the process does under `--hold CONTESTANT ARRIVAL URL NAMES LEASES TTL_MS`.
pub(crate) fn run(arguments: &[String]) {
    let [contestant, arrival, url, names, leases, ttl_ms] = arguments else {
        panic!("six words, not {arguments:?}")
    };
    let size = ScaleSize { leases: number(leases), ttl_ms: number(ttl_ms), crowd: 0 };
    let names = if names == "Tagged" { Names::Tagged } else { Names::Random };
    let contestant = if contestant == "Naive" { Contestant::Naive } else { Contestant::Ours };
    let arrival = if arrival == "Even" { Arrival::Even } else { Arrival::Burst };
    let job = Job { contestant, arrival, url: url.clone(), size, names };
    let told = match contestant {
        Contestant::Ours => hold::run(&job),
        Contestant::Naive => naive::run(&job),
    };
    println!("{}", serde_json::to_string(&told).expect("figures"));
}

fn number<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{text} is no number"))
}
