//! The order in which a multi lock takes its members. Pure.
//!
//! The order is the same in every process, so that two multi locks with common members never wait for each other in a
//! circle: by the bytes of the name on the server, then by the `id` of the engine. A list in which two members have
//! the same place is refused.

use crate::error::Invalid;

/// What decides the place of one member.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SortKey {
    /// The name on the server, prefix included.
    pub(super) name: String,
    /// The engine's setting `id`; empty if it was not set.
    pub(super) id: String,
    /// Tells the engines of this process apart. It decides no order.
    pub(super) engine: usize,
}

/// The places of the members in the caller's list, in the order in which they are taken.
///
/// # Errors
/// An empty list, an engine without an `id` beside another engine, and two members with the same name and `id`.
pub(super) fn order(members: &[SortKey]) -> Result<Vec<usize>, Invalid> {
    check_engines(members)?;
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|place| members.get(*place).map(pair));
    let is_same = |places: &&[usize]| match places {
        [one, next] => members.get(*one).map(pair) == members.get(*next).map(pair),
        _ => false,
    };
    match order.windows(2).find(is_same) {
        Some([one, next]) => Err(equal(members, *one.min(next), *one.max(next))),
        _ => Ok(order),
    }
}

fn pair(member: &SortKey) -> (&[u8], &str) {
    (member.name.as_bytes(), &member.id)
}

fn check_engines(members: &[SortKey]) -> Result<(), Invalid> {
    let Some(first) = members.first() else {
        return Err(Invalid::new("members", "none", "give at least one lock"));
    };
    let several = members.iter().any(|member| member.engine != first.engine);
    match members.iter().find(|member| member.id.is_empty()) {
        Some(member) if several => Err(Invalid::new(
            "id",
            format_args!("not set in the engine of {:?}", shown(&member.name)),
            "the members are of several engines; set EngineConfig::id of each, the same in every process",
        )),
        _ => Ok(()),
    }
}

fn equal(members: &[SortKey], one: usize, next: usize) -> Invalid {
    let name = members.get(one).map_or("", |member| &member.name);
    let value = format_args!("{:?} at {one} and at {next}", shown(name)).to_string();
    Invalid::new("members", value, "give each lock once; locks of two engines need different ids")
}

fn shown(name: &str) -> String {
    name.chars().take(NAME_SHOWN_MAX).collect()
}

const NAME_SHOWN_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, id: &str, engine: usize) -> SortKey {
        SortKey { name: name.into(), id: id.into(), engine }
    }

    #[test]
    fn any_order_of_the_list_is_taken_in_the_same_order() {
        let list = [("b", "x"), ("a", "y"), ("a", "x"), ("B", "x"), ("ä", "x"), ("a\0", "x")];
        let all = |turn: usize| {
            let mut members: Vec<_> =
                list.iter().map(|(name, id)| member(name, id, usize::from(*id == "y"))).collect();
            members.rotate_left(turn);
            let order = order(&members).unwrap();
            order.iter().map(|place| (members[*place].name.clone(), members[*place].id.clone())).collect()
        };
        let taken: Vec<Vec<(String, String)>> = (0..list.len()).map(all).collect();
        assert!(taken.iter().all(|order| *order == taken[0]), "{taken:?}");
        let names: Vec<_> = taken[0].iter().map(|(name, id)| format!("{name}{id}")).collect();
        assert_eq!(names, ["Bx", "ax", "ay", "a\0x", "bx", "äx"], "by bytes, then by id");
    }

    #[test]
    fn equal_pairs_are_invalid() {
        let twice = order(&[member("a", "", 0), member("b", "", 0), member("a", "", 0)]).unwrap_err();
        assert_eq!(twice.to_string().split(": ").next(), Some("members = \"a\" at 0 and at 2"));
        assert!(order(&[member("a", "x", 0), member("a", "x", 1)]).is_err(), "two engines of one id");
        assert!(order(&[member("a", "x", 0), member("a", "y", 1)]).is_ok());
    }

    #[test]
    fn two_engines_need_an_id_each_and_one_engine_needs_none() {
        assert_eq!(order(&[member("b", "", 0), member("a", "", 0)]).unwrap(), [1, 0]);
        let missing = order(&[member("a", "x", 0), member("b", "", 1)]).unwrap_err();
        assert_eq!((missing.field, missing.value.contains("\"b\"")), ("id", true), "{missing}");
        assert_eq!(order(&[]).unwrap_err().field, "members");
    }
}
