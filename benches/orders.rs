//! A process that does what it is told on its standard input, and says on its standard output what came of it, line by line.

use std::{
    io::{BufRead, BufReader, Lines, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// The process, as the one that started it sees it. Dropping it kills and reaps it. It must end when its standard input
/// ends, so that it does not outlive this process.
pub(crate) struct Ordered {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Ordered {
    /// This program again, with these arguments.
    pub(crate) fn start_this_program(arguments: &[&str]) -> Self {
        let program = std::env::current_exe().expect("a program knows its path");
        Self::start(Command::new(program).args(arguments))
    }

    pub(crate) fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().unwrap_or_else(|why| panic!("{command:?}: {why}"));
        let orders = child.stdin.take().expect("its input is ours");
        let answers = BufReader::new(child.stdout.take().expect("its output is ours")).lines();
        Self { child, orders, answers }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn tell(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("it reads");
    }

    /// What it says next.
    pub(crate) fn line(&mut self) -> String {
        self.answers.next().expect("it lives").expect("text")
    }
}

impl Drop for Ordered {
    fn drop(&mut self) {
        // It may have ended by itself; what matters is that it is reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
