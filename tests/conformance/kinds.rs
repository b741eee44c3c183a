use std::sync::Arc;

use leasehold::{
    clock::Clock,
    key::LockKey,
    transport::{HoldKind, Kinds, Transport},
};

use super::{Fixture, OtherDataGround};

/// The same ground, on which each hold is a read hold.
pub struct Reading<G>(G);

/// The same ground, on which each hold is a write hold.
pub struct Writing<G>(G);

macro_rules! of_kind {
    ($ground:ident, $kind:expr) => {
        impl<G: Fixture> Fixture for $ground<G> {
            const CLOCK: Clock = G::CLOCK;
            const EVERY_NAME: bool = G::EVERY_NAME;
            const KIND: HoldKind = $kind;

            async fn fresh() -> Self {
                Self(G::fresh().await)
            }

            fn transport(&self) -> Arc<dyn Transport> {
                self.0.transport()
            }
        }

        impl<G: OtherDataGround> OtherDataGround for $ground<G> {
            async fn put_other_data(&self, key: &Arc<LockKey>) {
                self.0.put_other_data(key).await;
            }

            async fn other_data_is_unchanged(&self, key: &Arc<LockKey>) -> bool {
                self.0.other_data_is_unchanged(key).await
            }
        }
    };
}

of_kind!(Reading, HoldKind::Read);
of_kind!(Writing, HoldKind::Write);

/// The kinds of locks that a group is about.
const GROUPS: [(&str, Kinds); 4] = [
    ("every", Kinds::EXCLUSIVE),
    ("read_write", Kinds::READ_WRITE),
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
        assert_eq!(tested, capabilities.kinds, "the groups of {} are {groups:?}", capabilities.name);
        let notices = groups.contains(&"notices");
        let missing = tested.contains(Kinds::READ_WRITE) && notices != groups.contains(&"read_write_notices");
        assert!(!missing, "the notices of the read/write locks of {}: {groups:?}", capabilities.name);
    });
}
