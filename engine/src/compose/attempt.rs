//! One attempt at a quorum: every member is tried once, at the same moment. Pure.
//!
//! The attempt is *reached* with the q-th grant. It is *out of reach* once the members that have not refused or failed
//! are fewer than q. Then everything that is not proven refused is released: members that were granted, and members
//! whose answer is still open. An attempt that is over time is out of reach as well.

/// What one member has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Not yet.
    Open,
    /// The member is held by this attempt.
    Granted,
    /// The member is held by another owner.
    Refused,
    /// No definite answer.
    Failed,
}

/// What the answers say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The open answers decide.
    Open,
    /// Enough members are granted.
    Reached,
    /// Enough members cannot be granted any more.
    OutOfReach,
}

/// The answers of one attempt.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    answers: Vec<Answer>,
    needed: usize,
}

impl Attempt {
    pub(super) fn new(members: usize, needed: usize) -> Self {
        Self { answers: vec![Answer::Open; members], needed }
    }

    /// Takes in the answer of one member.
    pub(super) fn answer(&mut self, member: usize, answer: Answer) {
        if let Some(place) = self.answers.get_mut(member) {
            *place = answer;
        }
    }

    /// Ends the attempt at its time limit: a member without an answer has failed.
    pub(super) fn time_out(&mut self) {
        self.answers.iter_mut().filter(|answer| **answer == Answer::Open).for_each(|answer| {
            *answer = Answer::Failed;
        });
    }

    pub(super) fn verdict(&self) -> Verdict {
        let granted = self.count(Answer::Granted);
        match granted + self.count(Answer::Open) {
            _ if granted >= self.needed => Verdict::Reached,
            possible if possible >= self.needed => Verdict::Open,
            _ => Verdict::OutOfReach,
        }
    }

    /// Whether the members that gave a definite answer would have been enough. An attempt that failed was then refused
    /// because of other owners, and not because servers are down.
    pub(super) fn was_answered(&self) -> bool {
        self.count(Answer::Granted) + self.count(Answer::Refused) >= self.needed
    }

    /// The members that another owner holds.
    pub(super) fn refused(&self) -> impl Iterator<Item = usize> {
        self.answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| **answer == Answer::Refused)
            .map(|(place, _)| place)
    }

    fn count(&self, answer: Answer) -> usize {
        self.answers.iter().filter(|given| **given == answer).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::arithmetic::majority;

    const FINAL: [Answer; 3] = [Answer::Granted, Answer::Refused, Answer::Failed];

    /// Every list of answers of this length.
    fn all(members: usize) -> Vec<Vec<Answer>> {
        (0..members).fold(vec![vec![]], |lists, _| {
            let longer = |list: Vec<Answer>| FINAL.map(|answer| [list.clone(), vec![answer]].concat());
            lists.into_iter().flat_map(longer).collect()
        })
    }

    // Every order of every answer of up to five members, against an oracle that counts the whole list.
    #[test]
    fn a_verdict_is_told_with_the_answer_that_decides_and_never_changes() {
        for (members, needed) in [1, 3, 5].map(|members| (members, majority(members))) {
            for answers in all(members) {
                let mut attempt = Attempt::new(members, needed);
                let mut decided = None;
                for (place, answer) in answers.iter().enumerate() {
                    attempt.answer(place, *answer);
                    let verdict = attempt.verdict();
                    let known = answers[..=place].iter().filter(|answer| **answer == Answer::Granted).count();
                    let open = members - place - 1;
                    let oracle = match known {
                        known if known >= needed => Verdict::Reached,
                        known if known + open < needed => Verdict::OutOfReach,
                        _ => Verdict::Open,
                    };
                    assert_eq!(verdict, oracle, "{answers:?} at {place}");
                    assert!(decided.is_none_or(|before| before == verdict), "{answers:?}");
                    decided = Some(verdict).filter(|verdict| *verdict != Verdict::Open).or(decided);
                }
                assert!(decided.is_some(), "{answers:?}");
            }
        }
    }

    #[test]
    fn a_minority_never_reaches_a_quorum() {
        for (members, needed) in [1, 3, 5].map(|members| (members, majority(members))) {
            for answers in all(members) {
                let mut attempt = Attempt::new(members, needed);
                answers.iter().enumerate().for_each(|(place, answer)| attempt.answer(place, *answer));
                let granted = answers.iter().filter(|answer| **answer == Answer::Granted).count();
                assert_eq!(attempt.verdict() == Verdict::Reached, 2 * granted > members, "{answers:?}");
            }
        }
    }

    #[test]
    fn at_the_time_limit_an_open_member_has_failed_and_a_held_one_is_told_apart() {
        let mut attempt = Attempt::new(3, 2);
        attempt.answer(0, Answer::Granted);
        attempt.answer(2, Answer::Refused);
        assert_eq!(attempt.verdict(), Verdict::Open);
        attempt.time_out();
        assert_eq!((attempt.verdict(), attempt.was_answered()), (Verdict::OutOfReach, true));
        assert_eq!(attempt.refused().collect::<Vec<_>>(), [2]);
        let mut silent = Attempt::new(3, 2);
        silent.answer(0, Answer::Granted);
        silent.time_out();
        assert!(!silent.was_answered(), "two servers are down: nobody knows that the lock is held");
    }
}
