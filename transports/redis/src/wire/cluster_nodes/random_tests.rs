//! Real replies with damage: parsing never panics, and never returns a node, an epoch or a slot that is not in the
//! reply.

use fred::types::Resp3Frame as Frame;

use super::*;
use crate::test_rng::TestRng;

#[test]
fn a_damaged_answer_invents_no_node() {
    let mut test_rng = TestRng::from_env();
    let asked = Address::new("asked", 7_000);
    let (mut read_ones, mut unread) = (0, 0);
    for _ in 0..ROUNDS {
        let answer = ANSWERS[test_rng.below(ANSWERS.len())];
        let damaged = test_rng.damage(answer);
        let frame = Frame::BlobString { data: damaged.clone().into(), attributes: None };
        match read(&frame, None, &asked) {
            Some(nodes) => {
                read_ones += 1;
                nodes.iter().for_each(|node| must_be_shown(node, &damaged, &asked));
            }
            None => unread += 1,
        }
    }
    assert!(read_ones > ROUNDS / 20 && unread > ROUNDS / 20, "{read_ones} read, {unread} not");
}

fn must_be_shown(node: &Described, text: &str, asked: &Address) {
    let Address { host, port } = &node.address;
    assert!(!host.is_empty() && *port > 0, "{node:?} in {text}");
    let is_line_of = |line: &&str| {
        let words: Vec<&str> = line.split(' ').collect();
        let place = words[1].split(['@', ',']).next().unwrap();
        let host = if host == &asked.host { "" } else { host };
        (place == format!("{host}:{port}") || place == format!("{}:{port}", node.address.host))
            && words[6] == node.epoch.to_string()
            && node.slots.iter().all(|range| shows(&words[8..], range))
            && node.is_master == words[2].split(',').any(|flag| flag == "master")
    };
    assert!(
        text.lines().filter(|line| line.split(' ').count() >= 8).any(|line| is_line_of(&line)),
        "{node:?} in {text}"
    );
}

fn shows(words: &[&str], range: &RangeInclusive<u16>) -> bool {
    let (first, last) = (range.start(), range.end());
    words.contains(&format!("{first}-{last}").as_str())
        || (first == last && words.contains(&format!("{first}").as_str()))
}

/// From Redis 6.2, 7.0 and Valkey 9, with a migration, a failed node, and a node without an address.
const ANSWERS: [&str; 3] = [
    "07c37dfeb235213a872192d90877d0cd55635b91 127.0.0.1:30004@31004 slave e7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca 0 1426238317239 4 connected\n67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1 127.0.0.1:30002@31002 master - 0 1426238316232 2 connected 5461-10922\n292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f 127.0.0.1:30003@31003 master - 0 1426238318243 3 connected 10923-16383\ne7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca 127.0.0.1:30001@31001 myself,master - 0 0 1 connected 0-5460 [93->-292f8b365bb7edb5e285caf0b7e6ddc7265d2f4f]\n",
    "6ec23923021cf3ffec47632106199cb7f496ce01 127.0.0.1:30005@31005,hostname5 slave 67ed2db8d677e59ec4a4cefb06858cf2a1a89fa1 0 1426238316232 5 connected\n824fe116063bc5fcf9f4ffd895bc17aee7731ac3 127.0.0.1:30006@31006,hostname6,shard-id=69bc master,fail - 1426238317741 1426238316232 6 disconnected 7 9 11-12\ne7d1eecce10fd6bb5eb35b9f99a514335d9ba9ca :30001@31001,,shard-id=69bd myself,master - 0 0 1 connected 0-6\n",
    "aa ::1:7001@17001 myself,master - 0 0 7 connected 0-16383\nbb :0@0 master,noaddr - 0 0 0 disconnected\n",
];

const ROUNDS: usize = 5_000;
