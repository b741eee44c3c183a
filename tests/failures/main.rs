//! Real servers that fail, and what our holders and callers see of it.
