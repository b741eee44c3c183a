//! Keys that hold something that is no lock.

use leasehold::transport::{Effect, ErrorKind, Outcome, TransportError};

use super::{Context, LONG, OtherDataGround};

/// S10, for every operation.
pub async fn data_of_another_kind_is_refused_and_kept<G: OtherDataGround>(fixture: &G) {
    let context = Context::open(fixture).await;
    let (key, owner) = (context.key("a"), context.owner());
    fixture.put_other_data(&key).await;
    assert_refused(context.calls.call_one(context.acquire_request(&key, owner, LONG)).await.into_result());
    assert_refused(context.calls.call_one(context.release_request(&key, owner)).await.into_result());
    assert_refused(context.calls.inspect(&key).await);
    assert_refused(context.calls.force_release(&key).await);
    match context.renew(&key, owner, LONG).await {
        Outcome::Failed(error) => assert_refused(Err::<(), _>(error)),
        answer => panic!("refused, not {answer:?}"),
    }
    assert!(fixture.other_data_is_unchanged(&key).await);
}

fn assert_refused<T: std::fmt::Debug>(reply: Result<T, TransportError>) {
    let error = reply.expect_err("what is no lock is refused");
    assert_eq!((error.kind, error.effect), (ErrorKind::WrongType, Effect::None), "{error:?}");
}
