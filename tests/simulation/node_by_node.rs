//! What is wrong with one node is felt on that node alone.

use crate::ground::{Cluster, builder, name_in, pass, seconds};

#[tokio::test(start_paused = true)]
async fn l2_each_node_is_polled_at_the_rate_of_its_own_crowd() {
    let cluster = Cluster::new(3);
    let other = builder(&cluster).build().await.expect("an engine");
    let engine = builder(&cluster).build().await.expect("an engine");
    let crowded = (0..2_000).map(|number| (0, number));
    let quiet = (0..10).map(|number| (11, number));
    let (mut held, mut waiting) = (vec![], vec![]);
    for name in crowded.chain(quiet).map(|(part, number)| name_in(part, number)) {
        held.push(other.lock(&name).acquire().await.expect("free"));
        waiting.push(tokio::spawn(engine.lock(&name).acquire()));
    }
    pass(seconds(10)).await;
    let before = [cluster.asks(0), cluster.asks(2)];
    pass(seconds(20)).await;
    let rates = [cluster.asks(0) - before[0], cluster.asks(2) - before[1]].map(|asks| asks / 20);
    assert!((400..=500).contains(&rates[0]), "the crowded node: {rates:?} a second");
    assert!((9..=10).contains(&rates[1]), "the quiet one: {rates:?} a second");
    waiting.iter().for_each(|task| task.abort());
}
