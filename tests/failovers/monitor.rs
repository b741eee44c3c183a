//! What a server executed of ours after it was woken, judged by the times in the lines of `MONITOR`.

use leasehold_tests::harness::monitor::{Line, Script, scripts};

/// What was executed of ours after a moment of the server's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Executed {
    pub(crate) acquires: usize,
    pub(crate) renewals: usize,
    pub(crate) releases: usize,
    /// What these scripts have set or prolonged.
    pub(crate) writes: usize,
    /// Scripts that had begun before that moment and have set or prolonged something after it: the stop interrupted them.
    pub(crate) interrupted: usize,
}

impl Executed {
    /// Of these lines, what the server's clock puts at `since` (in µs) or later.
    pub(crate) fn since(since: u64, lines: &[Line]) -> Self {
        let mut executed = Self::default();
        scripts(lines).iter().for_each(|script| executed.add(script, since));
        executed
    }

    fn add(&mut self, script: &Script, since: u64) {
        let is_write = |call: &&Line| call.at >= since && call.is_write_of_a_script() && is_grant(call);
        let writes = script.calls.iter().filter(is_write).count();
        if script.began < since {
            self.interrupted += usize::from(writes > 0);
        } else {
            self.writes += writes;
            *self.count_of(&script.words) += 1;
        }
    }

    // A release names a channel, an acquire ends with a time, a renewal with what is packed.
    fn count_of(&mut self, words: &[String]) -> &mut usize {
        if words.iter().any(|word| word.starts_with("redisson_lock__channel:")) {
            &mut self.releases
        } else if words.last().is_some_and(|word| word.parse::<u64>().is_ok()) {
            &mut self.acquires
        } else {
            &mut self.renewals
        }
    }
}

/// Not what a release takes away.
fn is_grant(call: &Line) -> bool {
    matches!(call.command().as_str(), "HSET" | "HINCRBY" | "PEXPIRE" | "PEXPIREAT")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(since: u64) -> Executed {
        let lines = [
            r#"1.000002 [0 127.0.0.1:1] "EVALSHA" "ab" "1" "k" "2000" "u:1" "17""#,
            r#"1.000003 [0 lua] "time""#,
            r#"1.000020 [0 lua] "hset" "k" "u:1" "1""#,
            r#"1.000021 [0 lua] "pexpire" "k" "2000""#,
            r#"1.000022 [0 127.0.0.1:1] "EVALSHA" "ab" "0" "17" "2000" "u:" "\x92\xa1k\x01""#,
            r#"1.000023 [0 lua] "pexpireat" "k" "2000""#,
            r#"1.000024 [0 127.0.0.1:1] "EVALSHA" "ab" "1" "k" "u:1" "redisson_lock__channel:{k}" "publish""#,
            r#"1.000025 [0 lua] "hdel" "k" "u:1""#,
            r#"1.000026 [0 127.0.0.1:1] "pexpire" "k" "2000""#,
        ];
        Executed::since(since, &lines.map(|line| Line::parse(line).expect("a line")))
    }

    #[test]
    fn what_scripts_write_is_told_from_what_they_are_asked() {
        let all = Executed { acquires: 1, renewals: 1, releases: 1, writes: 3, interrupted: 0 };
        assert_eq!(executed(0), all);
    }

    #[test]
    fn what_was_executed_before_counts_nothing_although_it_is_told_afterwards() {
        let rest = Executed { acquires: 0, renewals: 0, releases: 1, writes: 0, interrupted: 0 };
        assert_eq!(executed(1_000_024), rest);
    }

    #[test]
    fn a_script_that_began_before_and_writes_afterwards_was_interrupted() {
        let rest = Executed { acquires: 0, renewals: 1, releases: 1, writes: 1, interrupted: 1 };
        assert_eq!(executed(1_000_010), rest);
    }
}
