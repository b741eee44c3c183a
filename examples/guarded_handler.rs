//! An HTTP service whose handlers work under a lock, with axum: a layer acquires the lock, and runs the handler behind it.
//! `cargo example guarded_handler --features web [-- --url redis://127.0.0.1 | -- --config FILE]`
//!
//! 409 says that another request holds the lock, 503 that no server answers; both say when to come again. SIGTERM and
//! Ctrl-C let the running requests end, and then release what is held.

use std::{convert::Infallible, time::Duration};

use axum::{
    Extension, Router,
    extract::{Path, Request, State},
    http::{StatusCode, header::RETRY_AFTER},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use leasehold::{AcquireError, Engine, FencingToken, RunError};
use leasehold_examples::{Servers, Trouble, servers};
use leasehold_memory::MemoryTransport;
use leasehold_redis::RedisTransport;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

/// How long a request waits for its lock. Shorter than what the client, or a proxy between, waits for the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The layer. The handler behind it finds the fencing token of the lease in the request. If the lease is lost, `run` drops the
/// handler.
async fn one_at_a_time(
    State(engine): State<Engine>,
    Path(order): Path<u64>,
    mut request: Request,
    next: Next,
) -> Response {
    let lock = engine.lock(format!("orders:{order}")).class("orders").wait(PATIENCE);
    let mut response = None;
    let run = lock.run(async |lease| {
        request.extensions_mut().insert(lease.fencing_token());
        response = Some(next.run(request).await);
        Ok::<_, Infallible>(())
    });
    match run.await {
        Err(RunError::Acquire(error)) => not_acquired(&error),
        Err(RunError::Lost(_)) => again(StatusCode::SERVICE_UNAVAILABLE, "the lock was lost\n"),
        // With an error of the release, too: the handler is done, and its write carried the token.
        Ok(()) | Err(RunError::Release(_) | RunError::Work(_)) => response.expect("the handler is done"),
    }
}

async fn ship(Path(order): Path<u64>, Extension(token): Extension<FencingToken>) -> Response {
    match store(order, token).await {
        Ok(()) => format!("order {order} is shipped\n").into_response(),
        Err(error) => {
            eprintln!("order {order}: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The work. The database compares the token: see the example `fenced_sql`.
async fn store(_order: u64, _token: FencingToken) -> Result<(), std::io::Error> {
    Ok(())
}

/// The text of the error is for the log: it may name servers.
fn not_acquired(error: &AcquireError) -> Response {
    eprintln!("{error}");
    match error {
        AcquireError::TimedOut { .. } => again(StatusCode::CONFLICT, "another request works on this order\n"),
        AcquireError::Unavailable { .. } | AcquireError::LimitReached { .. } | AcquireError::ShuttingDown => {
            again(StatusCode::SERVICE_UNAVAILABLE, "no lock can be had now\n")
        }
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(), // settings, or a missing right
    }
}

fn again(code: StatusCode, why: &'static str) -> Response {
    (code, [(RETRY_AFTER, "1")], why).into_response()
}

/// For a readiness probe. No liveness probe should ask this: a restart of the service repairs no server.
async fn ready(State(engine): State<Engine>) -> StatusCode {
    if engine.snapshot().connected { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

/// SIGTERM, or Ctrl-C.
async fn stopped() {
    let mut terminated = signal(SignalKind::terminate()).expect("SIGTERM can be listened to");
    tokio::select! {
        _ = terminated.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

#[tokio::main]
async fn main() -> Result<(), Trouble> {
    let builder = match servers()? {
        Servers::Memory => Engine::builder(MemoryTransport::new()),
        Servers::Redis(file) => Engine::builder(RedisTransport::new(file.redis)).config(file.engine),
    };
    let engine = builder.build().await?;
    let layer = from_fn_with_state(engine.clone(), one_at_a_time);
    let routes = Router::new()
        .route("/orders/{order}/ship", post(ship))
        .route_layer(layer) // of the routes above, not of those below
        .route("/ready", get(ready));

    let listener = TcpListener::bind("127.0.0.1:0").await?; // port 0: any that is free
    eprintln!("curl -i -X POST http://{}/orders/42/ship", listener.local_addr()?);
    axum::serve(listener, routes.with_state(engine.clone())).with_graceful_shutdown(stopped()).await?;

    let report = engine.shutdown(Duration::from_secs(5)).await;
    eprintln!("{} leases released, {} not confirmed", report.released, report.unconfirmed.len());
    Ok(())
}
