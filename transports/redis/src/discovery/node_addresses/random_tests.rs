//! Nodes are listed or left out, and sometimes move. The property: a node that was named once stays the same server
//! until it moves.

use super::*;
use crate::test_rng::TestRng;

#[derive(Clone, Copy)]
struct Node {
    /// Rises when the node moves.
    ip: usize,
    /// The node's address when its name was given last.
    listed_ip: Option<usize>,
}

#[test]
fn a_node_that_is_left_out_is_where_it_was_reached_before() {
    let mut test_rng = TestRng::from_env();
    let mut node_addresses = NodeAddresses::default();
    let mut nodes = [Node { ip: 0, listed_ip: None }; NODES];
    for _ in 0..ROUNDS {
        if test_rng.one_in(4) {
            nodes[test_rng.below(NODES)].ip += 1;
        }
        let listed = nodes.map(|_| test_rng.one_in(2));
        let view: Vec<_> =
            (0..NODES).map(|number| described(number, nodes[number], listed[number])).collect();
        let settled = node_addresses.complete(&view);
        for (number, node) in nodes.iter_mut().enumerate() {
            node.listed_ip = if listed[number] { Some(node.ip) } else { node.listed_ip };
            let is_known = node.listed_ip == Some(node.ip);
            let expected = if is_known { name(number, node.ip) } else { line(number, node.ip) };
            assert_eq!(settled[number].address, expected);
        }
    }
}

fn described(number: usize, node: Node, is_listed: bool) -> Described {
    let line = line(number, node.ip);
    Described {
        id: format!("id{number}"),
        address: if is_listed { name(number, node.ip) } else { line.clone() },
        line,
        is_preferred: is_listed,
        is_myself: false,
        is_master: true,
        is_out: false,
        is_failed: false,
        epoch: 1,
        slots: Vec::new(),
    }
}

fn line(number: usize, ip: usize) -> Address {
    Address::new(format!("10.{number}.0.{ip}"), 7_000)
}

fn name(number: usize, ip: usize) -> Address {
    Address::new(format!("host-{number}-{ip}"), 7_000)
}

const NODES: usize = 6;
const ROUNDS: usize = 2_000;
