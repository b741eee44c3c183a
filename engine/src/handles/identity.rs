//! Which process an engine is: its label, and the client id that begins all its owners.

use uuid::Uuid;

use super::engine::Engine;

impl Engine {
    /// The label of the engine: that of its settings, or `service@host`, the names of program and host. The start line in
    /// the log has it, and so have the names of the engine's connections on a Redis server
    /// (`leasehold-calls:<client>:<label>`).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// println!("locks of {} have owners that begin with {}", engine.label(), engine.client_id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(&self) -> &str {
        self.inner().label.as_str()
    }

    /// The id that begins the text of every owner of this engine on a server, and of no other engine. It is new at each
    /// start. [`Holder::owner`](crate::Holder::owner) is `<client id>:<number>`.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use leasehold::Engine;
    /// # use leasehold_memory::MemoryTransport;
    /// # let engine = Engine::builder(MemoryTransport::new()).build().await?;
    /// let lease = engine.lock("orders:42").acquire().await?;
    /// let holder = engine.lock("orders:42").holder().await?.expect("the lock is held");
    /// assert!(holder.owner.starts_with(&engine.client_id().to_string()));
    /// # drop(lease);
    /// # Ok(())
    /// # }
    /// ```
    pub fn client_id(&self) -> Uuid {
        self.inner().mint.client()
    }
}
