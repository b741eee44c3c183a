//! Judges of a finished history. They take plain data, return what is wrong, and know nothing of how it came about.
//!
//! A history in which nothing happened passes every check: look at the counts as well.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::harness::recorder::Window;

/// Two holders that were entitled to one lock at the same time (S1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The window that was still open.
    pub earlier: Window,
    /// The window that began within it.
    pub later: Window,
}

/// What [`overlaps`] found and how much it has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverlapReport {
    /// One row for each window that began while another holder's was open.
    pub violations: Vec<Overlap>,
    /// Windows looked at, empty ones included.
    pub windows: usize,
    /// Windows that ended before they began: leases that were over when their caller looked.
    pub empty: usize,
    /// Different locks.
    pub keys: usize,
    /// Different holders.
    pub holders: usize,
}

/// A grant whose fencing token is not above that of an earlier grant of the same lock (S6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenFault {
    /// The grant that had the highest token so far.
    pub highest: Window,
    /// The later grant that is not above it.
    pub later: Window,
}

/// A lock as it lies on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLock {
    /// The key's name.
    pub name: String,
    /// As `PTTL` says; -1 for no expiry.
    pub pttl_ms: i64,
    /// The owners: the fields of the hash.
    pub fields: Vec<String>,
}

/// A lock on a server that should not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stray {
    /// An owner that no living holder stands behind (S5).
    NobodyHolds {
        /// The key's name.
        name: String,
        /// The field.
        owner: String,
    },
    /// A key without expiry (S9).
    Immortal {
        /// The key's name.
        name: String,
    },
}

/// Windows of different holders of one lock that overlap. A window that begins when another ends does not overlap it.
///
/// n log n in the number of windows. Windows of the same holder may overlap: it holds more than once.
pub fn overlaps(windows: &[Window]) -> OverlapReport {
    let mut open = OpenWindows::default();
    let mut violations = Vec::new();
    for window in by_key_and_start(windows).into_iter().filter(|window| !is_empty(window)) {
        if let Some(earlier) = open.of_another_holder(window) {
            violations.push(Overlap { earlier: earlier.clone(), later: window.clone() });
        }
        open.add(window);
    }
    OverlapReport {
        violations,
        windows: windows.len(),
        empty: windows.iter().filter(|window| is_empty(window)).count(),
        keys: different(windows, |window| &window.key),
        holders: different(windows, |window| &window.holder),
    }
}

/// Grants whose token is not above all tokens granted before on the same lock, in the order in which they began.
///
/// The windows of one holder share its token.
pub fn token_order(windows: &[Window]) -> Vec<TokenFault> {
    let mut faults = Vec::new();
    let mut highest: Option<&Window> = None;
    for window in by_key_and_start(windows) {
        match highest.filter(|highest| highest.key == window.key) {
            Some(highest) if highest.holder == window.holder && highest.token == window.token => {}
            Some(highest) if highest.token >= window.token => {
                faults.push(TokenFault { highest: highest.clone(), later: window.clone() });
            }
            Some(_) | None => highest = Some(window),
        }
    }
    faults
}

/// How often each lock went from one process to another.
pub fn process_changes(windows: &[Window]) -> BTreeMap<String, usize> {
    let mut changes: BTreeMap<String, usize> = windows.iter().map(|window| (window.key.clone(), 0)).collect();
    for pair in by_key_and_start(windows).windows(2) {
        if pair[0].key == pair[1].key && pair[0].process != pair[1].process {
            *changes.entry(pair[1].key.clone()).or_default() += 1;
        }
    }
    changes
}

/// How many windows each process had.
pub fn grants_per_process(windows: &[Window]) -> BTreeMap<u32, usize> {
    let mut grants = BTreeMap::new();
    for window in windows {
        *grants.entry(window.process).or_default() += 1;
    }
    grants
}

/// Locks on the server that no living owner stands behind, and locks without expiry.
pub fn held_by_nobody(locks: &[ServerLock], live_owners: &HashSet<String>) -> Vec<Stray> {
    locks.iter().flat_map(|lock| strays(lock, live_owners)).collect()
}

fn strays<'a>(lock: &'a ServerLock, live_owners: &'a HashSet<String>) -> impl Iterator<Item = Stray> + 'a {
    let immortal = (lock.pttl_ms == -1).then(|| Stray::Immortal { name: lock.name.clone() });
    let unheld = lock.fields.iter().filter(|owner| !live_owners.contains(*owner));
    immortal
        .into_iter()
        .chain(unheld.map(|owner| Stray::NobodyHolds { name: lock.name.clone(), owner: owner.clone() }))
}

/// The open windows that reach furthest. Two of different holders are enough: whoever comes next differs from one.
#[derive(Default)]
struct OpenWindows<'a> {
    furthest: Option<&'a Window>,
    furthest_of_another: Option<&'a Window>,
}

impl<'a> OpenWindows<'a> {
    fn of_another_holder(&self, window: &Window) -> Option<&'a Window> {
        [self.furthest, self.furthest_of_another]
            .into_iter()
            .flatten()
            .find(|open| open.key == window.key && open.holder != window.holder)
            .filter(|open| open.until_ns > window.from_ns)
    }

    fn add(&mut self, window: &'a Window) {
        match self.furthest {
            Some(furthest) if furthest.key != window.key => {
                *self = Self { furthest: Some(window), ..Self::default() }
            }
            Some(furthest) if furthest.holder == window.holder => {
                self.furthest = Some(later_end(furthest, window))
            }
            Some(furthest) if furthest.until_ns >= window.until_ns => self.add_behind(window),
            Some(furthest) => *self = Self { furthest: Some(window), furthest_of_another: Some(furthest) },
            None => self.furthest = Some(window),
        }
    }

    fn add_behind(&mut self, window: &'a Window) {
        let best = self.furthest_of_another.map_or(window, |open| later_end(open, window));
        self.furthest_of_another = Some(best);
    }
}

fn later_end<'a>(one: &'a Window, other: &'a Window) -> &'a Window {
    if one.until_ns >= other.until_ns { one } else { other }
}

fn by_key_and_start(windows: &[Window]) -> Vec<&Window> {
    let mut sorted: Vec<_> = windows.iter().collect();
    sorted.sort_by(|one, other| {
        (&one.key, one.from_ns, one.token).cmp(&(&other.key, other.from_ns, other.token))
    });
    sorted
}

fn is_empty(window: &Window) -> bool {
    window.until_ns <= window.from_ns
}

fn different<'a>(windows: &'a [Window], name: impl Fn(&'a Window) -> &'a String) -> usize {
    windows.iter().map(name).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(holder: &str, token: i64, from_ns: u64, until_ns: u64) -> Window {
        let process = u32::from(holder.starts_with('b'));
        Window { key: "k".into(), holder: holder.into(), process, token, from_ns, until_ns }
    }

    fn on_key(key: &str, window: Window) -> Window {
        Window { key: key.into(), ..window }
    }

    fn violators(windows: &[Window]) -> Vec<(String, String)> {
        let found = overlaps(windows).violations.into_iter();
        found.map(|overlap| (overlap.earlier.holder, overlap.later.holder)).collect()
    }

    fn pair(earlier: &str, later: &str) -> (String, String) {
        (earlier.into(), later.into())
    }

    #[test]
    fn turns_that_touch_do_not_overlap() {
        let good = [window("a", 1, 10, 20), window("b", 2, 20, 30), on_key("other", window("c", 3, 15, 25))];
        let report = overlaps(&good);
        assert_eq!(report.violations, []);
        assert_eq!((report.windows, report.empty, report.keys, report.holders), (3, 0, 2, 3));
    }

    #[test]
    fn one_nanosecond_is_an_overlap_in_any_order_of_recording() {
        let bad = [window("b", 2, 19, 30), window("a", 1, 10, 20)];
        assert_eq!(violators(&bad), [pair("a", "b")]);
    }

    #[test]
    fn a_long_window_is_not_forgotten_behind_short_ones() {
        let bad =
            [window("a", 1, 0, 100), window("a", 1, 10, 20), window("b", 2, 50, 60), window("c", 3, 99, 101)];
        assert_eq!(violators(&bad), [pair("a", "b"), pair("a", "c")]);
    }

    #[test]
    fn the_furthest_holder_itself_is_checked_against_the_next_furthest() {
        let bad = [window("a", 1, 0, 100), window("b", 2, 10, 90), window("a", 1, 80, 85)];
        assert_eq!(violators(&bad), [pair("a", "b"), pair("b", "a")]);
    }

    #[test]
    fn one_holder_may_hold_twice_and_an_empty_window_holds_nothing() {
        let good =
            [window("a", 1, 0, 50), window("a", 1, 10, 60), window("b", 2, 30, 30), window("c", 3, 31, 5)];
        let report = overlaps(&good);
        assert_eq!((report.violations.len(), report.empty), (0, 2));
    }

    #[test]
    fn the_sweep_finds_exactly_the_windows_that_a_search_of_all_pairs_finds() {
        use rand::{Rng, SeedableRng, rngs::StdRng};
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..2_000 {
            let mut starts: Vec<u64> = (0..40).collect();
            let windows: Vec<Window> = (0..8)
                .map(|_| {
                    let from = starts.swap_remove(rng.random_range(0..starts.len()));
                    window(["a", "b", "c"][rng.random_range(0..3)], 0, from, from + rng.random_range(0..9))
                })
                .collect();
            let later: BTreeSet<u64> =
                overlaps(&windows).violations.iter().map(|found| found.later.from_ns).collect();
            assert_eq!(later, begun_within_anothers(&windows), "{windows:?}");
        }
    }

    fn begun_within_anothers(windows: &[Window]) -> BTreeSet<u64> {
        let within = |later: &&Window| {
            windows.iter().any(|open| {
                let begins_inside = open.from_ns < later.from_ns && later.from_ns < open.until_ns;
                begins_inside && open.holder != later.holder && !is_empty(later)
            })
        };
        windows.iter().filter(within).map(|later| later.from_ns).collect()
    }

    #[test]
    fn tokens_rise_per_key() {
        let good = [
            window("a", 1, 0, 5),
            window("a", 1, 2, 5),
            window("b", 2, 6, 9),
            on_key("z", window("c", 1, 7, 8)),
        ];
        assert_eq!(token_order(&good), []);
    }

    #[test]
    fn a_token_that_stays_or_falls_is_a_fault_against_the_highest_before() {
        let bad = [window("a", 5, 0, 1), window("b", 5, 2, 3), window("c", 4, 4, 5), window("d", 6, 6, 7)];
        let faults: Vec<_> =
            token_order(&bad).into_iter().map(|fault| (fault.highest.holder, fault.later.holder)).collect();
        assert_eq!(faults, [pair("a", "b"), pair("a", "c")]);
    }

    #[test]
    fn changes_and_grants_are_counted() {
        let windows =
            [window("a1", 1, 0, 1), window("a2", 2, 2, 3), window("b1", 3, 4, 5), window("a3", 4, 6, 7)];
        assert_eq!(process_changes(&windows), BTreeMap::from([("k".into(), 2)]));
        assert_eq!(grants_per_process(&windows), BTreeMap::from([(0, 3), (1, 1)]));
        let one_process = [window("a1", 1, 0, 1), window("a2", 2, 2, 3)];
        assert_eq!(process_changes(&one_process), BTreeMap::from([("k".into(), 0)]));
    }

    #[test]
    fn strays_are_owners_without_a_holder_and_keys_without_expiry() {
        let held = ServerLock { name: "held".into(), pttl_ms: 900, fields: vec!["live:1".into()] };
        let orphan = ServerLock { name: "orphan".into(), pttl_ms: 900, fields: vec!["dead:1".into()] };
        let immortal = ServerLock { name: "immortal".into(), pttl_ms: -1, fields: vec!["live:1".into()] };
        let live = HashSet::from(["live:1".to_owned()]);
        assert_eq!(held_by_nobody(std::slice::from_ref(&held), &live), []);
        let expected = [
            Stray::NobodyHolds { name: "orphan".into(), owner: "dead:1".into() },
            Stray::Immortal { name: "immortal".into() },
        ];
        assert_eq!(held_by_nobody(&[held, orphan, immortal], &live), expected);
    }
}
