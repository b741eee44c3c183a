//! What the leases of this engine say about a key to the callers of a fair lock. Pure.

/// What the leases of this engine say about the key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeldHere {
    /// A lease holds the key.
    pub(crate) held: bool,
    /// A lease holds the key and is not in jeopardy.
    pub(crate) surely: bool,
}
