//! Runs work one after the other on its thread: work that is added while other work runs is run behind it, not inside it.
//! So work that leads to more work needs no deep stack.

use std::cell::RefCell;

use crate::guard;

type Work = Box<dyn FnOnce()>;

/// Runs the work now, or behind the work that runs on this thread. A panic of the work ends here.
pub(crate) fn run(work: impl FnOnce() + 'static) {
    let mut work = Some(work);
    // A thread that is ending has no list any more. Its work is run at once.
    let is_first = BEHIND.try_with(|behind| begin(&mut behind.borrow_mut(), &mut work)).unwrap_or(false);
    let Some(work) = work else { return };
    let _ = guard::call(work);
    while let Some(next) = is_first.then(take_next).flatten() {
        let _ = guard::call(next);
    }
}

// Marks the thread as busy. If it is busy already, the work is taken and put behind.
fn begin(behind: &mut Option<Vec<Work>>, work: &mut Option<impl FnOnce() + 'static>) -> bool {
    match behind {
        Some(behind) => {
            behind.extend(work.take().map(|work| Box::new(work) as Work));
            false
        }
        free => {
            *free = Some(Vec::new());
            true
        }
    }
}

// The next work, or `None` once nothing is left: then the thread is free again.
fn take_next() -> Option<Work> {
    BEHIND.with(|behind| {
        let mut behind = behind.borrow_mut();
        let next = behind.as_mut().and_then(Vec::pop);
        if next.is_none() {
            *behind = None;
        }
        next
    })
}

thread_local! {
    /// The work that is run behind the one that runs. `None`: none runs.
    static BEHIND: RefCell<Option<Vec<Work>>> = const { RefCell::new(None) };
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, panic::resume_unwind, rc::Rc};

    use super::*;

    #[test]
    fn work_that_adds_work_needs_no_deep_stack() {
        let (depth, deepest, runs) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        fn work(left: u32, depth: Rc<Cell<u32>>, deepest: Rc<Cell<u32>>, runs: Rc<Cell<u32>>) {
            depth.set(depth.get() + 1);
            deepest.set(deepest.get().max(depth.get()));
            runs.set(runs.get() + 1);
            if left > 0 {
                let (depth, deepest, runs) = (depth.clone(), deepest.clone(), runs.clone());
                run(move || work(left - 1, depth, deepest, runs));
            }
            depth.set(depth.get() - 1);
        }
        let (at, most, count) = (depth, deepest.clone(), runs.clone());
        run(move || work(100_000, at, most, count));
        assert_eq!((deepest.get(), runs.get()), (1, 100_001));
    }

    #[test]
    fn work_that_panics_keeps_no_other_from_its_turn() {
        let ran = Rc::new(Cell::new(false));
        let later = ran.clone();
        run(move || {
            run(move || later.set(true));
            resume_unwind(Box::new("text"));
        });
        assert!(ran.get());
        let again = Rc::new(Cell::new(false));
        let seen = again.clone();
        run(move || seen.set(true));
        assert!(again.get(), "the thread is free again");
    }
}
