//! A database that refuses a holder that comes too late.
//! `cargo example fenced_sql --features sql [-- --url redis://127.0.0.1 | -- --config FILE]`
//!
//! Each row keeps the fencing token of its last writer. The first holder stands still until its lease is over, and then
//! writes. Its statement changes no row, because the second holder has written with a higher token.
//!
//! SQLite in memory stands for any SQL database; both statements work in PostgreSQL too, with `$1` in place of `?1`.

use std::time::Duration;

use leasehold::{Engine, FencingToken};
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use rusqlite::{Connection, params};

const TABLE: &str = "CREATE TABLE orders (id BIGINT PRIMARY KEY, state TEXT NOT NULL, token BIGINT NOT NULL)";

/// Changes a row. `<=` lets one holder write several times.
const UPDATE: &str = "UPDATE orders SET state = ?2, token = ?3 WHERE id = ?1 AND token <= ?3";

/// Writes a row that may not be there yet.
const UPSERT: &str = "INSERT INTO orders (id, state, token) VALUES (?1, ?2, ?3) \
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, token = excluded.token \
    WHERE orders.token <= excluded.token";

const ORDER: i64 = 42;

/// Whether the database took the write. If not, a later holder has written.
fn write(db: &Connection, sql: &str, state: &str, token: FencingToken) -> rusqlite::Result<bool> {
    Ok(db.execute(sql, params![ORDER, state, token.as_i64()])? == 1)
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let builder = match servers()? {
        Servers::Memory => Engine::builder(MemoryTransport::new()),
        Servers::Redis(file) => Engine::builder(RedisTransport::new(file.redis)).config(file.engine),
    };
    let (engine, db) = (builder.build().await?, Connection::open_in_memory()?);
    db.execute_batch(TABLE)?;
    // One second and no renewal, so that the example need not wait for long.
    let order = engine.fenced_lock(format!("orders:{ORDER}")).ttl(Duration::from_secs(1)).no_renewal();

    let first = order.acquire().await?;
    println!("the first holder inserts: {}", write(&db, UPSERT, "open", first.fencing_token())?);
    println!("it writes again: {}", write(&db, UPDATE, "packed", first.fencing_token())?);
    let second = order.acquire().await?; // granted when the first lease is over
    println!("the second holder writes: {}", write(&db, UPDATE, "paid", second.fencing_token())?);

    println!("the first holder updates late: {}", write(&db, UPDATE, "open", first.fencing_token())?);
    println!("the first holder inserts late: {}", write(&db, UPSERT, "open", first.fencing_token())?);
    let state: String = db.query_row("SELECT state FROM orders", [], |row| row.get(0))?;
    println!("the order is {state}");

    second.release().await?;
    engine.shutdown(Duration::from_secs(2)).await;
    Ok(())
}
