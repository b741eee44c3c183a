//! Rounds: contestants in turn, the median told with the smallest and the largest.

use std::fmt;

/// The spread of a figure over its rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// An exact count.
    pub(crate) fn exactly(figure: f64) -> Self {
        Self { median: figure, min: figure, max: figure }
    }

    pub(crate) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let last = figures.len().checked_sub(1).expect("at least one round");
        Self { median: figures[figures.len() / 2], min: figures[0], max: figures[last] }
    }

    /// Ratios of two contestants, round by round.
    pub(crate) fn of_ratios(ours: &[f64], theirs: &[f64]) -> Self {
        Self::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect())
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.min == self.max {
            short(self.median)
        } else {
            format!("{} ({} .. {})", short(self.median), short(self.min), short(self.max))
        };
        f.pad(&text)
    }
}

fn short(figure: f64) -> String {
    if figure >= 100.0 { format!("{figure:.0}") } else { format!("{figure:.3}") }
}
