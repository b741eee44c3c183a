//! The start of an engine is told once, with what an operator sees of it on a server.

use leasehold::Engine;
use leasehold_memory::MemoryTransport;
use tracing::Level;

use crate::capture::Capture;

#[tokio::test(start_paused = true)]
async fn the_start_is_told_with_label_client_and_transport() {
    let capture = Capture::start();
    let builder = Engine::builder(MemoryTransport::new()).on_current_runtime().label("orders@web-7");
    let engine = builder.build().await.expect("an engine");
    let lines = capture.records();
    let mut starts = lines.iter().filter(|line| line.field("message") == Some("the engine starts"));
    let (Some(line), None) = (starts.next(), starts.next()) else { panic!("{lines:?}") };
    let lease = engine.lock("a").acquire().await.expect("a lease");
    let holder = engine.lock("a").holder().await.expect("an answer").expect("held");
    let client = line.field("client").expect("the client");
    assert_eq!((line.level, line.field("label")), (Level::INFO, Some("orders@web-7")));
    assert_eq!((client, line.field("transport")), (&*engine.client_id().to_string(), Some("memory")));
    assert!(holder.owner.starts_with(client), "{holder}");
    drop(lease);
}
