//! The values of a label, from the variants of its enum. Pure.

/// The texts of these variants, in their order. A function that is `const` cannot call `as_str` of any type.
macro_rules! label_names {
    ($all:expr) => {{
        let mut names = [""; $all.len()];
        let mut number = 0;
        while number < names.len() {
            names[number] = $all[number].as_str();
            number += 1;
        }
        names
    }};
}

pub(super) use label_names;
