//! How long a candidate waits before it campaigns again. Pure.
//!
//! After a term that ended early the other candidates come first: a process whose work or network fails must not lead
//! again at once. Each further short term doubles the pause. A long term ends the doubling.

use std::time::Duration;

/// The pauses of one candidate.
#[derive(Clone, Debug, Default)]
pub(super) struct Pauses {
    short_terms: u32,
}

impl Pauses {
    /// The pause after a term of this length. `jitter`: 0 to 255, differs from candidate to candidate.
    pub(super) fn after_term(&mut self, term: Duration, jitter: u8) -> Duration {
        if term >= LONG_TERM {
            self.short_terms = 0;
        }
        let longest = (SHORTEST * 2_u32.pow(self.short_terms)).min(LONGEST);
        self.short_terms = (self.short_terms + 1).min(DOUBLINGS_MAX);
        spread(longest, jitter)
    }

    /// The pause after a campaign that got no definite answer.
    pub(super) fn after_no_answer(jitter: u8) -> Duration {
        spread(SHORTEST, jitter)
    }
}

/// Between half of the time and all of it.
fn spread(longest: Duration, jitter: u8) -> Duration {
    longest / 2 + longest / 512 * u32::from(jitter)
}

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// A term of at least this length was no failure of the leader.
const LONG_TERM: Duration = Duration::from_secs(60);
/// 32 s, above the longest pause.
const DOUBLINGS_MAX: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const TERM: Duration = Duration::from_secs(1);

    #[test]
    fn pauses_double_with_each_short_term_up_to_30_s() {
        let mut pauses = Pauses::default();
        let longest: Vec<_> = (0..8).map(|_| pauses.after_term(TERM, 255).as_secs_f64().ceil()).collect();
        assert_eq!(longest, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]);
    }

    #[test]
    fn a_long_term_ends_the_doubling() {
        let mut pauses = Pauses::default();
        for _ in 0..5 {
            pauses.after_term(TERM, 0);
        }
        assert_eq!(pauses.after_term(LONG_TERM, 0), SHORTEST / 2);
        assert_eq!(pauses.after_term(TERM, 0), SHORTEST);
    }

    #[test]
    fn a_pause_has_at_least_half_of_its_time() {
        for jitter in 0..=255 {
            let pause = Pauses::after_no_answer(jitter);
            assert!(pause >= SHORTEST / 2 && pause <= SHORTEST, "{pause:?}");
        }
    }
}
