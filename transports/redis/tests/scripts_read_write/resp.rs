//! A client for one connection, which sends one command at a time.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

/// A reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Number(i64),
    Text(Vec<u8>),
    Nil,
    List(Vec<Reply>),
    Error(String),
}

impl Reply {
    pub(crate) fn number(&self) -> i64 {
        let Reply::Number(number) = self else { panic!("no number: {self:?}") };
        *number
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let Reply::Text(bytes) = self else { panic!("no text: {self:?}") };
        bytes
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }

    pub(crate) fn list(&self) -> &[Reply] {
        let Reply::List(items) = self else { panic!("no list: {self:?}") };
        items
    }

    pub(crate) fn error(&self) -> Option<&str> {
        if let Reply::Error(text) = self { Some(text) } else { None }
    }

    /// The first number of a list: what became of a script.
    pub(crate) fn code(&self) -> i64 {
        self.list()[0].number()
    }
}

/// A connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        // So that a message that never comes ends its test.
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Sends a command and returns its reply.
    pub(crate) fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Reply {
        let mut frame = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            frame.extend(format!("${}\r\n", word.as_ref().len()).into_bytes());
            frame.extend(word.as_ref());
            frame.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&frame).unwrap();
        self.read()
    }

    /// As [`Self::send`], for a command that must not be refused.
    pub(crate) fn ok<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Reply {
        let reply = self.send(words);
        let shown: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word.as_ref())).collect();
        assert!(reply.error().is_none(), "{shown:?}: {reply:?}");
        reply
    }

    /// Runs a script by its digest, and by its text if the server does not know it.
    pub(crate) fn eval<W: AsRef<[u8]>>(&mut self, script: &str, keys: &[&str], args: &[W]) -> Reply {
        let sha = fred::util::sha1_hash(script);
        let reply = self.script("EVALSHA", &sha, keys, args);
        match reply.error() {
            Some(text) if text.starts_with("NOSCRIPT") => self.script("EVAL", script, keys, args),
            _ => reply,
        }
    }

    fn script<W: AsRef<[u8]>>(&mut self, command: &str, script: &str, keys: &[&str], args: &[W]) -> Reply {
        let count = keys.len().to_string();
        let mut words: Vec<&[u8]> = vec![command.as_bytes(), script.as_bytes(), count.as_bytes()];
        words.extend(keys.iter().map(|key| key.as_bytes()));
        words.extend(args.iter().map(AsRef::as_ref));
        self.send(&words)
    }

    /// Reads the next reply, or message.
    pub(crate) fn read(&mut self) -> Reply {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "+" => Reply::Text(rest.into()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Number(rest.parse().unwrap()),
            "$" => self.read_text(rest.parse().unwrap()),
            "*" if rest == "-1" => Reply::Nil,
            "*" => Reply::List((0..rest.parse::<usize>().unwrap()).map(|_| self.read()).collect()),
            _ => panic!("no reply: {line:?}"),
        }
    }

    fn read_text(&mut self, length: i64) -> Reply {
        let Ok(length) = usize::try_from(length) else { return Reply::Nil };
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes.truncate(length);
        Reply::Text(bytes)
    }
}
