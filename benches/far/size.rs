//! Which round trips and how many callers.

/// What is measured, where the command does not say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FarSize {
    pub(super) rounds: usize,
    /// In milliseconds.
    pub(super) round_trips: &'static [f64],
    pub(super) callers: &'static [f64],
    /// Of the steady arrivals.
    pub(super) waves: usize,
}

pub(crate) const LARGE: FarSize = FarSize {
    rounds: 3,
    round_trips: &[0.0, 0.5, 2.0, 10.0, 20.0, 60.0, 100.0, 300.0],
    callers: &[1.0, 64.0, 1_000.0, 5_000.0, 20_000.0, 100_000.0],
    waves: 150,
};
/// In seconds; shows that it works.
pub(crate) const SMALL: FarSize =
    FarSize { rounds: 1, round_trips: &[0.0, 2.0], callers: &[1.0, 64.0], waves: 2 };
