//! Keys that hold something that is no lock.

use leasehold::transport::{Effect, ErrorKind, Release, RenewalAnswer, TransportError};

use super::{Field, LONG, OtherDataGround};

/// S10, for every operation.
pub async fn data_of_another_kind_is_refused_and_kept<G: OtherDataGround>(ground: &G) {
    let field = Field::open(ground).await;
    let (key, owner) = (field.key("a"), field.owner());
    ground.put_other_data(&key).await;
    assert_refused(field.calls.acquire(field.acquire_request(&key, owner, LONG)).await);
    assert_refused(field.calls.release(Release { key: key.clone(), owner }).await);
    assert_refused(field.calls.inspect(&key).await);
    assert_refused(field.calls.force_release(&key).await);
    match field.renew(&key, owner, LONG).await {
        RenewalAnswer::Failed(error) => assert_refused(Err::<(), _>(error)),
        answer => panic!("refused, not {answer:?}"),
    }
    assert!(ground.other_data_is_unchanged(&key).await);
}

fn assert_refused<T: std::fmt::Debug>(reply: Result<T, TransportError>) {
    let error = reply.expect_err("what is no lock is refused");
    assert_eq!((error.kind, error.effect), (ErrorKind::WrongType, Effect::None), "{error:?}");
}
