//! Nothing is left behind, whatever is dropped when.
