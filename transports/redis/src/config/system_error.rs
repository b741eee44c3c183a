//! The words of an error of the operating system. Pure.

use std::io;

/// `No such file or directory (os error 2)` without the number: it says nothing that the words do not say.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error ").map_or(text.as_str(), |(words, _)| words).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_left_out() {
        assert_eq!(words(&io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(words(&io::Error::other("no UTF-8")), "no UTF-8");
    }
}
