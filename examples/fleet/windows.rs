//! The judge: whether two contenders of this process were entitled to one key at once that may not share it, and whether
//! tokens rose.
//!
//! A window is [lease returned, min(deadline, release called, lost)]. Its end may be told late, so the windows of a key
//! are kept until all that have begun have ended; then they are judged in the order in which they began. A window that
//! is empty (its lease was lost before its holder could look) entitled nobody.

use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold::{FencingToken, clock::Instant};

pub(crate) struct Windows {
    keys: Vec<Mutex<Key>>,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// Windows that began inside another.
    pub(crate) overlapping: u64,
    /// Windows that are shared with nobody, and whose token was not above all earlier ones of the key.
    pub(crate) out_of_order: u64,
}

/// Whether others may be entitled at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// Nobody else.
    Alone,
    /// Others that share, such as readers. Their tokens may be equal.
    Beside,
}

#[derive(Default)]
struct Key {
    recent: Vec<Window>,
    open: usize,
    furthest: Option<Instant>,
    /// The same, of the windows that are shared with nobody.
    furthest_alone: Option<Instant>,
    highest: Option<FencingToken>,
    findings: Findings,
}

struct Window {
    token: FencingToken,
    share: Share,
    from: Instant,
    until: Option<Instant>,
}

impl Windows {
    pub(crate) fn new(keys: usize) -> Self {
        Self { keys: (0..keys).map(|_| Mutex::default()).collect() }
    }

    /// The lease with this token was returned at `from`.
    pub(crate) fn begin(&self, key: usize, token: FencingToken, share: Share, from: Instant) {
        let mut key = self.lock(key);
        key.open += 1;
        key.recent.push(Window { token, share, from, until: None });
    }

    /// It entitled its holder until this moment. Only the first end of a window counts. Of windows with the same token any
    /// is ended: only together they say until when somebody was entitled.
    pub(crate) fn end(&self, key: usize, token: FencingToken, until: Instant) {
        self.lock(key).end(token, until, 1);
    }

    /// The lease was lost, and with it all windows of this token: readers that share a lease lose it together.
    pub(crate) fn lost(&self, key: usize, token: FencingToken, until: Instant) {
        self.lock(key).end(token, until, usize::MAX);
    }

    /// What was found in all windows that have ended; those that nobody ended reach to `now`.
    pub(crate) fn findings(&self, now: Instant) -> Findings {
        let mut all = Findings::default();
        for number in 0..self.keys.len() {
            let mut key = self.lock(number);
            key.recent.iter_mut().for_each(|window| window.until = window.until.or(Some(now)));
            key.open = 0;
            key.judge();
            all.overlapping += key.findings.overlapping;
            all.out_of_order += key.findings.out_of_order;
        }
        all
    }

    fn lock(&self, key: usize) -> MutexGuard<'_, Key> {
        self.keys[key].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Key {
    fn end(&mut self, token: FencingToken, until: Instant, most: usize) {
        let open = self.recent.iter_mut().filter(|window| window.is_open_with(token));
        let ended = open.take(most).map(|window| window.until = Some(until)).count();
        self.open -= ended;
        if ended > 0 && self.open == 0 {
            self.judge();
        }
    }

    fn judge(&mut self) {
        let mut ended = std::mem::take(&mut self.recent);
        ended.retain(|window| window.until.is_some_and(|until| until > window.from));
        ended.sort_by_key(|window| window.from);
        for window in ended {
            self.compare(&window);
            self.furthest = self.furthest.max(window.until);
            if window.share == Share::Alone {
                self.furthest_alone = self.furthest_alone.max(window.until);
            }
            self.highest = self.highest.max(Some(window.token));
        }
    }

    /// Compares a window with all that began before it.
    fn compare(&mut self, window: &Window) {
        let (others_until, tokens) = match window.share {
            Share::Alone => (self.furthest, self.highest),
            Share::Beside => (self.furthest_alone, None),
        };
        self.findings.overlapping += u64::from(others_until.is_some_and(|until| window.from < until));
        self.findings.out_of_order += u64::from(tokens.is_some_and(|token| window.token <= token));
    }
}

impl Window {
    fn is_open_with(&self, token: FencingToken) -> bool {
        self.token == token && self.until.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::{Share::*, *};

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn token(number: u64) -> FencingToken {
        FencingToken::at_server_micros(number)
    }

    /// Windows as (token, from, until), each ended before the next is told.
    fn judged(windows: &[(u64, u64, u64)]) -> (u64, u64) {
        let judge = Windows::new(1);
        for (number, from, until) in windows {
            judge.begin(0, token(*number), Alone, at(*from));
            judge.end(0, token(*number), at(*until));
        }
        let findings = judge.findings(at(1_000));
        (findings.overlapping, findings.out_of_order)
    }

    /// Two windows: (share, token, from, until).
    fn both([first, second]: [(Share, u64, u64, u64); 2]) -> (u64, u64) {
        let judge = Windows::new(1);
        for (share, number, from, until) in [first, second] {
            judge.begin(0, token(number), share, at(from));
            judge.end(0, token(number), at(until));
        }
        let findings = judge.findings(at(1_000));
        (findings.overlapping, findings.out_of_order)
    }

    #[test]
    fn readers_share_a_key_and_a_token_and_a_writer_shares_nothing() {
        assert_eq!(both([(Beside, 1, 0, 20), (Beside, 1, 10, 30)]), (0, 0));
        assert_eq!(both([(Beside, 1, 0, 20), (Alone, 2, 19, 30)]), (1, 0));
        assert_eq!(both([(Alone, 1, 0, 20), (Beside, 2, 19, 30)]), (1, 0));
        assert_eq!(both([(Beside, 5, 0, 20), (Alone, 5, 20, 30)]), (0, 1));
    }

    #[test]
    fn readers_that_share_a_lease_lose_it_together() {
        let judge = Windows::new(1);
        judge.begin(0, token(1), Beside, at(0));
        judge.begin(0, token(1), Beside, at(5));
        judge.lost(0, token(1), at(10));
        judge.begin(0, token(2), Alone, at(10));
        assert_eq!(judge.findings(at(50)), Findings::default());
    }

    #[test]
    fn turns_that_touch_are_good() {
        assert_eq!(judged(&[(1, 10, 20), (2, 20, 30), (3, 30, 31)]), (0, 0));
    }

    #[test]
    fn one_nanosecond_is_an_overlap_also_with_an_older_window() {
        assert_eq!(judged(&[(1, 10, 20), (2, 19, 30)]), (1, 0));
        assert_eq!(judged(&[(1, 0, 100), (2, 10, 20), (3, 99, 120)]), (2, 0));
    }

    #[test]
    fn a_token_that_stays_or_falls_is_found() {
        assert_eq!(judged(&[(5, 0, 1), (5, 2, 3), (4, 4, 5), (6, 6, 7)]), (0, 2));
    }

    #[test]
    fn an_empty_window_entitles_nobody() {
        assert_eq!(judged(&[(9, 50, 40), (1, 0, 45)]), (0, 0));
    }

    #[test]
    fn an_end_that_is_told_late_counts_from_when_it_was() {
        let judge = Windows::new(2);
        judge.begin(0, token(1), Alone, at(10));
        judge.begin(0, token(2), Alone, at(30)); // the first was lost at 25, and nobody has heard of it yet
        judge.end(0, token(2), at(40));
        judge.end(0, token(1), at(25));
        judge.end(0, token(1), at(35)); // only the first end counts
        assert_eq!(judge.findings(at(50)), Findings::default());
    }

    #[test]
    fn a_window_that_nobody_ends_reaches_to_the_last_moment() {
        let judge = Windows::new(1);
        judge.begin(0, token(1), Alone, at(10));
        judge.begin(0, token(2), Alone, at(30));
        judge.end(0, token(2), at(40));
        assert_eq!(judge.findings(at(50)).overlapping, 1);
    }
}
