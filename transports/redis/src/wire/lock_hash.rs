//! Whether the fields of a hash are those of a lock. Pure.

use leasehold::transport::{Hold, LockMode};

use super::reply::WRITER;

/// The mode and the holds of a lock. `None`: the hash is no lock. Each field of a lock names an owner,
/// `<uuid>:<number>`, and its value is a count. A read/write lock also has the field `mode`, and `:write` behind the
/// owner of a writer.
pub(crate) fn read<'t>(
    fields: impl IntoIterator<Item = (&'t str, &'t str)>,
) -> Option<(LockMode, Vec<Hold>)> {
    let (mut mode, mut holds) = (LockMode::Exclusive, Vec::new());
    for (field, value) in fields {
        match (field, value) {
            ("mode", "read") => mode = LockMode::Read,
            ("mode", "write") => mode = LockMode::Write,
            (field, value) => holds.push(hold(field, value)?),
        }
    }
    if mode == LockMode::Exclusive {
        let is_plain = holds.iter().all(|hold| hold.mode != LockMode::Write);
        holds.iter_mut().for_each(|hold| hold.mode = LockMode::Exclusive);
        return (is_plain && !holds.is_empty()).then_some((mode, holds));
    }
    (!holds.is_empty()).then_some((mode, holds))
}

fn hold(field: &str, value: &str) -> Option<Hold> {
    let writer = field.strip_suffix(WRITER);
    let owner = writer.unwrap_or(field);
    let (client, number) = owner.rsplit_once(':')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let count = value.parse().ok().filter(|count| *count > 0)?;
    let mode = if writer.is_some() { LockMode::Write } else { LockMode::Read };
    (is_uuid(client) && is_number(number)).then(|| Hold::new(owner, count).with_mode(mode))
}

/// Whether the text is a UUID in its usual spelling: 8, 4, 4, 4 and 12 hexadecimal digits.
fn is_uuid(text: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split('-').map(str::len).eq([8, 4, 4, 4, 12]) && text.split('-').all(is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: &str = "30c9b6e8-0000-4000-8000-000000000001:7";

    fn mode(fields: &[(&str, &str)]) -> Option<(LockMode, usize)> {
        read(fields.iter().copied()).map(|(mode, holds)| (mode, holds.len()))
    }

    #[test]
    fn locks_are_recognised() {
        assert_eq!(mode(&[(OWNER, "1")]), Some((LockMode::Exclusive, 1)));
        assert_eq!(mode(&[("mode", "read"), (OWNER, "2")]), Some((LockMode::Read, 1)));
        let writer = format!("{OWNER}:write");
        let (_, holds) = read([("mode", "write"), (&*writer, "1")]).expect("a lock");
        assert_eq!((&*holds[0].owner, holds[0].mode), (OWNER, LockMode::Write));
    }

    #[test]
    fn other_hashes_are_none() {
        let writer = format!("{OWNER}:write");
        let others: [&[(&str, &str)]; 8] = [
            &[],
            &[("mode", "read")],
            &[("name", "value")],
            &[("stranger:1", "1")],
            &[(OWNER, "1"), ("name", "value")],
            &[(OWNER, "0")],
            &[(OWNER, "x")],
            &[(&writer, "1")],
        ];
        for fields in others {
            assert_eq!(mode(fields), None, "{fields:?}");
        }
    }
}
