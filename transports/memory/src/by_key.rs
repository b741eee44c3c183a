//! Maps by lock. Pure.

use std::{collections::HashMap, hash::BuildHasherDefault, sync::Arc};

use leasehold::key::{LockKey, PrehashedHasher};

/// A map by lock, which uses the hash that the key carries.
pub(crate) type ByKey<V> = HashMap<Arc<LockKey>, V, BuildHasherDefault<PrehashedHasher>>;

/// The number of expired holds, above the number of live ones, at which they are swept. It is small enough that
/// names of 8 KiB cost 8 MiB, and large enough that sweeps of few holds are rare.
pub(crate) const LEFTOVERS_MAX: usize = 1024;
