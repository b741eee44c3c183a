//! Connections that follow their callers: the link's task, the callers and the server each have a thread here.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream as StdStream},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use fred::types::Resp3Frame as Frame;
use leasehold::clock::Clock;
use tokio::{
    net::TcpStream,
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
};

use super::{stage::Recall, *};

const LONG: Duration = Duration::from_secs(60);

/// A link whose task has a thread of its own, and a server that answers each request with the number in it.
struct Ground {
    link: Arc<CommandLink>,
    home: Home,
    /// The server's end, and the thread that answers there until the connection ends.
    server: StdStream,
    answering: thread::JoinHandle<()>,
}

/// A runtime that runs on a thread of its own until this is dropped.
struct Home {
    handle: Handle,
    _ends: oneshot::Sender<()>,
}

fn home() -> Home {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (handle, (sender, end)) = (runtime.handle().clone(), oneshot::channel::<()>());
    thread::spawn(move || drop(runtime.block_on(end)));
    Home { handle, _ends: sender }
}

fn callers() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

fn ground() -> Ground {
    let (home, listener) = (home(), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let address = listener.local_addr().expect("bound");
    let accepting = thread::spawn(move || listener.accept().expect("connected").0);
    let (sender, link) = mpsc::channel();
    home.handle.spawn(async move {
        let socket = TcpStream::connect(address).await.expect("it listens");
        let link = Arc::new(CommandLink::over_tcp(socket, Clock::Boot).expect("a socket"));
        number(link.ask("A", &[Arg::Number(0)], LONG).await);
        link.follow_callers();
        sender.send(link).expect("the test waits");
    });
    let server = accepting.join().expect("no panic");
    let answers = server.try_clone().expect("a socket");
    let answering = thread::spawn(move || answer(answers));
    Ground { link: link.recv().expect("connected"), home, server, answering }
}

/// Blocks the only worker of this runtime, as user code may, until the result is dropped.
fn block(callers: &Runtime) -> mpsc::Sender<()> {
    let ((begins, begun), (ends, end)) = (mpsc::channel(), mpsc::channel());
    callers.spawn(async move {
        begins.send(()).expect("the test waits");
        end.recv()
    });
    begun.recv().expect("it runs");
    ends
}

/// Of "*2", "$1", "A", "$n", "n" the last line is the reply.
fn answer(server: StdStream) {
    let mut replies = server.try_clone().expect("a socket");
    for (count, line) in BufReader::new(server).lines().enumerate() {
        let Ok(line) = line else { return };
        if count % 5 == 4 && replies.write_all(format!(":{line}\r\n").as_bytes()).is_err() {
            return;
        }
    }
}

fn number(reply: Result<Frame, Failure>) -> i64 {
    match reply.expect("a reply") {
        Frame::Number { data, .. } => data,
        other => panic!("{other:?}"),
    }
}

/// Makes calls one after the other. Returns on which threads their replies were handled.
async fn calls(link: &CommandLink, count: i64) -> Vec<thread::ThreadId> {
    let mut threads = Vec::new();
    for turn in 0..count {
        threads.push(call(link, turn).await.expect("a reply"));
    }
    threads
}

fn call(link: &CommandLink, turn: i64) -> oneshot::Receiver<thread::ThreadId> {
    let (sender, receiver) = oneshot::channel();
    link.begin("A", &[Arg::Number(turn)], Clock::Boot.now() + LONG, move |reply| {
        assert_eq!(number(reply), turn);
        let _ = sender.send(thread::current().id());
    });
    receiver
}

impl Ground {
    fn follows(&self) -> bool {
        self.link.follow.as_ref().expect("a TCP connection").is_away()
    }

    /// Calls from this runtime until the connection follows.
    fn lead_to(&self, callers: &Runtime) {
        let link = self.link.clone();
        callers.block_on(async {
            tokio::spawn(async move { calls(&link, 40).await }).await.expect("no panic");
        });
        until(|| self.follows(), "it follows");
    }
}

fn until(is: impl Fn() -> bool, what: &str) {
    let begin = Clock::Boot.now();
    while !is() {
        assert!((Clock::Boot.now() - begin) < LONG, "{what}: not yet");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn replies_are_handled_on_the_thread_of_the_callers() {
    let (ground, callers) = (ground(), callers());
    ground.lead_to(&callers);
    let link = ground.link.clone();
    let (own, threads) = callers.block_on(async {
        tokio::spawn(async move { (thread::current().id(), calls(&link, 1_000).await) })
            .await
            .expect("no panic")
    });
    let elsewhere = threads.iter().filter(|thread| **thread != own).count();
    assert!(elsewhere <= 200, "{elsewhere} of 1,000"); // the link takes it back if this machine stands still
}

#[test]
fn the_link_reads_replies_that_a_blocked_runtime_does_not() {
    let (ground, callers) = (ground(), callers());
    ground.lead_to(&callers);
    let blocked = block(&callers);
    let reply = call(&ground.link, 7);
    assert_eq!(reply.blocking_recv().expect("a reply"), thread_of(&ground.home));
    assert!(!ground.follows(), "the link serves it");
    drop(blocked);
    until(|| ground.lead_again(&callers), "it follows again after its rest");
}

impl Ground {
    fn lead_again(&self, callers: &Runtime) -> bool {
        callers.block_on(async {
            let link = self.link.clone();
            tokio::spawn(async move { calls(&link, 40).await }).await.expect("no panic");
        });
        self.follows()
    }
}

fn thread_of(home: &Home) -> thread::ThreadId {
    let (sender, id) = mpsc::channel();
    home.handle.spawn(async move { sender.send(thread::current().id()) });
    id.recv().expect("it runs")
}

#[test]
fn requests_that_wait_to_be_written_are_written_by_the_link_if_the_runtime_is_blocked() {
    let (ground, callers) = (ground(), callers());
    ground.lead_to(&callers);
    let _blocked = block(&callers);
    // The first is written by this thread. The others wait for a task.
    let replies: Vec<_> = (0..20).map(|turn| call(&ground.link, turn)).collect();
    let answered = replies.into_iter().filter_map(|reply| reply.blocking_recv().ok());
    assert_eq!(answered.count(), 20);
}

// No reply can lie unread: the server has nothing to answer.
#[test]
fn a_request_that_a_blocked_runtime_was_to_write_is_written_by_the_link() {
    let (ground, callers) = (ground(), callers());
    for _ in 0..5 {
        until(|| ground.lead_again(&callers), "it follows");
        // After many at once, the next is a task's to write. No reply is read before all are begun.
        let link = ground.link.clone();
        let many = callers.spawn(async move {
            for reply in (0..20).map(|turn| call(&link, turn)).collect::<Vec<_>>() {
                reply.await.expect("a reply");
            }
        });
        callers.block_on(many).expect("no panic");
        let _blocked = block(&callers);
        call(&ground.link, 7).blocking_recv().expect("a reply");
        let why = ground.link.follow.as_ref().expect("a TCP connection").last_recall();
        assert_eq!(why, Some(Recall::Late), "not because the calls are few");
    }
}

#[test]
fn the_end_of_the_callers_runtime_loses_no_reply() {
    let ground = ground();
    for _ in 0..20 {
        let callers = callers();
        ground.lead_to(&callers);
        let replies: Vec<_> = (0..20).map(|turn| call(&ground.link, turn)).collect();
        callers.shutdown_background();
        let answered = replies.into_iter().filter_map(|reply| reply.blocking_recv().ok());
        assert_eq!(answered.count(), 20);
        until(|| !ground.follows(), "it goes home");
    }
}

#[test]
fn a_connection_goes_home_when_nobody_calls() {
    let (ground, callers) = (ground(), callers());
    ground.lead_to(&callers);
    until(|| !ground.follows(), "it goes home");
    ground.lead_to(&callers);
}

#[test]
fn calls_of_several_runtimes_in_turn_keep_it_at_home() {
    let (ground, [first, second]) = (ground(), [callers(), callers()]);
    for _ in 0..50 {
        for callers in [&first, &second] {
            callers.block_on(async { calls(&ground.link, 20).await });
        }
    }
    assert!(!ground.follows());
}

#[test]
fn a_connection_that_does_not_follow_stays() {
    let (ground, callers) = (ground(), callers());
    ground.link.follow.as_ref().expect("a TCP connection").forbid();
    callers.block_on(async { calls(&ground.link, 1_000).await });
    assert!(!ground.follows());
}

#[test]
fn the_end_of_a_link_that_follows_closes_its_connection_also_if_the_runtime_is_blocked() {
    let (ground, callers) = (ground(), callers());
    ground.lead_to(&callers);
    let _blocked = block(&callers);
    ground.link.kill();
    until(|| ground.answering.is_finished(), "the server has read the end of the connection");
    let late = ground.link.begin_lost();
    assert!(late.contains("connection lost"), "{late}");
}

impl CommandLink {
    /// What a request comes to after the end.
    fn begin_lost(&self) -> String {
        let (sender, told) = mpsc::channel();
        self.begin("A", &NO_ARGS, Clock::Boot.now() + LONG, move |reply| drop(sender.send(reply)));
        match told.recv().expect("it is told") {
            Err(Failure::Lost(lost)) => lost.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_server_that_closes_the_connection_is_noticed_wherever_it_is_served() {
    let (ground, callers) = (ground(), callers());
    ground.lead_to(&callers);
    ground.server.shutdown(std::net::Shutdown::Both).expect("open");
    callers.block_on(ground.link.ended());
    assert!(ground.link.begin_lost().contains("closed"), "{}", ground.link.begin_lost());
}

/// Callers of three runtimes whose workers are blocked at times, so that the connection is recalled again and again.
#[test]
fn each_request_gets_its_own_reply_while_the_connection_moves() {
    let (ground, done) = (ground(), Arc::new(AtomicUsize::new(0)));
    let begin = Clock::Boot.now();
    let threads: Vec<_> = (0..3)
        .map(|seed: u64| {
            let (link, done) = (ground.link.clone(), done.clone());
            thread::spawn(move || {
                let callers = callers();
                callers.block_on(async {
                    tokio::spawn(async move {
                        for turn in 0.. {
                            calls(&link, 50).await;
                            done.fetch_add(50, Ordering::Relaxed);
                            if (Clock::Boot.now() - begin) > Duration::from_secs(3) {
                                return;
                            }
                            let pause = (seed * 7 + turn * 13) % 23;
                            thread::sleep(Duration::from_millis(pause)); // user code that blocks
                            tokio::time::sleep(Duration::from_millis(pause)).await;
                        }
                    })
                    .await
                    .expect("no panic");
                });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("each got its own replies"));
    assert!(done.load(Ordering::Relaxed) > 0 && !ground.link.traffic().is_waiting());
}
