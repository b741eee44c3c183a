//! A pattern for names: `*` stands for any text, `?` for any character. Pure.

/// The characters of a pattern.
pub(super) struct Glob(Vec<char>);

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        Self(pattern.chars().collect())
    }

    /// Whether the whole name is what the pattern says.
    pub(super) fn matches(&self, name: &str) -> bool {
        let mut reached = vec![false; self.0.len() + 1];
        reached[0] = true;
        self.pass_stars(&mut reached);
        for letter in name.chars() {
            reached = self.step(&reached, letter);
        }
        reached[self.0.len()]
    }

    /// The places of the pattern that are reached behind one more character.
    fn step(&self, reached: &[bool], letter: char) -> Vec<bool> {
        let mut next = vec![false; reached.len()];
        for (place, wanted) in self.0.iter().enumerate().filter(|(place, _)| reached[*place]) {
            match wanted {
                '*' => next[place] = true,
                wanted => next[place + 1] |= *wanted == '?' || *wanted == letter,
            }
        }
        self.pass_stars(&mut next);
        next
    }

    /// A star stands for nothing, too.
    fn pass_stars(&self, reached: &mut [bool]) {
        for (place, _) in self.0.iter().enumerate().filter(|(_, wanted)| **wanted == '*') {
            reached[place + 1] |= reached[place];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_others() {
        for (pattern, name) in
            [("*", ""), ("*", "a"), ("a*c", "abbc"), ("a*c", "ac"), ("?b*", "ab"), ("**a", "ba")]
        {
            assert!(Glob::new(pattern).matches(name), "{pattern} {name}");
        }
        for (pattern, name) in [("", "a"), ("a", "ab"), ("a*c", "acb"), ("?", ""), ("a?", "a"), ("A", "a")] {
            assert!(!Glob::new(pattern).matches(name), "{pattern} {name}");
        }
    }
}
