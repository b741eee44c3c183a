//! Every command behind sentinels, before and after a failover.

use leasehold_tests::harness::sentinel::RedisSentinel;

use crate::program::{Program, leasehold, until_held};

#[test]
fn the_commands_follow_a_failover() {
    let sentinels = RedisSentinel::start().expect("sentinels");
    for _round in 0..2 {
        let url = sentinels.url();
        let _holder = Program::start(&url, &["run", "job", "--", "sleep", "600"]);
        until_held(&url, "job");
        let lock = leasehold(&url, &["list", "--json"]).expect_code(0).document();
        let master = format!("127.0.0.1:{}", sentinels.master_port().expect("a master"));
        assert_eq!((&lock["name"], lock["server"].as_str()), (&"job".into(), Some(&*master)));
        let owners = leasehold(&url, &["who", "job", "--json"]).expect_code(0).document();
        assert_eq!(owners["owners"][0]["connections"].as_array().map(Vec::len), Some(3), "{owners}");
        leasehold(&url, &["release", "job", "--force", "--yes"]).expect_code(0);
        let before = sentinels.master_port().expect("a master");
        sentinels.failover().expect("begun");
        sentinels.wait_for_switch(before).expect("done");
        sentinels.wait_until_whole().expect("whole");
    }
}
