use leasehold::Engine;
use leasehold_redis::RedisTransport;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let servers = RedisTransport::from_url(&std::env::var("REDIS_URL")?)?;
    let engine = Engine::builder(servers).build().await?; // one for the whole process

    let lease = engine.lock("orders:42").acquire().await?; // waits while another process holds the lock
    println!("held, with fencing token {}", lease.fencing_token()); // renewed until it is released
    lease.release().await?; // Ok: the lock was held until now
    Ok(())
}
