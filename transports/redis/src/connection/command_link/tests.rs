//! The link beside a server that is played here: one end of a pipe in memory.

use std::{io, time::Duration};

use fred::types::Resp3Frame as Frame;
use leasehold::clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::wire::reply;

const LONG: Duration = Duration::from_secs(60);

fn linked() -> (CommandLink, DuplexStream) {
    let (ours, server) = duplex(64 * 1024);
    (CommandLink::over(ours, Clock::Boot), server)
}

/// The same on tokio's clock, which the test has paused.
fn over_tokio() -> (CommandLink, DuplexStream) {
    let (ours, server) = duplex(64 * 1024);
    (CommandLink::over(ours, Clock::Tokio), server)
}

/// What the server reads with one read.
async fn read(server: &mut DuplexStream) -> String {
    let mut bytes = vec![0; 64 * 1024];
    let count = server.read(&mut bytes).await.expect("the link is open");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

async fn say(server: &mut DuplexStream, text: &str) -> io::Result<()> {
    server.write_all(text.as_bytes()).await
}

async fn ask(link: &CommandLink, command: &'static str) -> Result<Frame, Failure> {
    link.ask(command, &[], LONG).await
}

fn number(reply: Result<Frame, Failure>) -> i64 {
    match reply.expect("a reply") {
        Frame::Number { data, .. } => data,
        other => panic!("{other:?}"),
    }
}

fn lost(reply: Result<Frame, Failure>) -> String {
    match reply.expect_err("no reply") {
        Failure::Lost(lost) => lost.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_one_moment_go_out_in_one_write_and_each_gets_its_own_reply() {
    let (link, mut server) = linked();
    let server = async {
        assert_eq!(read(&mut server).await, "*1\r\n$1\r\nA\r\n*1\r\n$1\r\nB\r\n*1\r\n$1\r\nC\r\n");
        say(&mut server, ":1\r\n:2\r\n:3\r\n").await.expect("open");
        server
    };
    let (a, b, c, _server) = tokio::join!(ask(&link, "A"), ask(&link, "B"), ask(&link, "C"), server);
    assert_eq!([number(a), number(b), number(c)], [1, 2, 3]);
    assert!(!link.traffic().is_waiting());
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_read_however_it_is_cut() {
    let (link, mut server) = linked();
    let text = "*2\r\n$3\r\na\r\n\r\n:7\r\n";
    let server = async {
        read(&mut server).await;
        for byte in text.split_inclusive(|_| true) {
            say(&mut server, byte).await.expect("open");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server
    };
    let (reply, _server) = tokio::join!(ask(&link, "A"), server);
    let reply = reply.expect("a reply");
    let parts = reply::array(&reply).expect("an array");
    assert_eq!((parts.len(), reply::text(&parts[0])), (2, Some("a\r\n")));
}

#[tokio::test(start_paused = true)]
async fn an_error_reply_is_a_refusal_of_this_request_alone() {
    let (link, mut server) = linked();
    let server = async {
        read(&mut server).await;
        say(&mut server, "-CLUSTERDOWN The cluster is down\r\n:2\r\n").await.expect("open");
        server
    };
    let (a, b, _server) = tokio::join!(ask(&link, "A"), ask(&link, "B"), server);
    assert!(matches!(a, Err(Failure::Refused(text)) if text == "CLUSTERDOWN The cluster is down"));
    assert_eq!(number(b), 2);
}

#[tokio::test(start_paused = true)]
async fn asking_and_its_command_stay_together() {
    let (link, mut server) = linked();
    let server = async {
        let read = read(&mut server).await;
        assert!(read.contains("*1\r\n$6\r\nASKING\r\n*1\r\n$1\r\nB\r\n"), "{read}");
        say(&mut server, ":1\r\n+OK\r\n:2\r\n:3\r\n").await.expect("open");
        server
    };
    let asking = link.ask_behind_asking("B", &[], LONG);
    let (a, b, c, _server) = tokio::join!(ask(&link, "A"), asking, ask(&link, "C"), server);
    assert_eq!([number(a), number(b), number(c)], [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_asking_is_the_reason_of_the_redirect_behind_it() {
    let (link, mut server) = linked();
    let server = async {
        read(&mut server).await;
        say(&mut server, "-NOPERM no asking\r\n-MOVED 1 a:1\r\n").await.expect("open");
        server
    };
    let (asked, _server) = tokio::join!(link.ask_behind_asking("B", &[], LONG), server);
    assert!(matches!(asked, Err(Failure::Refused(text)) if text == "NOPERM no asking"));
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_goes_to_the_request_whose_time_was_over() {
    let (link, mut server) = linked();
    let first = link.ask("A", &[], Duration::from_millis(10)).await;
    assert!(matches!(first, Err(Failure::TimedOut)));
    let server = async {
        read(&mut server).await;
        say(&mut server, ":1\r\n:2\r\n").await.expect("open");
        server
    };
    let (second, _server) = tokio::join!(ask(&link, "B"), server);
    assert_eq!(number(second), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_before_it_is_asked_is_heard() {
    let (link, mut server) = linked();
    say(&mut server, "-ERR max number of clients reached\r\n").await.expect("open");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(matches!(ask(&link, "PING").await, Err(Failure::Refused(text)) if text.contains("clients")));
}

#[tokio::test(start_paused = true)]
async fn the_end_fails_every_request_and_all_that_follow_with_the_cause() {
    let (link, server) = linked();
    let gone = async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(server);
    };
    let (a, b, ()) = tokio::join!(ask(&link, "A"), ask(&link, "B"), gone);
    assert_eq!([lost(a), lost(b)], ["Connection closed.", "Connection closed."]);
    assert_eq!(lost(ask(&link, "C").await), "Connection closed.");
    link.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_link_answers_at_once_and_closes_its_socket() {
    let (link, mut server) = linked();
    let kill = async {
        assert_eq!(read(&mut server).await, "*1\r\n$1\r\nA\r\n");
        link.kill();
        assert_eq!(read(&mut server).await, "", "the socket is closed");
    };
    let (reply, ()) = tokio::join!(ask(&link, "A"), kill);
    assert_eq!(lost(reply), "connection lost");
    assert_eq!(lost(ask(&link, "B").await), "connection lost");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_reply_ends_the_connection() {
    let nested = "*1\r\n".repeat(100_000);
    for (said, cause) in [
        (":1\r\n:2\r\n", "no request waits for"),
        ("HTTP/1.1 400 Bad Request\r\n", "no RESP2"),
        (nested.as_str(), "nested deeper"),
    ] {
        let (link, mut server) = linked();
        let server = async {
            read(&mut server).await;
            let _ = say(&mut server, said).await; // the link may close before all is written
            server
        };
        let (_first, _server) = tokio::join!(ask(&link, "A"), server);
        link.ended().await;
        let cause_told = lost(ask(&link, "B").await);
        assert!(cause_told.contains(cause), "{cause_told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_end_ends_the_connection() {
    let (link, mut server) = linked();
    let piece = "x".repeat(1024 * 1024);
    let flood = async {
        say(&mut server, "$536870912\r\n").await?;
        for _ in 0..512 {
            say(&mut server, &piece).await?;
        }
        Ok::<_, io::Error>(())
    };
    let (reply, flooded) = tokio::join!(ask(&link, "A"), flood);
    assert!(lost(reply).contains("longer than 64 MiB"));
    assert!(flooded.is_err(), "the link has not read all of it");
}

#[tokio::test(start_paused = true)]
async fn replies_are_read_while_a_write_waits() {
    let (ours, mut server) = duplex(16);
    let link = CommandLink::over(ours, Clock::Boot);
    let long = [Arg::Text("x".repeat(1_000).into())];
    let server = async {
        let mut bytes = [0; 11];
        server.read_exact(&mut bytes).await.expect("the first command");
        tokio::time::sleep(Duration::from_secs(1)).await; // the pipe is full meanwhile
        say(&mut server, ":1\r\n").await.expect("open");
        server
    };
    let second = async { link.ask("B", &long, Duration::from_secs(2)).await };
    let (first, second, _server) = tokio::join!(ask(&link, "A"), second, server);
    assert_eq!(number(first), 1);
    assert!(matches!(second, Err(Failure::TimedOut)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_of_many_threads_keep_their_replies_apart() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let socket = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let (server, _) = listener.accept().await.expect("a connection");
    // Repeats the number of each `ECHO n`: "*2", "$4", "ECHO", "$n", "n".
    let echo = tokio::spawn(async move {
        let (reader, mut writer) = server.into_split();
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(reader));
        let mut count = 0;
        while let Ok(Some(line)) = lines.next_line().await {
            count += 1;
            if count % 5 == 0 {
                writer.write_all(format!(":{line}\r\n").as_bytes()).await.expect("open");
            }
        }
    });
    let link = Arc::new(CommandLink::over(socket, Clock::Boot));
    let asked = (0..8).map(|caller| {
        let link = link.clone();
        tokio::spawn(async move {
            for n in (0..2_000).map(|n| caller * 10_000 + n) {
                assert_eq!(number(link.ask("ECHO", &[Arg::Number(n)], LONG).await), n);
            }
        })
    });
    for asked in asked.collect::<Vec<_>>() {
        asked.await.expect("each got its own replies");
    }
    link.kill();
    echo.await.expect("the socket was closed");
}

#[test]
fn requests_do_not_outlive_the_runtime_of_their_link() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (link, _server) = runtime.block_on(async { linked() });
    let asked = link.ask("A", &[], LONG);
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    assert_eq!(lost(other.block_on(asked)), "connection lost");
}

/// Begins a request; the receiver gets what it comes to.
fn begun(link: &CommandLink, within: Duration) -> oneshot::Receiver<Result<Frame, Failure>> {
    let (sender, receiver) = oneshot::channel();
    let until = link.traffic().now() + within;
    link.begin("A", &NO_ARGS, until, move |reply| drop(sender.send(reply)));
    receiver
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_task_gets_its_reply_between_those_of_others() {
    let (link, mut server) = over_tokio();
    let first = begun(&link, LONG);
    let (second, third) = (link.ask("B", &NO_ARGS, LONG), begun(&link, LONG));
    let answer = async {
        read(&mut server).await;
        say(&mut server, ":1\r\n:2\r\n-ERR no\r\n").await.expect("open");
    };
    let (first, second, third, ()) = tokio::join!(first, second, third, answer);
    assert_eq!([number(first.expect("called")), number(second)], [1, 2]);
    assert!(matches!(third.expect("called"), Err(Failure::Refused(text)) if text == "ERR no"));
    assert!(!link.traffic().is_waiting());
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_task_is_given_up_at_its_moment_and_its_late_reply_is_dropped() {
    let (link, mut server) = over_tokio();
    let (long, short) = (begun(&link, LONG), begun(&link, Duration::from_secs(1)));
    read(&mut server).await;
    let begin = link.traffic().now();
    assert!(matches!(short.await.expect("called"), Err(Failure::TimedOut)));
    let took = link.traffic().now() - begin;
    assert!((1_000..=1_002).contains(&took.as_millis()), "{took:?}");
    say(&mut server, ":1\r\n:2\r\n").await.expect("open");
    assert_eq!(number(long.await.expect("called")), 1);
    let next = begun(&link, LONG);
    read(&mut server).await;
    say(&mut server, ":3\r\n").await.expect("open");
    assert_eq!(number(next.await.expect("called")), 3, "each reply still has its request");
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_task_learn_that_the_connection_has_ended() {
    let (link, server) = over_tokio();
    let waiting = begun(&link, LONG);
    drop(server);
    assert_eq!(lost(waiting.await.expect("called")), "Connection closed.");
    let late = begun(&link, LONG);
    assert_eq!(lost(late.await.expect("called before `begin` returned")), "Connection closed.");
    assert!(!link.traffic().is_waiting());
}

#[tokio::test(start_paused = true)]
async fn a_function_that_panics_keeps_no_other_request_from_its_reply() {
    let (link, mut server) = over_tokio();
    let until = link.traffic().now() + LONG;
    link.begin("A", &NO_ARGS, until, |_reply| std::panic::resume_unwind(Box::new("text")));
    let second = begun(&link, LONG);
    read(&mut server).await;
    say(&mut server, ":1\r\n:2\r\n").await.expect("open");
    assert_eq!(number(second.await.expect("called")), 2);
}

// Its replies may not belong to their requests any more.
#[tokio::test(start_paused = true)]
async fn behind_a_reply_whose_reader_ends_the_connection_no_other_is_given() {
    let (link, mut server) = over_tokio();
    let link = Arc::new(link);
    let (kills, until) = (link.clone(), link.traffic().now() + LONG);
    link.begin("A", &NO_ARGS, until, move |_reply| kills.kill());
    let second = begun(&link, LONG);
    read(&mut server).await;
    say(&mut server, ":1\r\n:2\r\n").await.expect("open");
    assert_eq!(lost(second.await.expect("called")), "connection lost");
}
