//! Lock classes: metrics distinguish locks by class, not by name, because the number of classes is bounded.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{OnceLock, PoisonError, RwLock},
};

use tracing::Level;

use super::count::Count;
use crate::log;

/// At most this many lock classes per engine, [`DEFAULT_CLASS`] included. Later ones count as [`OTHER_CLASS`].
pub const CLASSES_MAX: usize = 64;
/// The class of locks without a class of their own.
pub const DEFAULT_CLASS: &str = "default";
/// The class of locks whose own class was beyond [`CLASSES_MAX`], empty, or longer than 64 bytes.
pub const OTHER_CLASS: &str = "_other";

/// One class of locks of one engine.
#[derive(Debug, PartialEq, Eq)]
pub struct LockClass {
    name: Box<str>,
    index: usize,
}

/// Names a class of one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassId(u8);

/// The classes of one engine.
#[derive(Debug)]
pub(crate) struct Classes {
    known: [OnceLock<LockClass>; CLASSES_MAX + 1],
    by_name: RwLock<HashMap<Box<str>, ClassId>>,
    /// The longest prefix first.
    rules: Vec<(Box<str>, ClassId)>,
    overflows: Count,
}

impl LockClass {
    /// The name of the class: the value of the label `class`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the class among the classes of its engine, at most [`CLASSES_MAX`].
    pub fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn id(&self) -> ClassId {
        ClassId(self.index as u8)
    }
}

impl ClassId {
    pub(crate) const DEFAULT: Self = Self(0);
    const OTHER: Self = Self(CLASSES_MAX as u8);

    pub(crate) fn of_index(index: usize) -> Self {
        Self(index as u8)
    }

    pub(crate) fn index(self) -> usize {
        self.0.into()
    }
}

impl Classes {
    /// `rules`: prefixes of lock names and the class of each.
    pub(crate) fn new(rules: &BTreeMap<String, String>) -> Self {
        let mut classes = Self {
            known: [const { OnceLock::new() }; CLASSES_MAX + 1],
            by_name: RwLock::default(),
            rules: Vec::new(),
            overflows: Count::default(),
        };
        classes.get(DEFAULT_CLASS);
        classes.know(ClassId::OTHER, OTHER_CLASS);
        classes.rules =
            rules.iter().map(|(prefix, class)| (prefix.as_str().into(), classes.get(class))).collect();
        classes.rules.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        classes
    }

    /// The class with this name. A new name adds a class, up to [`CLASSES_MAX`].
    pub(crate) fn get(&self, name: &str) -> ClassId {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        let (known, is_full) = (by_name.get(name).copied(), by_name.len() == CLASSES_MAX);
        drop(by_name);
        let added = || if is_full { None } else { self.add(name) };
        known.or_else(added).unwrap_or_else(|| self.count_other(name))
    }

    /// The class that the rules give to a lock with this name.
    pub(crate) fn by_rule(&self, lock: &str) -> ClassId {
        let rule = self.rules.iter().find(|(prefix, _)| lock.starts_with(&**prefix));
        rule.map_or(ClassId::DEFAULT, |(_, class)| *class)
    }

    pub(crate) fn class(&self, id: ClassId) -> &LockClass {
        self.known[id.index()].get().expect("an id is given out once its class is known")
    }

    /// All known classes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &LockClass> {
        self.known.iter().filter_map(OnceLock::get)
    }

    /// How many classes were refused.
    pub(crate) fn overflows(&self) -> u64 {
        self.overflows.value()
    }

    // `None`: there are `CLASSES_MAX` classes, or the name is not valid.
    fn add(&self, name: &str) -> Option<ClassId> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name == OTHER_CLASS {
            return None;
        }
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = by_name.get(name) {
            return Some(*known);
        }
        if by_name.len() == CLASSES_MAX {
            return None;
        }
        let id = ClassId(by_name.len() as u8);
        self.know(id, name);
        by_name.insert(name.into(), id);
        Some(id)
    }

    fn know(&self, id: ClassId, name: &str) {
        let _ = self.known[id.index()].set(LockClass { name: name.into(), index: id.index() });
    }

    // Not called under a lock of the engine: the log line runs the subscriber's code.
    fn count_other(&self, name: &str) -> ClassId {
        if name == OTHER_CLASS {
            return ClassId::OTHER;
        }
        if self.overflows.add_one() == 0 {
            let shown: String = name.chars().take(NAME_BYTES_MAX).collect();
            log::line(Level::WARN, move || {
                tracing::warn!(
                    class = shown,
                    "this lock class is empty, longer than 64 bytes, or beyond the 64 classes of an engine: it counts as {OTHER_CLASS}, as all further ones do"
                );
            });
        }
        ClassId::OTHER
    }
}

const NAME_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_decides() {
        let rules = [("orders:", "orders"), ("orders:eu:", "orders-eu"), ("jobs:", "orders")];
        let rules = rules.into_iter().map(|(prefix, class)| (prefix.to_owned(), class.to_owned()));
        let classes = Classes::new(&rules.collect());
        let class = |lock| classes.class(classes.by_rule(lock)).name();
        assert_eq!(
            ["orders:1", "orders:eu:1", "jobs:1", "x"].map(class),
            ["orders", "orders-eu", "orders", "default"]
        );
    }

    #[test]
    fn a_class_too_many_waits_for_no_lock() {
        let classes = Classes::new(&BTreeMap::new());
        (1..CLASSES_MAX).for_each(|number| assert_eq!(classes.get(&format!("c{number}")).index(), number));
        let _reader = classes.by_name.read().expect("no panic under it");
        assert_eq!(classes.get("one too many"), ClassId::OTHER);
        assert_eq!((classes.get("c1").index(), classes.overflows()), (1, 1));
    }

    #[test]
    fn what_is_one_too_many_counts_as_other() {
        let classes = Classes::new(&BTreeMap::new());
        let first: Vec<_> = (1..CLASSES_MAX).map(|number| classes.get(&format!("c{number}"))).collect();
        assert_eq!(classes.overflows(), 0);
        for late in ["one", "one", "", &"x".repeat(65)] {
            assert_eq!(classes.class(classes.get(late)).name(), OTHER_CLASS);
        }
        assert_eq!((classes.get("c1"), classes.get(DEFAULT_CLASS)), (first[0], ClassId::default()));
        assert_eq!((classes.overflows(), classes.iter().count()), (4, CLASSES_MAX + 1));
    }
}
