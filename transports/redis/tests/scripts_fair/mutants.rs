//! Scripts with one rule broken: the tests find each.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{cases, histories, ours::Scripts, space, world::World};

/// A rule: its name, the text that keeps it, and another that does not.
const MUTANTS: [(&str, &str, &str); 35] = [
    ("late commands", "if now > tonumber(ARGV[3]) then return {2, now} end", ""),
    ("late beats", "if now > tonumber(ARGV[1]) then return {2, now} end", ""),
    ("a repeat is granted", "if mine == 1 then", "if false then"),
    (
        "a repeat does not shorten",
        "if left < ttl then call('pexpire', lock, ARGV[1]) end",
        "call('pexpire', lock, 1)",
    ),
    ("nobody passes the head", "if is_free and (not head or head == owner) then", "if is_free then"),
    ("a grant ends the place", "local done, why = pcall(leave, owner, wait)", "local done, why = true"),
    (
        "a place is one",
        "if not place then return {3, left, join(since), now} end",
        "do return {3, left, join(since), now} end",
    ),
    ("an acquire keeps no place", "if beat == 0 then return {0, left, now} end", ""),
    (
        "the head is told",
        "local reached = redis.pcall(command, channel .. ':' .. head, '0')",
        "local reached = 0",
    ),
    ("who asks tells the head", "  if is_free then\n    tell(head, ARGV[6], ARGV[7])", "  if is_free then"),
    (
        "who beats tells the head",
        "if is_free and head and not is_ours then tell(head, ARGV[4], ARGV[5]) end",
        "",
    ),
    ("suspicion", "elseif times[i] % 1 == 0 then", "elseif false then"),
    ("suspects are dropped", "if lives and lives > ms then", "if lives then"),
    ("a beat ends suspicion", "if left and left <= ms then remove(silent[i]) end", "remove(silent[i])"),
    ("time after a stall", "highest <= ms - unheard and suspicion_after_stall or suspicion", "suspicion"),
    (
        "times far ahead",
        "if lowest > ms and highest <= ms + ahead_max then return {} end",
        "if lowest > ms then return {} end",
    ),
    (
        "suspects far ahead",
        "for _, owner in ipairs(call('zrangebyscore', alive, '(' .. ms + ahead_max, '+inf')) do",
        "for _, owner in ipairs({}) do",
    ),
    ("small steps", "for i = 1, math.min(#silent, silent_max) do", "for i = 1, #silent do"),
    (
        "what has no place goes",
        "    if not found[i] then\n      call('zrem', alive, owner)",
        "    if not found[i] then",
    ),
    ("places of ours are raised", "if found[i] < ms + wait / 2 then", "if false then"),
    ("a head of ours is raised", "is_too_late or deadline < ms + wait / 2", "is_too_late"),
    ("a head of ours is lowered", "is_too_late or deadline < ms + wait / 2", "deadline < ms + wait / 2"),
    (
        "places of ours behind the head are lowered",
        "      earlier[#earlier + 1] = ms + i * wait\n      earlier[#earlier + 1] = owner\n",
        "",
    ),
    (
        "and have `wait` each",
        "      earlier[#earlier + 1] = ms + i * wait\n",
        "      earlier[#earlier + 1] = ms + wait\n",
    ),
    (
        "nor is a line of ours",
        "  if not is_mixed() then return end\n  local owners, earlier",
        "  local owners, earlier",
    ),
    (
        "a peer keeps its wait",
        "deadline = math.max(deadline, math.min(found[i], ms + wait))",
        "deadline = math.min(deadline, found[i])",
    ),
    ("Redisson's rule for peers", "if not lives and deadline > ms then", "if not lives then"),
    ("a peer's head is lowered", "      if is_too_late then", "      if false then"),
    ("followers advance", "  advance(followers, wait)\n", ""),
    (
        "peers alone make followers advance",
        "local followers, is_behind = {}, false\n  if is_mixed() then",
        "local followers, is_behind = {}, false\n  if true then",
    ),
    ("a line beside peers stays", "    call('persist', line)\n    call('persist', deadlines)", ""),
    ("a line of ours expires", "    call('pexpireat', line, ends)\n", ""),
    (
        "line and deadlines agree",
        "if length == count and (not head or score(deadlines, head)) then return end",
        "do return end",
    ),
    ("a release ends the hold", "local had_hold = call('hdel', lock, owner) == 1", "local had_hold = false"),
    (
        "a release ends the place",
        "  return leave(owner, wait)\nend\n\nlocal function find_head(is_free)",
        "  return false\nend\n\nlocal function find_head(is_free)",
    ),
];

fn is_found(scripts: Scripts) -> bool {
    let tests: [fn(&mut World); 3] = [
        |world| cases::CASES.iter().for_each(|(_, case)| case(world)),
        |world| assert_ne!(space::walk(world, 5).0, 0),
        |world| (0..6).for_each(|seed| histories::run(world, seed, 300)),
    ];
    let actors = [&[&cases::ACTORS[..], &space::ACTORS].concat()[..], &histories::actors()].concat();
    tests.iter().any(|test| {
        let mut world = World::start(&actors);
        world.scripts = scripts.clone();
        catch_unwind(AssertUnwindSafe(|| test(&mut world))).is_err()
    })
}

#[test]
fn every_broken_rule_is_found() {
    let mut missed = Vec::new();
    for (rule, text, other) in MUTANTS {
        if !is_found(Scripts::new().with(text, other)) {
            missed.push(rule);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
