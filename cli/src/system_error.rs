//! The words of an error of the operating system. Pure.

use std::io;

/// `Connection refused (os error 111)` without the number: it says nothing that the words do not say.
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error ").map_or(text.as_str(), |(words, _)| words).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_left_out() {
        assert_eq!(words(&io::Error::from_raw_os_error(111)), "Connection refused");
        assert_eq!(words(&io::ErrorKind::BrokenPipe.into()), "broken pipe");
    }
}
