use leasehold::transport::{HoldKind, Kinds};

use super::{Fair, Fixture, OfKind, OnePermit, Read, Write};

/// The same ground, on which each hold is a read hold.
pub type Reading<G> = OfKind<G, Read>;

/// The same ground, on which each hold is a write hold.
pub type Writing<G> = OfKind<G, Write>;

/// The same ground, on which each hold is one permit.
pub type Permitting<G> = OfKind<G, OnePermit>;

/// The same ground, on which each hold is one of a fair lock.
pub type Queueing<G> = OfKind<G, Fair>;

/// The kinds of locks that a group is about.
const GROUPS: [(&str, Kinds); 6] = [
    ("every", Kinds::EXCLUSIVE),
    ("fair", Kinds::FAIR),
    ("read_write", Kinds::READ_WRITE),
    ("permits", Kinds::PERMITS),
    ("semaphore", Kinds::SEMAPHORE),
    ("latch", Kinds::LATCH),
];

/// Checks that the groups are those of the kinds of locks that the transport says it keeps. A second ground of the same
/// transport, for other groups alone, is not checked.
///
/// # Panics
/// If a group is missing, or is about a kind that the transport lacks.
pub fn check_groups<G: Fixture>(groups: &[&str]) {
    let about_kinds = GROUPS.iter().filter(|(group, _)| groups.contains(group));
    let tested = about_kinds.fold(Kinds::NONE, |kinds, (_, kind)| kinds.with(*kind));
    if tested == Kinds::NONE {
        return;
    }
    super::run::<G>(async |fixture: &G| {
        let capabilities = fixture.transport().capabilities();
        assert!(capabilities.kinds.contains(G::KIND.needs()), "{} keeps no {}", capabilities.name, G::KIND);
        if G::KIND != HoldKind::Exclusive {
            return; // a ground for one kind alone
        }
        // Fenced locks have grounds of their own, one for each mode.
        let tested = tested.with(Kinds::FENCED);
        assert_eq!(
            tested,
            capabilities.kinds.with(Kinds::FENCED),
            "the groups of {} are {groups:?}",
            capabilities.name
        );
        let notices = groups.contains(&"notices");
        let missing = tested.contains(Kinds::READ_WRITE) && notices != groups.contains(&"read_write_notices");
        let missing =
            missing || tested.contains(Kinds::PERMITS) && notices != groups.contains(&"permit_notices");
        assert!(
            !missing,
            "the notices of the read/write locks and permits of {}: {groups:?}",
            capabilities.name
        );
    });
}
