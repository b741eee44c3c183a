//! A server that speaks the protocol and says what the test wants.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold_redis::Address;

/// Answers each command (its words, the first in capitals) with what `answer` returns; runs until the test ends.
pub(crate) fn serve(answer: impl Fn(&[String]) -> String + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || talk(&socket, &*answer));
        }
    });
    port
}

/// What a healthy server says to the commands of the check.
pub(crate) fn healthy(words: &[String]) -> Option<String> {
    let info = "run_id:abc\r\nuptime_in_seconds:100\r\n";
    match words[0].as_str() {
        "PING" => Some("+PONG\r\n".into()),
        "CLIENT" => Some("+OK\r\n".into()),
        "ROLE" => Some("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".into()),
        "INFO" => Some(format!("${}\r\n{info}\r\n", info.len())),
        "TIME" => Some("*2\r\n$10\r\n1795250671\r\n$6\r\n168783\r\n".into()),
        _ => None,
    }
}

fn talk(socket: &TcpStream, answer: &dyn Fn(&[String]) -> String) {
    let mut reader = BufReader::new(socket);
    while let Some(words) = command(&mut reader) {
        if (&mut &*socket).write_all(answer(&words).as_bytes()).is_err() {
            return;
        }
    }
}

fn command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let count = number(reader)?;
    let mut words: Vec<String> = (0..count).map(|_| word(reader)).collect::<Option<_>>()?;
    words[0].make_ascii_uppercase();
    Some(words)
}

fn word(reader: &mut impl BufRead) -> Option<String> {
    let length = number(reader)?;
    let mut bytes = vec![0; length + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}

fn number(reader: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.get(1..)?.trim().parse().ok()
}

/// A sentinel that says what the test wants.
pub(crate) struct FakeSentinel {
    pub(crate) port: u16,
    pub(crate) says: Arc<Mutex<Says>>,
    /// How often it was asked for its master.
    pub(crate) asked: Arc<AtomicUsize>,
}

/// What a [`FakeSentinel`] says.
#[derive(Clone)]
pub(crate) struct Says {
    pub(crate) master: u16,
    pub(crate) epoch: u64,
    /// How long each answer takes.
    pub(crate) delay: Duration,
    pub(crate) refuses_subscriptions: bool,
    pub(crate) run_id: String,
}

impl FakeSentinel {
    /// Names the server at this port at this epoch.
    pub(crate) fn naming(master: u16, epoch: u64) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let run_id = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
        let says = Says { master, epoch, delay: Duration::ZERO, refuses_subscriptions: false, run_id };
        let (says, asked) = (Arc::new(Mutex::new(says)), Arc::new(AtomicUsize::new(0)));
        let (spoken, counted) = (says.clone(), asked.clone());
        let port = serve(move |words| {
            let says = spoken.lock().unwrap().clone();
            std::thread::sleep(says.delay);
            counted.fetch_add(usize::from(words[0] == "SENTINEL"), Ordering::SeqCst);
            says.answer(words)
        });
        Self { port, says, asked }
    }

    /// Changes what it says from now on.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Says)) {
        change(&mut self.says.lock().unwrap());
    }

    pub(crate) fn address(&self) -> Address {
        Address::new("127.0.0.1", self.port)
    }
}

impl Says {
    fn answer(&self, words: &[String]) -> String {
        let port = self.master.to_string();
        match words[0].as_str() {
            "PING" if words.len() > 1 => bulk(&words[1]),
            "SUBSCRIBE" if self.refuses_subscriptions => "-NOPERM no permission for the channel\r\n".into(),
            "SUBSCRIBE" => format!("*3\r\n$9\r\nsubscribe\r\n{}:1\r\n", bulk(&words[1])),
            "SENTINEL" => match words[1].to_uppercase().as_str() {
                "MASTER" => array(&[
                    ("ip", "127.0.0.1"),
                    ("port", &port),
                    ("config-epoch", &self.epoch.to_string()),
                    ("down-after-milliseconds", "1000"),
                    ("quorum", "2"),
                    ("num-other-sentinels", "2"),
                ]),
                "GET-MASTER-ADDR-BY-NAME" => array(&[("127.0.0.1", &port)]),
                _ => array(&[]),
            },
            // Each sentinel has a run of its own.
            "INFO" => bulk(&format!("run_id:{}\r\n", self.run_id)),
            _ => healthy(words).unwrap_or_else(|| "-ERR no\r\n".into()),
        }
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn array(pairs: &[(&str, &str)]) -> String {
    let words: String = pairs.iter().map(|(name, value)| bulk(name) + &bulk(value)).collect();
    format!("*{}\r\n{words}", pairs.len() * 2)
}
