use super::*;
use crate::harness::raw_client::RawClient;
use std::time::Instant;

#[test]
fn it_forms_and_switches_when_asked_and_when_the_master_dies() {
    let begun = Instant::now();
    let deployment = RedisSentinel::start().expect("a deployment");
    println!("formed within {:?}", begun.elapsed());
    let first = deployment.master().expect("a master");
    assert_eq!(deployment.replicas().expect("replicas").len(), 2);
    first.command(&["SET", "k", "v"]).expect("a reply");
    let begun = Instant::now();
    deployment.failover().expect("asked");
    let second = deployment.wait_for_switch(first.port()).expect("switched");
    println!("switched within {:?}", begun.elapsed());
    deployment.wait_until_whole().expect("whole");
    assert_eq!(first.info("replication", "role").expect("an answer").as_deref(), Some("slave"));
    second.kill().expect("killed");
    let begun = Instant::now();
    let third = deployment.wait_for_switch(second.port()).expect("switched");
    println!("switched within {:?}", begun.elapsed());
    assert_eq!(third.command(&["GET", "k"]).expect("a reply").text().as_deref(), Some("v"));
}

#[test]
fn proxied_sentinels_name_nothing_but_proxies_and_see_what_clients_see() {
    let deployment = RedisSentinel::builder().proxied().password("hunter2-pw").start().expect("a deployment");
    let first = deployment.master().expect("a master");
    assert_ne!(first.port(), first.own_port());
    first.proxy().expect("a proxy").black_hole(true);
    let second = deployment.wait_for_switch(first.port()).expect("switched");
    assert_ne!(second.port(), second.own_port());
    first.proxy().expect("a proxy").black_hole(false);
    deployment.wait_until_whole().expect("whole");
    assert_eq!(first.info("replication", "master_port").expect("an answer"), Some(second.port().to_string()));
}

#[test]
fn sentinels_that_are_killed_know_everything_when_they_come_back() {
    let user = "app on >hunter2-pw ~* +@all";
    let builder = RedisSentinel::builder()
        .sentinel_password("hunter2-spw")
        .sentinel_servers(|server| server.acl_user(user));
    let deployment = builder.start().expect("a deployment");
    let first = deployment.master().expect("a master");
    deployment.sentinels()[0].kill().expect("killed");
    first.stop().expect("stopped");
    let second = deployment.wait_for_switch(first.port()).expect("switched by the other two");
    first.cont().expect("continued");
    deployment.sentinels()[1].kill().expect("killed");
    assert_eq!(deployment.master_port().expect("a master"), second.port());
    for sentinel in &deployment.sentinels()[..2] {
        sentinel.restart().expect("restarted");
    }
    deployment.wait_until_whole().expect("whole");
    assert_eq!(deployment.master_port().expect("a master"), second.port());
    let mut client = RawClient::connect(deployment.sentinels()[0].port()).expect("a connection");
    assert!(client.command(&["AUTH", "app", "hunter2-pw"]).expect("a reply").is_ok());
}
